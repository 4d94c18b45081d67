// Writes passes over a row with their reductions, and the results of columns: how they start, what they add, how they
// are finished.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {

using Kind = KernelNode::Kind;
using StoreKind = KernelStore::Kind;

/// What a reduction over no value gives.
static std::string startOf(Reduction reduction, ElementType type) {
  const bool isFloat = facts(type).isFloat;
  switch (reduction) {
  case Reduction::sum:
    return zero(facts(type).computed);
  case Reduction::product:
    return literal(isFloat ? ScalarLiteral::ofFloat(1) : ScalarLiteral::ofInteger(1), facts(type).computed);
  case Reduction::maximum:
    return isFloat ? "float_from_bits(0xff800000u)"
                   : literal(ScalarLiteral::ofInteger(type == ElementType::i32 ? INT32_MIN : INT64_MIN), type);
  }
  llvm_unreachable("a reduction without a start");
}

/// The device's class that combines two values.
static std::string wayOf(Reduction reduction) {
  switch (reduction) {
  case Reduction::sum:
    return "SumOf";
  case Reduction::maximum:
    return "MaxOf";
  case Reduction::product:
    return "ProductOf";
  }
  llvm_unreachable("a reduction without a class");
}

std::string KernelBody::combined(Reduction reduction, const std::string &a, const std::string &b) {
  return wayOf(reduction) + "::combine(" + a + ", " + b + ")";
}

void KernelBody::declareScratch() {
  std::set<std::string> types;
  if (!warpOwnsRow())
    for (const KernelNode &node : form.nodes)
      if (node.kind == Kind::rowReduce)
        types.insert(valueType(node.type));
  for (const std::string &type : types)
    w.line("SHARED(" + type + ", scratch_" + type + ", " + std::to_string(mostBlockWarps) + ");");
}

void KernelBody::declareKept() {
  for (auto [i, stage] : llvm::enumerate(values.keptFrom))
    if (stage >= 0)
      w.line(valueType(form.nodes[i].type) + " kept_" + std::to_string(i) + "[" + std::to_string(division.perThread) +
             "];");
}

void KernelBody::writeReduced(unsigned id) {
  const KernelNode &node = form.nodes[id];
  std::string type = valueType(node.type), part = "part_" + std::to_string(id);
  std::string reduction = "<" + wayOf(node.reduction) + ">(";
  std::string value = warpOwnsRow() ? "warp_reduce" + reduction + part + ")"
                                    : "block_reduce<" + wayOf(node.reduction) + ", " + std::to_string(warps()) + ">(" +
                                          part + ", scratch_" + type + ")";
  w.line("const " + type + " " + name(id) + " = " + rounded(value, node.type) + ";");
}

/// Writes the nodes with their loads first: the slow path of a division is a call, over which the compiler moves no
/// load.
void KernelBody::writeRowNodes(llvm::ArrayRef<unsigned> nodes) {
  auto isPlainLoad = [&](unsigned id) { return form.nodes[id].kind == Kind::load && form.nodes[id].operands.empty(); };
  for (bool loads : {true, false})
    for (unsigned id : nodes)
      if (isPlainLoad(id) == loads)
        writeNodes(id);
}

void KernelBody::writePasses(const std::string &start) {
  declareKept();
  bool isCopying = !staged.loads.empty();
  for (unsigned number = 0; number < form.stages; ++number) {
    const KernelStage &stage = stages.stages[number];
    writeRowNodes(stage.rowNodes);
    if (stage.reductions.empty() && stage.stores.empty() && stage.columnResults.empty())
      continue;
    for (unsigned node : stage.reductions)
      w.line(valueType(form.nodes[node].type) + " part_" + std::to_string(node) + " = " +
             startOf(form.nodes[node].reduction, form.nodes[node].type) + ";");
    if (isCopying) // all copies have come but those of the warp's next row
      w.line("copy_async_wait<" + std::string(staged.rows == 1 ? "0" : "1") + ">();");
    else if (staged.rows > 1) // without it the compiler keeps the row in registers from pass to pass, and has too few
      w.line("warp_barrier();");
    isCopying = false;
    overGroups(start, [&] { writeGroupBody(number); });
    for (unsigned node : stage.reductions)
      writeReduced(node);
  }
  writeNodes(stages.stages[form.stages].rowNodes);
  if (stages.rowStores.empty())
    return;
  w.line(warpOwnsRow() ? "warp_barrier();"
                       : "block_barrier();"); // a store may lie over what others of the row have read
  open(warpOwnsRow() ? "if (lane_index() == 0)" : "if (thread_x() == 0)");
  for (unsigned store : stages.rowStores)
    writeStore(store);
  close();
}

std::string KernelBody::accumulatorType(size_t store) const {
  return valueType(form.results[store].type);
}

void KernelBody::startColumnResults(const std::string &start) {
  for (auto [i, store] : llvm::enumerate(form.stores))
    if (store.kind == StoreKind::columnReduce)
      w.line(accumulatorType(i) + " total_" + std::to_string(i) + "[" + std::to_string(division.perThread) + "];");
  overGroups(start, [&] {
    overLanes([&] {
      for (auto [i, store] : llvm::enumerate(form.stores))
        if (store.kind == StoreKind::scatterAdd)
          writeScatterStart(i);
        else if (store.kind != StoreKind::element)
          w.line("total_" + std::to_string(i) + "[" + columnNumber() +
                 "] = " + startOf(store.reduction, form.results[i].type) + ";");
    });
  });
}

void KernelBody::writeTotal(size_t number, const std::string &value) {
  const KernelStore &store = form.stores[number];
  declareAxesOf(store.index);
  w.line("out" + std::to_string(number) + "[" + indexText(store.index) +
         "] = " + stored(value, form.results[number].type) + ";");
}

void KernelBody::finishColumnResults(const std::string &start) {
  if (llvm::none_of(form.stores, [](const KernelStore &store) { return store.kind == StoreKind::columnReduce; }))
    return;
  overGroups(start, [&] {
    overLanes([&] {
      for (auto [i, store] : llvm::enumerate(form.stores))
        if (store.kind == StoreKind::columnReduce)
          writeTotal(i, "total_" + std::to_string(i) + "[" + columnNumber() + "]");
    });
  });
}

void KernelBody::declareWarp() {
  w.line("const int warp = warp_index();");
}

void KernelBody::finishSharedResults(const std::string &start) {
  if (warps() == 1)
    return finishColumnResults(start);
  std::set<std::string> types;
  for (auto [i, store] : llvm::enumerate(form.stores)) {
    if (store.kind == StoreKind::element)
      continue;
    std::string number = std::to_string(i), type = accumulatorType(i), tile = std::to_string(division.tile);
    std::string origin = start.empty() ? "" : " - " + start;
    if (types.insert(type).second)
      w.line("SHARED(" + type + ", totals_" + type + ", " + std::to_string(warps() * division.tile) + ");");
    else
      w.line("block_barrier();"); // the tile before this has been read
    overGroups(start, [&] {
      overLanes([&] {
        w.line("totals_" + type + "[warp * " + tile + " + c" + origin + "] = total_" + number + "[" + columnNumber() +
               "];");
      });
    });
    w.line("block_barrier();");
    open("for (int at = thread_x(); at < " + tile + "; at += " + std::to_string(division.threads) + ")");
    w.line("const int c = " + (start.empty() ? "" : start + " + ") + "at;");
    open("if (c < " + std::to_string(form.space.columns) + ")");
    w.line(type + " total = totals_" + type + "[at];");
    w.line("#pragma unroll");
    w.line("for (int other = 1; other < " + std::to_string(warps()) + "; ++other)");
    w.line("  total = " + combined(store.reduction, "total", "totals_" + type + "[other * " + tile + " + at]") + ";");
    writeTotal(i, "total");
    close();
    close();
  }
}

/// This thread's column of the base, unless base and result are one.
void KernelBody::writeScatterStart(size_t number) {
  const KernelStore &store = form.stores[number];
  std::string base = "in" + std::to_string(store.scatterBase), result = "out" + std::to_string(number);
  std::string index = "t * " + std::to_string(store.scatterStride) + "ll + " + indexText(store.index);
  open("if (" + base + " != " + result + ")");
  w.line("for (i64 t = 0; t < " + std::to_string(store.scatterRows) + "; ++t)");
  w.line("  " + result + "[" + index + "] = " + base + "[" + index + "];");
  close();
}

void KernelBody::writeAccumulation(unsigned number) {
  const KernelStore &store = form.stores[number];
  if (store.kind != StoreKind::scatterAdd) {
    std::string total = "total_" + std::to_string(number) + "[" + columnNumber() + "]";
    w.line(total + " = " + combined(store.reduction, total, name(store.node)) + ";");
    return;
  }
  std::string row = name(store.scatterRow), result = "out" + std::to_string(number);
  ElementType type = form.results[number].type;
  open("if (" + row + " >= 0 && " + row + " < " + std::to_string(store.scatterRows) + ")");
  w.line(elementType(type) + " *target = " + result + " + static_cast<i64>(" + row + ") * " +
         std::to_string(store.scatterStride) + " + " + indexText(store.index) + ";");
  w.line("*target = " + stored(loaded("*target", type) + " + " + name(store.node), type) + ";");
  close();
}

} // namespace tcc::cuda
