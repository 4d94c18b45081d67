// Coordinates, random bits, gather and scatter-add.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

/// The number of elements of a row: all dims but the first.
int64_t rowSize(const RefTensor &table) {
  return elementCount(table.shape().drop_front());
}

} // namespace

RandomElements::RandomElements(const RefTensor &seedTensor, uint64_t stream, const RefTensor *first)
    : seed(static_cast<uint64_t>(static_cast<int64_t>(seedTensor.data[0]))), stream(stream),
      first(first ? static_cast<int64_t>(first->data[0]) : 0) {
  if (seedTensor.element().isInteger(32))
    seed = static_cast<uint32_t>(seed);
}

uint32_t RandomElements::at(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) const {
  Shape place(index);
  if (!place.empty())
    place[0] += first;
  int64_t column = place.empty() ? 0 : place.pop_back_val();
  int64_t row = place.empty() ? 0 : place.pop_back_val();
  int64_t outer = 0;
  for (auto [size, coordinate] : llvm::zip(shape, place)) // of the leading dims
    outer = outer * size + coordinate;
  return randomBitsAt(seed, stream,
                      {static_cast<uint32_t>(outer), static_cast<uint32_t>(row), static_cast<uint32_t>(column)});
}

bool RandomElements::keeps(double rate, ArrayRef<int64_t> shape, ArrayRef<int64_t> index) const {
  return at(shape, index) >= static_cast<uint32_t>(std::ldexp(rate, 32));
}

void addIndexing(Registry &registry) {
  add<IotaOp>(registry, [](Call &call, IotaOp op) {
    Shape shape = call.resultShape(op.getLike() ? &call.in(0) : nullptr);
    RefTensor &result = call.addResult(shape);
    int64_t next = 0;
    forEachIndex(shape, [&](ArrayRef<int64_t> index) { result.data[next++] = index[op.getDim()]; });
  });

  add<RandomBitsOp>(registry, [](Call &call, RandomBitsOp op) {
    Shape shape = call.resultShape(op.getLike() ? call.operands.back() : nullptr);
    RefTensor &result = call.addResult(shape);
    RandomElements random(call.in(0), op.getStream(), op.getFirst() ? &call.in(1) : nullptr);
    int64_t next = 0;
    forEachIndex(shape,
                 [&](ArrayRef<int64_t> index) { result.data[next++] = static_cast<int32_t>(random.at(shape, index)); });
  });

  add<GatherOp>(registry, [](Call &call, GatherOp) {
    const RefTensor &table = call.in(0), &index = call.in(1);
    int64_t rows = table.shape()[0], columns = rowSize(table);
    bool isFloat = isa<FloatType>(table.element());
    Shape shape(index.shape());
    llvm::append_range(shape, table.shape().drop_front());
    RefTensor &result = call.addResult(shape);
    for (int64_t i = 0; i < index.size(); ++i)
      for (int64_t j = 0; j < columns; ++j) {
        double row = index.data[i];
        double &value = result.data[i * columns + j];
        if (row >= 0 && row < static_cast<double>(rows))
          value = table.data[static_cast<int64_t>(row) * columns + j];
        else
          value = isFloat ? std::numeric_limits<double>::quiet_NaN() : 0;
      }
  });

  add<ScatterAddOp>(registry, [](Call &call, ScatterAddOp) {
    const RefTensor &base = call.in(0), &index = call.in(1), &rows = call.in(2);
    int64_t columns = rowSize(base);
    if (rows.size() != index.size() * columns)
      return call.refuse("rows are " + typeText(rows.type) + " for index " + typeText(index.type) + " and base " +
                         typeText(base.type) + " (scatter_add_c1)");
    RefTensor &result = call.addResult(base.shape());
    result.data = base.data;
    for (int64_t i = 0; i < index.size(); ++i) {
      double row = index.data[i];
      if (row < 0 || row >= static_cast<double>(base.shape()[0]))
        continue;
      for (int64_t j = 0; j < columns; ++j) {
        double &sum = result.data[static_cast<int64_t>(row) * columns + j];
        sum += rows.data[i * columns + j];
        if (call.mode == RefMode::rounding)
          sum = roundToElement(sum, result.element());
      }
    }
  });
}

} // namespace tcc::reference
