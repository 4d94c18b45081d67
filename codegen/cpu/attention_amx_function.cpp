#include "codegen/cpu/attention_amx_function.h"
#include <numbers>

using namespace mlir;

namespace tcc::cpu {

using Number = AttentionNumber;
using Predicate = arith::CmpIPredicate;

void AmxFunction::beginWorker() {
  amx.configure(place(blocks.configuration));
  if (isWide()) {
    queryFactor = scale;
    return;
  }
  Type i32 = b.builder.getI32Type();
  Value bits = b.create<LLVM::BitcastOp>(b.vector(i32), scale);
  Value sign = b.create<arith::AndIOp>(bits, b.integer(b.vector(i32), int64_t(1) << 31));
  queryFactor = b.create<arith::OrIOp>(sign, b.create<arith::ShRUIOp>(sign, b.integer(b.vector(i32), 16)));
  Value magnitude = b.create<LLVM::BitcastOp>(b.vector(t.f32), b.create<arith::XOrIOp>(bits, sign));
  // Never 0, since the scores of hidden pairs are -inf.
  Value scaled = t.mulF(magnitude, t.floats(std::numbers::log2e)), least = t.floats(0x1p-126);
  Value isLess = b.create<arith::CmpFOp>(arith::CmpFPredicate::OLT, scaled, least);
  exponentScale = b.create<arith::SelectOp>(isLess, least, scaled);
}

AmxFunction::Steps AmxFunction::keySpans(const AttentionBlock &block, Value group) {
  Value query = b.mul(group, span), last = t.least(b.add(query, span), block.queryCount);
  Value offset = t.sub(b.add(block.firstQuery, number(Number::diagonal)), block.firstKey);
  Value first = t.most(b.add(t.sub(b.add(offset, query), number(Number::window)), 1), b.i64(0));
  return {b.div(first, span), t.ceilDiv(t.clamp(b.add(offset, last), block.keyCount), span)};
}

AmxFunction::Steps AmxFunction::querySpans(const AttentionBlock &block, Value keySpan) {
  auto [first, end] = queriesThatSee(block, b.mul(keySpan, span), b.i64(span));
  return {b.div(first, span), t.ceilDiv(end, span)};
}

void AmxFunction::multiply(const AttentionBlock &block, Value group, Value keySpan, Value packedRows, Value columns,
                           Value to, int64_t across) {
  AmxTiles::emit(multiplyInPieces(block, group, keySpan, packedRows, columns, to, across));
}

AmxTiles::Pieces AmxFunction::multiplyInPieces(const AttentionBlock &block, Value group, Value keySpan,
                                               Value packedRows, Value columns, Value to, int64_t across) {
  Type i8 = b.builder.getI8Type();
  int64_t steps = 2 * blocks.words / span, ofRows = blocks.parts * steps * tileBytes,
          ofColumns = blocks.parts * blocks.words * rowBytes;
  Value key = b.add(b.div(block.firstKey, span), keySpan);
  TileFactor left{b.offset(packedRows, i8, b.mul(key, 2 * ofRows)), ofRows, tileBytes, steps * tileBytes};
  TileFactor right{b.offset(columns, i8, b.mul(group, 2 * ofColumns)), ofColumns, tileBytes, blocks.words * rowBytes};
  return amx.productInPieces({to, rowBytes, tileBytes, across}, left, right, 2, 2, steps, false);
}

Value AmxFunction::isBorder(const AttentionBlock &block, Value group, Value keySpan) {
  Value firstKey = b.add(block.firstKey, b.mul(keySpan, span)), endKey = b.add(firstKey, span);
  Value seenLast = b.add(b.add(block.firstQuery, b.mul(group, span)), number(Number::diagonal)); // by the first query
  Value hidesLast = t.is(Predicate::sgt, endKey, t.least(b.add(seenLast, 1), number(Number::keys)));
  Value hidesFirst = t.is(Predicate::sle, firstKey, t.sub(b.add(seenLast, span - 1), number(Number::window)));
  return b.create<arith::OrIOp>(hidesLast, hidesFirst);
}

SmallVector<Value> AmxFunction::ifBorder(const AttentionBlock &block, Value group, Value keySpan,
                                         function_ref<SmallVector<Value>(bool)> body) {
  auto make = [&](bool masked) {
    return [&, masked](OpBuilder &, Location) { scf::YieldOp::create(b.builder, b.loc, body(masked)); };
  };
  auto branch = scf::IfOp::create(b.builder, b.loc, isBorder(block, group, keySpan), make(true), make(false));
  return SmallVector<Value>(branch.getResults());
}

AttentionFunction::SeenKeys AmxFunction::seenKeysOf(const AttentionBlock &block, Value firstQuery) {
  SeenKeys seen = seenKeys(block, firstQuery);
  Value last = b.create<arith::TruncIOp>(b.builder.getI32Type(), t.sub(number(Number::keys), b.i64(1)));
  return {b.create<arith::MinSIOp>(seen.last, b.splat(last)), seen.before};
}

} // namespace tcc::cpu
