#include "runtime/tiles/multiply.h"
#include <algorithm>
#include <array>
#include <immintrin.h>

// GCC 12, of lanes that its intrinsics leave undefined.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tcc::runtime::tiles {
namespace {

struct alignas(64) Configuration {
  uint8_t palette = 1, firstRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 0 to 3 are sums, by rows; 4 and 5 of the left panel, 6 and 7 of the right one.

/// Loads one tile; the instructions take its number as a literal. A streamed one leaves the first-level cache to
/// others.
template <int tile, bool isStreamed>
TCC_TILES inline void load(const char *from) {
  static_assert(tile >= 4 && tile < 8);
  if constexpr (isStreamed) {
    if constexpr (tile == 4)
      _tile_stream_loadd(4, from, 64);
    else if constexpr (tile == 5)
      _tile_stream_loadd(5, from, 64);
    else if constexpr (tile == 6)
      _tile_stream_loadd(6, from, 64);
    else
      _tile_stream_loadd(7, from, 64);
  } else {
    if constexpr (tile == 4)
      _tile_loadd(4, from, 64);
    else if constexpr (tile == 5)
      _tile_loadd(5, from, 64);
    else if constexpr (tile == 6)
      _tile_loadd(6, from, 64);
    else
      _tile_loadd(7, from, 64);
  }
}

template <bool isStreamed>
TCC_TILES inline void loadLeft(const char *from) {
  load<4, isStreamed>(from);
  load<5, isStreamed>(from + tileBytes);
}
template <bool isStreamed>
TCC_TILES inline void loadRight(const char *from) {
  load<6, isStreamed>(from);
  load<7, isStreamed>(from + tileBytes);
}
TCC_TILES inline void multiplyLoaded() {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

} // namespace

Tiles::Tiles() {
  const Configuration configuration;
  asm volatile("" : : "m"(configuration));
  _tile_loadconfig(&configuration);
}

Tiles::~Tiles() {
  _mm_sfence(); // streamed results before whatever says that they are there
  _tile_release();
}

TCC_TILES double multiplyInRegisters(int64_t turns) {
  alignas(64) std::array<uint16_t, 4 * tileBytes / 2> elements; // bf16 from -1 to 1
  uint32_t state = 1;
  for (uint16_t &element : elements) {
    state = state * 1664525u + 1013904223u;
    element = floatToBf16(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f);
  }
  const auto *from = reinterpret_cast<const char *>(elements.data());
  asm volatile("" : : "r"(from) : "memory"); // the instructions do not say what they read
  const Tiles tiles;
  loadLeft<false>(from);
  loadRight<false>(from + 2 * tileBytes);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t turn = 0; turn < turns; ++turn)
    multiplyLoaded();
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(turns);
}

namespace {

constexpr int64_t partBytes = 2 * tileBytes;

/// One step of bf16. Each load stands just before the first multiplication that needs it, so that few wait.
template <Side kept>
TCC_TILES inline void multiplyStep(const char *left, const char *right) {
  load<4, kept != Side::left>(left);
  load<6, kept != Side::right>(right);
  _tile_dpbf16ps(0, 4, 6);
  load<5, kept != Side::left>(left + tileBytes);
  _tile_dpbf16ps(2, 5, 6);
  load<7, kept != Side::right>(right + tileBytes);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(3, 5, 7);
}

/// One step of three parts, small products first. The right one's first part is loaded twice, so it is not streamed.
template <Side kept>
TCC_TILES inline void multiplyStepOfParts(const char *left, const char *right) {
  loadLeft<kept != Side::left>(left + 2 * partBytes);
  loadRight<false>(right);
  multiplyLoaded();
  loadLeft<kept != Side::left>(left + partBytes);
  multiplyLoaded();
  loadRight<kept != Side::right>(right + partBytes);
  multiplyLoaded();
  loadLeft<kept != Side::left>(left);
  multiplyLoaded();
  loadRight<kept != Side::right>(right + 2 * partBytes);
  multiplyLoaded();
  loadRight<false>(right);
  multiplyLoaded();
}

template <Side kept>
TCC_TILES void multiplyPanels(const char *left, const char *right, int64_t steps, int parts, float *sums,
                              int64_t stride, bool accumulate, const Ahead &ahead) {
  constexpr int64_t lineBytes = 64;
  const int64_t rowBytes = stride * static_cast<int64_t>(sizeof(float));
  float *lower = sums + 16 * stride;
  asm volatile("" : : : "memory"); // the instructions do not say what they read
  if (accumulate) {
    _tile_loadd(0, sums, rowBytes);
    _tile_loadd(1, sums + 16, rowBytes);
    _tile_loadd(2, lower, rowBytes);
    _tile_loadd(3, lower + 16, rowBytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  const char *panel = ahead.panel, *nextSums = reinterpret_cast<const char *>(ahead.sums);
  const int64_t linesOfPanel = ceilDiv(ahead.panelBytes, lineBytes * steps); // in a step, as of the next line
  const int64_t linesOfSums = ahead.sums ? ceilDiv(4 * tileBytes, lineBytes * steps) : 0;
  for (int64_t step = 0; step < steps; ++step, left += parts * partBytes, right += parts * partBytes) {
    for (int64_t i = 0; i < linesOfPanel; ++i, panel += lineBytes)
      __builtin_prefetch(panel, 0, 2);
    for (int64_t i = 0; i < linesOfSums; ++i, nextSums += lineBytes)
      __builtin_prefetch(nextSums, 0, 3);
    if (parts == 1)
      multiplyStep<kept>(left, right);
    else
      multiplyStepOfParts<kept>(left, right);
  }
  _tile_stored(0, sums, rowBytes);
  _tile_stored(2, lower, rowBytes);
  _tile_stored(1, sums + 16, rowBytes);
  _tile_stored(3, lower + 16, rowBytes);
  asm volatile("" : : : "memory");
}

} // namespace

void multiply(const char *left, const char *right, int64_t steps, int parts, Side kept, float *sums, int64_t stride,
              bool accumulate, const Ahead &ahead) {
  const auto run = kept == Side::left ? multiplyPanels<Side::left> : multiplyPanels<Side::right>;
  run(left, right, steps, parts, sums, stride, accumulate, ahead);
}

namespace {

TCC_TILES inline __m512 loadFloats(const void *data, DType dtype, int64_t first, __mmask16 mask) {
  if (dtype == DType::f32)
    return _mm512_maskz_loadu_ps(mask, static_cast<const float *>(data) + first);
  const __m256i half = _mm256_maskz_loadu_epi16(mask, static_cast<const uint16_t *>(data) + first);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

} // namespace

TCC_TILES void multiplyPlainly(const ProductOperand &left, const ProductOperand &right, int64_t depth, float *sums,
                               bool accumulate) {
  constexpr int64_t rows = 8;
  const __m512i index = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           _mm512_set1_epi32(static_cast<int>(right.lineStride)));
  const auto *a = static_cast<const float *>(left.data);
  for (int64_t half = 0; half < std::min(panelLines, right.lines); half += 16) {
    const auto mask = static_cast<__mmask16>((1u << std::min<int64_t>(16, right.lines - half)) - 1);
    for (int64_t first = 0; first < std::min(panelLines, left.lines); first += rows) {
      const int64_t there = std::min(rows, left.lines - first);
      float *to = sums + first * panelLines + half;
      __m512 sum[rows];
      for (int64_t i = 0; i < rows; ++i)
        sum[i] = accumulate ? _mm512_loadu_ps(to + i * panelLines) : _mm512_setzero_ps();
      const auto *b = static_cast<const float *>(right.data) + half * right.lineStride;
      for (int64_t k = 0; k < depth; ++k, b += right.depthStride) {
        const __m512 row = right.lineStride == 1
                               ? _mm512_maskz_loadu_ps(mask, b)
                               : _mm512_mask_i32gather_ps(_mm512_setzero_ps(), mask, index, b, sizeof(float));
        for (int64_t i = 0; i < there; ++i)
          sum[i] =
              _mm512_fmadd_ps(_mm512_set1_ps(a[(first + i) * left.lineStride + k * left.depthStride]), row, sum[i]);
      }
      for (int64_t i = 0; i < rows; ++i)
        _mm512_storeu_ps(to + i * panelLines, sum[i]);
    }
  }
}

TCC_TILES void fetch(const Results &results, int64_t rows, int64_t columns) {
  const int64_t width = byteSize(results.dtype);
  const char *row = static_cast<const char *>(results.c);
  for (int64_t i = 0; i < rows; ++i, row += results.stride * width)
    for (int64_t byte = 0; byte < columns * width; byte += 64)
      __builtin_prefetch(row + byte, 1, 3);
}

namespace {

/// Whole rows of neighbouring blocks, past the caches.
template <int blocks>
TCC_TILES void stream(const std::array<const float *, blocks> &sums, int64_t rows, const Results &results) {
  __m512 bias[2 * blocks] = {};
  for (int half = 0; results.bias && half < 2 * blocks; ++half)
    bias[half] = loadFloats(results.bias, results.biasType, 16 * half, 0xFFFF);
  for (int64_t row = 0; row < rows; ++row)
    for (int block = 0; block < blocks; ++block) {
      const float *from = sums[block] + row * panelLines;
      const __m512 x = _mm512_add_ps(_mm512_loadu_ps(from), bias[2 * block]),
                   y = _mm512_add_ps(_mm512_loadu_ps(from + 16), bias[2 * block + 1]);
      const int64_t at = row * results.stride + block * panelLines;
      if (results.dtype == DType::f32) {
        float *to = static_cast<float *>(results.c) + at;
        _mm512_stream_ps(to, x);
        _mm512_stream_ps(to + 16, y);
      } else {
        auto *to = reinterpret_cast<__m512i *>(static_cast<uint16_t *>(results.c) + at);
        _mm512_stream_si512(to, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(y, x)));
      }
    }
}

} // namespace

TCC_TILES void finish(const float *sums, int64_t rows, int64_t columns, const Results &results) {
  if (results.streams && columns == panelLines)
    return stream<1>({sums}, rows, results);
  for (int64_t half = 0; half < columns; half += 16) {
    const auto mask = static_cast<__mmask16>((1u << std::min<int64_t>(16, columns - half)) - 1);
    const __m512 bias = results.bias ? loadFloats(results.bias, results.biasType, half, mask) : _mm512_setzero_ps();
    for (int64_t row = 0; row < rows; ++row) {
      __m512 x = _mm512_loadu_ps(sums + row * panelLines + half);
      const int64_t at = row * results.stride + half;
      if (results.bias)
        x = _mm512_add_ps(x, bias);
      if (results.accumulate)
        x = _mm512_add_ps(x, loadFloats(results.c, results.dtype, at, mask));
      if (results.dtype == DType::f32)
        _mm512_mask_storeu_ps(static_cast<float *>(results.c) + at, mask, x);
      else
        _mm256_mask_storeu_epi16(static_cast<uint16_t *>(results.c) + at, mask,
                                 reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
    }
  }
}

TCC_TILES void finishPair(const float *first, const float *second, int64_t rows, const Results &results) {
  stream<2>({first, second}, rows, results);
}

} // namespace tcc::runtime::tiles
