// The forward function of attention with AMX's tiles. A unit of work is a part of a head's blocks of queries, and the
// lanes of a vector are queries. For each unit:
//   1. The head's keys are packed, and its values transposed.
//   2. For each block of queries, which is packed as columns, and each block of keys that one of these queries sees, 32
//      queries at a time: tiles compute the scores. If the largest score is more than a few powers of two above the
//      base, it becomes the base, and what was summed so far is scaled to it. The probabilities, powers of two relative
//      to the base, are rounded and stored as pairs of keys. They are summed, and tiles add the values that they weigh.
//   3. `out` is the sum of values / the sum of probabilities (times keepScale). The log-sum-exp follows from the base
//      and the sum of probabilities.
// So a probability may be larger than 1, by a few powers of two: neither its rounding nor the sums suffer from it.
#include "codegen/cpu/attention_amx_function.h"
#include <numbers>

using namespace mlir;

namespace tcc::cpu {
namespace {

constexpr double growth = 8; // powers of two that scores may be above their base

class TiledForward : public AmxFunction {
public:
  TiledForward(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AmxFunction(b, form, blocks, 3, 2) {}

private:
  Value keyRows, valueColumns; // the head's packed keys and values
  Value base, total;           // addresses of each query's base and of its sum of probabilities

  void runUnit(Value unit) override;
  void runQueries(AttentionBlock block);
  void addKeys(const AttentionBlock &block);
  SmallVector<Value> findTops(const AttentionBlock &block, Value group, Steps steps);
  SmallVector<Value> rebase(Value group, ArrayRef<Value> tops);
  void weigh(const AttentionBlock &block, Value group, Steps steps, ArrayRef<Value> bases);
  void fetchValues(const AttentionBlock &block, Value keySpan, Value inSpan);
  void addValues(const AttentionBlock &block, Value group, Steps steps);
  void finish(const AttentionBlock &block);

  Value score(Value key, int64_t vector) {
    return t.at(t.at(place(blocks.scores), vector * blocks.keys * tileRows), b.mul(key, tileRows));
  }
  Value lane(Value group, int64_t vector) { return b.add(b.mul(group, span), vector * tileRows); }
  Value is(arith::CmpFPredicate predicate, Value x, Value y) { return b.create<arith::CmpFOp>(predicate, x, y); }
  Value choose(Value condition, Value x, Value y) { return b.create<arith::SelectOp>(condition, x, y); }
};

void TiledForward::runUnit(Value unit) {
  AttentionBlock block;
  Value parts = number(Number::parts), part = t.mod(unit, parts), head = t.div(unit, parts);
  block.batch = t.div(head, number(Number::heads));
  block.head = t.mod(head, number(Number::heads));
  block.keyHead = t.div(block.head, number(Number::group));
  base = place(blocks.top);
  total = place(blocks.total);
  keyRows = packedKeys(0);
  valueColumns = packedKeys(4 * blocks.words);
  Value first;
  HeadRows keys = seenRows(1, block, first), values = seenRows(2, block, first);
  amx.packRows(keys, first, keyRows);
  amx.packTransposed(values, first, valueColumns);

  Value queryBlocks = t.ceilDiv(number(Number::queries), queries);
  t.forEach(b.i64(0), t.ceilDiv(queryBlocks, parts), 1, [&](Value round) {
    Value one = backAndForth(round, part, parts);
    b.when(t.is(Predicate::slt, one, queryBlocks), [&] {
      chooseQueries(block, one);
      runQueries(block);
    });
  });
}

void TiledForward::runQueries(AttentionBlock block) {
  amx.packColumns(rowsOf(0, block.batch, block.head, block.firstQuery, block.queryCount), signs,
                  place(blocks.queryColumns));
  t.fill(base, queries, -infinity);
  t.fill(total, queries, 0);
  t.fill(place(blocks.sums), 2 * blocks.words * queries, 0);
  forKeyBlocks(block, [&](const AttentionBlock &keys) { addKeys(keys); });
  finish(block);
}

void TiledForward::addKeys(const AttentionBlock &block) {
  findKept(block);
  t.forEach(b.i64(0), t.ceilDiv(block.queryCount, span), 1, [&](Value group) {
    Steps steps = keySpans(block, group);
    b.when(t.is(Predicate::slt, steps.begin, steps.end), [&] {
      t.forEach(steps.begin, steps.end, 1, [&](Value keySpan) {
        multiply(block, group, keySpan, keyRows, place(blocks.queryColumns), score(b.mul(keySpan, span), 0),
                 blocks.keys * rowBytes);
      });
      weigh(block, group, steps, rebase(group, findTops(block, group, steps)));
      addValues(block, group, steps);
    });
  });
}

/// The largest scores that the queries see.
SmallVector<Value> TiledForward::findTops(const AttentionBlock &block, Value group, Steps steps) {
  constexpr int64_t atOnce = 4;
  SmallVector<Value> none(vectors, t.floats(-infinity));
  return b.loop(steps.begin, steps.end, 1, none, [&](Value keySpan, ValueRange before) {
    Value start = b.mul(keySpan, span), end = b.add(start, span);
    return ifBorder(block, group, keySpan, [&](bool masked) {
      SmallVector<SeenKeys> seen;
      for (int64_t v = 0; masked && v < vectors; ++v)
        seen.push_back(seenKeysOf(block, lane(group, v)));
      return b.loop(start, end, atOnce, before, [&](Value key, ValueRange carried) {
        SmallVector<Value> next;
        for (int64_t v = 0; v < vectors; ++v) {
          SmallVector<Value> scores;
          for (int64_t i = 0; i < atOnce; ++i) {
            Value x = t.loadWords(score(b.add(key, i), v));
            scores.push_back(masked ? choose(isSeen(seen[v], block, b.add(key, i)), x, t.floats(-infinity)) : x);
          }
          next.push_back(
              t.larger(t.larger(t.larger(scores[0], scores[1]), t.larger(scores[2], scores[3])), carried[v]));
        }
        return next;
      });
    });
  });
}

/// Gives the bases of the queries for scores up to `tops`. Where a base has changed, scales what was summed.
SmallVector<Value> TiledForward::rebase(Value group, ArrayRef<Value> tops) {
  SmallVector<Value> bases, keep;
  Value changes;
  for (int64_t v = 0; v < vectors; ++v) {
    Value address = t.at(base, lane(group, v)), before = t.loadWords(address), none = t.floats(-infinity);
    Value top = choose(is(arith::CmpFPredicate::OEQ, tops[v], none), none, t.mulF(tops[v], exponentScale));
    Value grows = is(arith::CmpFPredicate::OGT, top, t.addF(before, t.floats(growth)));
    Value after = choose(grows, top, before);
    t.storeWords(after, address);
    // A query that has seen no key yet has no base.
    bases.push_back(choose(is(arith::CmpFPredicate::OEQ, after, none), t.floats(0), after));
    keep.push_back(amx.powerOfTwo(t.subF(before, bases[v])));
    Value hasSums = is(arith::CmpFPredicate::UNE, before, none);
    Value any = b.create<LLVM::vector_reduce_or>(b.builder.getI1Type(), b.both(grows, hasSums));
    changes = changes ? b.create<arith::OrIOp>(changes, any) : any;
  }
  b.when(changes, [&] {
    for (int64_t v = 0; v < vectors; ++v) {
      Value sum = t.at(total, lane(group, v)),
            start = t.at(place(blocks.sums), b.mul(lane(group, v), 2 * blocks.words));
      t.storeWords(t.mulF(t.loadWords(sum), keep[v]), sum);
      t.forEach(blocks.width, 1, [&](Value row) {
        Value address = t.at(start, b.mul(row, tileRows));
        t.storeWords(t.mulF(t.loadWords(address), keep[v]), address);
      });
    }
  });
  return bases;
}

void TiledForward::weigh(const AttentionBlock &block, Value group, Steps steps, ArrayRef<Value> bases) {
  SmallVector<Value> none(vectors, t.floats(0));
  SmallVector<Value> sums = b.loop(steps.begin, steps.end, 1, none, [&](Value keySpan, ValueRange before) {
    Value start = b.mul(keySpan, span), end = b.add(start, span);
    return ifBorder(block, group, keySpan, [&](bool masked) {
      SmallVector<SeenKeys> seen;
      for (int64_t v = 0; masked && v < vectors; ++v)
        seen.push_back(seenKeysOf(block, lane(group, v)));
      return b.loop(start, end, 2, before, [&](Value key, ValueRange carried) {
        SmallVector<Value> next;
        fetchValues(block, keySpan, t.sub(key, start));
        for (int64_t v = 0; v < vectors; ++v) {
          Value weights[2], sum;
          for (int64_t i = 0; i < 2; ++i) {
            Value one = b.add(key, i);
            Value p = amx.powerOfTwo(t.subF(t.mulF(t.loadWords(score(one, v)), exponentScale), bases[v]));
            if (masked)
              p = choose(isSeen(seen[v], block, one), p, t.floats(0));
            sum = sum ? t.addF(sum, p) : p;
            weights[i] = whereKept(isKept(block, one, lane(group, v)), p);
          }
          next.push_back(t.addF(carried[v], sum));
          t.storeWords(t.narrowPairs(weights[0], weights[1]), score(b.div(key, 2), v));
        }
        return next;
      });
    });
  });
  for (int64_t v = 0; v < vectors; ++v) {
    Value address = t.at(total, lane(group, v));
    t.storeWords(t.addF(t.loadWords(address), sums[v]), address);
  }
}

/// Prefetches values of the span of keys that is multiplied next: the part that has two keys' share of their bytes.
void TiledForward::fetchValues(const AttentionBlock &block, Value keySpan, Value inSpan) {
  Type i8 = b.builder.getI8Type();
  int64_t ofKeys = blocks.width * rowBytes;
  Value start = b.offset(valueColumns, i8, b.mul(b.add(b.div(block.firstKey, span), keySpan), ofKeys));
  Value part = b.offset(start, i8, b.mul(inSpan, ofKeys / span));
  for (int64_t line = 0; line < 2 * ofKeys / span; line += rowBytes)
    LLVM::Prefetch::create(b.builder, b.loc, b.offset(part, i8, b.i64(line)), /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

void TiledForward::addValues(const AttentionBlock &block, Value group, Steps steps) {
  Type i8 = b.builder.getI8Type();
  int64_t ofKeys = blocks.width * rowBytes, ofQueries = 2 * blocks.words * rowBytes;
  Value values = b.offset(valueColumns, i8, b.mul(b.div(block.firstKey, span), ofKeys));
  Value sums = b.offset(place(blocks.sums), i8, b.mul(group, 2 * ofQueries));
  amx.productOfRows({sums, rowBytes, tileBytes, ofQueries}, {values, tileBytes, ofKeys},
                    {place(blocks.scores), blocks.keys * rowBytes, tileBytes}, blocks.width / tileRows, steps.begin,
                    steps.end);
}

void TiledForward::finish(const AttentionBlock &block) {
  Value row = b.add(t.times(block.batch, number(Number::heads)), block.head);
  Value lse = t.at(result(1), b.add(t.times(row, number(Number::queries)), block.firstQuery));
  t.forEach(b.i64(0), block.queryCount, blocks.lanes, [&](Value lane) {
    Value sum = t.loadWords(t.at(total, lane)), bits = t.loadWords(t.at(base, lane)), one = t.floats(1);
    Value none = is(arith::CmpFPredicate::OEQ, sum, t.floats(0));
    Value logarithm = t.addF(t.mulF(bits, t.floats(std::numbers::ln2)), b.create<math::LogOp>(sum));
    Value kept = keepScale ? keepScale : one;
    t.storeWords(b.create<arith::DivFOp>(kept, choose(none, one, sum)), t.at(total, lane));
    t.storeWords(choose(none, t.floats(-infinity), logarithm), t.at(base, lane));
  });
  t.forEach(b.i64(0), block.queryCount, 1,
            [&](Value query) { b.store(b.load(t.at(base, query), t.f32), t.at(lse, query), t.f32); });
  HeadRows out = rowsOfResult(0, number(Number::queries), number(Number::heads), block.batch, block.head,
                              block.firstQuery, block.queryCount);
  amx.storeTransposed(place(blocks.sums), out, false, [&](Value lane) { return t.loadWords(t.at(total, lane)); });
}

} // namespace

void emitForwardByTiles(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  TiledForward(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

} // namespace tcc::cpu
