// The device primitives for the CPU: the names and signatures of codegen/cuda/device, each by a call into the emulator.
// Stands between types.cuh and generic.cuh; needs interface.h. The trailing `line` of a collective is its call's line.
#pragma once

extern "C" {
__attribute__((visibility("default"))) tcc::emulator::Table *emulatorTable = nullptr;
}

#define DEVICE static inline __attribute__((always_inline))
#define GRID_CONSTANT
#define RESTRICT __restrict__
#define KERNEL(name, maxThreads, minBlocks)                                                                            \
  extern "C" {                                                                                                         \
  __attribute__((visibility("default"))) int name##_bounds[2] = {maxThreads, minBlocks};                               \
  }                                                                                                                    \
  static void name
#define SHARED(type, name, count)                                                                                      \
  type(&name)[count] =                                                                                                 \
      *static_cast<type(*)[count]>(EMULATED(sharedArray)(__COUNTER__, sizeof(type) * (count), alignof(type)))
#define DYNAMIC_SHARED(name, alignment)                                                                                \
  unsigned char *const name = static_cast<unsigned char *>(EMULATED(dynamicShared)(alignment))
#define EMULATED(name)                                                                                                 \
  emulated::field<decltype(tcc::emulator::Table::name)>(__builtin_offsetof(tcc::emulator::Table, name))
#define LINE int line = __builtin_LINE()

namespace emulated {
using namespace tcc::emulator;

// Calls a kernel with the arguments that `args` points to, as cuLaunchKernel does.
template <int... index>
struct Indices {};
template <int count, int... index>
struct MakeIndices : MakeIndices<count - 1, count - 1, index...> {};
template <int... index>
struct MakeIndices<0, index...> {
  using type = Indices<index...>;
};
template <class... Parameters, int... index>
inline void invoke(void (*kernel)(Parameters...), void **args, Indices<index...>) {
  kernel(*static_cast<Parameters *>(args[index])...);
}
template <class... Parameters>
inline void invoke(void (*kernel)(Parameters...), void **args) {
  invoke(kernel, args, typename MakeIndices<sizeof...(Parameters)>::type{});
}

// How many parameters a kernel has and the bytes of each.
template <int count>
struct ParameterSizes {
  int number, bytes[count ? count : 1];
};
template <class... Parameters>
constexpr ParameterSizes<sizeof...(Parameters)> parameterSizes(void (*)(Parameters...)) {
  return {sizeof...(Parameters), {static_cast<int>(sizeof(Parameters))...}};
}

// A field of the table, read by `asm` so that the compiler's access hooks do not see the emulator's own memory.
template <class Field>
DEVICE Field field(unsigned long offset) {
  Table *table;
  Field value;
  asm("movq %1, %0" : "=r"(table) : "m"(emulatorTable));
  if constexpr (sizeof(Field) == 8)
    asm("movq (%1, %2), %0" : "=r"(value) : "r"(table), "r"(offset));
  else
    asm("movl (%1, %2), %0" : "=r"(value) : "r"(table), "r"(offset));
  return value;
}
DEVICE int threadField(unsigned long offset) {
  ThreadView *view = field<ThreadView *>(__builtin_offsetof(Table, thread));
  int value;
  asm("movl (%1, %2), %0" : "=r"(value) : "r"(view), "r"(offset));
  return value;
}

template <class To, class From>
DEVICE To bits(From value) {
  return __builtin_bit_cast(To, value);
}
DEVICE void aligned(const void *pointer, int bytes) {
  if (reinterpret_cast<unsigned long>(pointer) % bytes)
    EMULATED(misaligned)(pointer, bytes);
}
} // namespace emulated

#define EMULATOR_EXPORT(name)                                                                                          \
  extern "C" __attribute__((visibility("default"))) void name##_invoke(void **args) {                                  \
    emulated::invoke(&name, args);                                                                                     \
  }                                                                                                                    \
  extern "C" {                                                                                                         \
  __attribute__((visibility("default"))) decltype(emulated::parameterSizes(&name)) name##_parameters =                 \
      emulated::parameterSizes(&name);                                                                                 \
  }

DEVICE int thread_x() {
  return emulated::threadField(__builtin_offsetof(tcc::emulator::ThreadView, x));
}
DEVICE int block_x() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, block) + 0 * sizeof(int));
}
DEVICE int block_y() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, block) + 1 * sizeof(int));
}
DEVICE int block_z() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, block) + 2 * sizeof(int));
}
DEVICE int block_size() {
  return EMULATED(blockSize);
}
DEVICE int grid_x() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, grid) + 0 * sizeof(int));
}
DEVICE int grid_y() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, grid) + 1 * sizeof(int));
}
DEVICE int grid_z() {
  return emulated::field<int>(__builtin_offsetof(tcc::emulator::Table, grid) + 2 * sizeof(int));
}
DEVICE int lane_index() {
  return emulated::threadField(__builtin_offsetof(tcc::emulator::ThreadView, lane));
}
DEVICE int warp_index(LINE) {
  return EMULATED(warpIndex)(line);
}

DEVICE void block_barrier(LINE) {
  EMULATED(blockBarrier)(line);
}
DEVICE void warp_barrier(LINE) {
  EMULATED(warpBarrier)(line);
}
DEVICE void named_barrier_sync(int id, int threads, LINE) {
  EMULATED(namedBarrier)(id, threads, true, line);
}
DEVICE void named_barrier_arrive(int id, int threads, LINE) {
  EMULATED(namedBarrier)(id, threads, false, line);
}

#define EMULATED_SHUFFLE(name, kind)                                                                                   \
  template <class Value>                                                                                               \
  DEVICE Value name(Value value, int operand, LINE) {                                                                  \
    static_assert(sizeof(Value) == 4);                                                                                 \
    unsigned word = emulated::bits<unsigned>(value);                                                                   \
    return emulated::bits<Value>(EMULATED(shuffle)(word, tcc::emulator::Shuffle::kind, operand, line));                \
  }
EMULATED_SHUFFLE(shuffle_xor, Xor)
EMULATED_SHUFFLE(shuffle_down, Down)
EMULATED_SHUFFLE(shuffle_up, Up)
EMULATED_SHUFFLE(shuffle_from, From)
#undef EMULATED_SHUFFLE
DEVICE u32 vote_ballot(bool condition, LINE) {
  return EMULATED(ballot)(condition, line);
}
DEVICE bool vote_any(bool condition, LINE) {
  return EMULATED(ballot)(condition, line) != 0;
}
DEVICE bool vote_all(bool condition, LINE) {
  return EMULATED(ballot)(condition, line) == 0xffffffffu;
}

#ifdef EMULATED_COUNTS
// A wide access counts as one of its size; its bytes move by `rep`, which the hooks do not see.
__attribute__((no_sanitize("thread"), noinline)) static void emulatedWide(void *to, const void *from,
                                                                          unsigned long bytes, const void *counted) {
  tcc::emulator::Table *table = emulatorTable;
  if (table->counting)
    table->count(counted, bytes, __builtin_return_address(0));
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
}
#endif
template <class Value>
DEVICE Value emulatedLoad(const void *pointer) {
#ifdef EMULATED_COUNTS
  Value value;
  emulatedWide(&value, pointer, sizeof(Value), pointer);
  return value;
#else
  return *static_cast<const Value *>(pointer);
#endif
}
template <class Value>
DEVICE void emulatedStore(void *pointer, const Value &value) {
#ifdef EMULATED_COUNTS
  emulatedWide(pointer, &value, sizeof(Value), pointer);
#else
  *static_cast<Value *>(pointer) = value;
#endif
}
DEVICE u32 load_4(const void *pointer) {
  emulated::aligned(pointer, 4);
  return *static_cast<const u32 *>(pointer);
}
DEVICE Vec8 load_8(const void *pointer) {
  emulated::aligned(pointer, 8);
  return emulatedLoad<Vec8>(pointer);
}
DEVICE Vec16 load_16(const void *pointer) {
  emulated::aligned(pointer, 16);
  return emulatedLoad<Vec16>(pointer);
}
DEVICE void store_4(void *pointer, u32 value) {
  emulated::aligned(pointer, 4);
  *static_cast<u32 *>(pointer) = value;
}
DEVICE void store_8(void *pointer, Vec8 value) {
  emulated::aligned(pointer, 8);
  emulatedStore(pointer, value);
}
DEVICE void store_16(void *pointer, Vec16 value) {
  emulated::aligned(pointer, 16);
  emulatedStore(pointer, value);
}
// What such a load reads may not be written in the launch.
DEVICE Vec16 load_16_streaming(const void *global) {
  EMULATED(readOnly)(global, 16);
  return load_16(global);
}
DEVICE void store_16_streaming(void *global, Vec16 value) {
  store_16(global, value);
}

DEVICE u32 bits_of(float value) {
  return emulated::bits<u32>(value);
}
DEVICE float float_from_bits(u32 bits) {
  return emulated::bits<float>(bits);
}
DEVICE u32 multiply_high(u32 a, u32 b) {
  return static_cast<u32>(static_cast<u64>(a) * b >> 32);
}
DEVICE int popcount(u32 bits) {
  return __builtin_popcount(bits);
}

// Round to nearest even; a NaN becomes the device's canonical 0x7fff.
DEVICE bf16 to_bf16(float value) {
  u32 word = bits_of(value);
  if (value != value)
    return {0x7fff};
  return {static_cast<u16>((word + 0x7fffu + (word >> 16 & 1u)) >> 16)};
}
static inline f16 to_f16(float value) {
  u32 word = bits_of(value), sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return {0x7fff};
  if (magnitude >= 0x477ff000u) // rounds to 65536 or more
    return {static_cast<u16>(sign | 0x7c00u)};
  if (magnitude >= 0x38800000u) { // normal
    u32 rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return {static_cast<u16>(sign | (rounded - 0x38000000u) >> 13)};
  }
  // Subnormal: adding 0.5 leaves the result in the sum's last bits, rounded by the addition itself.
  float sum = float_from_bits(magnitude) + 0.5f;
  return {static_cast<u16>(sign | (bits_of(sum) - 0x3f000000u))};
}
DEVICE float to_float(float value) {
  return value;
}
DEVICE float to_float(bf16 value) {
  return float_from_bits(static_cast<u32>(value.bits) << 16);
}
static inline float to_float(f16 value) {
  u32 sign = (value.bits & 0x8000u) << 16, exponent = value.bits >> 10 & 31u, mantissa = value.bits & 0x3ffu;
  if (exponent == 31)
    return float_from_bits(sign | 0x7f800000u | mantissa << 13);
  if (exponent)
    return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8f; // 2^-24
  return sign ? -magnitude : magnitude;
}
DEVICE u32 pack_bf16(float low, float high) {
  return to_bf16(low).bits | static_cast<u32>(to_bf16(high).bits) << 16;
}
DEVICE u32 pack_f16(float low, float high) {
  return to_f16(low).bits | static_cast<u32>(to_f16(high).bits) << 16;
}

#define EMULATED_FAST(name, function)                                                                                  \
  DEVICE float name(float x) {                                                                                         \
    return EMULATED(fastMath)(tcc::emulator::FastMath::function, x);                                                   \
  }
EMULATED_FAST(fast_exp2, Exp2)
EMULATED_FAST(fast_log2, Log2)
EMULATED_FAST(fast_tanh, Tanh)
EMULATED_FAST(fast_reciprocal, Reciprocal)
EMULATED_FAST(fast_rsqrt, Rsqrt)
#undef EMULATED_FAST
#define EMULATED_MATH(name, function)                                                                                  \
  DEVICE float name(float x) {                                                                                         \
    return EMULATED(accurateMath)(tcc::emulator::AccurateMath::function, x, 0, 0);                                     \
  }
EMULATED_MATH(sqrt_f32, Sqrt)
EMULATED_MATH(exp_f32, Exp)
EMULATED_MATH(exp2_f32, Exp2)
EMULATED_MATH(log_f32, Log)
EMULATED_MATH(tanh_f32, Tanh)
EMULATED_MATH(sin_f32, Sin)
EMULATED_MATH(cos_f32, Cos)
EMULATED_MATH(erf_f32, Erf)
EMULATED_MATH(floor_f32, Floor)
EMULATED_MATH(ceil_f32, Ceil)
EMULATED_MATH(expm1_f32, Expm1)
EMULATED_MATH(log1p_f32, Log1p)
EMULATED_MATH(round_f32, Round)
EMULATED_MATH(trunc_f32, Trunc)
#undef EMULATED_MATH
DEVICE float pow_f32(float x, float y) {
  return EMULATED(accurateMath)(tcc::emulator::AccurateMath::Pow, x, y, 0);
}
DEVICE float remainder_f32(float x, float y) {
  return EMULATED(accurateMath)(tcc::emulator::AccurateMath::Remainder, x, y, 0);
}
DEVICE float fma_f32(float a, float b, float c) {
  return EMULATED(accurateMath)(tcc::emulator::AccurateMath::Fma, a, b, c);
}
DEVICE float divide_f32(float a, float b) {
  return a / b;
}
// As the device's: a NaN yields to the other operand, +0 exceeds -0.
DEVICE float max_f32(float a, float b) {
  if (a == b)
    return float_from_bits(bits_of(a) & bits_of(b));
  return a > b || b != b ? a : b;
}
DEVICE float min_f32(float a, float b) {
  if (a == b)
    return float_from_bits(bits_of(a) | bits_of(b));
  return a < b || b != b ? a : b;
}
DEVICE float max_nan_f32(float a, float b) {
  return a != a || b != b ? float_from_bits(0x7fffffffu) : max_f32(a, b);
}
DEVICE float min_nan_f32(float a, float b) {
  return a != a || b != b ? float_from_bits(0x7fffffffu) : min_f32(a, b);
}
DEVICE float abs_f32(float x) {
  return float_from_bits(bits_of(x) & 0x7fffffffu);
}
DEVICE void grid_dependency_wait() {}
DEVICE void grid_dependency_launch() {}

DEVICE void copy_async_16(void *shared, const void *global, bool valid = true) {
  EMULATED(copyAsync)(shared, global, 16, valid);
}
DEVICE void copy_async_4(void *shared, const void *global, bool valid = true) {
  EMULATED(copyAsync)(shared, global, 4, valid);
}
DEVICE void copy_async_commit() {
  EMULATED(copyAsyncCommit)();
}
template <int pending>
DEVICE void copy_async_wait() {
  EMULATED(copyAsyncWait)(pending);
}

DEVICE void ldmatrix_x4(u32 &r0, u32 &r1, u32 &r2, u32 &r3, const void *row, LINE) {
  u32 *const results[4] = {&r0, &r1, &r2, &r3};
  EMULATED(ldmatrix)(results, row, 4, false, line);
}
DEVICE void ldmatrix_x4_trans(u32 &r0, u32 &r1, u32 &r2, u32 &r3, const void *row, LINE) {
  u32 *const results[4] = {&r0, &r1, &r2, &r3};
  EMULATED(ldmatrix)(results, row, 4, true, line);
}
DEVICE void ldmatrix_x2(u32 &r0, u32 &r1, const void *row, LINE) {
  u32 *const results[2] = {&r0, &r1};
  EMULATED(ldmatrix)(results, row, 2, false, line);
}
DEVICE void ldmatrix_x2_trans(u32 &r0, u32 &r1, const void *row, LINE) {
  u32 *const results[2] = {&r0, &r1};
  EMULATED(ldmatrix)(results, row, 2, true, line);
}
DEVICE void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, LINE) {
  EMULATED(mma)(d, a, b0, b1, false, line);
}
DEVICE void mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1, LINE) {
  EMULATED(mma)(d, a, b0, b1, true, line);
}

DEVICE void fence_proxy_async() {
  EMULATED(fenceProxyAsync)();
}
DEVICE void fence_mbarrier_init() {
  EMULATED(fenceMbarrierInit)();
}
DEVICE void mbarrier_init(Mbarrier *barrier, int count) {
  EMULATED(mbarrierInit)(barrier, count);
}
DEVICE void mbarrier_arrive(Mbarrier *barrier) {
  EMULATED(mbarrierArrive)(barrier, 1, 0);
}
DEVICE void mbarrier_arrive_expect(Mbarrier *barrier, int bytes) {
  EMULATED(mbarrierArrive)(barrier, 1, bytes);
}
DEVICE void mbarrier_expect(Mbarrier *barrier, int bytes) {
  EMULATED(mbarrierArrive)(barrier, 0, bytes);
}
DEVICE void mbarrier_wait(Mbarrier *barrier, u32 parity) {
  EMULATED(mbarrierWait)(barrier, parity);
}
DEVICE void tma_prefetch_map(const TensorMap *) {}
DEVICE void tma_load_2d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1) {
  int coordinates[] = {c0, c1};
  EMULATED(tmaLoad)(shared, map, barrier, 2, coordinates);
}
DEVICE void tma_load_3d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1, int c2) {
  int coordinates[] = {c0, c1, c2};
  EMULATED(tmaLoad)(shared, map, barrier, 3, coordinates);
}
DEVICE void tma_load_4d(void *shared, const TensorMap *map, Mbarrier *barrier, int c0, int c1, int c2, int c3) {
  int coordinates[] = {c0, c1, c2, c3};
  EMULATED(tmaLoad)(shared, map, barrier, 4, coordinates);
}
DEVICE void tma_store_2d(const TensorMap *map, const void *shared, int c0, int c1) {
  int coordinates[] = {c0, c1};
  EMULATED(tmaStore)(map, shared, 2, coordinates);
}
DEVICE void tma_store_3d(const TensorMap *map, const void *shared, int c0, int c1, int c2) {
  int coordinates[] = {c0, c1, c2};
  EMULATED(tmaStore)(map, shared, 3, coordinates);
}
DEVICE void tma_store_4d(const TensorMap *map, const void *shared, int c0, int c1, int c2, int c3) {
  int coordinates[] = {c0, c1, c2, c3};
  EMULATED(tmaStore)(map, shared, 4, coordinates);
}
DEVICE void tma_store_commit() {
  EMULATED(tmaStoreCommit)();
}
template <int pending>
DEVICE void tma_store_wait_read() {
  EMULATED(tmaStoreWait)(pending, true);
}
template <int pending>
DEVICE void tma_store_wait() {
  EMULATED(tmaStoreWait)(pending, false);
}
DEVICE void bulk_load(void *shared, const void *global, int bytes, Mbarrier *barrier) {
  EMULATED(bulkLoad)(shared, global, bytes, barrier);
}
DEVICE bool elect_one(LINE) {
  return EMULATED(electOne)(line);
}
template <int registers>
DEVICE void registers_release(LINE) {
  EMULATED(setRegisters)(registers, false, line);
}
template <int registers>
DEVICE void registers_acquire(LINE) {
  EMULATED(setRegisters)(registers, true, line);
}

constexpr int swizzle_none = 0, swizzle_128 = 1, swizzle_64 = 2, swizzle_32 = 3;
DEVICE u64 wgmma_descriptor(const void *shared, int leadingOffset, int strideOffset, int swizzle) {
  u64 address = (EMULATED(sharedAddress)(shared) & 0x3ffffu) >> 4;
  return address | static_cast<u64>(leadingOffset >> 4) << 16 | static_cast<u64>(strideOffset >> 4) << 32 |
         static_cast<u64>(swizzle) << 62;
}
DEVICE u64 wgmma_advance(u64 descriptor, int bytes) {
  return descriptor + static_cast<u64>(bytes >> 4);
}
DEVICE void wgmma_fence(LINE) {
  EMULATED(wgmmaFence)(line);
}
DEVICE void wgmma_commit(LINE) {
  EMULATED(wgmmaCommit)(line);
}
template <int pending>
DEVICE void wgmma_wait(LINE) {
  EMULATED(wgmmaWait)(pending, line);
}
template <class Register, int count>
DEVICE void wgmma_hold(Register (&)[count]) {}
template <class Element>
struct EmulatedElement;
template <>
struct EmulatedElement<bf16> {
  static constexpr bool half = false;
};
template <>
struct EmulatedElement<f16> {
  static constexpr bool half = true;
};
template <class Element, bool transposedA = false, bool transposedB = false, int count>
DEVICE void wgmma_shared(float (&d)[count], u64 a, u64 b, bool accumulate, LINE) {
  tcc::emulator::WgmmaCall call{d,          2 * count,   nullptr,    a, b, EmulatedElement<Element>::half,
                                accumulate, transposedA, transposedB};
  EMULATED(wgmma)(&call, line);
}
template <class Element, bool transposedB = false, int count>
DEVICE void wgmma_registers(float (&d)[count], const u32 (&a)[4], u64 b, bool accumulate, LINE) {
  tcc::emulator::WgmmaCall call{d, 2 * count, a, 0, b, EmulatedElement<Element>::half, accumulate, false, transposedB};
  EMULATED(wgmma)(&call, line);
}

// --- Hooks that the compiler's -fsanitize=thread calls; its runtime is not linked --------------------------------
#ifdef EMULATED_CHECKS
#define EMULATED_HOOK extern "C" __attribute__((no_sanitize("thread"), visibility("hidden"), noinline))
__attribute__((no_sanitize("thread"), always_inline)) static inline void
emulatedAccess(const void *pointer, unsigned long bytes, bool write, void *programCounter) {
  tcc::emulator::Table *table = emulatorTable;
  const char *address = static_cast<const char *>(pointer);
  if (address >= table->thread->stackLow && address < table->thread->stackHigh)
    return;
  if (table->checking)
    table->access(pointer, bytes, write, programCounter);
#ifdef EMULATED_COUNTS
  if (table->counting)
    table->count(pointer, bytes, programCounter);
#endif
}
#define EMULATED_ACCESS(bytes)                                                                                         \
  EMULATED_HOOK void __tsan_read##bytes(void *p) {                                                                     \
    emulatedAccess(p, bytes, false, __builtin_return_address(0));                                                      \
  }                                                                                                                    \
  EMULATED_HOOK void __tsan_write##bytes(void *p) {                                                                    \
    emulatedAccess(p, bytes, true, __builtin_return_address(0));                                                       \
  }                                                                                                                    \
  EMULATED_HOOK void __tsan_unaligned_read##bytes(void *p) {                                                           \
    emulatedAccess(p, bytes, false, __builtin_return_address(0));                                                      \
  }                                                                                                                    \
  EMULATED_HOOK void __tsan_unaligned_write##bytes(void *p) {                                                          \
    emulatedAccess(p, bytes, true, __builtin_return_address(0));                                                       \
  }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
EMULATED_HOOK void __tsan_read_range(void *p, unsigned long bytes) {
  emulatedAccess(p, bytes, false, __builtin_return_address(0));
}
EMULATED_HOOK void __tsan_write_range(void *p, unsigned long bytes) {
  emulatedAccess(p, bytes, true, __builtin_return_address(0));
}
// Copies of aggregates may be calls, which bind to these: g++ calls the functions of C, clang the sanitizer's. `rep`
// because a loop or builtin would become such a call again.
__attribute__((no_sanitize("thread"), always_inline)) static inline void *
emulatedCopy(void *to, const void *from, unsigned long bytes, void *programCounter) {
  emulatedAccess(from, bytes, false, programCounter);
  emulatedAccess(to, bytes, true, programCounter);
  void *end = to;
  asm volatile("rep movsb" : "+D"(end), "+S"(from), "+c"(bytes)::"memory");
  return to;
}
__attribute__((no_sanitize("thread"), always_inline)) static inline void *
emulatedMove(void *to, const void *from, unsigned long bytes, void *programCounter) {
  if (static_cast<char *>(to) <= static_cast<const char *>(from))
    return emulatedCopy(to, from, bytes, programCounter);
  emulatedAccess(from, bytes, false, programCounter);
  emulatedAccess(to, bytes, true, programCounter);
  char *last = static_cast<char *>(to) + bytes - 1;
  const char *source = static_cast<const char *>(from) + bytes - 1;
  asm volatile("std\n\trep movsb\n\tcld" : "+D"(last), "+S"(source), "+c"(bytes)::"memory");
  return to;
}
__attribute__((no_sanitize("thread"), always_inline)) static inline void *
emulatedFill(void *to, int value, unsigned long bytes, void *programCounter) {
  emulatedAccess(to, bytes, true, programCounter);
  void *end = to;
  asm volatile("rep stosb" : "+D"(end), "+c"(bytes) : "a"(value) : "memory");
  return to;
}
#define EMULATED_COPIES(prefix)                                                                                        \
  EMULATED_HOOK void *prefix##memcpy(void *to, const void *from, unsigned long bytes) {                                \
    return emulatedCopy(to, from, bytes, __builtin_return_address(0));                                                 \
  }                                                                                                                    \
  EMULATED_HOOK void *prefix##memmove(void *to, const void *from, unsigned long bytes) {                               \
    return emulatedMove(to, from, bytes, __builtin_return_address(0));                                                 \
  }                                                                                                                    \
  EMULATED_HOOK void *prefix##memset(void *to, int value, unsigned long bytes) {                                       \
    return emulatedFill(to, value, bytes, __builtin_return_address(0));                                                \
  }
EMULATED_COPIES()
EMULATED_COPIES(__tsan_)
EMULATED_HOOK void __tsan_func_entry(void *) {}
EMULATED_HOOK void __tsan_func_exit(void) {}
EMULATED_HOOK void __tsan_init(void) {}
#undef EMULATED_ACCESS
#undef EMULATED_COPIES
#undef EMULATED_HOOK
#endif
#undef LINE
