// Device prelude for Hopper: mbarrier, TMA, bulk copies, proxy fences, setmaxnreg (sm_90a, sm_100a) and wgmma
// (sm_90a only). Needs core.cuh. Tiles that TMA or wgmma touch with 128-byte swizzle are aligned to 1024 bytes.
#pragma once

// --- Fences -----------------------------------------------------------------------------------------------------
// Makes this thread's ordinary writes to shared memory visible to later TMA stores and wgmma reads; before the barrier.
DEVICE void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Makes mbarrier_init visible to TMA; by the initialising thread, before the block barrier.
DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// --- mbarrier: phases complete when `count` arrivals and all expected bytes have come in --------------------------
DEVICE void mbarrier_init(Mbarrier *barrier, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
DEVICE void mbarrier_arrive(Mbarrier *barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// One arrival that also announces `bytes` of copies that signal this barrier.
DEVICE void mbarrier_arrive_expect(Mbarrier *barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
DEVICE void mbarrier_expect(Mbarrier *barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
DEVICE bool mbarrier_passed(u32 address, u32 parity) {
  u32 done;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(address), "r"(parity)
               : "memory");
  return done != 0;
}
#ifndef TCC_BARRIER_CLOCK_LIMIT
// Returns once the phase of the given parity is complete: parity 0 is the first phase; parity 1 of a fresh barrier
// passes at once.
DEVICE void mbarrier_wait(Mbarrier *barrier, u32 parity) {
  u32 address = shared_address(barrier);
  while (!mbarrier_passed(address, parity)) {
  }
}
#else
// A probe build: a wait of more than TCC_BARRIER_CLOCK_LIMIT clocks becomes an error instead of a hang. The first
// thread to give up leaves eight words in `barrier_probe`, host memory that the host has put there: 1 (last), block x,
// y, z, thread, line of the wait, shared address of the barrier, parity. Then it traps; the others wait for that.
// Nothing is alive behind a wait that gives up, and its start is one register, so that the build has the registers of
// the plain one.
extern "C" {
__device__ u32 *barrier_probe;
__device__ u32 barrier_probe_claimed;
}
[[noreturn]] DEVICE void mbarrier_expired(u32 address, u32 parity, int line) {
  volatile u32 *record = barrier_probe;
  if (record != nullptr) {
    if (atomicExch(&barrier_probe_claimed, 1u) != 0)
      while (true)
        __nanosleep(1000);
    record[1] = blockIdx.x;
    record[2] = blockIdx.y;
    record[3] = blockIdx.z;
    record[4] = threadIdx.x;
    record[5] = static_cast<u32>(line);
    record[6] = address;
    record[7] = parity;
    __threadfence_system();
    record[0] = 1;
    __threadfence_system();
  }
  asm volatile("trap; exit;");
  __builtin_unreachable();
}
DEVICE void mbarrier_wait(Mbarrier *barrier, u32 parity, int line) {
  u32 address = shared_address(barrier);
  u32 start = static_cast<u32>(clock64() >> 12);
  while (!mbarrier_passed(address, parity))
    if (static_cast<u32>(clock64() >> 12) - start > static_cast<u32>(TCC_BARRIER_CLOCK_LIMIT >> 12))
      mbarrier_expired(address, parity, line);
}
// NVRTC of CUDA 12 has no __builtin_LINE.
#define mbarrier_wait(barrier, parity) mbarrier_wait(barrier, parity, __LINE__)
#endif

// --- TMA --------------------------------------------------------------------------------------------------------
DEVICE void tma_prefetch_map(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// Loads the map's box at element coordinates (c0 innermost) and completes its full byte count on `barrier`; what lies
// outside the tensor is zero. One thread issues it.
DEVICE void tma_load_2d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(shared)),
               "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1)
               : "memory");
}
DEVICE void tma_load_3d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(shared_address(shared)),
               "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
DEVICE void tma_load_4d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(shared)),
               "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
// Stores a box to the tensor; what lies outside is dropped. Joins this thread's open store group.
DEVICE void tma_store_2d(const TensorMap *map, const void *shared, int c0, int c1) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(c0), "r"(c1)
               : "memory");
}
DEVICE void tma_store_3d(const TensorMap *map, const void *shared, int c0, int c1, int c2) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2)
               : "memory");
}
DEVICE void tma_store_4d(const TensorMap *map, const void *shared, int c0, int c1, int c2, int c3) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(shared_address(shared)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
               : "memory");
}
DEVICE void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most `pending` of this thread's store groups have not read their shared memory (then it may be
// reused).
template <int pending>
DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
// Waits until at most `pending` of this thread's store groups are unfinished.
template <int pending>
DEVICE void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(pending) : "memory");
}
// Copies `bytes` (a multiple of 16, both addresses too) and completes them on `barrier`. One thread issues it.
DEVICE void bulk_load(void *shared, const void *global, int bytes, Mbarrier *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(shared)),
               "l"(global), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

// --- Warps and warpgroups ---------------------------------------------------------------------------------------
// True in exactly one lane of the warp.
DEVICE bool elect_one() {
  u32 elected;
  asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }" : "=r"(elected));
  return elected != 0;
}
// Registers a thread, by all warps of a warpgroup; multiples of 8 from 24 to 256. Release lowers, acquire raises.
template <int registers>
DEVICE void registers_release() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
DEVICE void registers_acquire() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// --- wgmma: d += A · B over k = 16 by the 128 threads of a warpgroup ---------------------------------------------
// Accumulator of thread 32w + 4g + t of the warpgroup: d[i] is row 16w + g + 8 * ((i >> 1) & 1), column
// 8 * (i >> 2) + 2t + (i & 1). A in registers is an mma A fragment of rows 16w .. 16w + 15.
constexpr int swizzle_none = 0, swizzle_128 = 1, swizzle_64 = 2, swizzle_32 = 3;
// A matrix descriptor: the offsets in bytes are multiples of 16.
DEVICE u64 wgmma_descriptor(const void *shared, int leadingOffset, int strideOffset, int swizzle) {
  u64 address = static_cast<u64>(shared_address(shared) & 0x3ffffu) >> 4;
  return address | static_cast<u64>(leadingOffset >> 4) << 16 | static_cast<u64>(strideOffset >> 4) << 32 |
         static_cast<u64>(swizzle) << 62;
}
// The descriptor of an operand `bytes` further on (a multiple of 16).
DEVICE u64 wgmma_advance(u64 descriptor, int bytes) {
  return descriptor + static_cast<u64>(bytes >> 4);
}
// Before the first wgmma and whenever ordinary code has changed its accumulators or A registers.
DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps the compiler from moving uses of the registers across this line; beside wgmma_fence and wgmma_wait.
template <int count>
DEVICE void wgmma_hold(float (&d)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
}
template <int count>
DEVICE void wgmma_hold(u32 (&a)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    asm volatile("" : "+r"(a[i])::"memory");
}

// WgmmaOps<N, Element>: one overload set a width. `accumulate` false starts from zero. Transposed: the operand's
// rows lie along k (MN-major).
template <int columns, class Element>
struct WgmmaOps;
