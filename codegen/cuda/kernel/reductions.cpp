// Row reductions and results of columns: where they start, what they take, where they end.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {

using Kind = KernelNode::Kind;
using StoreKind = KernelStore::Kind;

static std::string leastOf(bool isMax, ElementType type) {
  if (!isMax)
    return zero(facts(type).computed);
  if (facts(type).isFloat)
    return "float_from_bits(0xff800000u)";
  return literal(ScalarLiteral::ofInteger(type == ElementType::i32 ? INT32_MIN : INT64_MIN), type);
}
std::string KernelBody::startOf(const KernelNode &node) {
  return leastOf(node.isMax, node.type);
}

std::string KernelBody::combined(bool isMax, const std::string &a, const std::string &b) {
  return std::string(isMax ? "MaxOf" : "SumOf") + "::combine(" + a + ", " + b + ")";
}

void KernelBody::declareScratch() {
  std::set<std::string> types;
  if (division.shape != KernelShape::warpRows)
    for (const KernelNode &node : form.nodes)
      if (node.kind == Kind::rowReduce)
        types.insert(valueType(node.type));
  for (const std::string &type : types)
    w.line("SHARED(" + type + ", scratch_" + type + ", 32);");
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
  std::string reduction = node.isMax ? "<MaxOf>(" : "<SumOf>(";
  std::string value = division.shape == KernelShape::warpRows
                          ? "warp_reduce" + reduction + part + ")"
                          : "block_reduce" + reduction + part + ", scratch_" + type + ")";
  w.line("const " + type + " " + name(id) + " = " + rounded(value, node.type) + ";");
}

std::string KernelBody::accumulatorType(size_t store) const {
  return valueType(form.results[store].type);
}

void KernelBody::startColumnResults(const std::string &subscript) {
  for (auto [i, store] : llvm::enumerate(form.stores)) {
    if (store.kind == StoreKind::element)
      continue;
    if (store.kind == StoreKind::scatterAdd) {
      writeScatterStart(i);
      continue;
    }
    std::string start = leastOf(store.kind == StoreKind::columnMax, form.results[i].type);
    w.line((subscript.empty() ? accumulatorType(i) + " " : "") + "total_" + std::to_string(i) + subscript + " = " +
           start + ";");
  }
}

void KernelBody::finishColumnResults(const std::string &subscript) {
  for (auto [i, store] : llvm::enumerate(form.stores))
    if (store.kind == StoreKind::columnSum || store.kind == StoreKind::columnMax)
      w.line("out" + std::to_string(i) + "[" + indexText(store.index) +
             "] = " + stored("total_" + std::to_string(i) + subscript, form.results[i].type) + ";");
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

void KernelBody::writeAccumulation(unsigned number, const std::string &subscript) {
  const KernelStore &store = form.stores[number];
  if (store.kind != StoreKind::scatterAdd) {
    std::string total = "total_" + std::to_string(number) + subscript;
    w.line(total + " = " + combined(store.kind == StoreKind::columnMax, total, name(store.node)) + ";");
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
