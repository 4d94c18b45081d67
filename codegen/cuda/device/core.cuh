// Device prelude, portable part (sm_80 and later): indices, barriers, shuffles, votes, memory, conversions, math.
// The emulator's prelude defines the same names for the CPU. Needs types.cuh.
#pragma once

// A kernel uses some of the primitives only.
#pragma nv_diag_suppress 177

#define KERNEL(name, maxThreads, minBlocks) extern "C" __global__ void __launch_bounds__(maxThreads, minBlocks) name
#define DEVICE static __device__ __forceinline__
#define GRID_CONSTANT __grid_constant__
#define RESTRICT __restrict__
#define SHARED(type, name, count) __shared__ type name[count]
#define DYNAMIC_SHARED(name, alignment)                                                                                \
  extern __shared__ __align__(alignment)                                                                               \
  unsigned char name[]

// --- Where this thread is ---------------------------------------------------------------------------------------
DEVICE int thread_x() {
  return static_cast<int>(threadIdx.x);
}
DEVICE int block_x() {
  return static_cast<int>(blockIdx.x);
}
DEVICE int block_y() {
  return static_cast<int>(blockIdx.y);
}
DEVICE int block_z() {
  return static_cast<int>(blockIdx.z);
}
DEVICE int block_size() {
  return static_cast<int>(blockDim.x);
}
DEVICE int grid_x() {
  return static_cast<int>(gridDim.x);
}
DEVICE int grid_y() {
  return static_cast<int>(gridDim.y);
}
DEVICE int grid_z() {
  return static_cast<int>(gridDim.z);
}
DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x & 31u);
}
// The same value in all lanes, as the compiler can see: branches on it are branches of whole warps. All 32 lanes take
// part, as in any shuffle.
DEVICE int warp_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x >> 5), 0);
}

// The 32-bit address of shared memory that PTX instructions take; for the preludes only, never in kernel text.
DEVICE u32 shared_address(const void *pointer) {
  return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// --- Barriers ---------------------------------------------------------------------------------------------------
DEVICE void block_barrier() {
  __syncthreads();
}
DEVICE void warp_barrier() {
  __syncwarp();
}
DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// --- Shuffles and votes of the whole warp -----------------------------------------------------------------------
DEVICE float shuffle_xor(float value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE u32 shuffle_xor(u32 value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE i32 shuffle_xor(i32 value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
DEVICE float shuffle_down(float value, int distance) {
  return __shfl_down_sync(0xffffffffu, value, distance);
}
DEVICE u32 shuffle_down(u32 value, int distance) {
  return __shfl_down_sync(0xffffffffu, value, distance);
}
DEVICE i32 shuffle_down(i32 value, int distance) {
  return __shfl_down_sync(0xffffffffu, value, distance);
}
DEVICE float shuffle_up(float value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
DEVICE u32 shuffle_up(u32 value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
DEVICE i32 shuffle_up(i32 value, int distance) {
  return __shfl_up_sync(0xffffffffu, value, distance);
}
DEVICE float shuffle_from(float value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE u32 shuffle_from(u32 value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE i32 shuffle_from(i32 value, int lane) {
  return __shfl_sync(0xffffffffu, value, lane);
}
DEVICE bool vote_any(bool condition) {
  return __any_sync(0xffffffffu, condition) != 0;
}
DEVICE bool vote_all(bool condition) {
  return __all_sync(0xffffffffu, condition) != 0;
}
DEVICE u32 vote_ballot(bool condition) {
  return __ballot_sync(0xffffffffu, condition);
}

// --- Loads and stores -------------------------------------------------------------------------------------------
DEVICE u32 load_4(const void *pointer) {
  return *static_cast<const u32 *>(pointer);
}
DEVICE Vec8 load_8(const void *pointer) {
  uint2 value = *static_cast<const uint2 *>(pointer);
  return {{value.x, value.y}};
}
DEVICE Vec16 load_16(const void *pointer) {
  uint4 value = *static_cast<const uint4 *>(pointer);
  return {{value.x, value.y, value.z, value.w}};
}
DEVICE void store_4(void *pointer, u32 value) {
  *static_cast<u32 *>(pointer) = value;
}
DEVICE void store_8(void *pointer, Vec8 value) {
  *static_cast<uint2 *>(pointer) = make_uint2(value.word[0], value.word[1]);
}
DEVICE void store_16(void *pointer, Vec16 value) {
  *static_cast<uint4 *>(pointer) = make_uint4(value.word[0], value.word[1], value.word[2], value.word[3]);
}
DEVICE Vec16 load_16_streaming(const void *global) {
  Vec16 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
               : "l"(global));
  return value;
}
DEVICE void store_16_streaming(void *global, Vec16 value) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(value.word[0]), "r"(value.word[1]),
               "r"(value.word[2]), "r"(value.word[3])
               : "memory");
}

// --- Bits and conversions (round to nearest even) ---------------------------------------------------------------
DEVICE u32 bits_of(float value) {
  return __float_as_uint(value);
}
DEVICE float float_from_bits(u32 bits) {
  return __uint_as_float(bits);
}
DEVICE u32 multiply_high(u32 a, u32 b) {
  return __umulhi(a, b);
}
DEVICE int popcount(u32 bits) {
  return __popc(bits);
}
DEVICE float to_float(float value) {
  return value;
}
DEVICE float to_float(bf16 value) {
  return __uint_as_float(static_cast<u32>(value.bits) << 16);
}
DEVICE float to_float(f16 value) {
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
}
// Two at once: the conversion of one alone is a slow instruction.
DEVICE bf16 to_bf16(float value) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"(value));
  return {static_cast<u16>(pair)};
}
DEVICE f16 to_f16(float value) {
  f16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
}
DEVICE u32 pack_bf16(float low, float high) {
  u32 result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
DEVICE u32 pack_f16(float low, float high) {
  u32 result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}

// --- Math: fast_* are the hardware's approximations, *_f32 are correctly rounded or CUDA's accurate versions --------
DEVICE float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE float fast_log2(float x) {
  float result;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE float fast_tanh(float x) {
  float result;
  asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE float fast_rsqrt(float x) {
  float result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
DEVICE float fma_f32(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
DEVICE float max_f32(float a, float b) {
  return fmaxf(a, b);
}
DEVICE float min_f32(float a, float b) {
  return fminf(a, b);
}
// NaN if either is NaN; +0 exceeds -0.
DEVICE float max_nan_f32(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
DEVICE float min_nan_f32(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
DEVICE float abs_f32(float x) {
  return fabsf(x);
}
DEVICE float sqrt_f32(float x) {
  return __fsqrt_rn(x);
}
DEVICE float divide_f32(float a, float b) {
  return __fdiv_rn(a, b);
}
DEVICE float exp_f32(float x) {
  return expf(x);
}
DEVICE float exp2_f32(float x) {
  return exp2f(x);
}
DEVICE float log_f32(float x) {
  return logf(x);
}
DEVICE float tanh_f32(float x) {
  return tanhf(x);
}
DEVICE float sin_f32(float x) {
  return sinf(x);
}
DEVICE float cos_f32(float x) {
  return cosf(x);
}
DEVICE float erf_f32(float x) {
  return erff(x);
}
DEVICE float pow_f32(float x, float y) {
  return powf(x, y);
}
DEVICE float expm1_f32(float x) {
  return expm1f(x);
}
DEVICE float log1p_f32(float x) {
  return log1pf(x);
}
DEVICE float round_f32(float x) { // of two whole numbers the even one
  return rintf(x);
}
DEVICE float trunc_f32(float x) {
  return truncf(x);
}
DEVICE float remainder_f32(float x, float y) { // of a division rounded towards 0; exact
  return fmodf(x, y);
}
DEVICE float floor_f32(float x) {
  return floorf(x);
}
DEVICE float ceil_f32(float x) {
  return ceilf(x);
}

// --- Programmatic dependent launch ------------------------------------------------------------------------------
DEVICE void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
DEVICE void grid_dependency_launch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
