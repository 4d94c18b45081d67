#include "codegen/cpu/column_results.h"

using namespace mlir;

namespace tcc::cpu {

using Kind = KernelStore::Kind;

Value reductionStart(LaneBuilder &b, Reduction reduction, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (reduction == Reduction::sum)
    return b.literal(type, 0);
  if (reduction == Reduction::product)
    return isa<FloatType>(element) ? b.literal(type, 1) : b.integer(type, 1);
  if (isa<FloatType>(element))
    return b.literal(type, -std::numeric_limits<double>::infinity());
  return b.integer(type, llvm::APInt::getSignedMinValue(element.getIntOrFloatBitWidth()).getSExtValue());
}

Value reductionStep(LaneBuilder &b, Reduction reduction, Value sum, Value value) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(sum.getType()));
  switch (reduction) {
  case Reduction::sum:
    return isFloat ? b.create<arith::AddFOp>(sum, value) : b.create<arith::AddIOp>(sum, value);
  case Reduction::maximum:
    if (isFloat) // which zero is the larger one does not matter to a maximum over many
      return b.create<arith::MaximumFOp>(sum, value, arith::FastMathFlags::nsz);
    return b.create<arith::MaxSIOp>(sum, value);
  case Reduction::product:
    return isFloat ? b.create<arith::MulFOp>(sum, value) : b.create<arith::MulIOp>(sum, value);
  }
  llvm_unreachable("a reduction without a step");
}

void ColumnResults::prepare() {
  for (auto [i, store] : llvm::enumerate(info.stores))
    if (store.kind == Kind::columnReduce && store.reduction != Reduction::maximum && isa<FloatType>(elements[i]) &&
        elements[i].getIntOrFloatBitWidth() == 16)
      wideSums[i] = b.create<LLVM::AllocaOp>(b.pointer(), b.builder.getF32Type(), b.i64(tile), 64);
}

Type ColumnResults::accumulatorElement(unsigned store) {
  return wideSums.count(store) ? Type(b.builder.getF32Type()) : elements[store];
}

Value ColumnResults::accumulatorAddress(unsigned store, const RowScope &row, Value column) {
  auto wide = wideSums.find(store);
  if (wide == wideSums.end())
    return values.address(results[store], elements[store], info.stores[store].index, row, column);
  Value inTile = info.space.columns > tile ? b.mod(column, tile) : column;
  return b.offset(wide->second, b.builder.getF32Type(), inTile);
}

void ColumnResults::start(const RowScope &block, const ColumnRange &range) {
  for (auto [i, store] : llvm::enumerate(info.stores)) {
    unsigned number = i;
    if (store.kind == Kind::element)
      continue;
    if (store.kind == Kind::scatterAdd) {
      copyScatterBase(number, range);
      continue;
    }
    Type element = accumulatorElement(number);
    Value start = reductionStart(b, store.reduction, b.vector(b.computed(element)));
    SmallVector<Value> none;
    forColumns(b, range, info.space.columns, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
      b.storeLanes(start, accumulatorAddress(number, block, column), element, mask);
      return SmallVector<Value>();
    });
  }
}

void ColumnResults::accumulate(unsigned number, LaneScope &lanes) {
  const KernelStore &store = info.stores[number];
  if (store.kind == Kind::scatterAdd)
    return scatter(number, lanes);
  Type element = accumulatorElement(number);
  Value address = accumulatorAddress(number, lanes.row, lanes.column);
  Value sum = b.loadLanes(address, element, lanes.mask);
  sum = reductionStep(b, store.reduction, sum, values.inLanes(store.node, lanes));
  b.storeLanes(sum, address, element, lanes.mask);
}

/// Rows outside of the base are dropped.
void ColumnResults::scatter(unsigned number, LaneScope &lanes) {
  const KernelStore &store = info.stores[number];
  Type element = elements[number];
  Value row = lanes.row.values.lookup(store.scatterRow);
  if (!row.getType().isInteger(64))
    row = b.create<arith::ExtSIOp>(b.builder.getI64Type(), row);
  Value known = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, row, b.i64(store.scatterRows));
  Value mask = b.both(lanes.mask, b.splat(known));
  Value index = b.add(b.mul(row, store.scatterStride), values.scalarIndex(store.index, lanes.row, lanes.column));
  Value address = b.offset(results[number], element, index);
  Value sum = reductionStep(b, Reduction::sum, b.loadLanes(address, element, mask), values.inLanes(store.node, lanes));
  b.storeLanes(b.round(sum, element), address, element, mask);
}

void ColumnResults::finish(const RowScope &block, const ColumnRange &range) {
  for (auto [store, sums] : wideSums) {
    unsigned number = store;
    Type element = elements[number];
    SmallVector<Value> none;
    forColumns(b, range, info.space.columns, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
      Value sum = b.loadLanes(accumulatorAddress(number, block, column), b.builder.getF32Type(), mask);
      Value address = values.address(results[number], element, info.stores[number].index, block, column);
      b.storeLanes(b.round(sum, element), address, element, mask);
      return SmallVector<Value>();
    });
  }
}

/// The base's columns into the result, unless they share a buffer.
void ColumnResults::copyScatterBase(unsigned number, const ColumnRange &range) {
  const KernelStore &store = info.stores[number];
  Type element = elements[number];
  Value base = values.arguments[store.scatterBase], result = results[number];
  RowScope zero(b.i64(0), b.i64(0));
  b.when(b.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::ne, base, result), [&] {
    b.loop(b.i64(0), b.i64(store.scatterRows), 1, {}, [&](Value row, ValueRange) {
      Value first = b.mul(row, store.scatterStride);
      SmallVector<Value> none;
      forColumns(b, range, info.space.columns, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
        Value index = b.add(first, values.scalarIndex(store.index, zero, column));
        b.storeLanes(b.loadLanes(b.offset(base, element, index), element, mask), b.offset(result, element, index),
                     element, mask);
        return SmallVector<Value>();
      });
      return SmallVector<Value>();
    });
  });
}

} // namespace tcc::cpu
