// A value may be off by what moving the op's operands by up to two ulps of their types does to its tensor: kernels that
// store probabilities in 16 bits, or add in another order, do as much.
#include "codegen/check_lowered.h"
#include "codegen/graph_reference.h"
#include "ir/reference/bytes.h"
#include "ir/tensor_bytes.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

func::FuncOp loweredFunction(const LoweredOp &op) {
  return op.function->get();
}

std::string textOf(func::FuncOp function) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  function->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo(false).assumeVerified());
  return text;
}

/// The elements of a strided view, whose buffer's bytes these are, in its order.
RefTensor gathered(RankedTensorType type, const StridedView &view, const std::string &bytes) {
  const int64_t reach = static_cast<int64_t>(bytes.size()) / elementBytes(type.getElementType());
  const RefTensor all = readBytes(RankedTensorType::get({reach}, type.getElementType()), bytes.data());
  RefTensor tensor{type, {}};
  tensor.data.reserve(static_cast<size_t>(type.getNumElements()));
  SmallVector<int64_t> index(view.sizes.size(), 0);
  for (int64_t count = type.getNumElements(); count > 0; --count) {
    int64_t at = 0;
    for (auto [i, stride] : llvm::zip_equal(index, view.strides))
      at += i * stride;
    tensor.data.push_back(all.data[static_cast<size_t>(at)]);
    for (size_t dim = index.size(); dim-- > 0 && ++index[dim] == view.sizes[dim];)
      index[dim] = 0;
  }
  return tensor;
}

ValueDifference difference(const RefTensor &seen, const RefTensor &cpu, ArrayRef<const RefTensor *> nearby) {
  constexpr double factor = 4;
  double scale = 0, moved = 0;
  for (size_t i = 0; i < cpu.data.size(); ++i) {
    if (!std::isfinite(cpu.data[i]))
      continue;
    scale = std::max(scale, std::fabs(cpu.data[i]));
    for (const RefTensor *other : nearby)
      if (std::isfinite(other->data[i]))
        moved = std::max(moved, std::fabs(other->data[i] - cpu.data[i]));
  }
  const bool isFloat = isa<FloatType>(cpu.element());
  for (size_t i = 0; i < cpu.data.size(); ++i) {
    const double allowed =
        isFloat ? factor * (moved + ulpAt(std::fabs(cpu.data[i]), cpu.element())) + 0x1p-20 * scale : 0;
    if (!sameKind(seen.data[i], cpu.data[i]) ||
        (std::isfinite(cpu.data[i]) && std::fabs(seen.data[i] - cpu.data[i]) > allowed))
      return {static_cast<int64_t>(i), seen.data[i], cpu.data[i], allowed};
  }
  return {};
}

} // namespace

std::vector<RefTensor> LoweredCheck::operandsOf(const LoweredOp &op, ArrayRef<std::string> buffers) const {
  std::vector<RefTensor> operands;
  for (auto [type, view, bytes] : llvm::zip_equal(loweredFunction(op).getArgumentTypes(), op.call.views, buffers))
    operands.push_back(gathered(cast<RankedTensorType>(type), view, bytes));
  return operands;
}

runtime::Expected<std::pair<unsigned, ValueDifference>>
LoweredCheck::compare(const LoweredOp &op, ArrayRef<RefTensor> operands, ArrayRef<std::string> results) {
  constexpr uint64_t seeds = 2;
  auto [known, isNew] = runners.try_emplace(textOf(loweredFunction(op)), op, nullptr);
  if (isNew)
    known->second.second = runnerOf(loweredFunction(op), options, nullptr);
  const runtime::Expected<std::unique_ptr<GraphRunner>> &runner = known->second.second;
  runtime::Expected<std::vector<RefTensor>> cpu = runner ? (*runner)->run(operands) : runner.error();
  if (!cpu)
    return cpu.error();
  std::vector<std::vector<RefTensor>> moved;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<RefTensor> others;
    for (auto [i, operand] : llvm::enumerate(operands))
      others.push_back(nudged(operand, seed * 100 + i));
    runtime::Expected<std::vector<RefTensor>> values = (*runner)->run(others);
    if (!values)
      return values.error();
    moved.push_back(std::move(*values));
  }
  for (unsigned i = 0; i < cpu->size(); ++i) {
    const RefTensor seen = readBytes((*cpu)[i].type, results[i].data());
    SmallVector<const RefTensor *> nearby;
    for (const std::vector<RefTensor> &values : moved)
      nearby.push_back(&values[i]);
    if (ValueDifference found = difference(seen, (*cpu)[i], nearby))
      return std::pair(i, found);
  }
  return std::pair(static_cast<unsigned>(cpu->size()), ValueDifference());
}

} // namespace tcc
