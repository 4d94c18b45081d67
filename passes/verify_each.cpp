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

bool needsGradient(Operation &op) {
  return op.walk([](GradientOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

/// The function's results that no tcc.gradient is needed for.
runtime::Expected<Results> evaluate(func::FuncOp function, ArrayRef<RefTensor> arguments) {
  OwningOpRef<func::FuncOp> copy = function.clone();
  Operation *terminator = copy->getBody().front().getTerminator();
  llvm::DenseSet<Value> blocked;
  for (Operation &op : copy->getBody().front())
    if (needsGradient(op) || llvm::any_of(op.getOperands(), [&](Value v) { return blocked.contains(v); }))
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

  runtime::Expected<std::vector<RefTensor>> values = interpret(*copy, arguments, RefMode::exact);
  if (!values)
    return values.error();
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

struct VerifyEach::Impl {
  func::FuncOp function;
  std::vector<RefTensor> arguments; // what a pass does to the function changes none of them
  runtime::Expected<Results> before;
};

VerifyEach::VerifyEach(func::FuncOp function, const PipelineOptions &options) {
  const bool sizesAreKnown = llvm::all_of(function.getArguments(),
                                          [](BlockArgument argument) { return tensorType(argument).hasStaticShape(); });
  if (!options.verifyEach || !sizesAreKnown)
    return;
  std::vector<RefTensor> arguments = verifyInputs(function, VerifyInputs::random);
  runtime::Expected<Results> before = evaluate(function, arguments);
  impl = std::make_unique<Impl>(Impl{function, std::move(arguments), std::move(before)});
}

VerifyEach::~VerifyEach() = default;

LogicalResult VerifyEach::compare(StringRef pass) {
  if (!impl || !impl->before)
    return success();
  const runtime::Expected<Results> after = evaluate(impl->function, impl->arguments);
  if (!after)
    return impl->function.emitError() << "after pass '" << pass
                                      << "' the interpreter refuses the function: " << after.error().message();
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
