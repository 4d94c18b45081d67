// AmxTiles: packing and multiplication for attention by AMX's tiles of bf16, up to two by two tiles at once. A tile has
// 16 rows of 64 bytes. A row of a left tile holds 32 elements of a row of the matrix. A word of a right tile holds two
// neighbouring elements of a column. An f32 is the sum of three bf16 (parts), each of which is the one nearest to what
// the parts before it leave. Six products of parts make a product of f32: those of the other three pairs of parts are
// too small to matter (Henry, Tang and Heinecke 2019, as runtime/tiles).
#pragma once
#include "codegen/cpu/attention_tiles.h"
#include <functional>

namespace tcc::cpu {

/// The tiles of a factor. `next` is the distance in bytes from a tile to the one beside it, `step` the distance to the
/// tile that the next step of the sum multiplies, `part` the distance to the elements' next part.
struct TileFactor {
  mlir::Value base;
  int64_t next, step, part;
};

/// The tiles of sums. Distances are in bytes: from a row to the next one, to the tile below, and to the tile beside.
struct TileSums {
  mlir::Value base;
  int64_t row, down, across;
};

class AmxTiles {
public:
  AmxTiles(AttentionTiles &tiles, const AttentionBlocks &blocks) : b(tiles.b), t(tiles), blocks(blocks) {}

  static constexpr int64_t rows = 16, rowBytes = 64, bytes = rows * rowBytes, span = 2 * rows;

  /// Sets all eight tiles to 16 x 64 bytes; `memory` is 64 bytes in which the code writes this configuration.
  void configure(mlir::Value memory);
  void release();

  /// Computes down x across tiles of sums (one or two each way) over the steps [begin, end), and adds them to what is
  /// there if `accumulate` is set.
  void product(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t down, int64_t across,
               mlir::Value begin, mlir::Value end, bool accumulate);
  /// Parts of a computation, each of which emits some instructions. They have to be emitted in order, and others may
  /// stand between them.
  using Pieces = llvm::SmallVector<std::function<void()>>;
  /// product() for a known number of steps, with at most two multiplications a piece (of f32 four: there are more
  /// pieces). What stands between the pieces must not use tiles.
  Pieces productInPieces(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t down,
                         int64_t across, int64_t steps, bool accumulate);
  static void emit(const Pieces &pieces) {
    for (const std::function<void()> &piece : pieces)
      piece();
  }
  /// Adds to what is there for many tiles in one direction, by products of two by two tiles: `rowTiles` times two
  /// tiles, or two times `columnTiles`.
  void productOfRows(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t rowTiles,
                     mlir::Value begin, mlir::Value end);
  void productOfColumns(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t columnTiles,
                        mlir::Value begin, mlir::Value end);

  /// Fetches the rows [first, first + count) into the cache. They need not exist.
  void fetchRows(const HeadRows &rows, mlir::Value first, int64_t count);

  /// The parts of two vectors of f32, as words of bf16: the first words hold all first parts, and so on. Each word
  /// holds two neighbouring lanes, first those of x, then those of y; or (pairs) a lane of x and the same lane of y.
  using Parts = llvm::SmallVector<mlir::Value, 3>;
  Parts neighbours(mlir::Value x, mlir::Value y);
  Parts pairs(mlir::Value x, mlir::Value y);

  // Packing begins at the multiple of 32 at or below the first row's number and ends at the next multiple after the
  // last row; rows that do not exist are zeros. Each row is filled up with zeros to a multiple of 32 elements.
  /// Left: [row / 16][part][element / 32][row % 16][32 elements].
  void packRows(const HeadRows &rows, mlir::Value to);
  /// Left, transposed: [row / 32][part][element][32 rows].
  void packTransposed(const HeadRows &rows, mlir::Value to);
  /// Right, transposed: [row / 16][part][pair of elements][16 rows]. `factor`, or null: of bf16 the bits of a word that
  /// are flipped, of f32 a vector by which elements are multiplied.
  void packColumns(const HeadRows &rows, mlir::Value factor, mlir::Value to);
  /// Right: [element / 16][part][pair of rows][16 elements].
  void packRowPairs(const HeadRows &rows, mlir::Value to);

  /// Interleaves two vectors of 32 elements: x0 y0 x1 y1 …, from the low (or high) half of each eight elements.
  mlir::Value interleaved(mlir::Value x, mlir::Value y, bool high);
  /// The row that lane i of an interleaved half comes from.
  static constexpr int64_t rowOfLane(int64_t i, bool high) { return i / 4 * 8 + i % 4 + (high ? 4 : 0); }

  /// Stores rows of the tensor from the f32 sums [row / 16][element][16 rows]. Each lane is multiplied by the same lane
  /// of factor(row). If `isInterleaved` is set, the lanes of two tiles have the order of rowOfLane().
  void storeTransposed(mlir::Value from, const HeadRows &rows, bool isInterleaved,
                       llvm::function_ref<mlir::Value(mlir::Value)> factor);
  /// Stores rows of the tensor from [row][element].
  void storeRows(mlir::Value from, mlir::Value factor, const HeadRows &rows);

  /// 2^x for an x that is hardly above 0; 0 for every x below -126.
  mlir::Value powerOfTwo(mlir::Value x);

private:
  LaneBuilder &b;
  AttentionTiles &t;
  const AttentionBlocks &blocks;

  void call(llvm::StringRef name, mlir::ValueRange operands);
  mlir::Value number(int64_t tile) { return b.integer(b.builder.getIntegerType(8), tile); }
  mlir::Value bytesFrom(mlir::Value base, int64_t bytes) { return b.offset(base, b.builder.getI8Type(), b.i64(bytes)); }
  void startSums(const TileSums &sums, int64_t row, int64_t across, bool accumulate);
  void storeSums(const TileSums &sums, int64_t row, int64_t across);
  void multiplyRow(const TileFactor &left, const TileFactor &right, size_t product, int64_t row, int64_t across,
                   mlir::Value step);
  void forSteps(mlir::Value begin, mlir::Value end, AttentionTiles::Body body);
  void forSpans(const HeadRows &rows, int64_t step, AttentionTiles::Body body);
  /// body(first, count) for each `atOnce` elements of a row; the last ones may be fewer.
  void forElements(int64_t atOnce, llvm::function_ref<void(mlir::Value, int64_t)> body);
  mlir::Value halves(mlir::Value words);
  mlir::Value loadElements(mlir::Value row, mlir::Value first, int64_t elementsThere);
  llvm::SmallVector<mlir::Value> loadTransposed(const HeadRows &rows, mlir::Value firstRow, mlir::Value firstElement,
                                                int64_t elementsThere);
  void packWideTransposed(const HeadRows &rows, mlir::Value to);
  void packWideColumns(const HeadRows &rows, mlir::Value factor, mlir::Value to);
  void packWideRowPairs(const HeadRows &rows, mlir::Value to);
  void storeElements(mlir::Value words, mlir::Value address, int64_t count);
};

} // namespace tcc::cpu
