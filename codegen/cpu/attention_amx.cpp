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

/// One step of a row of tiles. The right factor's tiles are loaded with row 0.
void AmxTiles::multiplyRow(const TileFactor &left, const TileFactor &right, int64_t row, int64_t across, Value step) {
  Type i8 = b.builder.getI8Type();
  Value dense = b.i64(rowBytes), x = b.offset(left.base, i8, b.mul(step, left.step));
  call("tileloadd64", {number(4 + row), bytesFrom(x, row * left.next), dense});
  for (int64_t j = 0; j < across; ++j) {
    if (row == 0)
      call("tileloadd64",
           {number(6 + j), bytesFrom(b.offset(right.base, i8, b.mul(step, right.step)), j * right.next), dense});
    call("tdpbf16ps", {number(2 * row + j), number(4 + row), number(6 + j)});
  }
}

void AmxTiles::product(const TileSums &sums, const TileFactor &left, const TileFactor &right, int64_t down,
                       int64_t across, Value begin, Value end, bool accumulate) {
  for (int64_t row = 0; row < down; ++row)
    startSums(sums, row, across, accumulate);
  forSteps(begin, end, [&](Value step) {
    for (int64_t row = 0; row < down; ++row)
      multiplyRow(left, right, row, across, step);
  });
  for (int64_t row = 0; row < down; ++row)
    storeSums(sums, row, across);
}

AmxTiles::Pieces AmxTiles::productInPieces(const TileSums &sums, const TileFactor &left, const TileFactor &right,
                                           int64_t down, int64_t across, int64_t steps, bool accumulate) {
  Pieces pieces;
  for (int64_t step = 0; step < steps; ++step)
    for (int64_t row = 0; row < down; ++row)
      pieces.push_back([=, this] {
        if (step == 0)
          startSums(sums, row, across, accumulate);
        multiplyRow(left, right, row, across, b.i64(step));
        if (step + 1 == steps)
          storeSums(sums, row, across);
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
            {b.offset(left.base, i8, b.mul(tile, left.next)), left.next, left.step}, right, count, 2, begin, end, true);
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
            {b.offset(right.base, i8, b.mul(tile, right.next)), right.next, right.step}, 2, count, begin, end, true);
  };
  t.forEach(columnTiles / 2 * 2, 2, [&](Value tile) { part(tile, 2); });
  if (columnTiles % 2)
    part(b.i64(columnTiles - 1), 1);
}

//===- packing -------------------------------------------------------------------------------------------------===//

void AmxTiles::forSpans(const HeadRows &rows, int64_t step, AttentionTiles::Body body) {
  Value first = rows.first ? rows.first : b.i64(0);
  Value low = t.sub(first, b.mod(first, span)), high = t.roundUp(b.add(first, rows.count), span);
  t.forEach(low, high, step, body);
}

// Rows of a head lie far apart, so the CPU does not guess which one comes next.
constexpr int64_t ahead = 16; // rows between the one that is worked on and the one that is fetched

void AmxTiles::fetchRows(const HeadRows &rows, Value first, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t byte = 0; byte < 2 * t.headWidth; byte += rowBytes)
      b.prefetch(t.rowAddress(rows, b.add(first, i)), byte);
}

/// A vector of words as one of 16-bit elements.
Value AmxTiles::halves(Value words) {
  return b.create<LLVM::BitcastOp>(VectorType::get({2 * rows}, b.builder.getI16Type()), words);
}

Value AmxTiles::interleaved(Value x, Value y, bool high) {
  SmallVector<int32_t> order;
  for (int32_t i = 0; i < rows; ++i) {
    auto from = static_cast<int32_t>(rowOfLane(i, high));
    order.append({from, from + static_cast<int32_t>(2 * rows)});
  }
  Value both = b.create<LLVM::ShuffleVectorOp>(halves(x), halves(y), order);
  return b.create<LLVM::BitcastOp>(b.vector(t.f32), both);
}

void AmxTiles::packRows(const HeadRows &source, Value to) {
  int64_t vectors = blocks.words / rows;
  forSpans(source, 1, [&](Value row) {
    Value from = t.rowAddress(source, row);
    fetchRows(source, b.add(row, ahead), 1);
    Value place = b.add(b.mul(b.div(row, rows), vectors * rows), b.mod(row, rows));
    Value target = t.at(to, b.mul(place, rows));
    for (int64_t i = 0; i < vectors; ++i)
      t.storeWords(t.loadRowWords(from, b.i64(i * rows), t.headWidth - i * span), t.at(target, i * rows * rows));
  });
}

void AmxTiles::packTransposed(const HeadRows &source, Value to) {
  forSpans(source, span, [&](Value row) {
    SmallVector<Value> addresses;
    for (int64_t i = 0; i < span; ++i)
      addresses.push_back(t.rowAddress(source, b.add(row, i)));
    fetchRows(source, b.add(row, span), span);
    Value block = t.at(to, b.mul(b.div(row, span), blocks.width * rows));
    auto chunk = [&](Value element, int64_t elementsThere) {
      SmallVector<Value> loaded;
      for (Value address : addresses)
        loaded.push_back(t.loadRowWords(address, b.div(element, 2), elementsThere));
      for (bool high : {false, true}) {
        SmallVector<Value> pairs;
        for (int64_t i = 0; i < rows; ++i)
          pairs.push_back(interleaved(loaded[2 * i], loaded[2 * i + 1], high));
        for (auto [i, words] : llvm::enumerate(t.transposed(pairs))) {
          int64_t which = rowOfLane(static_cast<int64_t>(i), high);
          if (which < rows || elementsThere > rows)
            t.storeWords(words, t.at(block, b.mul(b.add(element, which), rows)));
        }
      }
    };
    int64_t whole = t.headWidth / span * span;
    t.forEach(whole, span, [&](Value element) { chunk(element, span); });
    if (whole < t.headWidth)
      chunk(b.i64(whole), t.headWidth - whole);
  });
}

void AmxTiles::packColumns(const HeadRows &source, Value signs, Value to) {
  forSpans(source, rows, [&](Value row) {
    SmallVector<Value> addresses;
    for (int64_t i = 0; i < rows; ++i)
      addresses.push_back(t.rowAddress(source, b.add(row, i)));
    Value target = t.at(to, b.mul(row, blocks.words));
    auto chunk = [&](Value word, int64_t elementsThere) {
      SmallVector<Value> loaded;
      for (Value address : addresses)
        loaded.push_back(t.loadRowWords(address, word, elementsThere));
      for (auto [i, column] : llvm::enumerate(t.transposed(loaded))) {
        Value place = t.at(target, b.mul(b.add(word, static_cast<int64_t>(i)), rows));
        if (signs) {
          Value bits = b.create<LLVM::BitcastOp>(b.vector(b.builder.getI32Type()), column);
          column = b.create<LLVM::BitcastOp>(b.vector(t.f32), b.create<arith::XOrIOp>(bits, signs));
        }
        t.storeWords(column, place);
      }
    };
    int64_t whole = t.headWidth / span * span;
    t.forEach(whole / 2, rows, [&](Value word) { chunk(word, span); });
    if (whole < t.headWidth)
      chunk(b.i64(whole / 2), t.headWidth - whole);
  });
}

void AmxTiles::packRowPairs(const HeadRows &source, Value to) {
  auto interleave = [&](Value x, Value y, int32_t from) {
    SmallVector<int32_t> order;
    for (int32_t i = from; i < from + static_cast<int32_t>(rows); ++i)
      order.append({i, i + static_cast<int32_t>(span)});
    Value both = b.create<LLVM::ShuffleVectorOp>(halves(x), halves(y), order);
    return Value(b.create<LLVM::BitcastOp>(b.vector(t.f32), both));
  };
  constexpr int64_t column = AttentionBlocks::queries / 2 * rows; // words of 16 elements
  forSpans(source, 2, [&](Value row) {
    Value even = t.rowAddress(source, row), odd = t.rowAddress(source, b.add(row, 1));
    Value target = t.at(to, b.mul(b.div(row, 2), rows));
    for (int64_t first = 0; first < blocks.width; first += span) {
      Value word = b.i64(first / 2), x = t.loadRowWords(even, word, t.headWidth - first),
            y = t.loadRowWords(odd, word, t.headWidth - first);
      t.storeWords(interleave(x, y, 0), t.at(target, first / rows * column));
      if (first + rows < blocks.width)
        t.storeWords(interleave(x, y, rows), t.at(target, (first / rows + 1) * column));
    }
  });
}

//===- results -------------------------------------------------------------------------------------------------===//

/// The first `count` elements of a vector of words. One alone is stored as a scalar, see LaneBuilder::storeLanes.
void AmxTiles::storeElements(Value words, Value address, int64_t count) {
  Value mask = t.lanesOf(count, span);
  if (!mask)
    LLVM::StoreOp::create(b.builder, b.loc, words, address, 2);
  else if (count == 1)
    LLVM::StoreOp::create(b.builder, b.loc,
                          b.create<LLVM::ExtractElementOp>(halves(words), b.integer(b.builder.getI32Type(), 0)),
                          address, 2);
  else
    LLVM::MaskedStoreOp::create(b.builder, b.loc, halves(words), address, mask, 2U);
}

void AmxTiles::storeTransposed(Value from, const HeadRows &target, bool isInterleaved,
                               function_ref<Value(Value)> factor) {
  auto chunk = [&](Value group, int64_t half, Value element, int64_t elementsThere) {
    Value tile = b.add(group, half * rows), scale = factor(tile); // words of a row that each tile's rows have
    Value corner = t.at(from, b.add(b.mul(tile, 2 * blocks.words), b.mul(element, rows)));
    SmallVector<Value> pairs;
    for (int64_t i = 0; i < span; i += 2) {
      auto sums = [&](int64_t row) { return t.mulF(t.loadWords(t.at(corner, row * rows)), scale); };
      pairs.push_back(t.narrowPairs(sums(i), sums(i + 1)));
    }
    for (auto [i, words] : llvm::enumerate(t.transposed(pairs))) {
      auto lane = static_cast<int64_t>(i);
      Value row = b.add(group, isInterleaved ? rowOfLane(lane, half > 0) : half * rows + lane);
      b.when(t.is(Predicate::slt, row, target.count), [&, words = words] {
        Value start = b.offset(target.base, t.element, b.add(t.times(row, target.stride), element));
        storeElements(words, start, elementsThere);
      });
    }
  };
  int64_t whole = t.headWidth / span * span;
  t.forEach(b.i64(0), target.count, span, [&](Value group) {
    for (int64_t half : {0, 1}) {
      t.forEach(whole, span, [&](Value element) { chunk(group, half, element, span); });
      if (whole < t.headWidth)
        chunk(group, half, b.i64(whole), t.headWidth - whole);
    }
  });
}

void AmxTiles::storeRows(Value from, Value factor, const HeadRows &target) {
  t.forEach(b.i64(0), target.count, 1, [&](Value row) {
    Value source = t.at(from, b.mul(row, blocks.width));
    Value start = b.offset(target.base, t.element, t.times(row, target.stride));
    Value later = t.least(b.add(row, ahead), t.sub(target.count, b.i64(1)));
    Value laterStart = b.offset(target.base, t.element, t.times(later, target.stride));
    for (int64_t byte = 0; byte < 2 * t.headWidth; byte += rowBytes)
      b.prefetch(laterStart, byte, /*forWriting=*/true);
    for (int64_t byte = 0; byte < 4 * blocks.width; byte += rowBytes)
      b.prefetch(t.at(from, b.mul(later, blocks.width)), byte);
    for (int64_t first = 0; first < t.headWidth; first += span) {
      auto sums = [&](int64_t element) {
        if (element >= blocks.width)
          return t.floats(0);
        Value loaded = t.loadWords(t.at(source, element));
        return factor ? t.mulF(loaded, factor) : loaded;
      };
      storeElements(t.narrowNeighbours(sums(first), sums(first + rows)), b.offset(start, t.element, b.i64(first)),
                    t.headWidth - first);
    }
  });
}

// exp2 is right from -126 on. NaN passes.
Value AmxTiles::powerOfTwo(Value x) {
  Value isTiny = b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, x, t.floats(-126));
  return b.create<arith::SelectOp>(isTiny, t.floats(0), b.create<math::Exp2Op>(x));
}

} // namespace tcc::cpu
