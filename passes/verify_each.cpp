// -fverify-each: the oracle is the interpreter in exact mode, where a pass that keeps the meaning changes results by
// fp64 rounding alone. Results that depend on a tcc.gradient are compared from autodiff on.
#include "passes/verify_each.h"
#include "ir/dialect.h"
#include "ir/reference/interpreter.h"
#include "passes/pipeline.h"
#include <cmath>
#include <map>

using namespace mlir;

namespace tcc {
namespace {

using Results = std::map<unsigned, RefTensor>; // by result number

/// The function's results that no tcc.gradient is needed for; nothing where sizes are still unknown.
std::optional<Results> evaluate(func::FuncOp function, std::string &error) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  Operation *terminator = copy->getBody().front().getTerminator();
  llvm::DenseSet<Value> blocked;
  for (Operation &op : copy->getBody().front())
    if (isa<GradientOp>(op) || llvm::any_of(op.getOperands(), [&](Value v) { return blocked.contains(v); }))
      for (Value result : op.getResults())
        blocked.insert(result);
  SmallVector<unsigned> numbers;
  SmallVector<Value> kept;
  for (auto [i, value] : llvm::enumerate(terminator->getOperands()))
    if (!blocked.contains(value)) {
      numbers.push_back(i);
      kept.push_back(value);
    }
  terminator->setOperands(kept);
  SmallVector<Type> types = llvm::map_to_vector(kept, [](Value value) { return value.getType(); });
  copy->setType(FunctionType::get(copy->getContext(), copy->getArgumentTypes(), types));
  copy->setResAttrsAttr(nullptr);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(copy->getBody().front())))
    if (&op != terminator && op.use_empty())
      op.erase();

  for (BlockArgument argument : copy->getArguments())
    if (!tensorType(argument).hasStaticShape())
      return std::nullopt;
  std::vector<RefTensor> arguments = verifyInputs(*copy, VerifyInputs::random);
  FailureOr<std::vector<RefTensor>> values = interpret(*copy, arguments, RefMode::exact, error);
  if (failed(values))
    return std::nullopt;
  Results results;
  for (auto [number, value] : llvm::zip(numbers, *values))
    results.emplace(number, std::move(value));
  return results;
}

/// The largest difference, relative to the tensor's largest magnitude; infinite where NaN or infinity differ. Below
/// `noise` a tensor is what cancelling terms of ordinary size leave, such as the gradient of a norm of equal values.
double difference(const RefTensor &a, const RefTensor &b) {
  constexpr double noise = 1e-4;
  double scale = noise, error = 0;
  for (double x : a.data)
    if (std::isfinite(x))
      scale = std::max(scale, std::abs(x));
  for (auto [x, y] : llvm::zip_equal(a.data, b.data)) {
    if (std::isnan(x) && std::isnan(y))
      continue;
    if (!std::isfinite(x) || !std::isfinite(y)) {
      if (x != y)
        return std::numeric_limits<double>::infinity();
      continue;
    }
    error = std::max(error, std::abs(x - y));
  }
  return error / scale;
}

} // namespace

std::vector<RefTensor> verifyInputs(func::FuncOp function, VerifyInputs kind) {
  constexpr uint64_t seed = 7;
  // Ties, zeros of both signs, and what saturates exponentials or vanishes beside the others.
  constexpr double edges[] = {0, -0.0, 1, 1, -1, 0.5, 30, -30, 1e-4, 1e-20};
  std::vector<RefTensor> arguments;
  for (BlockArgument argument : function.getArguments()) {
    RankedTensorType type = tensorType(argument);
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr);
    bool positive = type.getRank() == 0 || (name && name.getValue().ends_with(".v"));
    uint64_t stream = seed * 1000 + argument.getArgNumber();
    bool isIndex = type.getElementType().isInteger();
    arguments.push_back(isIndex ? randomTensor(type, stream, 0, 4) // rows that small tables have too
                                : randomTensor(type, stream, positive ? 0.01 : -1, 1));
    if (kind == VerifyInputs::random || isIndex || positive)
      continue;
    for (auto [i, value] : llvm::enumerate(arguments.back().data)) // one element in four is an edge
      if (uint64_t choice = (i * 0x9e3779b97f4a7c15 + stream) >> 32; choice % 4 == 0)
        value = roundToElement(edges[choice / 4 % std::size(edges)], type.getElementType());
  }
  return arguments;
}

struct VerifyEach::Impl {
  func::FuncOp function;
  std::optional<Results> before;
};

VerifyEach::VerifyEach(func::FuncOp function, const PipelineOptions &options) {
  if (!options.verifyEach)
    return;
  std::string error;
  impl = std::make_unique<Impl>(Impl{function, evaluate(function, error)});
}

VerifyEach::~VerifyEach() = default;

LogicalResult VerifyEach::compare(StringRef pass) {
  if (!impl || !impl->before)
    return success();
  std::string error;
  std::optional<Results> after = evaluate(impl->function, error);
  if (!after)
    return impl->function.emitError() << "after pass '" << pass << "' the interpreter refuses the function: " << error;
  // Splitting and reordering sums changes fp64 rounding, and long sums of cancelling terms lose some digits. Literals
  // that a pass makes, by decomposing or folding, are rounded to the tensors' type.
  constexpr double tolerance = 1e-6;
  for (const auto &[number, value] : *impl->before) {
    auto known = after->find(number);
    if (known == after->end() || known->second.data.size() != value.data.size())
      return impl->function.emitError() << "pass '" << pass << "' lost result " << number;
    double error = difference(value, known->second);
    if (!(error <= tolerance)) {
      Operation *producer = impl->function.getBody().front().getTerminator()->getOperand(number).getDefiningOp();
      return impl->function.emitError() << "pass '" << pass << "' changed the meaning of result " << number << " ("
                                        << (producer ? producer->getName().getStringRef() : StringRef("argument"))
                                        << "): relative difference " << error;
    }
  }
  return success();
}

} // namespace tcc
