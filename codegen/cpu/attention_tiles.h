// The parts of attention's loops: blocks of rows packed, products of tiles held in registers, results written back.
#pragma once
#include "codegen/cpu/attention.h"

namespace tcc::cpu {

/// Rows of a tensor of heads: where row 0 starts, elements between rows, and how many there are.
struct HeadRows {
  mlir::Value base, stride, count;
  mlir::Value first = {};  // the number of the first one; null: 0
  bool areWritten = false; // rows of a result
};

/// C[r][lanes] (+)= sum over k in [begin, end) of A(r, k) · B[k][lanes]; strides in words.
struct TileProduct {
  mlir::Value a, b, c;
  int64_t aRow, aStep, bStep, cRow;
  mlir::Value begin, end;  // begin <= end
  mlir::Value factor = {}; // a vector by which the sums are multiplied before they are stored; null: they are not
  bool accumulate = false; // whether the sums are added to what C holds; there is no factor then
};

class AttentionTiles {
public:
  AttentionTiles(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : b(b), blocks(blocks), element(b.element(form.element)), f32(b.builder.getF32Type()), headWidth(form.width) {}

  LaneBuilder &b;
  const AttentionBlocks blocks;
  const mlir::Type element, f32;
  const int64_t headWidth;
  mlir::Value
      zeroRow; // the address of a row of zeros, as long as a padded row, which stands for rows that do not exist

  using Body = llvm::function_ref<void(mlir::Value)>;
  void forEach(mlir::Value begin, mlir::Value end, int64_t step, Body body);
  void forEach(int64_t end, int64_t step, Body body) { forEach(b.i64(0), b.i64(end), step, body); }

  // integers of 64 bits
  mlir::Value sub(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::SubIOp>(x, y); }
  mlir::Value times(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::MulIOp>(x, y); }
  mlir::Value least(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::MinSIOp>(x, y); }
  mlir::Value most(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::MaxSIOp>(x, y); }
  mlir::Value clamp(mlir::Value x, mlir::Value last) { return least(most(x, b.i64(0)), last); }
  mlir::Value ceilDiv(mlir::Value x, int64_t y) { return b.div(b.add(x, y - 1), y); }
  mlir::Value ceilDiv(mlir::Value x, mlir::Value y) { return div(sub(b.add(x, y), b.i64(1)), y); }
  mlir::Value roundUp(mlir::Value x, int64_t y) { return b.mul(ceilDiv(x, y), y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::DivUIOp>(x, y); }
  mlir::Value mod(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::RemUIOp>(x, y); }
  mlir::Value is(mlir::arith::CmpIPredicate predicate, mlir::Value x, mlir::Value y) {
    return b.create<mlir::arith::CmpIOp>(predicate, x, y);
  }

  // floats
  mlir::Value addF(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::AddFOp>(x, y); }
  mlir::Value subF(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::SubFOp>(x, y); }
  mlir::Value mulF(mlir::Value x, mlir::Value y) { return b.create<mlir::arith::MulFOp>(x, y); }
  mlir::Value larger(mlir::Value x, mlir::Value y);
  /// e^x for an x that is hardly above 0. It is 0 where e^x would be no normal number, since computing with such a
  /// number costs hundreds of cycles; where the CPU has no instruction for scaling, from -87.7 down.
  mlir::Value exponential(mlir::Value x);
  mlir::Value floats(double value) { return b.literal(b.vector(f32), value); }

  // words of scratch; offsets count words
  mlir::Value at(mlir::Value base, mlir::Value words) { return b.offset(base, f32, words); }
  mlir::Value at(mlir::Value base, int64_t words) { return at(base, b.i64(words)); }
  mlir::Value loadWords(mlir::Value address) { return b.loadLanes(address, f32, {}); }
  void storeWords(mlir::Value value, mlir::Value address) { b.storeLanes(value, address, f32, {}); }
  void fill(mlir::Value address, int64_t words, double value);

  /// Elements of a row as f32; zeros follow the last one.
  mlir::Value loadElements(const HeadRows &rows, mlir::Value row, int64_t first);
  /// [word][query]: each lane a query.
  void packColumns(const HeadRows &rows, mlir::Value to);
  /// [row][word], for the rows [begin, end). Rows that do not exist become zeros.
  void packRows(const HeadRows &rows, mlir::Value begin, mlir::Value end, mlir::Value to);
  /// [row / perWord][element]: words of perWord rows, for the rows [begin, end); `begin` is a multiple of perWord.
  void packRowPairs(const HeadRows &rows, mlir::Value begin, mlir::Value end, mlir::Value to);
  /// Stores rows of f32 from [element][query], each multiplied by its query's factor.
  void storeColumns(mlir::Value from, mlir::Value factors, const HeadRows &rows);
  /// Stores a vector of f32 as the elements of a row from `first` on; elements beyond the row's end are not stored.
  void storeElements(mlir::Value value, const HeadRows &rows, mlir::Value row, int64_t first);
  /// Stores rows of f32 from [row][element], multiplied by `factor` unless that is null.
  void storeRows(mlir::Value from, mlir::Value factor, const HeadRows &rows);

  /// body(first, n) for each stretch of n vectors, as many as a tile has or fewer, that covers the vectors
  /// [first, last) of `count`.
  void forVectors(mlir::Value first, mlir::Value last, int64_t count,
                  llvm::function_ref<void(mlir::Value, unsigned)> body);
  /// sum + x · y for each word, of which each has perWord elements.
  mlir::Value multiplyAdd(mlir::Value x, mlir::Value y, mlir::Value sum);
  /// A tile of blocks.rows rows and `vectors` vectors.
  void product(const TileProduct &tile, unsigned vectors);

  /// Two vectors rounded to bf16 as one vector of pairs. Each pair holds two neighbouring lanes, first those of x, then
  /// those of y.
  mlir::Value narrowNeighbours(mlir::Value x, mlir::Value y);
  /// The same, where each pair holds a lane of x and the same lane of y.
  mlir::Value narrowPairs(mlir::Value x, mlir::Value y);

  /// Prefetches a row. It need not exist.
  void prefetchRow(const HeadRows &rows, mlir::Value row);
  /// Where a row starts; the address of the row of zeros if there is no such row, or if its number is below 0.
  mlir::Value rowAddress(const HeadRows &rows, mlir::Value row);
  /// A vector of words of a row; the row's last vector has `elementsThere` elements, then zeros.
  mlir::Value loadRowWords(mlir::Value row, mlir::Value firstWord, int64_t elementsThere);
  /// The transpose of a square of elements: there are as many vectors as a vector has lanes.
  llvm::SmallVector<mlir::Value> transposed(llvm::SmallVector<mlir::Value> rows);
  /// A mask of the first `count` lanes of `all`; null where that is every lane.
  mlir::Value lanesOf(int64_t count, int64_t all);

private:
  void storeRow(mlir::Value value, mlir::Value row, mlir::Value firstElement, int64_t elementsThere);
  mlir::Value narrowed(mlir::Value x, mlir::Value y);
};

} // namespace tcc::cpu
