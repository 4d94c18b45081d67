// What kernel_avx512*.cpp share: vectors of 16 floats. They include it in their unnamed namespaces, after
// TCC_VECTOR_CODE and TCC_INLINE are defined. Registers hold sums of 14 rows and 32 columns: these take 28 and leave 4
// for operands.

constexpr int64_t lanes = 16, registers = 32, blockRows = 14;
using Vector = Vectors<lanes>::Vector;
using Bits = Vectors<lanes>::Bits;
using Halves = Vectors<lanes>::Halves;
using LooseVector = Vectors<lanes>::LooseVector;
using LooseHalves = Vectors<lanes>::LooseHalves;

TCC_INLINE Vector broadcast(const float *x) {
  return _mm512_set1_ps(*x);
}
TCC_INLINE Vector multiplyAdd(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
TCC_INLINE Vector lowPairs(Vector a, Vector b) {
  return _mm512_unpacklo_ps(a, b);
}
TCC_INLINE Vector highPairs(Vector a, Vector b) {
  return _mm512_unpackhi_ps(a, b);
}
TCC_INLINE Vector lowHalves(Vector a, Vector b) {
  return _mm512_shuffle_ps(a, b, 0x44);
}
TCC_INLINE Vector highHalves(Vector a, Vector b) {
  return _mm512_shuffle_ps(a, b, 0xEE);
}
TCC_INLINE Vector widen(Halves x, F16) {
  return _mm512_cvtph_ps(reinterpret_cast<__m256i>(x));
}
TCC_INLINE Halves narrow(Vector x, F16) {
  return reinterpret_cast<Halves>(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
TCC_INLINE Vector widen(Halves x, Bf16);

/// The 16 bytes from element `at` on of lines 0, 4, 8 and 12, one after another and unchanged.
template <typename T>
TCC_INLINE Vector joinBytes(const T *const *lines, int64_t at) {
  auto four = [at](const T *line) { return _mm_loadu_ps(reinterpret_cast<const float *>(line + at)); };
  __m512 x = _mm512_castps128_ps512(four(lines[0]));
  x = _mm512_insertf32x4(x, four(lines[4]), 1);
  x = _mm512_insertf32x4(x, four(lines[8]), 2);
  return _mm512_insertf32x4(x, four(lines[12]), 3);
}
TCC_INLINE Vector joinFours(const float *const *lines, int64_t at) {
  return joinBytes(lines, at);
}
template <typename Half>
TCC_INLINE Vector joinFours(const Half *const *lines, int64_t at) {
  auto four = [at](const Half *line) { return _mm_loadl_epi64(reinterpret_cast<const __m128i *>(line + at)); };
  const __m128i low = _mm_unpacklo_epi64(four(lines[0]), four(lines[4]));
  const __m128i high = _mm_unpacklo_epi64(four(lines[8]), four(lines[12]));
  return widen(reinterpret_cast<Halves>(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)), Half());
}
