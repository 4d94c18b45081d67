// The backward function. A unit is a key head, or a part of its blocks of queries. Its dK and dV are summed over these
// in one order:
//   1. for each head and block of queries: queries and dOut are packed, each query's delta = dOut · out is summed, in
//      the order in which a dP is: where a query gives one key all its weight, out is that key's value, and dP - delta
//      is exactly 0 then, as the gradient is;
//   2. for each block of keys that one of them sees: keys that no block before has read are packed with their values.
//      Then scores and dP, P = exp(scores - lse), dS = P · (dP - delta), both rounded. Dropout sets dP, and the P that
//      dV reads, to 0 for a pair that it drops, and multiplies them by keepScale for any other. Then dV += Pᵀ·dOut and
//      dK += dSᵀ·q in the worker's memory, dQ += dS·k in that of the block;
//   3. dQ, and dK at last, are multiplied by the scale where they are written.
#include "codegen/cpu/attention_function.h"

using namespace mlir;

namespace tcc::cpu {
namespace {

class Backward : public AttentionFunction {
public:
  Backward(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AttentionFunction(b, form, blocks, 6, 3) {}

private:
  Value sumsOfK, sumsOfV; // [key][element] of all keys

  void runUnit(Value unit) override;
  void runQueries(const AttentionBlock &block, const AttentionBlock &later);
  void sumDeltas(const AttentionBlock &block);
  void addKeys(const AttentionBlock &block, ArrayRef<HeadRows> soon);
  void differentiate(const AttentionBlock &block, Value lane);
  void addToKeys(const AttentionBlock &block, Value weights, Value rows, Value sums);

  /// Emits code once that runs twice, since it takes long to compile: with the numbers 0 and 1, by which `choose` takes
  /// the first or the second value.
  void runTwice(function_ref<void(Value number, function_ref<Value(Value, Value)> choose)> body) {
    t.forEach(2, 1, [&](Value number) {
      Value isSecond = t.is(Predicate::ne, number, b.i64(0));
      body(number, [&](Value first, Value second) { return b.create<arith::SelectOp>(isSecond, second, first); });
    });
  }
  Value word(int64_t part, Value key, Value column) { return t.at(place(part), b.add(b.mul(key, queries), column)); }
};

void Backward::runUnit(Value unit) {
  const AttentionBlock block = keyHeadOf(unit);
  Value isWhole = t.is(Predicate::eq, number(Number::parts), b.i64(1));
  Value room = b.mul(b.add(number(Number::keys), blocks.rows), blocks.width);
  sumsOfK = b.create<arith::SelectOp>(isWhole, packedKeys(blocks.bytesOfKey), sumsOfUnit(unit));
  sumsOfV = t.at(sumsOfK, room);
  t.forEach(b.i64(0), b.mul(room, 2), blocks.lanes, [&](Value i) { t.storeWords(t.floats(0), t.at(sumsOfK, i)); });
  beginKeys(block);
  forQueriesOfKeys(unit, [&](const AttentionBlock &one, const AttentionBlock &later) { runQueries(one, later); });
  b.when(isWhole, [&] {
    t.storeRows(sumsOfK, scale, resultOfKeys(dK, block));
    t.storeRows(sumsOfV, {}, resultOfKeys(dV, block));
  });
}

void Backward::runQueries(const AttentionBlock &block, const AttentionBlock &later) {
  t.packColumns(rowsOfQueries(q, block), place(blocks.queryColumns));
  t.packColumns(rowsOfQueries(dOut, block), place(blocks.dOutColumns));
  t.packRowPairs(rowsOfQueries(q, block), b.i64(0), block.queryCount, place(blocks.queryPairs));
  t.packRowPairs(rowsOfQueries(dOut, block), b.i64(0), block.queryCount, place(blocks.dOutPairs));
  sumDeltas(block);
  loadLogarithms(block, lse, {}, place(blocks.top));
  t.fill(place(blocks.sums), blocks.width * queries, 0);
  const HeadRows soon[] = {rowsOfQueries(q, later),    rowsOfQueries(dOut, later), rowsOfQueries(out, later),
                           rowsOfNewKeys(k, later),    rowsOfNewKeys(v, later),    resultOfQueries(dQ, block),
                           resultOfNewKeys(dK, block), resultOfNewKeys(dV, block)};
  forKeyBlocks(block, [&](const AttentionBlock &keys) { addKeys(keys, soon); });
  // Logarithms are no longer needed: their place holds the factor of each query.
  t.forEach(queries, blocks.lanes, [&](Value lane) { t.storeWords(scale, t.at(place(blocks.top), lane)); });
  t.storeColumns(place(blocks.sums), place(blocks.top), resultOfQueries(dQ, block));
}

/// Each query's dOut · out. The place of dQ's sums, which do not begin yet, holds the columns of out.
void Backward::sumDeltas(const AttentionBlock &block) {
  t.packColumns(rowsOfQueries(out, block), place(blocks.sums));
  t.forEach(b.i64(0), block.queryCount, blocks.lanes, [&](Value lane) {
    Value sum = b.loop(b.i64(0), b.i64(blocks.steps), 1, t.floats(0), [&](Value step, ValueRange carried) {
      Value word = b.add(b.mul(step, queries), lane);
      Value x = t.loadWords(t.at(place(blocks.sums), word)), y = t.loadWords(t.at(place(blocks.dOutColumns), word));
      return SmallVector<Value>{t.multiplyAdd(x, y, carried[0])};
    })[0];
    t.storeWords(sum, t.at(place(blocks.total), lane));
  });
}

void Backward::addKeys(const AttentionBlock &block, ArrayRef<HeadRows> soon) {
  Value keyRows = packedKeys(blocks.keyRows), valueRows = packedKeys(blocks.valueRows),
        keyPairs = packedKeys(blocks.keyPairs);
  forNewKeys(block, [&](Value begin, Value end) {
    t.packRows(seenRows(k, block), begin, end, keyRows);
    t.packRows(seenRows(v, block), begin, end, valueRows);
    if (blocks.perWord > 1)
      t.packRowPairs(seenRows(k, block), begin, end, keyPairs);
  });
  Value factorOfdP = keepScale ? keepScale : t.floats(1);
  runTwice([&](Value number, auto choose) {
    multiplyRows(block, choose(keyRows, valueRows), choose(place(blocks.queryColumns), place(blocks.dOutColumns)),
                 choose(place(blocks.scores), place(blocks.dP)), choose(scale, factorOfdP), {soon, number, 2});
  });
  addBias(block, place(blocks.scores));
  findKept(block);
  Value lanes = t.roundUp(block.queryCount, blocks.lanes);
  t.forEach(b.i64(0), lanes, 2 * blocks.lanes, [&](Value lane) { differentiate(block, lane); });
  runTwice([&](Value, auto choose) {
    addToKeys(block, choose(place(blocks.scores), place(blocks.dP)),
              choose(place(blocks.dOutPairs), place(blocks.queryPairs)), choose(sumsOfV, sumsOfK));
  });
  addWeighted(block, keyPairs, place(blocks.weightPairs), place(blocks.sums));
}

/// P and dS of two vectors of queries, in the place of scores and dP. Keys are taken in pairs. The partner of the
/// last key of an odd number, and the keys that fill up a tile, become 0.
void Backward::differentiate(const AttentionBlock &block, Value lane) {
  constexpr size_t vectors = 2;
  SmallVector<Value> logarithms, deltas;
  SmallVector<SeenKeys> seen;
  for (size_t i = 0; i < vectors; ++i) {
    Value here = b.add(lane, static_cast<int64_t>(i) * blocks.lanes);
    logarithms.push_back(t.loadWords(t.at(place(blocks.top), here)));
    deltas.push_back(t.loadWords(t.at(place(blocks.total), here)));
    seen.push_back(seenKeys(block, here));
  }
  auto pair = [&](Value key, size_t i, bool masked) {
    Value column = b.add(lane, static_cast<int64_t>(i) * blocks.lanes);
    Value s = t.loadWords(word(blocks.scores, key, column)), dP = t.loadWords(word(blocks.dP, key, column));
    Value p = t.exponential(t.subF(s, logarithms[i])), kept = isKept(block, key, column);
    Value dS = t.mulF(p, t.subF(whereKept(kept, dP), deltas[i]));
    if (kept)
      p = whereKept(kept, t.mulF(p, keepScale));
    if (masked) {
      Value there = b.splat(t.is(Predicate::slt, key, block.keyCount));
      Value isShown = b.both(isSeen(seen[i], block, key), there);
      p = b.create<arith::SelectOp>(isShown, p, t.floats(0));
      dS = b.create<arith::SelectOp>(isShown, dS, t.floats(0));
    }
    return std::pair(p, dS);
  };
  auto walk = [&](bool masked) {
    Value all = t.roundUp(block.keyCount, blocks.rows);
    auto [begin, end] = keysSeenBy(block, lane, static_cast<int64_t>(vectors) * blocks.lanes, all);
    t.forEach(begin, end, 2, [&](Value key) {
      std::pair<Value, Value> made[2][vectors];
      for (int64_t row = 0; row < 2; ++row)
        for (size_t i = 0; i < vectors; ++i)
          made[row][i] = pair(b.add(key, row), i, masked);
      for (int64_t row = 0; row < 2; ++row) {
        Value there = b.add(key, row);
        if (blocks.perWord > 1) {
          Value column = b.div(lane, 2);
          t.storeWords(t.narrowNeighbours(made[row][0].first, made[row][1].first), word(blocks.scores, there, column));
          t.storeWords(t.narrowNeighbours(made[row][0].second, made[row][1].second), word(blocks.dP, there, column));
          continue;
        }
        for (size_t i = 0; i < vectors; ++i) {
          Value column = b.add(lane, static_cast<int64_t>(i) * blocks.lanes);
          t.storeWords(b.round(made[row][i].first, t.element), word(blocks.scores, there, column));
          t.storeWords(b.round(made[row][i].second, t.element), word(blocks.dP, there, column));
        }
      }
      for (size_t i = 0; blocks.perWord > 1 && i < vectors; ++i)
        t.storeWords(t.narrowPairs(made[0][i].second, made[1][i].second),
                     word(blocks.weightPairs, b.div(key, 2), b.add(lane, static_cast<int64_t>(i) * blocks.lanes)));
    });
  };
  Value isPartial = t.is(Predicate::ne, b.mod(block.keyCount, blocks.rows), b.i64(0));
  scf::IfOp::create(
      b.builder, b.loc, b.create<arith::OrIOp>(block.isBorder, isPartial),
      [&](OpBuilder &, Location) {
        walk(true);
        scf::YieldOp::create(b.builder, b.loc);
      },
      [&](OpBuilder &, Location) {
        walk(false);
        scf::YieldOp::create(b.builder, b.loc);
      });
}

/// sums[key][element] += sum over queries that see one of the tile's keys of weights[key][query] ·
/// rows[query][element].
void Backward::addToKeys(const AttentionBlock &block, Value weights, Value rows, Value sums) {
  const int64_t tile = blocks.rows;
  int64_t inTile = blocks.tileVectors * blocks.lanes, whole = blocks.width / inTile * inTile;
  t.forEach(b.i64(0), block.keyCount, tile, [&](Value key) {
    auto [first, end] = queriesThatSee(block, key, t.least(b.i64(tile), t.sub(block.keyCount, key)));
    auto add = [&, first = first, end = end](Value element, int64_t vectors) {
      Value row = b.mul(b.add(block.firstKey, key), blocks.width);
      t.product({.a = t.at(weights, b.mul(key, queries)),
                 .b = t.at(rows, element),
                 .c = t.at(sums, b.add(row, element)),
                 .aRow = queries,
                 .aStep = 1,
                 .bStep = blocks.width,
                 .cRow = blocks.width,
                 .begin = b.div(first, blocks.perWord),
                 .end = t.ceilDiv(end, blocks.perWord),
                 .accumulate = true},
                static_cast<unsigned>(vectors));
    };
    t.forEach(whole, inTile, [&](Value element) { add(element, blocks.tileVectors); });
    if (whole < blocks.width)
      add(b.i64(whole), (blocks.width - whole) / blocks.lanes);
  });
}

/// Items are rows of keys: the parts' sums of dK and dV, in order.
class Sums : public AttentionFunction {
public:
  Sums(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AttentionFunction(b, form, blocks, 1, 1) {}

  void run(Value begin, Value end, Value args) {
    loadArguments(args);
    allScratch = operand(0);
    t.forEach(begin, end, 1, [&](Value row) { runUnit(row); });
  }

private:
  void runUnit(Value row) override;
};

void Sums::runUnit(Value row) {
  Value keyHeads = number(Number::keyHeads), keys = number(Number::keys), parts = number(Number::parts);
  Value key = t.div(row, keyHeads), batch = t.div(key, keys);
  Value firstUnit = t.times(b.add(t.times(batch, keyHeads), t.mod(row, keyHeads)), parts);
  Value place = b.mul(t.mod(key, keys), blocks.width), room = b.mul(b.add(keys, blocks.rows), blocks.width);
  for (unsigned which : {0U, 1U}) {
    HeadRows target{b.offset(result(which), t.element, b.mul(row, t.headWidth)), b.i64(0), b.i64(1)};
    for (int64_t first = 0; first < t.headWidth; first += blocks.lanes) {
      Value word = b.add(which == 0 ? place : b.add(place, room), first);
      Value sum = b.loop(b.i64(0), parts, 1, t.floats(0), [&](Value part, ValueRange carried) {
        Value share = t.loadWords(t.at(sumsOfUnit(b.add(firstUnit, part)), word));
        return SmallVector<Value>{t.addF(carried[0], share)};
      })[0];
      t.storeElements(which == 0 ? t.mulF(sum, scale) : sum, target, b.i64(0), first);
    }
  }
}

} // namespace

void emitAttentionBackward(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  Backward(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

void emitAttentionSums(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  Sums(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

} // namespace tcc::cpu
