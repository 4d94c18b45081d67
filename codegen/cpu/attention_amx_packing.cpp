#include "codegen/cpu/attention_amx.h"
#include <numeric>

using namespace mlir;

namespace tcc::cpu {

using Predicate = arith::CmpIPredicate;

//===- packing -------------------------------------------------------------------------------------------------===//

void AmxTiles::forSpans(const HeadRows &rows, int64_t step, AttentionTiles::Body body) {
  Value first = rows.first ? rows.first : b.i64(0);
  Value low = t.sub(first, b.mod(first, span)), high = t.roundUp(b.add(first, rows.count), span);
  t.forEach(low, high, step, body);
}

void AmxTiles::forElements(int64_t atOnce, function_ref<void(Value, int64_t)> body) {
  int64_t whole = t.headWidth / atOnce * atOnce;
  t.forEach(whole, atOnce, [&](Value element) { body(element, atOnce); });
  if (whole < t.headWidth)
    body(b.i64(whole), t.headWidth - whole);
}

// Rows of a head lie far apart, so the CPU does not guess which one comes next.
constexpr int64_t ahead = 16; // rows between the one that is worked on and the one that is fetched

void AmxTiles::fetchRows(const HeadRows &rows, Value first, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t byte = 0; byte < t.headWidth * LaneBuilder::bytes(t.element); byte += rowBytes)
      b.prefetch(t.rowAddress(rows, b.add(first, i)), byte);
}

/// Elements of a row from `first` on as f32; zeros follow the row's end.
Value AmxTiles::loadElements(Value row, Value first, int64_t elementsThere) {
  if (elementsThere <= 0)
    return t.floats(0);
  return b.loadLanes(b.offset(row, t.element, first), t.element, t.lanesOf(elementsThere, rows));
}

/// A square of f32 elements: a vector for each element, whose lanes are rows.
SmallVector<Value> AmxTiles::loadTransposed(const HeadRows &source, Value firstRow, Value firstElement,
                                            int64_t elementsThere) {
  SmallVector<Value> loaded;
  for (int64_t i = 0; i < rows; ++i)
    loaded.push_back(loadElements(t.rowAddress(source, b.add(firstRow, i)), firstElement, elementsThere));
  return t.transposed(loaded);
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

// What a part leaves is exact: it has the bits that the part does not have. NaN and infinity leave NaN.
AmxTiles::Parts AmxTiles::neighbours(Value x, Value y) {
  Parts parts{t.narrowNeighbours(x, y)};
  while (static_cast<int64_t>(parts.size()) < blocks.parts) {
    auto widened = [&](int64_t first) {
      auto half = VectorType::get({rows}, b.builder.getI16Type()), i32 = b.vector(b.builder.getI32Type());
      SmallVector<int32_t> order(rows);
      std::iota(order.begin(), order.end(), static_cast<int32_t>(first));
      Value all = halves(parts.back()), some = b.create<LLVM::ShuffleVectorOp>(all, all, order);
      Value wide = b.create<arith::ExtUIOp>(i32, b.create<LLVM::BitcastOp>(half, some));
      return Value(b.create<LLVM::BitcastOp>(b.vector(t.f32), b.create<arith::ShLIOp>(wide, b.integer(i32, 16))));
    };
    x = t.subF(x, widened(0));
    y = t.subF(y, widened(rows));
    parts.push_back(t.narrowNeighbours(x, y));
  }
  return parts;
}

AmxTiles::Parts AmxTiles::pairs(Value x, Value y) {
  Parts parts{t.narrowPairs(x, y)};
  while (static_cast<int64_t>(parts.size()) < blocks.parts) {
    auto i32 = b.vector(b.builder.getI32Type());
    Value words = b.create<LLVM::BitcastOp>(i32, parts.back());
    auto asFloats = [&](Value bits) { return Value(b.create<LLVM::BitcastOp>(b.vector(t.f32), bits)); };
    x = t.subF(x, asFloats(b.create<arith::ShLIOp>(words, b.integer(i32, 16))));
    y = t.subF(y, asFloats(b.create<arith::AndIOp>(words, b.integer(i32, -65536))));
    parts.push_back(t.narrowPairs(x, y));
  }
  return parts;
}

void AmxTiles::packRows(const HeadRows &source, Value to) {
  int64_t vectors = blocks.words / rows;
  forSpans(source, 1, [&](Value row) {
    Value from = t.rowAddress(source, row);
    fetchRows(source, b.add(row, ahead), 1);
    Value place = b.add(b.mul(b.div(row, rows), blocks.parts * vectors * rows), b.mod(row, rows));
    Value target = t.at(to, b.mul(place, rows));
    for (int64_t i = 0; i < vectors; ++i) {
      auto elements = [&](int64_t first) { return loadElements(from, b.i64(first), t.headWidth - first); };
      Parts words = blocks.parts == 1 ? Parts{t.loadRowWords(from, b.i64(i * rows), t.headWidth - i * span)}
                                      : neighbours(elements(i * span), elements(i * span + rows));
      for (auto [part, word] : llvm::enumerate(words))
        t.storeWords(word, t.at(target, (static_cast<int64_t>(part) * vectors + i) * rows * rows));
    }
  });
}

/// packTransposed() of f32.
void AmxTiles::packWideTransposed(const HeadRows &source, Value to) {
  forSpans(source, span, [&](Value row) {
    fetchRows(source, b.add(row, span), span);
    Value block = t.at(to, b.mul(b.div(row, span), blocks.parts * blocks.width * rows));
    auto chunk = [&](Value element, int64_t elementsThere) {
      SmallVector<Value> upper = loadTransposed(source, row, element, elementsThere),
                         lower = loadTransposed(source, b.add(row, rows), element, elementsThere);
      for (int64_t i = 0; i < rows; ++i)
        for (auto [part, words] : llvm::enumerate(neighbours(upper[i], lower[i]))) {
          Value place = b.add(element, static_cast<int64_t>(part) * blocks.width + i);
          t.storeWords(words, t.at(block, b.mul(place, rows)));
        }
    };
    forElements(rows, chunk);
  });
}

/// packColumns() of f32.
void AmxTiles::packWideColumns(const HeadRows &source, Value factor, Value to) {
  forSpans(source, rows, [&](Value row) {
    Value target = t.at(to, b.mul(row, blocks.parts * blocks.words));
    auto chunk = [&](Value element, int64_t elementsThere) {
      SmallVector<Value> columns = loadTransposed(source, row, element, elementsThere);
      for (int64_t i = 0; i < rows; i += 2) {
        Value x = columns[i], y = columns[i + 1];
        Parts words = factor ? pairs(t.mulF(x, factor), t.mulF(y, factor)) : pairs(x, y);
        for (auto [part, word] : llvm::enumerate(words)) {
          Value place = b.add(b.div(element, 2), static_cast<int64_t>(part) * blocks.words + i / 2);
          t.storeWords(word, t.at(target, b.mul(place, rows)));
        }
      }
    };
    int64_t whole = t.headWidth / rows * rows;
    t.forEach(whole, rows, [&](Value element) { chunk(element, rows); });
    for (int64_t element = whole; element < 2 * blocks.words; element += rows)
      chunk(b.i64(element), t.headWidth - element);
  });
}

/// packRowPairs() of f32.
void AmxTiles::packWideRowPairs(const HeadRows &source, Value to) {
  constexpr int64_t column = AttentionBlocks::queries / 2 * rows; // words of 16 elements
  forSpans(source, 2, [&](Value row) {
    Value even = t.rowAddress(source, row), odd = t.rowAddress(source, b.add(row, 1));
    Value target = t.at(to, b.mul(b.div(row, 2), rows));
    for (int64_t first = 0; first < blocks.width; first += rows) {
      auto elements = [&](Value from) { return loadElements(from, b.i64(first), t.headWidth - first); };
      for (auto [part, words] : llvm::enumerate(pairs(elements(even), elements(odd))))
        t.storeWords(words, t.at(target, (first / rows * blocks.parts + static_cast<int64_t>(part)) * column));
    }
  });
}

void AmxTiles::packTransposed(const HeadRows &source, Value to) {
  if (blocks.parts > 1)
    return packWideTransposed(source, to);
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
    forElements(span, chunk);
  });
}

void AmxTiles::packColumns(const HeadRows &source, Value factor, Value to) {
  if (blocks.parts > 1)
    return packWideColumns(source, factor, to);
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
        if (factor) {
          Value bits = b.create<LLVM::BitcastOp>(b.vector(b.builder.getI32Type()), column);
          column = b.create<LLVM::BitcastOp>(b.vector(t.f32), b.create<arith::XOrIOp>(bits, factor));
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
  if (blocks.parts > 1)
    return packWideRowPairs(source, to);
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
  const bool isWide = blocks.parts > 1;
  auto chunk = [&](Value group, int64_t half, Value element, int64_t elementsThere) {
    Value tile = b.add(group, half * rows), scale = factor(tile); // words of a row that each tile's rows have
    Value corner = t.at(from, b.add(b.mul(tile, 2 * blocks.words), b.mul(element, rows)));
    auto sums = [&](int64_t row) { return t.mulF(t.loadWords(t.at(corner, row * rows)), scale); };
    SmallVector<Value> columns;
    for (int64_t i = 0; i < rows; ++i)
      columns.push_back(isWide ? sums(i) : t.narrowPairs(sums(2 * i), sums(2 * i + 1)));
    for (auto [i, words] : llvm::enumerate(t.transposed(columns))) {
      auto lane = static_cast<int64_t>(i);
      Value row = b.add(group, isInterleaved ? rowOfLane(lane, half > 0) : half * rows + lane);
      b.when(t.is(Predicate::slt, row, target.count), [&, words = words] {
        Value start = b.offset(target.base, t.element, b.add(t.times(row, target.stride), element));
        if (isWide)
          b.storeLanes(words, start, t.element, t.lanesOf(elementsThere, rows));
        else
          storeElements(words, start, elementsThere);
      });
    }
  };
  t.forEach(b.i64(0), target.count, span, [&](Value group) {
    for (int64_t half : {0, 1})
      forElements(isWide ? rows : span,
                  [&](Value element, int64_t elementsThere) { chunk(group, half, element, elementsThere); });
  });
}

void AmxTiles::storeRows(Value from, Value factor, const HeadRows &target) {
  if (blocks.parts > 1)
    return t.storeRows(from, factor, target);
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

} // namespace tcc::cpu
