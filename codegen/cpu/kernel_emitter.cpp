// The loops of a kernel:
//   rows:    for each item, a row: the passes, one after the other.
//   outer:   for each item, an outer block: column results are set to their start, then rows in blocks, whose passes
//            run side by side so that a block reads and writes each column result once.
//   columns: an item is a tile of an outer block's columns, its loops those of `outer` over the tile; or, for a
//            kernel of one row, a range of columns.
// A pass walks the columns in vectors: unrolled, then one by one, then a masked tail. Which column takes which way
// depends on the shape alone, so that results do not depend on how items are divided.
#include "codegen/cpu/kernel_emitter.h"
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/node_values.h"

using namespace mlir;

namespace tcc::cpu {
namespace {

using Kind = KernelStore::Kind;

/// Columns begin..end; `size` where the number is known.
struct ColumnRange {
  Value begin, end;
  std::optional<int64_t> size;
};

class KernelEmitter {
public:
  KernelEmitter(LaneBuilder &b, const KernelInfo &info, KernelOp kernel)
      : b(b), info(info), kernel(kernel), plan(planKernel(info)), values(b, info, plan),
        inputs(kernel.getInputs().size()) {}

  void run(Value begin, Value end, Value args);

private:
  LaneBuilder &b;
  const KernelInfo &info;
  mutable KernelOp kernel;
  KernelPlan plan;
  NodeValues values;
  unsigned inputs;
  NodeMap constants;
  std::map<unsigned, Value> accumulatorRows; // column results of 16-bit type: their f32 sums
  int64_t tile = 0;

  using Rows = MutableArrayRef<RowScope>;

  // items
  void runRows(Value begin, Value end);
  void runBlocks(Value begin, Value end);
  void runRange(Value begin, Value end);
  void runBlock(Value outer, const ColumnRange &range);
  RowScope rowScope(Value outer, Value row);

  // rows
  void emitRows(Rows rows, const ColumnRange &range);
  void emitPass(unsigned stage, Rows rows, const ColumnRange &range);
  SmallVector<Value> emitVectors(unsigned stage, Rows rows, Value column, Value mask, unsigned unroll,
                                 ValueRange accumulators);
  void storeRowValues(RowScope &row);

  // stores
  Type resultElement(unsigned store) const { return tensorType(kernel->getResult(store)).getElementType(); }
  Value resultPointer(unsigned store) const { return values.arguments[inputs + store]; }
  void storeElements(unsigned store, LaneScope &lanes, Value value);
  void accumulate(unsigned store, MutableArrayRef<LaneScope> rows);
  void scatter(const KernelStore &store, unsigned number, LaneScope &lanes);
  Value accumulatorAddress(unsigned store, const RowScope &row, Value column);
  void startColumnResults(const RowScope &row, const ColumnRange &range);
  void finishColumnResults(const RowScope &row, const ColumnRange &range);
  void copyScatterBase(const KernelStore &store, unsigned number, const ColumnRange &range);

  // reductions
  static bool isMax(Operation *op) { return isa<ReduceMaxOp>(op); }
  Value neutral(bool max, Type type);
  Value combine(bool max, Value a, Value b);

  void forColumns(const ColumnRange &range, unsigned unroll, SmallVector<Value> &carried,
                  function_ref<SmallVector<Value>(Value, Value, unsigned, ValueRange)> body);
};

//===- items ---------------------------------------------------------------------------------------------------===//

void KernelEmitter::run(Value begin, Value end, Value args) {
  Type pointer = b.pointer();
  for (unsigned i = 0; i < inputs + info.stores.size(); ++i)
    values.arguments.push_back(b.create<LLVM::LoadOp>(pointer, b.offset(args, b.builder.getI64Type(), b.i64(i)), 8));
  if (plan.scratchRows > 0)
    values.scratch = b.create<LLVM::AllocaOp>(pointer, b.builder.getF32Type(),
                                              b.i64(plan.scratchRows * plan.rowBlock * info.space.columns), 64);
  for (auto [i, store] : llvm::enumerate(info.stores))
    if (store.kind == Kind::columnSum && resultElement(i).getIntOrFloatBitWidth() == 16)
      accumulatorRows[i] =
          b.create<LLVM::AllocaOp>(pointer, b.builder.getF32Type(), b.i64(columnTile(info)), 64);
  RowScope none(b.i64(0), b.i64(0));
  for (unsigned node : plan.constantNodes)
    values.computeRowNode(node, none);
  constants = none.values;

  if (info.parallel() == KernelInfo::Parallel::rows)
    return runRows(begin, end);
  tile = columnTile(info);
  if (info.hasColumnResult())
    return runBlocks(begin, end);
  runRange(begin, end);
}

RowScope KernelEmitter::rowScope(Value outer, Value row) {
  RowScope scope(outer, row);
  scope.values = constants;
  return scope;
}

void KernelEmitter::runRows(Value begin, Value end) {
  b.loop(begin, end, 1, {}, [&](Value item, ValueRange) {
    bool single = info.space.outer == 1;
    Value outer = single ? b.i64(0) : b.div(item, info.space.rows);
    RowScope row = rowScope(outer, single ? item : b.mod(item, info.space.rows));
    int64_t columns = info.space.columns;
    emitRows(row, {b.i64(0), b.i64(columns), columns});
    return SmallVector<Value>();
  });
}

void KernelEmitter::runBlocks(Value begin, Value end) {
  int64_t columns = info.space.columns, tiles = (columns + tile - 1) / tile;
  if (columns == 0)
    return;
  b.loop(begin, end, 1, {}, [&](Value item, ValueRange) {
    if (tiles == 1) {
      runBlock(item, {b.i64(0), b.i64(columns), columns});
      return SmallVector<Value>();
    }
    Value first = b.mul(b.mod(item, tiles), tile);
    Value last = b.create<arith::MinSIOp>(b.add(first, tile), b.i64(columns));
    runBlock(b.div(item, tiles), {first, last, columns % tile == 0 ? std::optional(tile) : std::nullopt});
    return SmallVector<Value>();
  });
}

void KernelEmitter::runRange(Value begin, Value end) {
  RowScope row = rowScope(b.i64(0), b.i64(0));
  emitRows(row, {begin, end, std::nullopt});
}

void KernelEmitter::runBlock(Value outer, const ColumnRange &range) {
  int64_t rows = info.space.rows, blocked = rows / plan.rowBlock * plan.rowBlock;
  startColumnResults(rowScope(outer, b.i64(0)), range);
  auto rowsFrom = [&](int64_t first, int64_t last, unsigned count) {
    b.loop(b.i64(first), b.i64(last), count, {}, [&](Value row, ValueRange) {
      SmallVector<RowScope> block;
      for (unsigned i = 0; i < count; ++i) {
        block.push_back(rowScope(outer, b.add(row, i)));
        block.back().block = i;
      }
      emitRows(block, range);
      return SmallVector<Value>();
    });
  };
  if (blocked > 0)
    rowsFrom(0, blocked, plan.rowBlock);
  if (blocked < rows)
    rowsFrom(blocked, rows, 1);
  finishColumnResults(rowScope(outer, b.i64(0)), range);
}

//===- rows ----------------------------------------------------------------------------------------------------===//

void KernelEmitter::emitRows(Rows rows, const ColumnRange &range) {
  for (auto [stage, stagePlan] : llvm::enumerate(plan.stages)) {
    for (RowScope &row : rows)
      for (unsigned node : stagePlan.rowNodes)
        values.computeRowNode(node, row);
    if (stagePlan.hasPass())
      emitPass(stage, rows, range);
  }
  for (RowScope &row : rows)
    storeRowValues(row);
}

void KernelEmitter::emitPass(unsigned stage, Rows rows, const ColumnRange &range) {
  const StagePlan &pass = plan.stages[stage];
  unsigned unroll = rows.size() > 1 ? 1 : plan.unroll;
  // Accumulators: per reduction, per row, per unrolled vector.
  SmallVector<Value> accumulators;
  for (unsigned node : pass.reductions) {
    Type type = b.vector(b.computed(info.nodes[node].type.getElementType()));
    accumulators.append(rows.size() * unroll, neutral(isMax(info.nodes[node].op), type));
  }
  forColumns(range, unroll, accumulators, [&](Value column, Value mask, unsigned count, ValueRange carried) {
    SmallVector<Value> used;
    for (unsigned i = 0; i < carried.size(); ++i)
      if (i % unroll < count)
        used.push_back(carried[i]);
    SmallVector<Value> updated = emitVectors(stage, rows, column, mask, count, used);
    SmallVector<Value> all(carried);
    for (unsigned i = 0, next = 0; i < carried.size(); ++i)
      if (i % unroll < count)
        all[i] = updated[next++];
    return all;
  });
  for (auto [i, id] : llvm::enumerate(pass.reductions)) {
    const KernelNode &node = info.nodes[id];
    bool max = isMax(node.op);
    for (auto [r, row] : llvm::enumerate(rows)) {
      SmallVector<Value> parts(ArrayRef<Value>(accumulators).slice((i * rows.size() + r) * unroll, unroll));
      for (; parts.size() > 1; parts.resize(parts.size() / 2))
        for (size_t k = 0; k < parts.size() / 2; ++k)
          parts[k] = combine(max, parts[2 * k], parts[2 * k + 1]);
      Value total = b.reduce(parts[0], [&](Value x, Value y) { return combine(max, x, y); });
      row.values[id] = b.round(total, node.type.getElementType());
    }
  }
}

/// `count` vectors of each row from `column` on; accumulators as in emitPass, with `count` for each row.
SmallVector<Value> KernelEmitter::emitVectors(unsigned stage, Rows rows, Value column, Value mask, unsigned count,
                                              ValueRange accumulators) {
  const StagePlan &pass = plan.stages[stage];
  SmallVector<Value> updated(accumulators);
  for (unsigned u = 0; u < count; ++u) {
    NodeMap shared;
    SmallVector<LaneScope> lanes;
    Value first = b.add(column, static_cast<int64_t>(u) * b.lanes);
    for (RowScope &row : rows)
      lanes.push_back({row, first, mask, stage, u, &shared});
    // All values before any store: a result may overwrite what another one reads at the same element.
    for (LaneScope &scope : lanes) {
      for (unsigned node : pass.reductions)
        values.inLanes(info.nodes[node].operands[0], scope);
      for (unsigned node : pass.kept)
        values.inLanes(node, scope);
      for (unsigned store : pass.stores)
        values.inLanes(info.stores[store].node, scope);
      for (unsigned store : pass.columnResults)
        values.inLanes(info.stores[store].node, scope);
    }
    for (auto [r, scope] : llvm::enumerate(lanes)) {
      for (auto [i, id] : llvm::enumerate(pass.reductions)) {
        Value &sum = updated[(i * rows.size() + r) * count + u];
        Value next = combine(isMax(info.nodes[id].op), sum, values.inLanes(info.nodes[id].operands[0], scope));
        sum = mask ? b.create<arith::SelectOp>(mask, next, sum) : next;
      }
      for (unsigned node : pass.kept)
        b.storeLanes(values.inLanes(node, scope), values.scratchAddress(node, scope), b.builder.getF32Type(), mask);
      for (unsigned store : pass.stores)
        storeElements(store, scope, values.inLanes(info.stores[store].node, scope));
    }
    for (unsigned store : pass.columnResults)
      accumulate(store, lanes);
  }
  return updated;
}

void KernelEmitter::storeRowValues(RowScope &row) {
  for (unsigned number : plan.rowStores) {
    const KernelStore &store = info.stores[number];
    Type element = resultElement(number);
    b.store(row.values.lookup(store.node),
            values.address(resultPointer(number), element, store.index, row, Value()), element);
  }
}

/// Calls body(column, mask, vectors, carried) over the range: unrolled, one by one, and for the tail.
void KernelEmitter::forColumns(const ColumnRange &range, unsigned unroll, SmallVector<Value> &carried,
                               function_ref<SmallVector<Value>(Value, Value, unsigned, ValueRange)> body) {
  int64_t lanes = b.lanes, step = lanes * unroll, tail = info.space.columns % lanes;
  auto upTo = [&](int64_t multiple) { // the end of the whole multiples
    if (range.size)
      return b.add(range.begin, *range.size / multiple * multiple);
    Value size = b.create<arith::SubIOp>(range.end, range.begin);
    return b.add(range.begin, b.mul(b.div(size, multiple), multiple));
  };
  auto vectors = [&](Value from, Value to, unsigned count) {
    carried = b.loop(from, to, lanes * count, carried,
                     [&](Value column, ValueRange values) { return body(column, Value(), count, values); });
  };
  Value unrolledEnd = range.begin;
  if (unroll > 1 && (!range.size || *range.size >= step)) {
    unrolledEnd = upTo(step);
    vectors(range.begin, unrolledEnd, unroll);
  }
  Value vectorEnd = upTo(lanes);
  bool covered = range.size && unroll > 1 && *range.size % step < lanes;
  if (!covered && (!range.size || *range.size >= lanes))
    vectors(unrolledEnd, vectorEnd, 1);
  if (tail == 0)
    return;
  if (range.size) {
    carried = body(vectorEnd, b.firstLanes(tail), 1, carried);
    return;
  }
  assert(carried.empty() && "a range of unknown size carries nothing");
  Value hasTail = b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, vectorEnd, range.end);
  auto branch = scf::IfOp::create(b.builder, b.loc, hasTail, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  body(vectorEnd, b.firstLanes(tail), 1, {});
}

//===- stores --------------------------------------------------------------------------------------------------===//

void KernelEmitter::storeElements(unsigned store, LaneScope &lanes, Value value) {
  Type element = resultElement(store);
  Value address =
      values.address(resultPointer(store), element, info.stores[store].index, lanes.row, lanes.column);
  b.storeLanes(value, address, element, lanes.mask);
}

Value KernelEmitter::accumulatorAddress(unsigned store, const RowScope &row, Value column) {
  if (auto sums = accumulatorRows.find(store); sums != accumulatorRows.end()) {
    Value inTile = info.space.columns > tile ? b.mod(column, tile) : column;
    return b.offset(sums->second, b.builder.getF32Type(), inTile);
  }
  return values.address(resultPointer(store), resultElement(store), info.stores[store].index, row, column);
}

void KernelEmitter::accumulate(unsigned number, MutableArrayRef<LaneScope> rows) {
  const KernelStore &store = info.stores[number];
  if (store.kind == Kind::scatterAdd) {
    for (LaneScope &lanes : rows)
      scatter(store, number, lanes);
    return;
  }
  Type element = accumulatorRows.contains(number) ? Type(b.builder.getF32Type()) : resultElement(number);
  Value address = accumulatorAddress(number, rows[0].row, rows[0].column);
  Value sum = b.loadLanes(address, element, rows[0].mask);
  for (LaneScope &lanes : rows)
    sum = combine(store.kind == Kind::columnMax, sum, values.inLanes(store.node, lanes));
  b.storeLanes(sum, address, element, rows[0].mask);
}

void KernelEmitter::scatter(const KernelStore &store, unsigned number, LaneScope &lanes) {
  Type element = resultElement(number);
  Value row = lanes.row.values.lookup(store.scatterRow);
  if (!row.getType().isInteger(64))
    row = b.create<arith::ExtSIOp>(b.builder.getI64Type(), row);
  Value known = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, row, b.i64(store.scatterRows));
  Value mask = b.both(lanes.mask, b.splat(known));
  Value index = b.add(b.mul(row, store.scatterStride), values.scalarIndex(store.index, lanes.row, lanes.column));
  Value address = b.offset(resultPointer(number), element, index);
  Value sum = combine(false, b.loadLanes(address, element, mask), values.inLanes(store.node, lanes));
  b.storeLanes(b.round(sum, element), address, element, mask);
}

void KernelEmitter::startColumnResults(const RowScope &row, const ColumnRange &range) {
  for (auto [i, store] : llvm::enumerate(info.stores)) {
    unsigned number = i;
    if (store.kind == Kind::scatterAdd) {
      copyScatterBase(store, number, range);
      continue;
    }
    if (store.kind == Kind::element)
      continue;
    Type element = accumulatorRows.contains(number) ? Type(b.builder.getF32Type()) : resultElement(number);
    Value start = neutral(store.kind == Kind::columnMax, b.vector(b.computed(element)));
    SmallVector<Value> none;
    forColumns(range, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
      b.storeLanes(start, accumulatorAddress(number, row, column), element, mask);
      return SmallVector<Value>();
    });
  }
}

void KernelEmitter::finishColumnResults(const RowScope &row, const ColumnRange &range) {
  for (auto [number, sums] : accumulatorRows) {
    unsigned store = number;
    Type element = resultElement(store);
    SmallVector<Value> none;
    forColumns(range, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
      Value sum = b.loadLanes(accumulatorAddress(store, row, column), b.builder.getF32Type(), mask);
      Value address = values.address(resultPointer(store), element, info.stores[store].index, row, column);
      b.storeLanes(b.round(sum, element), address, element, mask);
      return SmallVector<Value>();
    });
  }
}

/// The base's columns into the result, unless they share a buffer.
void KernelEmitter::copyScatterBase(const KernelStore &store, unsigned number, const ColumnRange &range) {
  Value base = values.arguments[store.scatterBase], result = resultPointer(number);
  Value differ = b.create<LLVM::ICmpOp>(LLVM::ICmpPredicate::ne, base, result);
  auto branch = scf::IfOp::create(b.builder, b.loc, differ, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b.builder);
  b.builder.setInsertionPointToStart(branch.thenBlock());
  Type element = resultElement(number);
  RowScope zero(b.i64(0), b.i64(0));
  b.loop(b.i64(0), b.i64(store.scatterRows), 1, {}, [&](Value row, ValueRange) {
    Value first = b.mul(row, store.scatterStride);
    SmallVector<Value> none;
    forColumns(range, 1, none, [&](Value column, Value mask, unsigned, ValueRange) {
      Value index = b.add(first, values.scalarIndex(store.index, zero, column));
      b.storeLanes(b.loadLanes(b.offset(base, element, index), element, mask), b.offset(result, element, index),
                   element, mask);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  });
}

//===- reductions ----------------------------------------------------------------------------------------------===//

Value KernelEmitter::neutral(bool max, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (!max)
    return b.literal(type, 0);
  if (isa<FloatType>(element))
    return b.literal(type, -std::numeric_limits<double>::infinity());
  return b.integer(type, llvm::APInt::getSignedMinValue(element.getIntOrFloatBitWidth()).getSExtValue());
}

Value KernelEmitter::combine(bool max, Value x, Value y) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(x.getType()));
  if (max && isFloat) // which zero is the larger one does not matter to a maximum over many
    return b.create<arith::MaximumFOp>(x, y, arith::FastMathFlags::nsz);
  if (max)
    return b.create<arith::MaxSIOp>(x, y);
  return isFloat ? b.create<arith::AddFOp>(x, y) : b.create<arith::AddIOp>(x, y);
}

//===- what cannot be expressed --------------------------------------------------------------------------------===//

/// What is missing, or nothing.
std::string refusal(const KernelInfo &info, const NodeValues &values, const VectorTarget &target) {
  for (const KernelNode &node : info.nodes) {
    Type element = node.type.getElementType();
    if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 16)
      return "expected f32 or 16-bit floats in CPU kernels, found " + typeText(node.type);
    if (element.isF16() && !target.hasF16)
      return "expected a CPU with f16 conversions (F16C) for " + typeText(node.type);
  }
  for (auto [i, store] : llvm::enumerate(info.stores)) {
    if (store.kind == Kind::element && store.perColumn && info.space.elements() > 0 &&
        values.laneStride(store.index) != 1)
      return "expected result " + std::to_string(i) + " of the kernel to be written in the order of its columns";
    if (store.kind == Kind::columnSum && columnTile(info) > (1 << 18) &&
        info.nodes[store.node].type.getElementTypeBitWidth() == 16)
      return "expected at most 262144 columns in a 16-bit column sum";
  }
  return "";
}

} // namespace

bool emitKernel(OpBuilder &builder, StringRef symbol, KernelOp kernel, const KernelInfo &info,
                const VectorTarget &target, std::string &error) {
  LaneBuilder b(builder, builder.getUnknownLoc(), target);
  KernelPlan plan = planKernel(info);
  error = refusal(info, NodeValues(b, info, plan), target);
  if (!error.empty())
    return false;
  MLIRContext *context = builder.getContext();
  Type i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {i64, i64, b.pointer()});
  auto function = LLVM::LLVMFuncOp::create(builder, b.loc, symbol, type);
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  KernelEmitter(b, info, kernel).run(entry->getArgument(0), entry->getArgument(1), entry->getArgument(2));
  LLVM::ReturnOp::create(builder, b.loc, ValueRange());
  return true;
}

} // namespace tcc::cpu
