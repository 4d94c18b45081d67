// For the kernels whose panels hold one f32 number in each float. They include it in their unnamed namespaces, after
// multiplyAdd and joinFours and before vector_code.h.

constexpr int64_t packedDepth = 1;

TCC_INLINE Vector multiplyPacked(Vector a, Vector b, Vector c) {
  return multiplyAdd(a, b, c);
}
template <typename T>
TCC_INLINE Vector joinPacked(const T *const *lines, int64_t at) {
  return joinFours(lines, at);
}
