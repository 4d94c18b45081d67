#include "runtime/tiles/panels.h"
#include <algorithm>
#include <immintrin.h>

// GCC 12, of lanes that its intrinsics leave undefined.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace tcc::runtime::tiles {
namespace {

constexpr int rows = 16; // of a tile, each a vector

/// Rows of 32 bits become columns: each round moves one bit of a column's number to its row's.
TCC_TILES inline void transpose(__m512i (&tile)[rows]) {
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_set_epi32(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8);
  for (int round = 0; round < 4; ++round) {
    __m512i next[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows / 2; ++i) {
      next[2 * i] = _mm512_permutex2var_epi32(tile[i], low, tile[i + rows / 2]);
      next[2 * i + 1] = _mm512_permutex2var_epi32(tile[i], high, tile[i + rows / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i)
      tile[i] = next[i];
  }
}

TCC_TILES inline void storeTile(__m512i (&tile)[rows], bool turned, char *to) {
  if (turned)
    transpose(tile);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i)
    _mm512_store_si512(to + i * 64, tile[i]);
}

/// The nearest bf16 of 16 floats, in the high halves; what is left of the floats stays in their place.
TCC_TILES inline __m512i takePart(__m512 &x) {
  const __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x8000));
  const __m512i part = _mm512_and_si512(rounded, _mm512_set1_epi32(static_cast<int>(0xFFFF0000)));
  x = _mm512_sub_ps(x, _mm512_castsi512_ps(part));
  return part;
}

/// Pairs of the high halves of x and then y.
TCC_TILES inline __m512i pairUp(__m512i x, __m512i y) {
  return _mm512_or_si512(_mm512_srli_epi32(x, 16), y);
}

TCC_TILES inline __m512i magnitudes(__m512i before, __m512 x) {
  return _mm512_max_epu32(before, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF)));
}

constexpr __mmask32 firstLanes(int64_t count) {
  return count >= 32 ? ~__mmask32(0) : count <= 0 ? 0 : (__mmask32(1) << count) - 1;
}

struct Packing {
  const ProductOperand &operand;
  const Stretch &stretch;
  char *to;
  uint32_t *greatest; // of f32
  bool turned;        // tiles are written transposed

  int64_t steps() const { return ceilDiv(stretch.depth, tileDepth); }
  char *tile(int64_t panel, int64_t step, int part, int half) const {
    const int64_t parts = partsOf(operand.dtype);
    return to + (((panel * steps() + step) * parts + part) * 2 + half) * tileBytes;
  }
  template <typename T>
  const T *at(int64_t line, int64_t depth) const {
    return static_cast<const T *>(operand.data) + (stretch.firstPanel * panelLines + line) * operand.lineStride +
           (stretch.firstDepth + depth) * operand.depthStride;
  }
  int64_t linesFrom(int64_t line) const { return operand.lines - stretch.firstPanel * panelLines - line; }
  TCC_TILES void see(int64_t panel, __m512i magnitudes) const {
    greatest[panel] = std::max(greatest[panel], _mm512_reduce_max_epu32(magnitudes));
  }
};

/// Depth is contiguous: a vector is 32 elements of one line.
template <bool wide>
TCC_TILES void packAlongDepth(const Packing &p) {
  const __m512i odds = _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27, 25,
                                        23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  for (int64_t panel = 0; panel < p.stretch.panels; ++panel)
    for (int half = 0; half < 2; ++half)
      for (int64_t step = 0; step < p.steps(); ++step) {
        const int64_t line = panel * panelLines + half * rows, depth = step * tileDepth;
        const __mmask32 mask = firstLanes(p.stretch.depth - depth);
        const int64_t there = std::clamp<int64_t>(p.linesFrom(line), 0, rows);
        __m512i tile[wide ? 3 : 1][rows], seen = _mm512_setzero_si512();
        for (int i = 0; i < rows; ++i) {
          if (i >= there) {
            for (auto &part : tile)
              part[i] = _mm512_setzero_si512();
            continue;
          }
          if constexpr (wide) {
            const float *from = p.at<float>(line + i, depth);
            __m512 x = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), from);
            __m512 y = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), from + 16);
            seen = magnitudes(magnitudes(seen, x), y);
            for (auto &part : tile) {
              const __m512i first = takePart(x), second = takePart(y);
              part[i] = _mm512_permutex2var_epi16(first, odds, second);
            }
          } else {
            tile[0][i] = _mm512_maskz_loadu_epi16(mask, p.at<uint16_t>(line + i, depth));
          }
        }
        for (int part = 0; part < (wide ? 3 : 1); ++part)
          storeTile(tile[part], p.turned, p.tile(panel, step, part, half));
        if constexpr (wide)
          p.see(panel, seen);
      }
}

/// Lines are contiguous: a vector is two elements of depth of 16 lines, of which pairs are made. Rows of memory are
/// walked to the stretch's end before the next ones.
template <bool wide>
TCC_TILES void packAlongLines(const Packing &p) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37,
                                       5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (int64_t step = 0; step < p.steps(); ++step)
    for (int64_t panel = 0; panel < p.stretch.panels; ++panel) {
      const int64_t line = panel * panelLines, depth = step * tileDepth;
      const __mmask32 mask = firstLanes(p.linesFrom(line));
      const int64_t there = p.stretch.depth - depth;
      if constexpr (wide) {
        for (int half = 0; half < 2; ++half) {
          __m512i tile[3][rows], seen = _mm512_setzero_si512();
          const auto lanes = static_cast<__mmask16>(mask >> (16 * half));
          for (int i = 0; i < rows; ++i) {
            const float *from = p.at<float>(line + 16 * half, depth + 2 * i);
            __m512 x = _mm512_maskz_loadu_ps(2 * i < there ? lanes : 0, from);
            __m512 y = _mm512_maskz_loadu_ps(2 * i + 1 < there ? lanes : 0, from + p.operand.depthStride);
            seen = magnitudes(magnitudes(seen, x), y);
            for (auto &part : tile) {
              const __m512i first = takePart(x);
              part[i] = pairUp(first, takePart(y));
            }
          }
          for (int part = 0; part < 3; ++part)
            storeTile(tile[part], p.turned, p.tile(panel, step, part, half));
          p.see(panel, seen);
        }
      } else {
        __m512i tile[2][rows];
        for (int i = 0; i < rows; ++i) {
          const uint16_t *from = p.at<uint16_t>(line, depth + 2 * i);
          const __m512i x = _mm512_maskz_loadu_epi16(2 * i < there ? mask : 0, from);
          const __m512i y = _mm512_maskz_loadu_epi16(2 * i + 1 < there ? mask : 0, from + p.operand.depthStride);
          tile[0][i] = _mm512_permutex2var_epi16(x, low, y);
          tile[1][i] = _mm512_permutex2var_epi16(x, high, y);
        }
        for (int half = 0; half < 2; ++half)
          storeTile(tile[half], p.turned, p.tile(panel, step, 0, half));
      }
    }
}

} // namespace

TCC_TILES void pack(const ProductOperand &operand, Side side, const Stretch &stretch, char *to, uint32_t *greatest) {
  const bool alongDepth = operand.depthStride == 1;
  const Packing packing{operand, stretch, to, greatest, alongDepth != (side == Side::left)};
  if (operand.dtype != DType::f32)
    return alongDepth ? packAlongDepth<false>(packing) : packAlongLines<false>(packing);
  std::fill_n(greatest, stretch.panels, 0);
  return alongDepth ? packAlongDepth<true>(packing) : packAlongLines<true>(packing);
}

} // namespace tcc::runtime::tiles
