#include "codegen/cpu/attention_amx.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tcc::cpu {

using Predicate = arith::CmpIPredicate;

//===- products ------------------------------------------------------------------------------------------------===//

// LLVM takes these for calls that may read and write any memory, and keeps their order.
void AmxTiles::call(StringRef name, ValueRange operands) {
  LLVM::CallIntrinsicOp::create(b.builder, b.loc, b.builder.getStringAttr(("llvm.x86." + name).str()), operands);
}

void AmxTiles::configure(Value memory) {
  // palette 1; bytes of a row, 16 bits a tile; rows, 8 bits a tile
  constexpr int64_t rowBytesOfFour = 0x0040004000400040, rowsOfEight = 0x1010101010101010;
  const int64_t words[] = {1, 0, rowBytesOfFour, rowBytesOfFour, 0, 0, rowsOfEight, 0};
  for (auto [i, word] : llvm::enumerate(words))
    LLVM::StoreOp::create(b.builder, b.loc, b.i64(word), bytesFrom(memory, 8 * static_cast<int64_t>(i)), 8);
  call("ldtilecfg", memory);
}

void AmxTiles::release() {
  call("tilerelease", {});
}

// Sums are in tiles 0 to 3, two for each row of tiles, the left factor's in 4 and 5, the right one's in 6 and 7.
void AmxTiles::startSums(const TileSums &sums, int64_t row, int64_t across, bool accumulate) {
  for (int64_t j = 0; j < across; ++j)
    if (accumulate)
      call("tileloadd64",
           {number(2 * row + j), bytesFrom(sums.base, row * sums.down + j * sums.across), b.i64(sums.row)});
    else
      call("tilezero", number(2 * row + j));
}

void AmxTiles::storeSums(const TileSums &sums, int64_t row, int64_t across) {
  for (int64_t j = 0; j < across; ++j)
    call("tilestored64",
         {number(2 * row + j), bytesFrom(sums.base, row * sums.down + j * sums.across), b.i64(sums.row)});
}

/// Which parts of the left and the right factor are multiplied, one after the other: the small products first, in an
/// order that loads few tiles.
static ArrayRef<std::pair<int64_t, int64_t>> productsOf(int64_t parts) {
  static constexpr std::pair<int64_t, int64_t> ofOne[] = {{0, 0}},
                                               ofThree[] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};
  return parts == 1 ? ArrayRef(ofOne) : ArrayRef(ofThree);
}

/// One of a step's products, for a row of tiles. The right factor's tiles are loaded with row 0.
void AmxTiles::multiplyRow(const TileFactor &left, const TileFactor &right, size_t product, int64_t row, int64_t across,
                           Value step) {
  ArrayRef<std::pair<int64_t, int64_t>> products = productsOf(blocks.parts);
  auto [leftPart, rightPart] = products[product];
  Type i8 = b.builder.getI8Type();
  Value dense = b.i64(rowBytes);
  if (product == 0 || products[product - 1].first != leftPart) {
    Value from = b.offset(left.base, i8, b.mul(step, left.step));
    call("tileloadd64", {number(4 + row), bytesFrom(from, leftPart * left.part + row * left.next), dense});
  }
  const bool loadsRight = row == 0 && (product == 0 || products[product - 1].second != rightPart);
  for (int64_t j = 0; j < across; ++j) {
    if (loadsRight) {
      Value from = b.offset(right.base, i8, b.mul(step, right.step));
      call("tileloadd64", {number(6 + j), bytesFrom(from, rightPart * right.part + j * right.next), dense});
    }
    call("tdpbf16ps", {number(2 * row + j), number(4 + row), number(6 + j)});
  }
}

void AmxTiles::product(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t down,
                       int64_t across, Value begin, Value end, bool accumulate) {
  for (int64_t row = 0; row < down; ++row)
    startSums(sums, row, across, accumulate);
  forSteps(begin, end, [&](Value step) {
    for (size_t product = 0; product < productsOf(blocks.parts).size(); ++product)
      for (int64_t row = 0; row < down; ++row)
        multiplyRow(left, right, product, row, across, step);
  });
  for (int64_t row = 0; row < down; ++row)
    storeSums(sums, row, across);
}

AmxTiles::Pieces AmxTiles::productInPieces(const TileSums &sums, const TileFactor &left, const TileFactor &right,
                                           int64_t down, int64_t across, int64_t steps, bool accumulate) {
  Pieces pieces;
  const size_t products = productsOf(blocks.parts).size();
  const int64_t rowsAtOnce = blocks.parts == 1 ? 1 : down;
  for (int64_t step = 0; step < steps; ++step)
    for (size_t product = 0; product < products; ++product)
      for (int64_t first = 0; first < down; first += rowsAtOnce)
        pieces.push_back([=, this] {
          for (int64_t row = first; row < first + rowsAtOnce; ++row) {
            if (step == 0 && product == 0)
              startSums(sums, row, across, accumulate);
            multiplyRow(left, right, product, row, across, b.i64(step));
            if (step + 1 == steps && product + 1 == products)
              storeSums(sums, row, across);
          }
        });
  return pieces;
}

/// If the number of steps is known and small, they are written one after the other instead of a loop.
void AmxTiles::forSteps(Value begin, Value end, AttentionTiles::Body body) {
  constexpr int64_t few = 4;
  llvm::APInt first, last;
  if (!matchPattern(begin, m_ConstantInt(&first)) || !matchPattern(end, m_ConstantInt(&last)) ||
      (last - first).sgt(few))
    return t.forEach(begin, end, 1, body);
  for (int64_t step = first.getSExtValue(); step < last.getSExtValue(); ++step)
    body(b.i64(step));
}

void AmxTiles::productOfRows(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t rowTiles,
                             Value begin, Value end) {
  auto part = [&](Value tile, int64_t count) {
    Type i8 = b.builder.getI8Type();
    product({b.offset(sums.base, i8, b.mul(tile, sums.down)), sums.row, sums.down, sums.across},
            {b.offset(left.base, i8, b.mul(tile, left.next)), left.next, left.step, left.part}, right, count, 2, begin,
            end, true);
  };
  t.forEach(rowTiles / 2 * 2, 2, [&](Value tile) { part(tile, 2); });
  if (rowTiles % 2)
    part(b.i64(rowTiles - 1), 1);
}

void AmxTiles::productOfColumns(const TileSums &sums, const TileFactor &left, const TileFactor &right,
                                int64_t columnTiles, Value begin, Value end) {
  auto part = [&](Value tile, int64_t count) {
    Type i8 = b.builder.getI8Type();
    product({b.offset(sums.base, i8, b.mul(tile, sums.across)), sums.row, sums.down, sums.across}, left,
            {b.offset(right.base, i8, b.mul(tile, right.next)), right.next, right.step, right.part}, 2, count, begin,
            end, true);
  };
  t.forEach(columnTiles / 2 * 2, 2, [&](Value tile) { part(tile, 2); });
  if (columnTiles % 2)
    part(b.i64(columnTiles - 1), 1);
}

// exp2 is right from -126 on. NaN passes.
Value AmxTiles::powerOfTwo(Value x) {
  Value isTiny = b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, t.floats(-126));
  return b.create<arith::SelectOp>(isTiny, t.floats(0), b.create<math::Exp2Op>(x));
}

} // namespace tcc::cpu
