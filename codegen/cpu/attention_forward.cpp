// The forward function of attention. A unit of work is a part of the blocks of queries that read one key head. The
// lanes of a vector are queries, so that the maximum and the sum over a query's keys need no step across lanes. For
// each block of queries:
//   1. The queries are packed as columns. The sums of weighed values and of probabilities begin at 0, the largest score
//      at -inf.
//   2. For each block of keys that a query of the block sees: keys that no block before has read are packed with their
//      values, the scores are computed, and the bias is added. Where a score is larger than all before it, what was
//      summed so far is scaled to the new largest score. The probabilities, relative to it and rounded, take the
//      scores' place, and they and the values that they weigh are added to the sums. Probabilities that dropout drops
//      weigh no value, but they count in the sum of probabilities.
//   3. `out` is the sum of values / the sum of probabilities. With dropout keepScale is the dividend instead of 1, so
//      that it costs nothing. The log-sum-exp is the largest score + the logarithm of the sum of probabilities.
#include "codegen/cpu/attention_function.h"

using namespace mlir;

namespace tcc::cpu {
namespace {

class Forward : public AttentionFunction {
public:
  Forward(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AttentionFunction(b, form, blocks, 3, 2) {}

private:
  Value top, total; // addresses of each query's largest score and of its sum of probabilities

  void runUnit(Value unit) override;
  void runQueries(const AttentionBlock &block, const AttentionBlock &later);
  void addKeys(const AttentionBlock &block, ArrayRef<HeadRows> soon);
  void weigh(const AttentionBlock &block, Value lane);
  void findTop(const AttentionBlock &block, Value lane, std::pair<Value, Value> keys, MutableArrayRef<Value> tops);
  void finish(const AttentionBlock &block);

  Value score(Value key, Value lane, int64_t vector) {
    Value row = b.add(b.mul(key, queries), lane);
    return t.at(place(blocks.scores), b.add(row, vector * blocks.lanes));
  }
  Value is(arith::CmpFPredicate predicate, Value x, double y) {
    return b.create<arith::CmpFOp>(predicate, x, t.floats(y));
  }
  Value choose(Value condition, Value x, Value y) { return b.create<arith::SelectOp>(condition, x, y); }
};

void Forward::runUnit(Value unit) {
  top = place(blocks.top);
  total = place(blocks.total);
  beginKeys(keyHeadOf(unit));
  forQueriesOfKeys(unit, [&](const AttentionBlock &one, const AttentionBlock &later) { runQueries(one, later); });
}

void Forward::runQueries(const AttentionBlock &block, const AttentionBlock &later) {
  t.packColumns(rowsOfQueries(q, block), place(blocks.queryColumns));
  t.fill(top, queries, -infinity);
  t.fill(total, queries, 0);
  t.fill(place(blocks.sums), blocks.width * queries, 0);
  const HeadRows soon[] = {rowsOfQueries(q, later), rowsOfNewKeys(k, later), rowsOfNewKeys(v, later),
                           resultOfQueries(0, block)};
  forKeyBlocks(block, [&](const AttentionBlock &keys) { addKeys(keys, soon); });
  finish(block);
}

void Forward::addKeys(const AttentionBlock &block, ArrayRef<HeadRows> soon) {
  Value keyRows = packedKeys(blocks.keyRows), valuePairs = packedKeys(blocks.valuePairs);
  forNewKeys(block, [&](Value begin, Value end) {
    t.packRows(seenRows(k, block), begin, end, keyRows);
    t.packRowPairs(seenRows(v, block), begin, end, valuePairs);
  });
  multiplyRows(block, keyRows, place(blocks.queryColumns), place(blocks.scores), scale, {soon, b.i64(0)});
  addBias(block, place(blocks.scores));
  findKept(block);
  Value lanes = t.roundUp(block.queryCount, blocks.lanes);
  t.forEach(b.i64(0), lanes, blocks.weighedVectors * blocks.lanes, [&](Value lane) { weigh(block, lane); });
  addWeighted(block, valuePairs, place(blocks.scores), place(blocks.sums));
}

/// Raises `tops` to the largest scores of a few vectors of queries against these keys; scores that the mask hides
/// become -inf.
void Forward::findTop(const AttentionBlock &block, Value lane, std::pair<Value, Value> keys,
                      MutableArrayRef<Value> tops) {
  auto scan = [&](bool masked) {
    SmallVector<SeenKeys> seen;
    for (size_t v = 0; masked && v < tops.size(); ++v)
      seen.push_back(seenKeys(block, b.add(lane, static_cast<int64_t>(v) * blocks.lanes)));
    return b.loop(keys.first, keys.second, 1, SmallVector<Value>(tops), [&](Value key, ValueRange carried) {
      SmallVector<Value> next;
      for (size_t v = 0; v < tops.size(); ++v) {
        Value address = score(key, lane, static_cast<int64_t>(v)), x = t.loadWords(address);
        if (masked) {
          x = choose(isSeen(seen[v], block, key), x, t.floats(-infinity));
          t.storeWords(x, address);
        }
        next.push_back(t.larger(x, carried[v]));
      }
      return next;
    });
  };
  auto branch = scf::IfOp::create(
      b.builder, b.loc, block.isBorder,
      [&](OpBuilder &, Location) { scf::YieldOp::create(b.builder, b.loc, scan(true)); },
      [&](OpBuilder &, Location) { scf::YieldOp::create(b.builder, b.loc, scan(false)); });
  for (size_t v = 0; v < tops.size(); ++v)
    tops[v] = branch.getResult(v);
}

/// Turns the scores of a few vectors of queries into probabilities relative to the largest score so far, and scales
/// what was summed before to that one.
void Forward::weigh(const AttentionBlock &block, Value lane) {
  auto count = static_cast<size_t>(blocks.weighedVectors);
  SmallVector<Value> before, tops, shift, sums(count, t.floats(0));
  for (size_t v = 0; v < count; ++v)
    before.push_back(t.loadWords(t.at(top, b.add(lane, static_cast<int64_t>(v) * blocks.lanes))));
  tops = before;
  const std::pair<Value, Value> keys = keysSeenBy(block, lane, blocks.weighedVectors * blocks.lanes, block.keyCount);
  findTop(block, lane, keys, tops);
  // A query that has seen no key yet has -inf as its largest score, and -inf - -inf would be NaN: 0 takes its place.
  for (size_t v = 0; v < count; ++v)
    shift.push_back(choose(is(arith::CmpFPredicate::OEQ, tops[v], -infinity), t.floats(0), tops[v]));

  sums = b.loop(keys.first, keys.second, blocks.perWord, sums, [&](Value key, ValueRange carried) {
    SmallVector<Value> next(carried);
    for (size_t v = 0; v < count; ++v) {
      auto vector = static_cast<int64_t>(v);
      auto weight = [&](Value at, Value p) {
        return whereKept(isKept(block, at, b.add(lane, vector * blocks.lanes)), p);
      };
      Value p = t.exponential(t.subF(t.loadWords(score(key, lane, vector)), shift[v]));
      next[v] = t.addF(next[v], p);
      if (blocks.perWord == 1) {
        t.storeWords(b.round(weight(key, p), t.element), score(key, lane, vector));
        continue;
      }
      Value other = t.exponential(t.subF(t.loadWords(score(b.add(key, 1), lane, vector)), shift[v]));
      other = choose(b.splat(t.is(Predicate::slt, b.add(key, 1), block.keyCount)), other, t.floats(0));
      next[v] = t.addF(next[v], other);
      t.storeWords(t.narrowPairs(weight(key, p), weight(b.add(key, 1), other)), score(b.div(key, 2), lane, vector));
    }
    return next;
  });

  for (size_t v = 0; v < count; ++v) {
    Value here = b.add(lane, static_cast<int64_t>(v) * blocks.lanes);
    Value keep = t.exponential(t.subF(before[v], shift[v]));
    t.storeWords(tops[v], t.at(top, here));
    t.storeWords(t.addF(t.mulF(t.loadWords(t.at(total, here)), keep), sums[v]), t.at(total, here));
    Value changes = b.create<LLVM::vector_reduce_or>(b.builder.getI1Type(), is(arith::CmpFPredicate::UNE, keep, 1));
    b.when(changes, [&] {
      t.forEach(t.headWidth, 1, [&](Value row) {
        Value address = t.at(place(blocks.sums), b.add(b.mul(row, queries), here));
        t.storeWords(t.mulF(t.loadWords(address), keep), address);
      });
    });
  }
}

void Forward::finish(const AttentionBlock &block) {
  Value row = b.add(t.times(block.batch, number(Number::heads)), block.head);
  Value lse = t.at(result(1), b.add(t.times(row, number(Number::queries)), block.firstQuery));
  t.forEach(b.i64(0), block.queryCount, blocks.lanes, [&](Value lane) {
    Value sum = t.loadWords(t.at(total, lane)), largest = t.loadWords(t.at(top, lane));
    Value none = is(arith::CmpFPredicate::OEQ, sum, 0);
    Value logarithm = t.addF(largest, b.create<math::LogOp>(sum));
    logarithm = choose(none, t.floats(-infinity), logarithm);
    Value one = t.floats(1);
    Value kept = keepScale ? keepScale : one;
    t.storeWords(b.create<arith::DivFOp>(kept, choose(none, one, sum)), t.at(total, lane));
    t.storeWords(logarithm, t.at(top, lane));
  });
  t.forEach(b.i64(0), block.queryCount, 1,
            [&](Value query) { b.store(b.load(t.at(top, query), t.f32), t.at(lse, query), t.f32); });
  t.storeColumns(place(blocks.sums), total, resultOfQueries(0, block));
}

} // namespace

void emitAttentionForward(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  Forward(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

} // namespace tcc::cpu
