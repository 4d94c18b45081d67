// The forward function of attention with AMX's tiles. A unit of work is a part of a head's blocks of queries, and the
// lanes of a vector are queries. For each unit:
//   1. The head's keys are packed, and its values transposed.
//   2. For each block of queries, which is packed as columns, and each block of keys that one of these queries sees, 32
//      keys and 32 queries at a time (a step): tiles compute the scores. If the largest score is above the base (of
//      bf16: more than a few powers of two), it becomes the base, and what was summed so far is scaled to it. The
//      probabilities, powers relative to the base, are rounded and stored as pairs of keys. They are summed, and tiles
//      add the values that they weigh.
//   3. `out` is the sum of values / the sum of probabilities (times keepScale). The log-sum-exp follows from the base
//      and the sum of probabilities.
// So in bf16 a probability may be larger than 1, by a few powers of two: neither its rounding nor the sums suffer from
// it. In f32 it may not, so that a query that gives one key all its weight has exactly that key's value.
//
// Tiles and vectors compute at the same time if their instructions stand close together. So while vectors compute the
// probabilities of one step, tiles compute the next step's scores and add the values of the step before.
#include "codegen/cpu/attention_amx_function.h"
#include <numbers>

using namespace mlir;

namespace tcc::cpu {
namespace {

constexpr double growth = 8; // powers of two that scores of bf16 may be above their base

class TiledForward : public AmxFunction {
public:
  TiledForward(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AmxFunction(b, form, blocks, 3, 2) {}

private:
  Value keyRows, valueColumns; // the head's packed keys and values
  Value base, total;           // addresses of each query's base and of its sum of probabilities

  /// A span of keys and a group of queries, both numbered within their block.
  struct Step {
    Value span, group;
  };
  /// What a step leaves to the next one: `isPending`, whether tiles have still to add its values (`values`) to the sums
  /// of its queries (`sums`); the parity of the next step, whose number its scores and weights have; and `tops`, the
  /// next step's largest scores.
  struct Carried {
    Value isPending, values, sums, parity;
    SmallVector<Value> tops;

    SmallVector<Value> all() const {
      SmallVector<Value> values{isPending, this->values, sums, parity};
      values.append(tops);
      return values;
    }
    static Carried of(ValueRange values) {
      return {values[0], values[1], values[2], values[3], SmallVector<Value>(values.drop_front(4))};
    }
  };

  void runUnit(Value unit) override;
  void runQueries(AttentionBlock block);
  void addKeys(const AttentionBlock &block);
  Carried runStep(const AttentionBlock &block, Step step, Step next, Carried before);
  void hideScores(const AttentionBlock &block, Step step, Value scores);
  AmxTiles::Pieces topsInPieces(Value scores, SmallVector<Value> &tops);
  SmallVector<Value> rebase(Value group, Carried &before);
  void weigh(const AttentionBlock &block, Step step, Value scores, Value weights, ArrayRef<Value> bases,
             ArrayRef<AmxTiles::Pieces> slots);
  AmxTiles::Pieces scoresInPieces(const AttentionBlock &block, Step step, Value parity);
  AmxTiles::Pieces valuesInPieces(const Carried &before);
  void finish(const AttentionBlock &block);

  Value scoresOf(Value parity) { return t.at(place(blocks.scores), b.mul(parity, span * span)); }
  Value weightsOf(Value parity) { return t.at(place(blocks.weights), b.mul(parity, blocks.parts * span * span / 2)); }
  Value other(Value parity) { return t.sub(b.i64(1), parity); }
  /// A vector of a key's scores, or (of half as many rows) of a pair of keys' weights.
  Value row(Value part, Value row, int64_t vector, int64_t rows) {
    return t.at(t.at(part, vector * rows * tileRows), b.mul(row, tileRows));
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
  valueColumns = packedKeys(blocks.parts * 4 * blocks.words);
  amx.packRows(seenRows(k, block), keyRows);
  amx.packTransposed(seenRows(v, block), valueColumns);

  Value queryBlocks = t.ceilDiv(number(Number::queries), queries);
  t.forEach(b.i64(0), t.ceilDiv(queryBlocks, parts), 1, [&](Value round) {
    Value one = backAndForth(round, part, parts);
    b.when(t.is(Predicate::slt, one, queryBlocks), [&] {
      AttentionBlock following = block;
      chooseQueries(following, backAndForth(b.add(round, 1), part, parts));
      HeadRows rows = rowsOf(0, block.batch, block.head, following.firstQuery, following.queryCount);
      t.forEach(queries, 1, [&](Value row) { amx.fetchRows(rows, row, 1); });
      chooseQueries(block, one);
      runQueries(block);
    });
  });
}

void TiledForward::runQueries(AttentionBlock block) {
  amx.packColumns(rowsOf(0, block.batch, block.head, block.firstQuery, block.queryCount), queryFactor,
                  place(blocks.queryColumns));
  t.fill(base, queries, -infinity);
  t.fill(total, queries, 0);
  t.fill(place(blocks.sums), 2 * blocks.words * queries, 0);
  forKeyBlocks(block, [&](const AttentionBlock &keys) { addKeys(keys); });
  finish(block);
}

void TiledForward::addKeys(const AttentionBlock &block) {
  findKept(block);
  Value zero = b.i64(0), spans = t.ceilDiv(block.keyCount, span), none = place(blocks.sums);
  Step first{zero, querySpans(block, zero).begin};
  SmallVector<Value> tops(vectors, t.floats(-infinity));
  AmxTiles::emit(scoresInPieces(block, first, zero));
  hideScores(block, first, scoresOf(zero));
  AmxTiles::emit(topsInPieces(scoresOf(zero), tops));
  Carried start{b.integer(b.builder.getI1Type(), 0), none, none, zero, tops};
  SmallVector<Value> last = b.loop(zero, spans, 1, start.all(), [&](Value keySpan, ValueRange beforeSpan) {
    Steps groups = querySpans(block, keySpan);
    Value following = t.least(b.add(keySpan, 1), t.sub(spans, b.i64(1)));
    Value firstOfFollowing = querySpans(block, following).begin;
    return b.loop(groups.begin, groups.end, 1, beforeSpan, [&](Value group, ValueRange before) {
      Value isLast = t.is(Predicate::eq, b.add(group, 1), groups.end);
      // After the very last step comes one of the same keys, whose scores nobody reads.
      Step next{b.create<arith::SelectOp>(isLast, following, keySpan),
                b.create<arith::SelectOp>(isLast, firstOfFollowing, b.add(group, 1))};
      return runStep(block, {keySpan, group}, next, Carried::of(before)).all();
    });
  });
  AmxTiles::emit(valuesInPieces(Carried::of(last)));
}

TiledForward::Carried TiledForward::runStep(const AttentionBlock &block, Step step, Step next, Carried before) {
  Type i8 = b.builder.getI8Type();
  Value scores = scoresOf(before.parity), nextScores = scoresOf(other(before.parity));
  SmallVector<Value> bases = rebase(step.group, before), tops(vectors, t.floats(-infinity));
  // Probabilities are made in eight slots, before each of which some pieces stand. The next scores are hidden and
  // compared some time after they are stored, and the values of the step before are added last.
  SmallVector<AmxTiles::Pieces> slots(8);
  auto fill = [&](size_t first, size_t count, AmxTiles::Pieces pieces) {
    for (auto [i, piece] : llvm::enumerate(pieces))
      slots[first + i * count / pieces.size()].push_back(piece);
  };
  fill(0, 4, scoresInPieces(block, next, other(before.parity)));
  fill(5, 1, {[&] { hideScores(block, next, nextScores); }});
  fill(5, 3, topsInPieces(nextScores, tops));
  fill(4, 4, valuesInPieces(before));
  weigh(block, step, scores, weightsOf(before.parity), bases, slots);
  int64_t ofKeys = blocks.parts * blocks.width * rowBytes, ofQueries = 2 * blocks.words * rowBytes;
  Value key = b.add(b.div(block.firstKey, span), step.span);
  return {b.integer(b.builder.getI1Type(), 1), b.offset(valueColumns, i8, b.mul(key, ofKeys)),
          b.offset(place(blocks.sums), i8, b.mul(step.group, 2 * ofQueries)), other(before.parity), tops};
}

AmxTiles::Pieces TiledForward::scoresInPieces(const AttentionBlock &block, Step step, Value parity) {
  return multiplyInPieces(block, step.group, step.span, keyRows, place(blocks.queryColumns), scoresOf(parity),
                          span * rowBytes);
}

/// The products of the weights with the values of the step before, if they are pending.
AmxTiles::Pieces TiledForward::valuesInPieces(const Carried &before) {
  Type i8 = b.builder.getI8Type();
  int64_t ofQueries = 2 * blocks.words * rowBytes, tiles = blocks.width / tileRows;
  AmxTiles::Pieces pieces;
  for (int64_t tile = 0; tile < tiles; tile += 2) {
    Value offset = b.i64(tile * tileBytes);
    AmxTiles::Pieces some =
        amx.productInPieces({b.offset(before.sums, i8, offset), rowBytes, tileBytes, ofQueries},
                            {b.offset(before.values, i8, offset), tileBytes, 0, blocks.width * rowBytes},
                            {weightsOf(other(before.parity)), blocks.parts * tileBytes, 0, tileBytes},
                            std::min<int64_t>(2, tiles - tile), 2, 1, true);
    for (std::function<void()> &piece : some)
      pieces.push_back([this, piece, isPending = before.isPending] { b.when(isPending, piece); });
  }
  return pieces;
}

/// Sets the scores of pairs that the mask hides to -inf.
void TiledForward::hideScores(const AttentionBlock &block, Step step, Value scores) {
  Value firstKey = b.mul(step.span, span);
  b.when(isBorder(block, step.group, step.span), [&] {
    SmallVector<SeenKeys> seen;
    for (int64_t v = 0; v < vectors; ++v)
      seen.push_back(seenKeysOf(block, lane(step.group, v)));
    t.forEach(span, 1, [&](Value key) {
      for (int64_t v = 0; v < vectors; ++v) {
        Value address = row(scores, key, v, span), isShown = isSeen(seen[v], block, b.add(firstKey, key));
        t.storeWords(choose(isShown, t.loadWords(address), t.floats(-infinity)), address);
      }
    });
  });
}

/// Adds the largest scores of a step's queries to `tops`.
AmxTiles::Pieces TiledForward::topsInPieces(Value scores, SmallVector<Value> &tops) {
  constexpr int64_t atOnce = 4;
  AmxTiles::Pieces pieces;
  for (int64_t key = 0; key < span; key += atOnce)
    pieces.push_back([this, key, scores, &tops] {
      for (int64_t v = 0; v < vectors; ++v) {
        auto score = [&](int64_t i) { return t.loadWords(row(scores, b.i64(key + i), v, span)); };
        tops[v] = t.larger(t.larger(t.larger(score(0), score(1)), t.larger(score(2), score(3))), tops[v]);
      }
    });
  return pieces;
}

/// Gives the bases of a step's queries. Where a base has changed, what is pending is added first, since it was weighed
/// by the base before, and then what was summed is scaled.
SmallVector<Value> TiledForward::rebase(Value group, Carried &before) {
  ArrayRef<Value> tops = before.tops;
  SmallVector<Value> bases, keep;
  Value changes;
  for (int64_t v = 0; v < vectors; ++v) {
    Value address = t.at(base, lane(group, v)), last = t.loadWords(address), none = t.floats(-infinity);
    Value top = choose(is(arith::CmpFPredicate::OEQ, tops[v], none), none, exponentOf(tops[v]));
    Value grows = is(arith::CmpFPredicate::OGT, top, isWide() ? last : t.addF(last, t.floats(growth)));
    Value after = choose(grows, top, last);
    t.storeWords(after, address);
    // A query that has seen no key yet has no base.
    bases.push_back(choose(is(arith::CmpFPredicate::OEQ, after, none), t.floats(0), after));
    keep.push_back(power(t.subF(last, bases[v])));
    Value hasSums = is(arith::CmpFPredicate::UNE, last, none);
    Value any = b.create<LLVM::vector_reduce_or>(b.builder.getI1Type(), b.both(grows, hasSums));
    changes = changes ? b.create<arith::OrIOp>(changes, any) : any;
  }
  b.when(changes, [&] {
    AmxTiles::emit(valuesInPieces(before));
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
  before.isPending = b.create<arith::SelectOp>(changes, b.integer(b.builder.getI1Type(), 0), before.isPending);
  return bases;
}

/// The probabilities of a step as weights, and their sums; the pieces of each slot stand before its share of them.
void TiledForward::weigh(const AttentionBlock &block, Step step, Value scores, Value weights, ArrayRef<Value> bases,
                         ArrayRef<AmxTiles::Pieces> slots) {
  const int64_t pairs = span / 2 / static_cast<int64_t>(slots.size());
  Value firstKey = b.mul(step.span, span);
  SmallVector<Value> sums(vectors, t.floats(0));
  for (auto [i, slot] : llvm::enumerate(slots)) {
    auto share = static_cast<int64_t>(i);
    AmxTiles::emit(slot);
    sums = b.loop(b.i64(share * pairs), b.i64((share + 1) * pairs), 1, sums, [&](Value pair, ValueRange before) {
      Value key = b.mul(pair, 2);
      SmallVector<Value> next;
      for (int64_t v = 0; v < vectors; ++v) {
        Value parts[2], sum;
        for (int64_t i = 0; i < 2; ++i) {
          Value one = b.add(key, i);
          Value p = power(t.subF(exponentOf(t.loadWords(row(scores, one, v, span))), bases[v]));
          sum = sum ? t.addF(sum, p) : p;
          parts[i] = whereKept(isKept(block, b.add(firstKey, one), lane(step.group, v)), p);
        }
        next.push_back(t.addF(before[v], sum));
        for (auto [part, words] : llvm::enumerate(amx.pairs(parts[0], parts[1])))
          t.storeWords(words, row(weights, pair, v * blocks.parts + static_cast<int64_t>(part), span / 2));
      }
      return next;
    });
  }
  for (int64_t v = 0; v < vectors; ++v) {
    Value address = t.at(total, lane(step.group, v));
    t.storeWords(t.addF(t.loadWords(address), sums[v]), address);
  }
}

void TiledForward::finish(const AttentionBlock &block) {
  Value row = b.add(t.times(block.batch, number(Number::heads)), block.head);
  Value lse = t.at(result(1), b.add(t.times(row, number(Number::queries)), block.firstQuery));
  t.forEach(b.i64(0), block.queryCount, blocks.lanes, [&](Value lane) {
    Value sum = t.loadWords(t.at(total, lane)), bits = t.loadWords(t.at(base, lane)), one = t.floats(1);
    Value none = is(arith::CmpFPredicate::OEQ, sum, t.floats(0));
    Value logarithm = t.addF(isWide() ? bits : t.mulF(bits, t.floats(std::numbers::ln2)), b.create<math::LogOp>(sum));
    Value kept = keepScale ? keepScale : one;
    t.storeWords(b.create<arith::DivFOp>(kept, choose(none, one, sum)), t.at(total, lane));
    t.storeWords(choose(none, t.floats(-infinity), logarithm), t.at(base, lane));
  });
  t.forEach(b.i64(0), block.queryCount, 1,
            [&](Value query) { b.store(b.load(t.at(base, query), t.f32), t.at(lse, query), t.f32); });
  amx.storeTransposed(place(blocks.sums), resultOfQueries(0, block), false,
                      [&](Value lane) { return t.loadWords(t.at(total, lane)); });
}

} // namespace

void emitForwardByTiles(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  TiledForward(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

} // namespace tcc::cpu
