#include "codegen/cuda/kernel/usual_columns.h"

namespace tcc::cuda {
namespace {

using Kind = KernelNode::Kind;

/// a < b as b > a.
std::optional<Opcode> mirrored(Opcode opcode) {
  switch (opcode) {
  case Opcode::ltI:
    return Opcode::gtI;
  case Opcode::leI:
    return Opcode::geI;
  case Opcode::gtI:
    return Opcode::ltI;
  case Opcode::geI:
    return Opcode::leI;
  case Opcode::eqI:
  case Opcode::neI:
    return opcode;
  default:
    return std::nullopt;
  }
}

/// Whether the node is the column's number and a constant, as i32.
bool isColumn(const KernelNode &node) {
  return node.kind == Kind::index && node.type == ElementType::i32 && node.index.terms.size() == 1 &&
         node.index.terms[0].axis == axis::column && node.index.terms[0].isPlain() &&
         node.index.terms[0].coefficient == 1;
}

} // namespace

std::vector<UsualColumn> usualColumns(const KernelInfo &form, llvm::ArrayRef<unsigned> nodes) {
  std::vector<UsualColumn> found;
  for (unsigned id : nodes) {
    const KernelNode &node = form.nodes[id];
    if (node.kind != Kind::compute || node.steps.steps.size() != 1 || node.operands.size() != 2)
      continue;
    const ScalarStep &step = node.steps.steps[0];
    const std::optional<Opcode> reversed = mirrored(step.opcode);
    if (!reversed)
      continue;
    const unsigned left = node.operands[step.operands[0]], right = node.operands[step.operands[1]];
    const bool leads = isColumn(form.nodes[left]) && !form.nodes[right].perColumn;
    if (!leads && !(isColumn(form.nodes[right]) && !form.nodes[left].perColumn))
      continue;
    found.push_back({id, step.opcode != Opcode::eqI, leads ? step.opcode : *reversed, leads ? right : left,
                     form.nodes[leads ? left : right].index.constant});
  }
  return found;
}

std::string usualCondition(const UsualColumn &column, const std::string &group, int width, const std::string &value) {
  auto at = [&](int64_t lane) { return group + " + " + std::to_string(column.constant + lane); };
  switch (column.opcode) {
  case Opcode::ltI:
    return at(width - 1) + " < " + value;
  case Opcode::leI:
    return at(width - 1) + " <= " + value;
  case Opcode::gtI:
    return at(0) + " > " + value;
  case Opcode::geI:
    return at(0) + " >= " + value;
  default: // == and !=: the value is no column of the group
    return "(" + value + " < " + at(0) + " || " + value + " > " + at(width - 1) + ")";
  }
}

} // namespace tcc::cuda
