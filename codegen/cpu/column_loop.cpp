#include "codegen/cpu/column_loop.h"
#include "codegen/cpu/interleave.h"

using namespace mlir;

namespace tcc::cpu {

void forColumns(LaneBuilder &b, const ColumnRange &range, int64_t columns, unsigned unroll, SmallVector<Value> &carried,
                ColumnBody body) {
  int64_t lanes = b.lanes, step = lanes * unroll, tail = range.size.value_or(columns) % lanes;
  auto upTo = [&](int64_t multiple) { // the end of the whole multiples
    if (range.size)
      return b.add(range.begin, *range.size / multiple * multiple);
    Value size = b.create<arith::SubIOp>(range.end, range.begin);
    return b.add(range.begin, b.mul(b.div(size, multiple), multiple));
  };
  auto vectors = [&](Value from, Value to, unsigned count) {
    carried = b.loop(from, to, lanes * count, carried,
                     [&](Value column, ValueRange values) { return body(column, Value(), count, values); });
    mayInterleave(b);
  };
  Value unrolledEnd = range.begin;
  if (unroll > 1 && (!range.size || *range.size >= step)) {
    unrolledEnd = upTo(step);
    vectors(range.begin, unrolledEnd, unroll);
  }
  Value vectorEnd = upTo(lanes);
  bool covered = range.size && (*range.size < lanes || (unroll > 1 && *range.size % step < lanes));
  if (!covered)
    vectors(unrolledEnd, vectorEnd, 1);
  if (tail == 0)
    return;
  if (range.size) {
    carried = body(vectorEnd, b.firstLanes(tail), 1, carried);
    return;
  }
  assert(carried.empty() && "a range of unknown size carries nothing");
  Value hasTail = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, vectorEnd, range.end);
  b.when(hasTail, [&] { body(vectorEnd, b.firstLanes(tail), 1, {}); });
}

} // namespace tcc::cpu
