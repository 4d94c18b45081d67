// Element and register types that kernel text, device prelude and emulator share. Needs nothing before it.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

// 16-bit floating-point elements as they lie in memory; arithmetic happens in float.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};

// Registers of one wide load or store. A word holds two 16-bit elements, the lower address in the lower half.
struct alignas(8) Vec8 {
  u32 word[2];
};
struct alignas(16) Vec16 {
  u32 word[4];
};

// A transaction barrier; lies in shared memory, is touched by mbarrier_* and TMA primitives only.
struct alignas(8) Mbarrier {
  u64 word;
};

// A TMA tensor map, made by the host and passed as `GRID_CONSTANT const TensorMap`.
struct alignas(64) TensorMap {
  u64 word[16];
};
