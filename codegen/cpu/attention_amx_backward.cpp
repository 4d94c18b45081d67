// The backward function by AMX's tiles. A unit is a key head or a part of its blocks of queries, as in the function
// without tiles; lanes are queries:
//   1. the head's keys are packed, and once more transposed, its values are packed;
//   2. for each head and block of queries: queries and dOut are packed, as columns and as pairs of rows; each query's
//      delta = dOut · out is summed;
//   3. for each block of keys that one of them sees, 32 keys and 32 queries at a time: scores and dP by tiles,
//      P = e^(scores - lse), dS = P · (dP - delta), both rounded. Dropout sets dP, and the P that dV reads, to 0 for a
//      pair that it drops, and multiplies them by keepScale for any other. Then dV += Pᵀ·dOut, dK += dSᵀ·q, dQ += dS·k
//      by tiles;
//   4. dQ, and dK at last, are multiplied by the scale where they are written.
// Pairs of dS of two keys have their lanes in the order of AmxTiles::interleaved, which costs one step a vector; dQ is
// put in order where it is written.
#include "codegen/cpu/attention_amx_function.h"
#include <numbers>

using namespace mlir;

namespace tcc::cpu {
namespace {

class TiledBackward : public AmxFunction {
public:
  TiledBackward(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks)
      : AmxFunction(b, form, blocks, 6, 3) {}

private:
  Value keyRows, valueRows, keyColumns; // of the head
  Value sumsOfK, sumsOfV;               // [key][element] of all keys

  void runUnit(Value unit) override;
  void packKeys(const AttentionBlock &block);
  void runQueries(AttentionBlock block);
  void sumDeltas(const AttentionBlock &block);
  void addKeys(const AttentionBlock &block);
  void differentiate(const AttentionBlock &block, Value group, Value keySpan);
  void addToKeys(const AttentionBlock &block, Value keySpan, Steps groups);
  void addToQueries(const AttentionBlock &block, Value group);

  /// A row of one part of 32 queries' P or dS, or (of half as many keys) of 16 queries' pairs. Of each part there are
  /// `rows` for a group: [group][part][row][16 words].
  Value row(int64_t weights, Value group, int64_t part, int64_t rows, Value row) {
    Value place = b.add(b.mul(group, blocks.parts * rows), part * rows);
    return t.at(this->place(weights), b.mul(b.add(place, row), tileRows));
  }
};

void TiledBackward::runUnit(Value unit) {
  const AttentionBlock block = keyHeadOf(unit);
  Value isWhole = t.is(Predicate::eq, number(Number::parts), b.i64(1));
  Value room = b.mul(b.add(number(Number::keys), blocks.rows), blocks.width);
  sumsOfK = b.create<arith::SelectOp>(isWhole, packedKeys(blocks.bytesOfKey), sumsOfUnit(unit));
  sumsOfV = t.at(sumsOfK, room);
  t.forEach(b.i64(0), b.mul(room, 2), blocks.lanes, [&](Value i) { t.storeWords(t.floats(0), t.at(sumsOfK, i)); });
  packKeys(block);

  forQueriesOfKeys(unit, [&](const AttentionBlock &one, const AttentionBlock &) { runQueries(one); });
  b.when(isWhole, [&] {
    amx.storeRows(sumsOfK, scale, resultOfKeys(dK, block));
    amx.storeRows(sumsOfV, {}, resultOfKeys(dV, block));
  });
}

void TiledBackward::packKeys(const AttentionBlock &block) {
  keyRows = packedKeys(0);
  valueRows = packedKeys(blocks.parts * 4 * blocks.words);
  keyColumns = packedKeys(blocks.parts * 8 * blocks.words);
  amx.packRows(seenRows(k, block), keyRows);
  amx.packRows(seenRows(v, block), valueRows);
  amx.packTransposed(seenRows(k, block), keyColumns);
}

void TiledBackward::runQueries(AttentionBlock block) {
  amx.packColumns(rowsOfQueries(q, block), queryFactor, place(blocks.queryColumns));
  amx.packColumns(rowsOfQueries(dOut, block), {}, place(blocks.dOutColumns));
  amx.packRowPairs(rowsOfQueries(q, block), place(blocks.queryPairs));
  amx.packRowPairs(rowsOfQueries(dOut, block), place(blocks.dOutPairs));
  sumDeltas(block);
  // Of bf16 to the base 2.
  loadLogarithms(block, lse, isWide() ? Value() : b.literal(t.f32, std::numbers::log2e), place(blocks.top));
  t.fill(place(blocks.sums), 2 * blocks.words * queries, 0);
  forKeyBlocks(block, [&](const AttentionBlock &keys) { addKeys(keys); });
  amx.storeTransposed(place(blocks.sums), resultOfQueries(dQ, block), true, [&](Value) { return scale; });
}

/// Each query's dOut · out. In f32 it is summed as a dP is, by tiles, of which the diagonal is taken: where a query
/// gives one key all its weight, out is that key's value, and dP - delta is exactly 0 then, as the gradient is. In
/// bf16, dS is rounded to fewer bits than that would save.
void TiledBackward::sumDeltas(const AttentionBlock &block) {
  if (!isWide())
    return sumProducts(block, rowsOfQueries(out, block), rowsOfQueries(dOut, block), place(blocks.total));

  amx.packRows(rowsOfQueries(out, block), place(blocks.outRows));
  AttentionBlock own = block;
  own.firstKey = b.i64(0);
  t.forEach(b.i64(0), t.ceilDiv(block.queryCount, span), 1, [&](Value group) {
    multiply(own, group, group, place(blocks.outRows), place(blocks.dOutColumns), place(blocks.dP), span * rowBytes);
    for (int64_t half = 0; half < vectors; ++half)
      t.forEach(tileRows, 1, [&](Value lane) {
        Value row = b.add(lane, half * tileRows);
        Value sum =
            b.load(t.at(t.at(place(blocks.dP), half * span * tileRows), b.add(b.mul(row, tileRows), lane)), t.f32);
        b.store(sum, t.at(place(blocks.total), b.add(b.mul(group, span), row)), t.f32);
      });
  });
}

void TiledBackward::addKeys(const AttentionBlock &block) {
  findKept(block);
  t.forEach(b.i64(0), t.ceilDiv(block.keyCount, span), 1, [&](Value keySpan) {
    Steps groups = querySpans(block, keySpan);
    t.forEach(groups.begin, groups.end, 1, [&](Value group) {
      multiply(block, group, keySpan, keyRows, place(blocks.queryColumns), place(blocks.scores), span * rowBytes);
      multiply(block, group, keySpan, valueRows, place(blocks.dOutColumns), place(blocks.dP), span * rowBytes);
      differentiate(block, group, keySpan);
    });
    addToKeys(block, keySpan, groups);
  });
  t.forEach(b.i64(0), t.ceilDiv(block.queryCount, span), 1, [&](Value group) { addToQueries(block, group); });
}

/// P and dS of 32 keys and 32 queries, as rows, and dS as pairs of keys too.
void TiledBackward::differentiate(const AttentionBlock &block, Value group, Value keySpan) {
  SmallVector<Value> logarithms, deltas, lanes;
  for (int64_t i = 0; i < vectors; ++i) {
    lanes.push_back(b.add(b.mul(group, span), i * tileRows));
    logarithms.push_back(t.loadWords(t.at(place(blocks.top), lanes[i])));
    deltas.push_back(t.loadWords(t.at(place(blocks.total), lanes[i])));
  }
  ifBorder(block, group, keySpan, [&](bool masked) {
    SmallVector<SeenKeys> seen;
    for (int64_t i = 0; masked && i < vectors; ++i)
      seen.push_back(seenKeysOf(block, lanes[i]));
    auto pair = [&](Value inSpan, Value key, int64_t i) {
      auto loaded = [&](int64_t part) {
        return t.loadWords(t.at(t.at(place(part), i * span * tileRows), b.mul(inSpan, tileRows)));
      };
      Value p = power(t.subF(exponentOf(loaded(blocks.scores)), logarithms[i]));
      Value dP = loaded(blocks.dP), kept = isKept(block, key, lanes[i]);
      if (kept)
        dP = whereKept(kept, t.mulF(dP, keepScale));
      Value dS = t.mulF(p, t.subF(dP, deltas[i]));
      if (kept)
        p = whereKept(kept, t.mulF(p, keepScale));
      if (masked) {
        Value isShown = isSeen(seen[i], block, key);
        p = b.create<arith::SelectOp>(isShown, p, t.floats(0));
        dS = b.create<arith::SelectOp>(isShown, dS, t.floats(0));
      }
      return std::pair(p, dS);
    };
    t.forEach(b.i64(0), b.i64(span), 2, [&](Value inSpan) {
      Value key = b.add(b.mul(keySpan, span), inSpan);
      AmxTiles::Parts differences[2];
      for (int64_t i = 0; i < 2; ++i) {
        Value one = b.add(key, i);
        auto [p0, dS0] = pair(b.add(inSpan, i), one, 0);
        auto [p1, dS1] = pair(b.add(inSpan, i), one, 1);
        differences[i] = amx.neighbours(dS0, dS1);
        const AmxTiles::Parts weights = amx.neighbours(p0, p1);
        for (int64_t part = 0; part < blocks.parts; ++part) {
          t.storeWords(weights[part], row(blocks.weights, group, part, span, b.add(inSpan, i)));
          t.storeWords(differences[i][part], row(blocks.dWeights, group, part, span, b.add(inSpan, i)));
        }
      }
      for (int64_t half = 0; half < 2; ++half)
        for (int64_t part = 0; part < blocks.parts; ++part)
          t.storeWords(amx.interleaved(differences[0][part], differences[1][part], half > 0),
                       row(blocks.weightPairs, b.add(b.mul(group, 2), half), part, blocks.keys / 2, b.div(key, 2)));
    });
    return SmallVector<Value>();
  });
}

void TiledBackward::addToKeys(const AttentionBlock &block, Value keySpan, Steps groups) {
  Value key = b.mul(keySpan, span);
  Value offset = b.mul(b.add(block.firstKey, key), blocks.width);
  auto add = [&](Value sums, int64_t weights, int64_t pairs) {
    amx.productOfColumns({t.at(sums, offset), 4 * blocks.width, 4 * blocks.width * tileRows, rowBytes},
                         {place(weights), tileBytes, blocks.parts * span * rowBytes, span * rowBytes},
                         {place(pairs), blocks.parts * queries / 2 * rowBytes, tileBytes, queries / 2 * rowBytes},
                         blocks.width / tileRows, groups.begin, groups.end);
  };
  b.when(t.is(Predicate::slt, groups.begin, groups.end), [&] {
    add(sumsOfV, blocks.weights, blocks.dOutPairs);
    add(sumsOfK, blocks.dWeights, blocks.queryPairs);
  });
}

void TiledBackward::addToQueries(const AttentionBlock &block, Value group) {
  Type i8 = b.builder.getI8Type();
  Steps steps = keySpans(block, group);
  int64_t ofKeys = blocks.parts * blocks.width * rowBytes, ofQueries = 2 * blocks.words * rowBytes,
          ofPairs = blocks.keys / 2 * rowBytes;
  Value keys = b.offset(keyColumns, i8, b.mul(b.div(block.firstKey, span), ofKeys));
  Value sums = b.offset(place(blocks.sums), i8, b.mul(group, 2 * ofQueries));
  b.when(t.is(Predicate::slt, steps.begin, steps.end), [&] {
    amx.productOfRows({sums, rowBytes, tileBytes, ofQueries}, {keys, tileBytes, ofKeys, blocks.width * rowBytes},
                      {row(blocks.weightPairs, b.mul(group, 2), 0, blocks.keys / 2, b.i64(0)), blocks.parts * ofPairs,
                       tileBytes, ofPairs},
                      blocks.width / tileRows, steps.begin, steps.end);
  });
}

} // namespace

void emitBackwardByTiles(LaneBuilder &b, const AttentionForm &form, ValueRange arguments) {
  AttentionBlocks blocks(form, b.target);
  TiledBackward(b, form, blocks).run(arguments[0], arguments[1], arguments[2]);
}

} // namespace tcc::cpu
