#include "ir/kernel_precision.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc {
namespace {

using Kind = KernelNode::Kind;

bool isCast(const KernelNode &node) {
  return node.kind == Kind::compute && node.steps.steps.empty();
}

bool hasSingleStep(const KernelNode &node, Opcode opcode) {
  return node.kind == Kind::compute && node.steps.steps.size() == 1 && node.steps.steps[0].opcode == opcode;
}

/// Whether the value is one of 16 bits, or a literal in its place, as padding has it.
bool holds16Bits(const KernelInfo &form, unsigned id) {
  const KernelNode &node = form.nodes[id];
  if (is16BitFloat(node.type))
    return true;
  if (hasSingleStep(node, Opcode::select)) {
    const ScalarStep &step = node.steps.steps[0];
    const unsigned yes = node.operands[step.operands[1]], no = node.operands[step.operands[2]];
    const bool isPadded = form.nodes[yes].kind == Kind::literal || form.nodes[no].kind == Kind::literal;
    return isPadded && (holds16Bits(form, yes) || holds16Bits(form, no));
  }
  return isCast(node) && holds16Bits(form, node.operands[node.steps.result]);
}

/// The first node that has the value of this one: casts that change nothing, as detach is, lie between.
unsigned sameValue(const KernelInfo &form, unsigned id) {
  for (;;) {
    const KernelNode &node = form.nodes[id];
    if (!isCast(node))
      return id;
    const unsigned source = node.operands[node.steps.result];
    const ElementType from = form.nodes[source].type;
    if (from != node.type && (node.type != ElementType::f32 || !is16BitFloat(from)))
      return id;
    id = source;
  }
}

/// A difference of an element and a maximum of its row.
struct BelowMaximum {
  unsigned element, maximum;
};
std::optional<BelowMaximum> belowMaximum(const KernelInfo &form, unsigned id) {
  const KernelNode &difference = form.nodes[id];
  if (!hasSingleStep(difference, Opcode::subF))
    return std::nullopt;
  const auto &operands = difference.steps.steps[0].operands;
  const BelowMaximum found = {difference.operands[operands[0]], difference.operands[operands[1]]};
  const KernelNode &maximum = form.nodes[found.maximum];
  const bool isMaximum = maximum.kind == Kind::rowReduce && maximum.reduction == Reduction::maximum;
  return isMaximum ? std::optional(found) : std::nullopt;
}

/// The steps of a node by the numbers of their values.
struct Steps {
  const ScalarSteps &steps;
  size_t operands;

  const ScalarStep *with(unsigned value, Opcode opcode) const {
    const ScalarStep *step = value < operands ? nullptr : &steps.steps[value - operands];
    return step && step->opcode == opcode ? step : nullptr;
  }
  bool isLiteral(unsigned value, double number) const {
    const ScalarStep *step = with(value, Opcode::constant);
    return step && facts(step->type).isFloat && step->literal.asFloat() == number;
  }
  /// If the value is e^-|x|: the number of x.
  std::optional<unsigned> decayOf(unsigned value) const {
    const ScalarStep *exp = with(value, Opcode::expF);
    const ScalarStep *minus = exp ? with(exp->operands[0], Opcode::negF) : nullptr;
    const ScalarStep *magnitude = minus ? with(minus->operands[0], Opcode::absF) : nullptr;
    return magnitude ? std::optional(magnitude->operands[0]) : std::nullopt;
  }
};

} // namespace

std::vector<bool> readIn16Bits(const KernelInfo &form) {
  std::vector<bool> isRead(form.nodes.size()), isRounded(form.nodes.size(), true);
  auto read = [&](unsigned id, bool rounds) {
    isRead[id] = true;
    isRounded[id] = isRounded[id] && rounds;
  };
  for (const KernelNode &node : form.nodes)
    for (unsigned operand : node.operands)
      read(operand, isCast(node) && is16BitFloat(node.type));
  for (auto [store, result] : llvm::zip_equal(form.stores, form.results))
    read(store.node, store.kind == KernelStore::Kind::element && is16BitFloat(result.type));
  std::vector<bool> found;
  for (auto [id, node] : llvm::enumerate(form.nodes))
    found.push_back(node.kind == Kind::compute && facts(node.type).isFloat &&
                    (is16BitFloat(node.type) || (isRead[id] && isRounded[id])));
  return found;
}

bool isExpBelowMaximum(const KernelInfo &form, unsigned id) {
  const KernelNode &exp = form.nodes[id];
  if (!hasSingleStep(exp, Opcode::expF))
    return false;
  const std::optional<BelowMaximum> difference = belowMaximum(form, exp.operands[0]);
  return difference && holds16Bits(form, difference->element);
}

bool isExpAtMostOne(const KernelInfo &form, unsigned id, size_t step) {
  const KernelNode &node = form.nodes[id];
  if (node.steps.steps[step].opcode != Opcode::expF)
    return false;
  const size_t count = node.operands.size();
  if (Steps{node.steps, count}.decayOf(count + step))
    return true;
  const unsigned argument = node.steps.steps[step].operands[0];
  const std::optional<BelowMaximum> difference =
      argument < count ? belowMaximum(form, node.operands[argument]) : std::nullopt;
  return difference &&
         sameValue(form, form.nodes[difference->maximum].operands[0]) == sameValue(form, difference->element);
}

std::optional<SigmoidOfStep> sigmoidOf(const ScalarSteps &steps, size_t operands, size_t step) {
  const Steps in{steps, operands};
  const ScalarStep &product = steps.steps[step];
  if (product.opcode != Opcode::mulF)
    return std::nullopt;
  const ScalarStep *numerator = in.with(product.operands[0], Opcode::select);
  const ScalarStep *quotient = in.with(product.operands[1], Opcode::divF);
  const ScalarStep *isNegative = numerator ? in.with(numerator->operands[0], Opcode::ltF) : nullptr;
  const ScalarStep *sum = quotient ? in.with(quotient->operands[1], Opcode::addF) : nullptr;
  if (!isNegative || !sum || !in.isLiteral(quotient->operands[0], 1) || !in.isLiteral(sum->operands[1], 1) ||
      !in.isLiteral(isNegative->operands[1], 0))
    return std::nullopt;
  const unsigned decay = sum->operands[0], x = isNegative->operands[0];
  const bool isMirrored = in.isLiteral(numerator->operands[1], 1);
  if (numerator->operands[isMirrored ? 2 : 1] != decay || !in.isLiteral(numerator->operands[isMirrored ? 1 : 2], 1) ||
      in.decayOf(decay) != x)
    return std::nullopt;
  return SigmoidOfStep{x, isMirrored};
}

std::vector<bool> neededSteps(const ScalarSteps &steps, size_t operands,
                              llvm::ArrayRef<std::optional<SigmoidOfStep>> sigmoids) {
  std::vector<bool> needed(steps.steps.size());
  auto need = [&](unsigned value) {
    if (value >= operands)
      needed[value - operands] = true;
  };
  need(steps.result);
  for (size_t i = steps.steps.size(); i-- > 0;) {
    if (!needed[i])
      continue;
    if (sigmoids[i])
      need(sigmoids[i]->x);
    else
      for (unsigned k = 0; k < facts(steps.steps[i].opcode).operands; ++k)
        need(steps.steps[i].operands[k]);
  }
  return needed;
}

} // namespace tcc
