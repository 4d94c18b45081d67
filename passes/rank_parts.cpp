#include "passes/rank_parts.h"
#include "ir/lanes.h"

using namespace mlir;

namespace tcc {

using Values = SmallVector<Value>;

int64_t RankParts::firstRow(RankedTensorType whole, int64_t rank) const {
  return firstLane(whole.getDimSize(0), ranks.count, rank);
}

RankedTensorType RankParts::withRows(RankedTensorType type, int64_t rows) {
  SmallVector<int64_t> shape(type.getShape());
  shape[0] = rows;
  return withShape(type, shape);
}

RankedTensorType RankParts::largest(RankedTensorType whole) const {
  return withRows(whole, llvm::divideCeil(whole.getDimSize(0), ranks.count));
}

static Value rows(Emit &b, Value value, int64_t first, int64_t last) {
  SmallVector<int64_t> limits(tensorType(value).getShape()), starts(limits.size(), 0);
  starts[0] = first;
  limits[0] = last;
  return b.slice(value, starts, limits);
}

/// Zeros after the last row.
static Value padded(Emit &b, Value value, int64_t rows) {
  const RankedTensorType type = tensorType(value);
  SmallVector<int64_t> none(type.getRank(), 0), missing = none;
  missing[0] = rows - type.getDimSize(0);
  return b.pad(value, none, missing);
}

Value RankParts::cut(Emit &b, Value whole) const {
  const RankedTensorType type = tensorType(whole);
  return rows(b, whole, firstRow(type, ranks.rank), firstRow(type, ranks.rank + 1));
}

Value RankParts::cutForAll(Emit &b, Value whole) const {
  const RankedTensorType type = tensorType(whole), part = largest(type);
  if (type.getDimSize(0) % ranks.count != 0) {
    Values parts;
    for (int64_t rank = 0; rank < ranks.count; ++rank)
      parts.push_back(padded(b, rows(b, whole, firstRow(type, rank), firstRow(type, rank + 1)), part.getDimSize(0)));
    whole = joinedOf(b, parts, 0);
  }
  return b.reshape(whole, {ranks.count, part.getNumElements()});
}

Value RankParts::joinedOf(Emit &b, ValueRange values, int64_t axis) {
  constexpr size_t most = 32; // which a kernel of any target can read
  Values all(values);
  while (all.size() > most) {
    Values joined;
    for (ArrayRef<Value> rest = all; !rest.empty(); rest = rest.drop_front(std::min(most, rest.size())))
      joined.push_back(joinedOf(b, rest.take_front(most), axis));
    all = std::move(joined);
  }
  return all.size() == 1 ? all.front() : b.create<ConcatOp>(all, axis);
}

Value RankParts::flat(Emit &b, ValueRange values) {
  const Values flattened =
      llvm::map_to_vector(values, [&](Value value) { return b.reshape(value, {tensorType(value).getNumElements()}); });
  return joinedOf(b, flattened, 0);
}

Value RankParts::gatherFlat(Emit &b, Value own) const {
  const RankedTensorType type = tensorType(own);
  const int64_t size = type.getNumElements();
  Value all = b.create<AllGatherOp>(withShape(type, {ranks.count * size}), own,
                                    b.builder.getI64IntegerAttr(ranks.count), IntegerAttr());
  return b.reshape(all, {ranks.count, size});
}

Values RankParts::gather(Emit &b, ValueRange parts, ArrayRef<RankedTensorType> wholes) const {
  return wholesOf(b, gatherParts(b, parts, wholes), wholes);
}

Value RankParts::gatherParts(Emit &b, ValueRange parts, ArrayRef<RankedTensorType> wholes) const {
  Values filled;
  for (auto [part, whole] : llvm::zip_equal(parts, wholes))
    filled.push_back(padded(b, part, largest(whole).getDimSize(0)));
  return gatherFlat(b, flat(b, filled));
}

Values RankParts::wholesOf(Emit &b, Value all, ArrayRef<RankedTensorType> wholes) const {
  Values results;
  int64_t first = 0;
  for (RankedTensorType whole : wholes) {
    const int64_t last = first + largest(whole).getNumElements();
    results.push_back(joined(b, b.slice(all, {0, first}, {ranks.count, last}), whole));
    first = last;
  }
  return results;
}

/// The whole of all ranks' parts [ranks, elements of the largest].
Value RankParts::joined(Emit &b, Value parts, RankedTensorType whole) const {
  const int64_t most = largest(whole).getDimSize(0);
  parts = b.reshape(parts, withRows(whole, ranks.count * most).getShape());
  Values pieces; // neighbours without zeros between them are one piece
  int64_t begin = 0;
  for (int64_t rank = 0; rank < ranks.count; ++rank) {
    const int64_t own = rowsOf(whole, rank);
    if (own == most && rank + 1 < ranks.count)
      continue;
    pieces.push_back(rows(b, parts, begin, rank * most + own));
    begin = (rank + 1) * most;
  }
  return joinedOf(b, pieces, 0);
}

} // namespace tcc
