// Emits the parts of attention's loops: packing of rows, matmuls of tiles, and writing results back. attention_tiles.h
// says what each function does.
#include "codegen/cpu/attention_tiles.h"
#include "codegen/cpu/math_approximation.h"

using namespace mlir;

namespace tcc::cpu {

//===- loops and values ----------------------------------------------------------------------------------------===//

void AttentionTiles::forEach(Value begin, Value end, int64_t step, Body body) {
  b.loop(begin, end, step, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

// If one of the two is NaN, either may come out: a NaN among the scores still reaches their sum.
Value AttentionTiles::larger(Value x, Value y) {
  Value isLarger = b.create<arith::CmpFOp>(arith::CmpFPredicate::OGT, x, y);
  return b.create<arith::SelectOp>(isLarger, x, y);
}

Value AttentionTiles::exponential(Value x) {
  auto exp = [&](Value of) {
    auto power = math::ExpOp::create(b.builder, b.loc, of);
    power->setAttr(isNormalExpAttr, b.builder.getUnitAttr());
    return power;
  };
  if (!b.target.hasScaling())
    return exp(larger(floats(-88), x)); // of NaN where x is that

  Value isNormal = b.create<arith::CmpFOp>(arith::CmpFPredicate::UGE, x, floats(-87)); // or NaN
  return b.create<arith::SelectOp>(isNormal, exp(x), floats(0));
}

void AttentionTiles::fill(Value address, int64_t words, double value) {
  forEach(words, blocks.lanes, [&](Value i) { storeWords(floats(value), at(address, i)); });
}

//===- packing -------------------------------------------------------------------------------------------------===//

Value AttentionTiles::lanesOf(int64_t count, int64_t all) {
  if (count >= all)
    return {};
  SmallVector<bool> mask(all, false);
  std::fill_n(mask.begin(), count, true);
  return b.create<arith::ConstantOp>(
      DenseElementsAttr::get(VectorType::get({all}, b.builder.getI1Type()), ArrayRef<bool>(mask)));
}

Value AttentionTiles::rowAddress(const HeadRows &rows, Value row) {
  Value place = rows.first ? sub(row, rows.first) : row;
  Value there = b.offset(rows.base, element, times(place, rows.stride));
  return b.create<arith::SelectOp>(is(arith::CmpIPredicate::ult, place, rows.count), there, zeroRow);
}

Value AttentionTiles::loadRowWords(Value row, Value firstWord, int64_t elementsThere) {
  Value address = b.offset(row, element, b.mul(firstWord, blocks.perWord));
  if (blocks.perWord == 1)
    return b.loadLanes(address, element, lanesOf(elementsThere, blocks.lanes));
  int64_t elements = blocks.lanes * blocks.perWord;
  auto type = VectorType::get({elements}, b.builder.getI16Type());
  Value mask = lanesOf(elementsThere, elements);
  Value loaded = mask ? b.create<LLVM::MaskedLoadOp>(type, address, mask, b.literal(type, 0.0), 2U)
                      : b.create<LLVM::LoadOp>(type, address, 2);
  return b.create<LLVM::BitcastOp>(b.vector(f32), loaded);
}

Value AttentionTiles::loadElements(const HeadRows &rows, Value row, int64_t first) {
  Value address = b.offset(rows.base, element, b.add(times(row, rows.stride), first));
  return b.loadLanes(address, element, lanesOf(headWidth - first, blocks.lanes));
}

/// Rounds of shuffles that are single instructions and keep both operands. Each takes rows whose numbers differ in one
/// bit, which becomes a bit of the lane's number; a bit of the lane's number takes its place. The first two rounds stay
/// within units of four lanes and give the row's number its lowest two bits in the other order; the others move units.
SmallVector<Value> AttentionTiles::transposed(SmallVector<Value> rows) {
  constexpr int32_t unit = 4;
  const auto lanes = static_cast<int32_t>(blocks.lanes), units = lanes / unit;
  // `source` gives, for a lane of the first or second result, which operand's lane it is: those of the second operand
  // are counted on from those of the first.
  auto exchange = [&](int32_t distance, function_ref<int32_t(int32_t lane, int32_t which)> source) {
    SmallVector<int32_t> order[2];
    for (int32_t which : {0, 1})
      for (int32_t lane = 0; lane < lanes; ++lane)
        order[which].push_back(source(lane, which));
    for (int32_t i = 0; i < lanes; ++i)
      if ((i & distance) == 0) {
        Value x = rows[i], y = rows[i + distance];
        rows[i] = b.create<LLVM::ShuffleVectorOp>(x, y, order[0]);
        rows[i + distance] = b.create<LLVM::ShuffleVectorOp>(x, y, order[1]);
      }
  };
  exchange(1, [&](int32_t lane, int32_t which) {
    return lane % 2 * lanes + lane / unit * unit + 2 * which + lane % unit / 2;
  });
  exchange(2, [&](int32_t lane, int32_t which) {
    return lane % unit / 2 * lanes + lane / unit * unit + 2 * which + lane % 2;
  });
  for (int32_t distance = unit; distance < lanes; distance *= 2)
    exchange(distance, [&](int32_t lane, int32_t which) {
      const int32_t place = lane / unit, half = units / 2;
      return place / half * lanes + (place % half * 2 + which) * unit + lane % unit;
    });
  for (int32_t i = 0; i < lanes; i += unit)
    std::swap(rows[i + 1], rows[i + 2]);
  return rows;
}

void AttentionTiles::packColumns(const HeadRows &rows, Value to) {
  int64_t lanes = blocks.lanes, inVector = lanes * blocks.perWord, whole = headWidth / inVector * lanes;
  auto chunk = [&](Value firstRow, Value firstWord, int64_t elementsThere) {
    SmallVector<Value> loaded;
    for (int64_t i = 0; i < lanes; ++i)
      loaded.push_back(loadRowWords(rowAddress(rows, b.add(firstRow, i)), firstWord, elementsThere));
    Value corner = at(to, b.add(b.mul(firstWord, blocks.queries), firstRow));
    for (auto [i, column] : llvm::enumerate(transposed(loaded)))
      storeWords(column, at(corner, static_cast<int64_t>(i) * blocks.queries));
  };
  forEach(b.i64(0), rows.count, lanes, [&](Value row) {
    forEach(whole, lanes, [&](Value word) { chunk(row, word, inVector); });
    if (headWidth % inVector)
      chunk(row, b.i64(whole), headWidth % inVector);
  });
}

void AttentionTiles::packRows(const HeadRows &rows, Value begin, Value end, Value to) {
  forEach(begin, end, 1, [&](Value row) {
    Value from = rowAddress(rows, row), target = at(to, b.mul(row, blocks.words));
    for (int64_t word = 0; word < blocks.words; word += blocks.lanes)
      storeWords(loadRowWords(from, b.i64(word), headWidth - word * blocks.perWord), at(target, word));
  });
}

void AttentionTiles::packRowPairs(const HeadRows &rows, Value begin, Value end, Value to) {
  if (blocks.perWord == 1)
    return packRows(rows, begin, end, to);
  Type i16 = b.builder.getI16Type(), i32 = b.builder.getI32Type();
  auto wide = [&](Value row, int64_t first) {
    Value address = b.offset(row, element, b.i64(first)), mask = lanesOf(headWidth - first, blocks.lanes);
    Value loaded = mask ? b.create<LLVM::MaskedLoadOp>(b.vector(i16), address, mask, b.literal(b.vector(i16), 0.0), 2U)
                        : b.create<LLVM::LoadOp>(b.vector(i16), address, 2);
    return b.create<arith::ExtUIOp>(b.vector(i32), loaded);
  };
  forEach(begin, end, 2, [&](Value row) {
    Value even = rowAddress(rows, row), odd = rowAddress(rows, b.add(row, 1));
    Value target = at(to, b.mul(b.div(row, 2), blocks.width));
    for (int64_t first = 0; first < blocks.width; first += blocks.lanes) {
      Value high = b.create<arith::ShLIOp>(wide(odd, first), b.integer(b.vector(i32), 16));
      Value pair = b.create<arith::OrIOp>(wide(even, first), high);
      storeWords(b.create<arith::BitcastOp>(b.vector(f32), pair), at(target, first));
    }
  });
}

void AttentionTiles::prefetchRow(const HeadRows &rows, Value row) {
  const int64_t bytes = headWidth * static_cast<int64_t>(element.getIntOrFloatBitWidth()) / 8;
  Value start = b.offset(rows.base, element, times(row, rows.stride));
  for (int64_t line = 0; line < bytes; line += 64)
    b.prefetch(start, line, rows.areWritten);
}

//===- results -------------------------------------------------------------------------------------------------===//

void AttentionTiles::storeRow(Value value, Value row, Value firstElement, int64_t elementsThere) {
  b.storeLanes(b.round(value, element), b.offset(row, element, firstElement), element,
               lanesOf(elementsThere, blocks.lanes));
}

void AttentionTiles::storeColumns(Value from, Value factors, const HeadRows &rows) {
  int64_t lanes = blocks.lanes, whole = headWidth / lanes * lanes;
  auto chunk = [&](Value firstRow, Value first, int64_t elementsThere) {
    SmallVector<Value> columns;
    Value corner = at(from, b.add(b.mul(first, blocks.queries), firstRow));
    Value factor = loadWords(at(factors, firstRow));
    for (int64_t i = 0; i < lanes; ++i)
      columns.push_back(mulF(loadWords(at(corner, i * blocks.queries)), factor));
    for (auto [i, value] : llvm::enumerate(transposed(columns))) {
      Value row = b.add(firstRow, static_cast<int64_t>(i));
      b.when(is(arith::CmpIPredicate::slt, row, rows.count), [&, value = value] {
        storeRow(value, b.offset(rows.base, element, times(row, rows.stride)), first, elementsThere);
      });
    }
  };
  forEach(b.i64(0), rows.count, lanes, [&](Value row) {
    forEach(whole, lanes, [&](Value first) { chunk(row, first, lanes); });
    if (headWidth % lanes)
      chunk(row, b.i64(whole), headWidth % lanes);
  });
}

void AttentionTiles::storeElements(Value value, const HeadRows &rows, Value row, int64_t first) {
  storeRow(value, b.offset(rows.base, element, times(row, rows.stride)), b.i64(first), headWidth - first);
}

void AttentionTiles::storeRows(Value from, Value factor, const HeadRows &rows) {
  forEach(b.i64(0), rows.count, 1, [&](Value row) {
    Value source = at(from, b.mul(row, blocks.width));
    for (int64_t first = 0; first < headWidth; first += blocks.lanes) {
      Value sums = loadWords(at(source, first));
      storeElements(factor ? mulF(sums, factor) : sums, rows, row, first);
    }
  });
}

//===- products ------------------------------------------------------------------------------------------------===//

void AttentionTiles::forVectors(Value first, Value last, int64_t count, function_ref<void(Value, unsigned)> body) {
  int64_t tile = blocks.tileVectors;
  forEach(count, tile, [&](Value group) {
    Value from = most(first, group), there = sub(least(last, b.add(group, tile)), from);
    for (int64_t n = tile; n > 0; --n)
      b.when(is(arith::CmpIPredicate::eq, there, b.i64(n)), [&] { body(from, static_cast<unsigned>(n)); });
  });
}

Value AttentionTiles::multiplyAdd(Value x, Value y, Value sum) {
  if (blocks.perWord == 1)
    return addF(mulF(x, y), sum);
  auto pairs = VectorType::get({2 * blocks.lanes}, b.builder.getBF16Type());
  Value operands[] = {sum, b.create<LLVM::BitcastOp>(pairs, x), b.create<LLVM::BitcastOp>(pairs, y)};
  return LLVM::CallIntrinsicOp::create(b.builder, b.loc, b.vector(f32),
                                       b.builder.getStringAttr("llvm.x86.avx512bf16.dpbf16ps.512"), operands)
      .getResults();
}

// Where another program runs on the same core, the number of instructions limits the loop, its own counter's and
// branch's too: so a turn multiplies several words, but for single vectors, which are rare.
void AttentionTiles::product(const TileProduct &tile, unsigned vectors) {
  SmallVector<Value> sums;
  auto cell = [&](int64_t row, int64_t vector) { return at(tile.c, row * tile.cRow + vector * blocks.lanes); };
  for (int64_t row = 0; row < blocks.rows; ++row)
    for (unsigned v = 0; v < vectors; ++v)
      sums.push_back(tile.accumulate ? loadWords(cell(row, v)) : floats(0));

  auto addTurns = [&](Value begin, Value end, int64_t wordsOfTurn) {
    sums = b.loop(begin, end, wordsOfTurn, sums, [&](Value k, ValueRange carried) {
      SmallVector<Value> next(carried), right(vectors);
      Value ofA = at(tile.a, b.mul(k, tile.aStep)), ofB = at(tile.b, b.mul(k, tile.bStep));
      for (int64_t word = 0; word < wordsOfTurn; ++word) {
        for (unsigned v = 0; v < vectors; ++v)
          right[v] = loadWords(at(ofB, word * tile.bStep + v * blocks.lanes));
        for (int64_t row = 0; row < blocks.rows; ++row) {
          Value left = b.splat(b.load(at(ofA, word * tile.aStep + row * tile.aRow), f32));
          for (unsigned v = 0; v < vectors; ++v)
            next[row * vectors + v] = multiplyAdd(left, right[v], next[row * vectors + v]);
        }
      }
      return next;
    });
  };
  const int64_t wordsOfTurn = vectors > 1 ? 4 : 1;
  Value words = sub(tile.end, tile.begin), whole = sub(tile.end, mod(words, b.i64(wordsOfTurn)));
  addTurns(tile.begin, whole, wordsOfTurn);
  if (wordsOfTurn > 1)
    addTurns(whole, tile.end, 1);

  for (int64_t row = 0; row < blocks.rows; ++row)
    for (unsigned v = 0; v < vectors; ++v) {
      Value sum = sums[row * vectors + v];
      storeWords(tile.factor ? mulF(sum, tile.factor) : sum, cell(row, v));
    }
}

/// x and y rounded to bf16 in one vector: x fills the low half, y the high half.
Value AttentionTiles::narrowed(Value x, Value y) {
  auto pairs = VectorType::get({2 * blocks.lanes}, b.builder.getBF16Type());
  return LLVM::CallIntrinsicOp::create(b.builder, b.loc, pairs,
                                       b.builder.getStringAttr("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
                                       ValueRange{y, x})
      .getResults();
}

Value AttentionTiles::narrowNeighbours(Value x, Value y) {
  return b.create<LLVM::BitcastOp>(b.vector(f32), narrowed(x, y));
}

Value AttentionTiles::narrowPairs(Value x, Value y) {
  auto halves = VectorType::get({2 * blocks.lanes}, b.builder.getI16Type());
  SmallVector<int32_t> order;
  for (int32_t i = 0; i < static_cast<int32_t>(blocks.lanes); ++i)
    order.append({i, i + static_cast<int32_t>(blocks.lanes)});
  Value both = b.create<LLVM::BitcastOp>(halves, narrowed(x, y));
  return b.create<LLVM::BitcastOp>(b.vector(f32), b.create<LLVM::ShuffleVectorOp>(both, both, order));
}

} // namespace tcc::cpu
