// The loops of a kernel:
//   rows:    an item is a row: the passes, one after the other.
//   outer:   an item is an outer block: column results are set to their start, then its rows run in order.
//   columns: an item is a tile of an outer block's columns, with the loops of `outer` over the tile; or, for a kernel
//            of one row without column results, a column.
#include "codegen/cpu/kernel_emitter.h"
#include "codegen/cpu/column_results.h"
#include "codegen/cpu/emit_kernels.h"

using namespace mlir;

namespace tcc::cpu {
namespace {

class KernelEmitter {
public:
  KernelEmitter(LaneBuilder &b, const KernelInfo &info, const KernelTuning &tuning)
      : b(b), info(info), tile(columnTile(info, tuning)), plan(planKernel(info, b.target.steady, tuning)),
        values(b, info, plan), inputs(info.arguments.size()) {
    for (const KernelTensor &result : info.results)
      elements.push_back(b.element(result.type));
  }

  /// `rows`: how many an outer block has, if that is known when the kernel runs; else null.
  void run(Value begin, Value end, Value args, Value rows);

private:
  LaneBuilder &b;
  const KernelInfo &info;
  const int64_t tile; // of columns
  KernelPlan plan;
  NodeValues values;
  unsigned inputs;
  SmallVector<Type> elements; // of the results
  NodeMap constants;
  Value rows; // how many an outer block has
  std::optional<ColumnResults> columnResults;

  // items
  void runRows(Value begin, Value end);
  void runBlocks(Value begin, Value end);
  void runRange(Value begin, Value end);
  void runBlock(Value outer, const ColumnRange &range);
  RowScope rowScope(Value outer, Value row);
  ColumnRange allColumns() { return {b.i64(0), b.i64(info.space.columns), info.space.columns}; }

  // rows
  void emitRow(RowScope row, const ColumnRange &range);
  struct Part {
    ColumnRange range;
    int64_t begin, end; // -1 where not known
  };
  SmallVector<Part> partsOf(const ColumnRange &range, bool hasSums);
  SmallVector<Part> partsOfRange(const ColumnRange &range);
  void emitPass(unsigned stage, RowScope &row, const ColumnRange &range);
  void emitVector(LaneScope &lanes, MutableArrayRef<Value> sums);
  Value finishReduction(const KernelNode &node, SmallVector<Value> parts);
  void storeRowValues(RowScope &row);

  Value resultPointer(unsigned store) const { return values.arguments[inputs + store]; }
};

//===- items ---------------------------------------------------------------------------------------------------===//

void KernelEmitter::run(Value begin, Value end, Value args, Value givenRows) {
  Type pointer = b.pointer();
  values.rows = givenRows;
  rows = givenRows ? givenRows : b.i64(info.space.rows);
  for (unsigned i = 0; i < inputs + info.stores.size(); ++i)
    values.arguments.push_back(b.create<LLVM::LoadOp>(pointer, b.offset(args, b.builder.getI64Type(), b.i64(i)), 8));
  if (plan.scratchRows > 0)
    values.scratch =
        b.create<LLVM::AllocaOp>(pointer, b.builder.getF32Type(), b.i64(plan.scratchRows * info.space.columns), 64);
  if (info.hasColumnResult()) {
    columnResults.emplace(b, info, values, ArrayRef<Value>(values.arguments).drop_front(inputs), elements, tile);
    columnResults->prepare();
  }
  RowScope any(b.i64(0), b.i64(0));
  for (unsigned node : plan.constantNodes)
    values.computeRowNode(node, any);
  constants = any.values;

  if (parallelOf(info) == Parallel::rows)
    runRows(begin, end);
  else if (info.hasColumnResult())
    runBlocks(begin, end);
  else
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
    emitRow(rowScope(outer, single ? item : b.mod(item, info.space.rows)), allColumns());
    return SmallVector<Value>();
  });
}

void KernelEmitter::runBlocks(Value begin, Value end) {
  int64_t columns = info.space.columns, tiles = (columns + tile - 1) / tile;
  if (columns == 0)
    return;
  b.loop(begin, end, 1, {}, [&](Value item, ValueRange) {
    if (tiles == 1) {
      runBlock(item, allColumns());
      return SmallVector<Value>();
    }
    Value first = b.mul(b.mod(item, tiles), tile);
    Value last = b.create<arith::MinSIOp>(b.add(first, tile), b.i64(columns));
    runBlock(b.div(item, tiles), {first, last, columns % tile == 0 ? std::optional(tile) : std::nullopt});
    return SmallVector<Value>();
  });
}

void KernelEmitter::runBlock(Value outer, const ColumnRange &range) {
  RowScope block = rowScope(outer, b.i64(0));
  columnResults->start(block, range);
  b.loop(b.i64(0), rows, 1, {}, [&](Value row, ValueRange) {
    emitRow(rowScope(outer, row), range);
    return SmallVector<Value>();
  });
  columnResults->finish(block, range);
}

void KernelEmitter::runRange(Value begin, Value end) {
  emitRow(rowScope(b.i64(0), b.i64(0)), {begin, end, std::nullopt});
}

//===- rows ----------------------------------------------------------------------------------------------------===//

void KernelEmitter::emitRow(RowScope row, const ColumnRange &range) {
  for (auto [stage, pass] : llvm::enumerate(plan.stages)) {
    for (unsigned node : pass.rowNodes)
      values.computeRowNode(node, row);
    if (pass.hasPass())
      emitPass(stage, row, range);
  }
  storeRowValues(row);
}

void KernelEmitter::emitPass(unsigned stage, RowScope &row, const ColumnRange &range) {
  const StagePlan &pass = plan.stages[stage];
  // One accumulator a reduction and unrolled vector, in this order.
  SmallVector<Value> sums;
  for (unsigned node : pass.reductions) {
    Type type = b.vector(b.computed(b.element(info.nodes[node].type)));
    sums.append(plan.unroll, reductionStart(b, info.nodes[node].reduction, type));
  }
  for (const Part &part : partsOf(range, !pass.reductions.empty()))
    forColumns(b, part.range, part.end >= 0 ? part.end : info.space.columns, plan.unroll, sums,
               [&](Value column, Value mask, unsigned vectors, ValueRange carried) {
                 SmallVector<Value> updated(carried);
                 for (unsigned u = 0; u < vectors; ++u) {
                   Value first = b.add(column, static_cast<int64_t>(u) * b.lanes);
                   LaneScope lanes{row, first, mask, stage, part.begin, part.end};
                   SmallVector<Value> own;
                   for (unsigned i = 0; i < pass.reductions.size(); ++i)
                     own.push_back(updated[i * plan.unroll + u]);
                   emitVector(lanes, own);
                   for (unsigned i = 0; i < pass.reductions.size(); ++i)
                     updated[i * plan.unroll + u] = own[i];
                 }
                 return updated;
               });
  for (auto [i, id] : llvm::enumerate(pass.reductions))
    row.values[id] =
        finishReduction(info.nodes[id], SmallVector<Value>(ArrayRef(sums).slice(i * plan.unroll, plan.unroll)));
}

/// Columns of a row, cut where a guard changes, so that a loop loads what it needs alone: a masked load of memory that
/// is not there takes a CPU a hundred times as long as another one. A cut changes the order of a sum.
SmallVector<KernelEmitter::Part> KernelEmitter::partsOf(const ColumnRange &range, bool hasSums) {
  if (!range.size)
    return partsOfRange(range);
  if (range.size != info.space.columns || (hasSums && b.target.steady))
    return {{range, -1, -1}};
  SmallVector<Part> parts;
  SmallVector<int64_t> cuts = hasSums ? guardCuts(info) : vectorCuts(info, b.lanes);
  cuts.push_back(info.space.columns);
  int64_t begin = 0;
  for (int64_t cut : cuts) {
    if (cut % b.lanes != 0 && cut != info.space.columns)
      continue;
    parts.push_back({{b.i64(begin), b.i64(cut), cut - begin}, begin, cut});
    begin = cut;
  }
  return parts;
}

/// A range begins at a vector's edge, and ends at one or with the row. Parts outside of it are empty.
SmallVector<KernelEmitter::Part> KernelEmitter::partsOfRange(const ColumnRange &range) {
  SmallVector<Part> parts;
  SmallVector<int64_t> cuts = vectorCuts(info, b.lanes);
  Value from = range.begin;
  int64_t begin = 0;
  for (int64_t cut : cuts) {
    Value to = b.create<arith::MaxSIOp>(from, b.create<arith::MinSIOp>(range.end, b.i64(cut)));
    parts.push_back({{from, to, std::nullopt}, begin, cut});
    from = to;
    begin = cut;
  }
  parts.push_back({{from, range.end, std::nullopt}, begin, info.space.columns});
  return parts;
}

/// What a pass does with one vector of columns; `sums` are the accumulators of its reductions.
void KernelEmitter::emitVector(LaneScope &lanes, MutableArrayRef<Value> sums) {
  const StagePlan &pass = plan.stages[lanes.stage];
  // All values before any store: a result may overwrite what another one reads at the same element.
  for (unsigned node : pass.reductions)
    values.inLanes(info.nodes[node].operands[0], lanes);
  for (unsigned node : pass.kept)
    values.inLanes(node, lanes);
  for (unsigned store : pass.stores)
    values.inLanes(info.stores[store].node, lanes);
  for (unsigned store : pass.columnResults)
    values.inLanes(info.stores[store].node, lanes);

  for (auto [sum, id] : llvm::zip(sums, pass.reductions)) {
    Value next = reductionStep(b, info.nodes[id].reduction, sum, values.inLanes(info.nodes[id].operands[0], lanes));
    sum = lanes.mask ? b.create<arith::SelectOp>(lanes.mask, next, sum) : next;
  }
  for (unsigned node : pass.kept)
    b.storeLanes(values.inLanes(node, lanes), values.scratchAddress(node, lanes), b.builder.getF32Type(), lanes.mask);
  for (unsigned store : pass.stores) {
    Value address =
        values.address(resultPointer(store), elements[store], info.stores[store].index, lanes.row, lanes.column);
    b.storeLanes(values.inLanes(info.stores[store].node, lanes), address, elements[store], lanes.mask);
  }
  for (unsigned store : pass.columnResults)
    columnResults->accumulate(store, lanes);
}

/// Accumulators to one value, pairwise.
Value KernelEmitter::finishReduction(const KernelNode &node, SmallVector<Value> parts) {
  auto step = [&](Value x, Value y) { return reductionStep(b, node.reduction, x, y); };
  for (; parts.size() > 1; parts.resize(parts.size() / 2))
    for (size_t i = 0; i < parts.size() / 2; ++i)
      parts[i] = step(parts[2 * i], parts[2 * i + 1]);
  return b.round(b.reduce(parts[0], step), b.element(node.type));
}

void KernelEmitter::storeRowValues(RowScope &row) {
  for (unsigned store : plan.rowStores) {
    Value address = values.address(resultPointer(store), elements[store], info.stores[store].index, row, Value());
    b.store(row.values.lookup(info.stores[store].node), address, elements[store]);
  }
}

//===- what cannot be expressed --------------------------------------------------------------------------------===//

/// What is missing, or nothing.
std::string refusal(const KernelInfo &info, const NodeValues &values, int64_t tile) {
  for (const KernelNode &node : info.nodes) {
    std::string name(facts(node.type).name);
    if (facts(node.type).isFloat && facts(node.type).bytes < 2)
      return "expected f32 or 16-bit floats in CPU kernels, found " + name;
  }
  for (auto [i, store] : llvm::enumerate(info.stores)) {
    if (store.kind == KernelStore::Kind::element && store.perColumn && info.space.elements() > 0 &&
        values.laneStride(store.index) != 1)
      return "expected result " + std::to_string(i) + " of the kernel to be written in the order of its columns";
    if (store.kind == KernelStore::Kind::columnReduce && store.reduction != Reduction::maximum && tile > mostWideSums &&
        facts(info.results[i].type).bytes == 2)
      return "expected at most 262144 columns in a 16-bit column sum";
  }
  return "";
}

} // namespace

runtime::Error emitKernel(OpBuilder &builder, StringRef symbol, const KernelInfo &info, const VectorTarget &target,
                          StringRef rows, const KernelTuning &tuning) {
  LaneBuilder b(builder, builder.getUnknownLoc(), target);
  KernelPlan plan = planKernel(info, target.steady, tuning);
  if (std::string why = refusal(info, NodeValues(b, info, plan), columnTile(info, tuning)); !why.empty())
    return runtime::Error(std::move(why));
  MLIRContext *context = builder.getContext();
  Type i64 = builder.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {i64, i64, b.pointer()});
  LLVM::GlobalOp number;
  if (!rows.empty())
    number = LLVM::GlobalOp::create(builder, b.loc, builder.getI8Type(), /*isConstant=*/true, LLVM::Linkage::External,
                                    rows, Attribute());
  auto function = LLVM::LLVMFuncOp::create(builder, b.loc, symbol, type);
  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  builder.setInsertionPointToStart(entry);
  const Value address = number ? b.create<LLVM::AddressOfOp>(number) : Value();
  KernelEmitter(b, info, tuning)
      .run(entry->getArgument(0), entry->getArgument(1), entry->getArgument(2),
           number ? b.create<LLVM::PtrToIntOp>(i64, address) : Value());
  LLVM::ReturnOp::create(builder, b.loc, ValueRange());
  return {};
}

} // namespace tcc::cpu
