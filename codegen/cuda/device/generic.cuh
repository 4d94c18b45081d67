// What follows from the primitives alone, one text for device and emulator: element-type selection, reductions,
// Philox. Needs a prelude (core.cuh and matrix.cuh, or the emulator's).
#pragma once

// --- The same primitive for either 16-bit element type ----------------------------------------------------------
template <class Element>
struct ElementOps;
template <>
struct ElementOps<float> {
  DEVICE float from(float value) { return value; }
};
template <>
struct ElementOps<bf16> {
  DEVICE bf16 from(float value) { return to_bf16(value); }
  DEVICE u32 pack(float low, float high) { return pack_bf16(low, high); }
  DEVICE float low(u32 pair) { return float_from_bits(pair << 16); }
  DEVICE float high(u32 pair) { return float_from_bits(pair & 0xffff0000u); }
  DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_m16n8k16_bf16(d, a, b0, b1); }
};
template <>
struct ElementOps<f16> {
  DEVICE f16 from(float value) { return to_f16(value); }
  DEVICE u32 pack(float low, float high) { return pack_f16(low, high); }
  DEVICE float low(u32 pair) { return to_float(f16{static_cast<u16>(pair & 0xffffu)}); }
  DEVICE float high(u32 pair) { return to_float(f16{static_cast<u16>(pair >> 16)}); }
  DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_m16n8k16_f16(d, a, b0, b1); }
};

// An element from a float, rounded to nearest even.
template <class Element>
DEVICE Element from_float(float value) {
  return ElementOps<Element>::from(value);
}
// Two elements in one register, `low` at the lower address.
template <class Element>
DEVICE u32 pack(float low, float high) {
  return ElementOps<Element>::pack(low, high);
}
template <class Element>
DEVICE float unpack_low(u32 pair) {
  return ElementOps<Element>::low(pair);
}
template <class Element>
DEVICE float unpack_high(u32 pair) {
  return ElementOps<Element>::high(pair);
}
// d += A · B with 16-bit elements of the given type.
template <class Element>
DEVICE void mma_m16n8k16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  ElementOps<Element>::mma(d, a, b0, b1);
}

// 1 / x where 2^-125 <= |x| <= 2^125, or NaN: an approximation and one step of Newton's. At most 0.51 units in the last
// place wrong if the approximation is at most two wrong.
DEVICE float reciprocal_f32(float x) {
  const float near = fast_reciprocal(x);
  return fma_f32(fma_f32(-x, near, 1.0f), near, near);
}

// e^x, wrong by at most 2^-21 + |x| · 2^-23 of itself, and 1 / (1 + e^-x), by 2^-21 + max(-x, 0) · 2^-23, if each
// approximation is at most two units in the last place wrong. What is below 2^-126 may be 0.
DEVICE float near_exp_f32(float x) {
  return fast_exp2(x * 1.44269504f);
}
DEVICE float near_sigmoid_f32(float x) {
  return fast_reciprocal(fast_exp2(x * -1.44269504f) + 1.0f);
}

// --- Reductions: every lane gets the result; the tree is fixed, so the bits are ---------------------------------
// Over lanes 4g .. 4g + 3: one row of an mma accumulator.
DEVICE float quad_reduce_sum(float value) {
  value += shuffle_xor(value, 1);
  value += shuffle_xor(value, 2);
  return value;
}
DEVICE float quad_reduce_max(float value) {
  value = max_f32(value, shuffle_xor(value, 1));
  value = max_f32(value, shuffle_xor(value, 2));
  return value;
}
DEVICE float warp_reduce_sum(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    value += shuffle_xor(value, mask);
  return value;
}
DEVICE float warp_reduce_max(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    value = max_f32(value, shuffle_xor(value, mask));
  return value;
}
DEVICE float warp_reduce_min(float value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    value = min_f32(value, shuffle_xor(value, mask));
  return value;
}
// Over the block; `scratch` is shared, one float a warp; the leading barrier lets successive calls share it.
DEVICE float block_reduce_sum(float value, float *scratch) {
  value = warp_reduce_sum(value);
  block_barrier();
  if (lane_index() == 0)
    scratch[thread_x() / 32] = value;
  block_barrier();
  float total = 0.0f;
  for (int warp = 0; warp < block_size() / 32; ++warp)
    total += scratch[warp];
  return total;
}
DEVICE float block_reduce_max(float value, float *scratch) {
  value = warp_reduce_max(value);
  block_barrier();
  if (lane_index() == 0)
    scratch[thread_x() / 32] = value;
  block_barrier();
  float total = scratch[0];
  for (int warp = 1; warp < block_size() / 32; ++warp)
    total = max_f32(total, scratch[warp]);
  return total;
}

// --- The same for any type and either way to combine: every lane gets the result, by a fixed tree -------------------
// Integers wrap.
template <class Integer>
DEVICE Integer wrapping_add(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<u64>(a) + static_cast<u64>(b));
}
template <class Integer>
DEVICE Integer wrapping_subtract(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<u64>(a) - static_cast<u64>(b));
}
template <class Integer>
DEVICE Integer wrapping_multiply(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<u64>(a) * static_cast<u64>(b));
}
DEVICE i64 shuffle_xor(i64 value, int mask) {
  u32 low = shuffle_xor(static_cast<u32>(value), mask);
  u32 high = shuffle_xor(static_cast<u32>(static_cast<u64>(value) >> 32), mask);
  return static_cast<i64>(static_cast<u64>(high) << 32 | low);
}
struct SumOf {
  DEVICE float combine(float a, float b) { return a + b; }
  DEVICE i32 combine(i32 a, i32 b) { return wrapping_add(a, b); }
  DEVICE i64 combine(i64 a, i64 b) { return wrapping_add(a, b); }
};
// Of floats: NaN if any is NaN.
struct MaxOf {
  DEVICE float combine(float a, float b) { return max_nan_f32(a, b); }
  DEVICE i32 combine(i32 a, i32 b) { return a > b ? a : b; }
  DEVICE i64 combine(i64 a, i64 b) { return a > b ? a : b; }
};
struct ProductOf {
  DEVICE float combine(float a, float b) { return a * b; }
  DEVICE i32 combine(i32 a, i32 b) { return wrapping_multiply(a, b); }
  DEVICE i64 combine(i64 a, i64 b) { return wrapping_multiply(a, b); }
};
template <class Way, class Value>
DEVICE Value warp_reduce(Value value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    value = Way::combine(value, shuffle_xor(value, mask));
  return value;
}
// `scratch` is shared, one value a warp; the leading barrier lets successive calls share it. `Warps` of the block,
// where the text knows how many they are, makes a straight line of the last sum.
template <class Way, int Warps = 0, class Value>
DEVICE Value block_reduce(Value value, Value *scratch) {
  value = warp_reduce<Way>(value);
  block_barrier();
  if (lane_index() == 0)
    scratch[thread_x() / 32] = value;
  block_barrier();
  Value total = scratch[0];
#pragma unroll
  for (int warp = 1; warp < (Warps > 0 ? Warps : block_size() / 32); ++warp)
    total = Way::combine(total, scratch[warp]);
  return total;
}

// --- Several elements side by side: `Count` columns of a tensor as the values that they hold ------------------------
// The first one is at a multiple of 16 bytes, or of Count elements where those are fewer bytes. `left` of them are
// there; what is beyond is 0 and is not written.
template <int Count>
DEVICE void load_columns(const float *from, float (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    Vec16 loaded = load_16(from + i);
    for (int k = 0; k < 4; ++k)
      values[i + k] = float_from_bits(loaded.word[k]);
  }
}
template <int Count>
DEVICE void store_columns(float *to, const float (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    Vec16 stored = {{bits_of(values[i]), bits_of(values[i + 1]), bits_of(values[i + 2]), bits_of(values[i + 3])}};
    store_16(to + i, stored);
  }
}
template <class Element>
DEVICE void load_pairs(const Element *from, float (&values)[4]) {
  Vec8 loaded = load_8(from);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    values[2 * k] = unpack_low<Element>(loaded.word[k]);
    values[2 * k + 1] = unpack_high<Element>(loaded.word[k]);
  }
}
template <class Element>
DEVICE void load_pairs(const Element *from, float (&values)[8]) {
  Vec16 loaded = load_16(from);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    values[2 * k] = unpack_low<Element>(loaded.word[k]);
    values[2 * k + 1] = unpack_high<Element>(loaded.word[k]);
  }
}
template <class Element>
DEVICE void store_pairs(Element *to, const float (&values)[4]) {
  Vec8 stored = {{pack<Element>(values[0], values[1]), pack<Element>(values[2], values[3])}};
  store_8(to, stored);
}
template <class Element>
DEVICE void store_pairs(Element *to, const float (&values)[8]) {
  Vec16 stored = {{pack<Element>(values[0], values[1]), pack<Element>(values[2], values[3]),
                   pack<Element>(values[4], values[5]), pack<Element>(values[6], values[7])}};
  store_16(to, stored);
}
template <int Count>
DEVICE void load_columns(const bf16 *from, float (&values)[Count]) {
  load_pairs(from, values);
}
template <int Count>
DEVICE void load_columns(const f16 *from, float (&values)[Count]) {
  load_pairs(from, values);
}
template <int Count>
DEVICE void store_columns(bf16 *to, const float (&values)[Count]) {
  store_pairs(to, values);
}
template <int Count>
DEVICE void store_columns(f16 *to, const float (&values)[Count]) {
  store_pairs(to, values);
}
template <int Count>
DEVICE void load_columns(const i32 *from, i32 (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    Vec16 loaded = load_16(from + i);
    for (int k = 0; k < 4; ++k)
      values[i + k] = static_cast<i32>(loaded.word[k]);
  }
}
template <int Count>
DEVICE void store_columns(i32 *to, const i32 (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    Vec16 stored = {{static_cast<u32>(values[i]), static_cast<u32>(values[i + 1]), static_cast<u32>(values[i + 2]),
                     static_cast<u32>(values[i + 3])}};
    store_16(to + i, stored);
  }
}
template <int Count>
DEVICE void load_columns(const i64 *from, i64 (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 2) {
    Vec16 loaded = load_16(from + i);
    for (int k = 0; k < 2; ++k)
      values[i + k] = static_cast<i64>(static_cast<u64>(loaded.word[2 * k + 1]) << 32 | loaded.word[2 * k]);
  }
}
template <int Count>
DEVICE void store_columns(i64 *to, const i64 (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 2) {
    u64 first = static_cast<u64>(values[i]), second = static_cast<u64>(values[i + 1]);
    Vec16 stored = {{static_cast<u32>(first), static_cast<u32>(first >> 32), static_cast<u32>(second),
                     static_cast<u32>(second >> 32)}};
    store_16(to + i, stored);
  }
}
template <int Count>
DEVICE void load_columns(const u8 *from, bool (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    u32 loaded = load_4(from + i);
    for (int k = 0; k < 4; ++k)
      values[i + k] = (loaded >> 8 * k & 0xffu) != 0;
  }
}
template <int Count>
DEVICE void store_columns(u8 *to, const bool (&values)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; i += 4) {
    u32 stored = 0;
    for (int k = 0; k < 4; ++k)
      stored |= static_cast<u32>(values[i + k]) << 8 * k;
    store_4(to + i, stored);
  }
}
DEVICE void load_column(const u8 *from, bool &value) {
  value = *from != 0;
}
DEVICE void store_column(u8 *to, bool value) {
  *to = static_cast<u8>(value);
}
template <class Element>
DEVICE void load_column(const Element *from, float &value) {
  value = to_float(*from);
}
template <class Element>
DEVICE void store_column(Element *to, float value) {
  *to = from_float<Element>(value);
}
DEVICE void load_column(const i32 *from, i32 &value) {
  value = *from;
}
DEVICE void store_column(i32 *to, i32 value) {
  *to = value;
}
DEVICE void load_column(const i64 *from, i64 &value) {
  value = *from;
}
DEVICE void store_column(i64 *to, i64 value) {
  *to = value;
}
// Starts copies of Count columns to shared memory; both addresses and the bytes of Count columns are multiples of 16.
template <int Count, class Element>
DEVICE void copy_columns(Element *shared, const Element *from) {
#pragma unroll
  for (int i = 0; i < Count; i += 16 / static_cast<int>(sizeof(Element)))
    copy_async_16(shared + i, from + i);
}
template <class Value, int Count>
DEVICE void fill_columns(Value (&values)[Count], Value value) {
#pragma unroll
  for (int i = 0; i < Count; ++i)
    values[i] = value;
}
template <class Element, class Value, int Count>
DEVICE void load_columns(const Element *from, Value (&values)[Count], int left) {
  if (left >= Count) {
    load_columns(from, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    values[i] = Value(0);
    if (i < left)
      load_column(from + i, values[i]);
  }
}
template <class Element, class Value, int Count>
DEVICE void store_columns(Element *to, const Value (&values)[Count], int left) {
  if (left >= Count) {
    store_columns(to, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < Count; ++i)
    if (i < left)
      store_column(to + i, values[i]);
}

// --- Philox4x32-10 (Salmon et al., SC 2011): four random words from counter and key --------------------------------
DEVICE void philox(u32 (&out)[4], u32 counter0, u32 counter1, u32 counter2, u32 counter3, u32 key0, u32 key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    u32 high0 = multiply_high(0xD2511F53u, counter0), low0 = 0xD2511F53u * counter0;
    u32 high1 = multiply_high(0xCD9E8D57u, counter2), low1 = 0xCD9E8D57u * counter2;
    counter0 = high1 ^ counter1 ^ key0;
    counter1 = low1;
    counter2 = high0 ^ counter3 ^ key1;
    counter3 = low0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  out[0] = counter0;
  out[1] = counter1;
  out[2] = counter2;
  out[3] = counter3;
}
// tcc.random_bits at (outer, row, column): one call serves rows {r, r + 8} and columns {c, c + 8}, r and c with bit 3
// clear; word 2 * a + b is that of r + 8a, c + 8b.
DEVICE i32 random_bits(u64 seed, u32 stream, u32 outer, u32 row, u32 column) {
  u32 words[4];
  philox(words, outer, row & ~8u, column & ~8u, static_cast<u32>(seed >> 32), static_cast<u32>(seed), stream);
  u32 low = (column & 8u) != 0u ? words[1] : words[0];
  u32 high = (column & 8u) != 0u ? words[3] : words[2];
  return static_cast<i32>((row & 8u) != 0u ? high : low);
}
// A float in [0, 1) from a random word: its upper 24 bits.
DEVICE float uniform_from_bits(u32 bits) {
  return static_cast<float>(bits >> 8) * 5.9604644775390625e-8f;
}
