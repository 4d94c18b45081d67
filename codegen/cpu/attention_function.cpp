#include "codegen/cpu/attention_function.h"
#include <limits>

using namespace mlir;

namespace tcc::cpu {

using Number = AttentionNumber;
using Predicate = arith::CmpIPredicate;

//===- arguments and units -------------------------------------------------------------------------------------===//

void AttentionFunction::loadArguments(Value args) {
  Type pointer = b.pointer(), i64 = b.builder.getI64Type();
  auto loadPointer = [&](int64_t i) { return b.create<LLVM::LoadOp>(pointer, b.offset(args, i64, b.i64(i)), 8); };
  Value table = loadPointer(0);
  auto loadNumber = [&](int64_t i) { return b.create<LLVM::LoadOp>(i64, b.offset(table, i64, b.i64(i)), 8); };
  for (int64_t i = 0; i < static_cast<int64_t>(Number::strides); ++i)
    numbers.push_back(loadNumber(i));
  for (int64_t i = 0; i < 3 * int64_t(operandCount); ++i)
    strides.push_back(loadNumber(static_cast<int64_t>(Number::strides) + i));
  for (int64_t i = 0; i < int64_t(operandCount) + (dropout ? 2 : 0) + resultCount + 1; ++i)
    pointers.push_back(loadPointer(i + 1));
  auto splatOf = [&](Number which) {
    Value bits = b.create<arith::TruncIOp>(b.builder.getI32Type(), number(which));
    return b.splat(b.create<arith::BitcastOp>(b.builder.getF32Type(), bits));
  };
  scale = splatOf(Number::scale);
  allScratch = pointers.back();
  if (dropout) {
    keepScale = splatOf(Number::keepScale);
    loadDropout();
  }
}

Value AttentionFunction::backAndForth(Value round, Value place, Value count) {
  Value backwards = t.is(Predicate::ne, b.mod(round, 2), b.i64(0));
  Value mirrored = t.sub(t.sub(count, b.i64(1)), place);
  return b.add(t.times(round, count), b.create<arith::SelectOp>(backwards, mirrored, place));
}

// Back and forth, so that units that grow or shrink with their number are dealt evenly.
void AttentionFunction::run(Value begin, Value end, Value args) {
  loadArguments(args);
  Value workers = number(Number::workers), units = number(Number::units);
  t.forEach(begin, end, 1, [&](Value worker) {
    scratch = b.offset(allScratch, b.builder.getI8Type(), t.times(worker, number(Number::scratch)));
    t.zeroRow = place(blocks.zeros);
    t.fill(t.zeroRow, std::max(blocks.width, blocks.words), 0);
    beginWorker();
    t.forEach(b.i64(0), t.ceilDiv(units, workers), 1, [&](Value round) {
      Value unit = backAndForth(round, worker, workers);
      nextUnit = t.least(backAndForth(b.add(round, 1), worker, workers), t.sub(units, b.i64(1)));
      b.when(t.is(Predicate::slt, unit, units), [&] { runUnit(unit); });
    });
    endWorker();
  });
}

HeadRows AttentionFunction::rowsOf(unsigned i, Value batch, Value head, Value first, Value count) {
  Value offset = b.add(b.add(t.times(batch, stride(i, 0)), t.times(first, stride(i, 1))), t.times(head, stride(i, 2)));
  return {b.offset(operand(i), t.element, offset), stride(i, 1), count};
}

HeadRows AttentionFunction::rowsOfQueries(unsigned operand, const AttentionBlock &block) {
  return rowsOf(operand, block.batch, block.head, block.firstQuery, block.queryCount);
}

Value AttentionFunction::firstNewKey(const AttentionBlock &block) {
  Value before = t.most(t.sub(number(Number::keys), number(Number::queries)), b.i64(0));
  return t.least(b.add(block.firstQuery, before), t.sub(number(Number::keys), b.i64(1)));
}

HeadRows AttentionFunction::rowsOfNewKeys(unsigned operand, const AttentionBlock &block) {
  return rowsOf(operand, block.batch, block.keyHead, firstNewKey(block), block.queryCount);
}

HeadRows AttentionFunction::seenRows(unsigned operand, const AttentionBlock &block) {
  Value keys = number(Number::keys), diagonal = number(Number::diagonal);
  Value end = t.clamp(b.add(number(Number::queries), diagonal), keys);
  Value first = t.clamp(b.add(t.sub(diagonal, number(Number::window)), 1), end);
  HeadRows rows = rowsOf(operand, block.batch, block.keyHead, first, t.sub(end, first));
  rows.first = first;
  return rows;
}

HeadRows AttentionFunction::rowsOfResult(unsigned i, Value rows, Value heads, Value batch, Value head, Value first,
                                         Value count) {
  Value row = b.add(t.times(batch, rows), first), number = b.add(t.times(row, heads), head);
  return {b.offset(result(i), t.element, b.mul(number, t.headWidth)), b.mul(heads, t.headWidth), count, {}, true};
}

HeadRows AttentionFunction::resultOfQueries(unsigned result, const AttentionBlock &block) {
  return rowsOfResult(result, number(Number::queries), number(Number::heads), block.batch, block.head, block.firstQuery,
                      block.queryCount);
}

HeadRows AttentionFunction::resultOfKeys(unsigned result, const AttentionBlock &block) {
  Value keys = number(Number::keys);
  return rowsOfResult(result, keys, number(Number::keyHeads), block.batch, block.keyHead, b.i64(0), keys);
}

HeadRows AttentionFunction::resultOfNewKeys(unsigned result, const AttentionBlock &block) {
  return rowsOfResult(result, number(Number::keys), number(Number::keyHeads), block.batch, block.keyHead,
                      firstNewKey(block), block.queryCount);
}

Value AttentionFunction::packedKeys(int64_t bytesOfKey) {
  Value all = t.roundUp(number(Number::keys), blocks.rows);
  return b.offset(place(blocks.bytes), b.builder.getI8Type(), b.mul(all, bytesOfKey));
}

void AttentionFunction::beginKeys(const AttentionBlock &block) {
  Value first = seenRows(k, block).first;
  LLVM::StoreOp::create(b.builder, b.loc, t.sub(first, b.mod(first, blocks.rows)), place(blocks.packedEnd), 8);
}

void AttentionFunction::forNewKeys(const AttentionBlock &block, function_ref<void(Value, Value)> body) {
  Value packed = b.create<LLVM::LoadOp>(b.builder.getI64Type(), place(blocks.packedEnd), 8);
  Value end = t.roundUp(b.add(block.firstKey, block.keyCount), blocks.rows);
  b.when(t.is(Predicate::sgt, end, packed), [&] {
    body(packed, end);
    LLVM::StoreOp::create(b.builder, b.loc, end, place(blocks.packedEnd), 8);
  });
}

Value AttentionFunction::sumsOfUnit(Value unit) {
  Value elements = b.mul(b.add(number(Number::keys), blocks.rows), 2 * blocks.width);
  return t.at(b.offset(allScratch, b.builder.getI8Type(), number(Number::sums)), t.times(unit, elements));
}

//===- the mask ------------------------------------------------------------------------------------------------===//

void AttentionFunction::chooseQueries(AttentionBlock &block, Value queryBlock) {
  block.firstQuery = b.mul(queryBlock, AttentionBlocks::queries);
  block.queryCount = t.least(t.sub(number(Number::queries), block.firstQuery), b.i64(AttentionBlocks::queries));
}

AttentionBlock AttentionFunction::keyHeadOf(Value unit) {
  Value head = t.div(unit, number(Number::parts));
  AttentionBlock block;
  block.batch = t.div(head, number(Number::keyHeads));
  block.keyHead = t.mod(head, number(Number::keyHeads));
  return block;
}

void AttentionFunction::forQueriesOfKeys(Value unit,
                                         function_ref<void(const AttentionBlock &, const AttentionBlock &)> body) {
  AttentionBlock block = keyHeadOf(unit);
  Value parts = number(Number::parts), queryBlocks = t.ceilDiv(number(Number::queries), AttentionBlocks::queries);
  Value all = t.times(queryBlocks, number(Number::group));
  auto choose = [&](AttentionBlock &chosen, Value one) {
    chosen.head = b.add(t.times(chosen.keyHead, number(Number::group)), t.div(one, queryBlocks));
    chooseQueries(chosen, t.mod(one, queryBlocks));
  };
  t.forEach(b.i64(0), t.ceilDiv(all, parts), 1, [&](Value round) {
    Value one = backAndForth(round, t.mod(unit, parts), parts);
    b.when(t.is(Predicate::slt, one, all), [&] {
      choose(block, one);
      Value next = backAndForth(b.add(round, 1), t.mod(unit, parts), parts), isLast = t.is(Predicate::sge, next, all);
      AttentionBlock later = keyHeadOf(b.create<arith::SelectOp>(isLast, nextUnit, unit));
      choose(later, b.create<arith::SelectOp>(isLast, t.mod(nextUnit, parts), next));
      body(block, later);
    });
  });
}

void AttentionFunction::sumProducts(const AttentionBlock &block, const HeadRows &x, const HeadRows &y, Value to) {
  t.fill(to, AttentionBlocks::queries, 0);
  t.forEach(b.i64(0), block.queryCount, 1, [&](Value query) {
    Value sum = t.floats(0);
    for (int64_t first = 0; first < t.headWidth; first += blocks.lanes)
      sum = t.addF(t.mulF(t.loadElements(x, query, first), t.loadElements(y, query, first)), sum);
    b.store(b.reduce(sum, [&](Value left, Value right) { return t.addF(left, right); }), t.at(to, query), t.f32);
  });
}

void AttentionFunction::loadLogarithms(const AttentionBlock &block, unsigned operand, Value factor, Value to) {
  t.fill(to, AttentionBlocks::queries, std::numeric_limits<double>::infinity());
  Value first =
      b.add(b.add(t.times(block.batch, stride(operand, 0)), t.times(block.head, stride(operand, 1))), block.firstQuery);
  t.forEach(b.i64(0), block.queryCount, 1, [&](Value query) {
    Value logarithm = b.load(t.at(this->operand(operand), b.add(first, query)), t.f32);
    if (hasBias) {
      Value least = b.literal(t.f32, -infinity);
      Value isEmpty = b.create<arith::CmpFOp>(arith::CmpFPredicate::OEQ, logarithm, least);
      logarithm = b.create<arith::SelectOp>(isEmpty, b.literal(t.f32, infinity), logarithm);
    }
    b.store(factor ? t.mulF(logarithm, factor) : logarithm, t.at(to, query), t.f32);
  });
}

void AttentionFunction::forKeyBlocks(AttentionBlock block, function_ref<void(const AttentionBlock &)> body) {
  Value diagonal = number(Number::diagonal), window = number(Number::window);
  Value firstLast = b.add(block.firstQuery, diagonal); // the last key that the first query sees
  Value lastLast = t.sub(b.add(firstLast, block.queryCount), b.i64(1));
  Value first = t.most(b.add(t.sub(firstLast, window), 1), b.i64(0));
  first = t.sub(first, b.mod(first, blocks.rows));
  Value end = t.least(number(Number::keys), b.add(lastLast, 1));
  block.blocksOfKeys = t.ceilDiv(t.sub(end, first), blocks.keys);
  t.forEach(first, end, blocks.keys, [&](Value key) {
    block.firstKey = key;
    block.keyCount = t.least(t.sub(end, key), b.i64(blocks.keys));
    Value hidesLast = t.is(Predicate::sgt, b.add(key, block.keyCount), b.add(firstLast, 1));
    Value hidesFirst = t.is(Predicate::sle, key, t.sub(lastLast, window));
    block.isBorder = b.create<arith::OrIOp>(hidesLast, hidesFirst);
    block.number = b.div(t.sub(key, first), blocks.keys);
    body(block);
  });
}

std::pair<Value, Value> AttentionFunction::queriesThatSee(const AttentionBlock &block, Value key, Value count) {
  Value first = t.sub(t.sub(b.add(block.firstKey, key), number(Number::diagonal)), block.firstQuery);
  Value end = t.sub(b.add(b.add(first, count), number(Number::window)), b.i64(1));
  return {t.clamp(first, block.queryCount), t.clamp(end, block.queryCount)};
}

std::pair<Value, Value> AttentionFunction::vectorsThatSee(const AttentionBlock &block, Value key, Value count) {
  auto [first, end] = queriesThatSee(block, key, count);
  return {b.div(first, blocks.lanes), t.ceilDiv(end, blocks.lanes)};
}

std::pair<Value, Value> AttentionFunction::keysSeenBy(const AttentionBlock &block, Value query, int64_t count,
                                                      Value all) {
  constexpr int64_t fewKeys = AttentionBlocks::fewKeys;
  // The last key that the first of the queries sees, counted from the block's first one.
  Value last = t.sub(b.add(b.add(block.firstQuery, query), number(Number::diagonal)), block.firstKey);
  Value begin = t.clamp(b.add(t.sub(last, number(Number::window)), 1), block.keyCount);
  Value end = t.clamp(b.add(last, count), block.keyCount);
  return {b.mul(b.div(begin, fewKeys), fewKeys), t.least(t.roundUp(end, fewKeys), all)};
}

AttentionFunction::SeenKeys AttentionFunction::seenKeys(const AttentionBlock &block, Value firstQuery) {
  Type i32 = b.builder.getI32Type();
  auto narrow = [&](Value x) { return b.splat(b.create<arith::TruncIOp>(i32, x)); };
  Value first = b.add(b.add(block.firstQuery, firstQuery), number(Number::diagonal));
  Value last = b.create<arith::AddIOp>(narrow(first), b.iota(i32));
  return {last, b.create<arith::SubIOp>(last, narrow(number(Number::window)))};
}

Value AttentionFunction::isSeen(const SeenKeys &seen, const AttentionBlock &block, Value key) {
  Value keys = b.splat(b.create<arith::TruncIOp>(b.builder.getI32Type(), b.add(block.firstKey, key)));
  return b.both(t.is(Predicate::sle, keys, seen.last), t.is(Predicate::sgt, keys, seen.before));
}

//===- products ------------------------------------------------------------------------------------------------===//

void AttentionFunction::multiplyRows(const AttentionBlock &block, Value rows, Value columns, Value to, Value factor,
                                     const UpcomingRows &soon) {
  const int64_t vectors = AttentionBlocks::queries, tile = blocks.rows;
  t.forEach(b.i64(0), block.keyCount, tile, [&](Value key) {
    auto [first, last] = vectorsThatSee(block, key, t.least(b.i64(tile), t.sub(block.keyCount, key)));
    t.forVectors(first, last, vectors / blocks.lanes, [&](Value vector, unsigned n) {
      Value lane = b.mul(vector, blocks.lanes);
      t.product({.a = t.at(rows, b.mul(b.add(block.firstKey, key), blocks.words)),
                 .b = t.at(columns, lane),
                 .c = t.at(to, b.add(b.mul(key, AttentionBlocks::queries), lane)),
                 .aRow = blocks.words,
                 .aStep = 1,
                 .bStep = AttentionBlocks::queries,
                 .cRow = AttentionBlocks::queries,
                 .begin = b.i64(0),
                 .end = b.i64(blocks.steps),
                 .factor = factor},
                n);
    });
    Value before =
        b.add(b.mul(b.add(b.mul(block.number, blocks.keys), key), soon.passes), t.times(soon.pass, b.i64(tile)));
    Value all = b.mul(block.blocksOfKeys, soon.passes);
    t.forEach(t.div(before, all), t.div(b.add(before, tile), all), 1, [&](Value row) {
      for (const HeadRows &upcoming : soon.rows)
        t.prefetchRow(upcoming, row);
    });
  });
}

// Lanes are queries, whose rows of the bias lie a stride apart.
void AttentionFunction::addBias(const AttentionBlock &block, Value scores) {
  if (!hasBias)
    return;
  const unsigned bias = operandCount - 1;
  Type i64 = b.builder.getI64Type();
  Value first = b.add(t.times(block.batch, stride(bias, 0)), t.times(block.head, stride(bias, 1)));
  first = b.add(b.add(first, t.times(block.firstQuery, stride(bias, 2))), block.firstKey);
  Value base = t.at(operand(bias), first);
  t.forEach(b.i64(0), block.queryCount, blocks.lanes, [&](Value lane) {
    Value query = b.create<arith::AddIOp>(b.splat(lane), b.iota(i64));
    Value isThere = t.is(Predicate::slt, query, b.splat(block.queryCount));
    Value offsets = b.create<arith::MulIOp>(query, b.splat(stride(bias, 2)));
    t.forEach(b.i64(0), block.keyCount, 1, [&](Value key) {
      Value address = t.at(scores, b.add(b.mul(key, queries), lane));
      Value added = b.gatherLanes(t.at(base, key), t.f32, offsets, isThere);
      t.storeWords(t.addF(t.loadWords(address), added), address);
    });
  });
}

// Where the mask hides a part of the block, a few keys at a time go against the vectors that see one of them.
void AttentionFunction::addWeighted(const AttentionBlock &block, Value pairs, Value weights, Value to) {
  const int64_t tile = blocks.rows, queries = AttentionBlocks::queries;
  Value atOnce = b.create<arith::SelectOp>(block.isBorder, b.i64(AttentionBlocks::fewKeys), b.i64(blocks.keys));
  Value parts = t.ceilDiv(block.keyCount, atOnce);
  t.forEach(b.i64(0), parts, 1, [&](Value part) {
    Value key = t.times(part, atOnce), count = t.least(atOnce, t.sub(block.keyCount, key));
    auto [first, last] = vectorsThatSee(block, key, count);
    t.forVectors(first, last, queries / blocks.lanes, [&](Value vector, unsigned n) {
      Value lane = b.mul(vector, blocks.lanes);
      t.forEach((t.headWidth + tile - 1) / tile * tile, tile, [&](Value row) {
        t.product({.a = t.at(pairs, b.add(b.mul(b.div(block.firstKey, blocks.perWord), blocks.width), row)),
                   .b = t.at(weights, lane),
                   .c = t.at(to, b.add(b.mul(row, queries), lane)),
                   .aRow = 1,
                   .aStep = blocks.width,
                   .bStep = queries,
                   .cRow = queries,
                   .begin = b.div(key, blocks.perWord),
                   .end = t.ceilDiv(b.add(key, count), blocks.perWord),
                   .accumulate = true},
                  n);
      });
    });
  });
}

} // namespace tcc::cpu
