// Greedy reduction: each attempt changes a copy, and the copy replaces the graph if the check still fails.
#include "tests/random_graphs/reduce.h"
#include "ir/emit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tcc::test {
namespace {

func::FuncOp functionOf(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}
Block &bodyOf(ModuleOp module) {
  return functionOf(module).getBody().front();
}

/// The function's type after its block and terminator, whose changes go before it.
void updateType(func::FuncOp function) {
  Block &block = function.getBody().front();
  function.setType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
}

/// Gradients that nobody uses, ops that nobody uses, arguments that nobody uses.
void removeUnused(ModuleOp module) {
  func::FuncOp function = functionOf(module);
  Block &block = bodyOf(module);
  auto operations = llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(operations)) {
    if (op->use_empty()) {
      op->erase();
      continue;
    }
    auto gradient = dyn_cast<GradientOp>(op);
    if (!gradient || llvm::none_of(gradient.getResults(), [](Value value) { return value.use_empty(); }))
      continue;
    OpBuilder builder(gradient);
    SmallVector<Value> wrt, old;
    for (auto [result, source] : llvm::zip_equal(gradient.getResults(), gradient.getWrt()))
      if (!result.use_empty()) {
        wrt.push_back(source);
        old.push_back(result);
      }
    auto smaller = GradientOp::create(builder, op->getLoc(), gradient.getLoss(), wrt);
    for (auto [from, to] : llvm::zip_equal(old, smaller.getResults()))
      from.replaceAllUsesWith(to);
    op->erase();
  }
  BitVector unused(block.getNumArguments());
  for (BlockArgument argument : block.getArguments())
    unused[argument.getArgNumber()] = argument.use_empty() && !function.getArgAttr(argument.getArgNumber(), stateAttr);
  // A state goes together with its update.
  for (BlockArgument argument : block.getArguments())
    if (argument.use_empty() && !unused[argument.getArgNumber()]) {
      bool isUpdated = false;
      for (unsigned i = 0; i < function.getNumResults(); ++i)
        isUpdated |= function.getResultAttr(i, updatesAttr) == function.getArgAttr(argument.getArgNumber(), nameAttr);
      unused[argument.getArgNumber()] = !isUpdated;
    }
  (void)function.eraseArguments(unused);
}

void dropResults(ModuleOp module, const BitVector &dropped) {
  func::FuncOp function = functionOf(module);
  Operation *terminator = bodyOf(module).getTerminator();
  for (unsigned i = dropped.size(); i-- > 0;)
    if (dropped[i])
      terminator->eraseOperand(i);
  (void)function.eraseResults(dropped);
}

Operation *opAt(ModuleOp module, unsigned number) {
  return &*std::next(bodyOf(module).begin(), number);
}

/// Replaces result 0 by the operand, by a new argument (source = number of operands) or by zeros (one more).
bool replaceOp(ModuleOp module, unsigned number, unsigned source) {
  Operation *op = opAt(module, number);
  Value result = op->getResult(0), replacement;
  if (source < op->getNumOperands()) {
    replacement = op->getOperand(source);
    if (replacement.getType() != result.getType())
      return false;
  } else if (source == op->getNumOperands()) {
    func::FuncOp function = functionOf(module);
    unsigned position = function.getNumArguments();
    std::string name = (isa<FloatType>(tensorType(result).getElementType()) ? "r" : "ir") + std::to_string(position);
    while (llvm::any_of(llvm::seq(0u, position), [&](unsigned i) {
      auto known = function.getArgAttrOfType<StringAttr>(i, nameAttr);
      return known && known.getValue() == name;
    }))
      name += "_";
    Builder builder(function.getContext());
    NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr(name));
    (void)function.insertArgument(position, result.getType(), attributes.getDictionary(function.getContext()),
                                  op->getLoc());
    replacement = function.getArgument(position);
  } else {
    OpBuilder builder(op);
    replacement = Emit(builder, op->getLoc()).constant(0, tensorType(result));
  }
  result.replaceAllUsesWith(replacement);
  return true;
}

Attribute resized(Attribute attribute, int64_t from, int64_t to) {
  Builder builder(attribute.getContext());
  if (auto literal = dyn_cast<DenseElementsAttr>(attribute); literal && literal.isSplat()) {
    SmallVector<int64_t> shape(literal.getType().getShape());
    llvm::replace(shape, from, to);
    return literal.resizeSplat(literal.getType().clone(shape));
  }
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attribute)) {
    SmallVector<int64_t> sizes(list.asArrayRef());
    llvm::replace(sizes, from, to);
    return builder.getDenseI64ArrayAttr(sizes);
  }
  return attribute;
}

/// Every dim of this size takes another one; the verifier decides whether that makes sense.
void resize(ModuleOp module, int64_t from, int64_t to) {
  auto change = [&](Value value) {
    RankedTensorType type = tensorType(value);
    SmallVector<int64_t> shape(type.getShape());
    llvm::replace(shape, from, to);
    value.setType(type.clone(shape));
  };
  Block &block = bodyOf(module);
  for (BlockArgument argument : block.getArguments())
    change(argument);
  for (Operation &op : block.without_terminator()) {
    for (Value result : op.getResults())
      change(result);
    for (NamedAttribute attribute : op.getAttrs())
      if (attribute.getName() == "value" || attribute.getName() == "starts" || attribute.getName() == "limits")
        op.setAttr(attribute.getName(), resized(attribute.getValue(), from, to));
  }
  updateType(functionOf(module));
}

class Reducer {
public:
  Reducer(ModuleOp module, const std::function<bool(ModuleOp)> &fails, int tries)
      : current(cast<ModuleOp>(module->clone())), fails(fails), triesLeft(tries) {}

  OwningOpRef<ModuleOp> run() {
    for (bool smaller = true; smaller && triesLeft > 0;) {
      smaller = dropSomeResults();
      smaller |= replaceSomeOps();
      smaller |= shrinkSomeSizes();
    }
    return std::move(current);
  }

private:
  OwningOpRef<ModuleOp> current;
  const std::function<bool(ModuleOp)> &fails;
  int triesLeft;

  bool attempt(const std::function<bool(ModuleOp)> &change) {
    OwningOpRef<ModuleOp> candidate(cast<ModuleOp>((*current)->clone()));
    if (triesLeft <= 0 || !change(*candidate))
      return false;
    removeUnused(*candidate);
    ScopedDiagnosticHandler quiet(candidate->getContext(), [](Diagnostic &) { return success(); });
    if (failed(verify(*candidate)))
      return false;
    --triesLeft;
    if (!fails(*candidate))
      return false;
    current = std::move(candidate);
    return true;
  }

  bool dropSomeResults() {
    bool any = false;
    unsigned count = functionOf(*current).getNumResults();
    for (unsigned kept = 0; kept < count && count > 1; ++kept)
      if (attempt([&](ModuleOp module) {
            BitVector dropped(count, true);
            dropped.reset(kept);
            dropResults(module, dropped);
            return true;
          }))
        return true;
    for (unsigned i = count; i-- > 0 && count > 1;)
      if (attempt([&](ModuleOp module) {
            BitVector dropped(count);
            dropped.set(i);
            dropResults(module, dropped);
            return true;
          })) {
        any = true;
        --count;
      }
    return any;
  }

  bool replaceSomeOps() {
    bool any = false;
    for (unsigned number = 0; number < std::distance(bodyOf(*current).begin(), bodyOf(*current).end()); ++number) {
      // From the last op to the first: whatever only it needs goes with it.
      unsigned size = std::distance(bodyOf(*current).begin(), bodyOf(*current).end());
      if (number + 2 > size)
        break;
      unsigned position = size - 2 - number;
      Operation *op = opAt(*current, position);
      if (isa<ConstantOp, GradientOp>(op) || op->getNumResults() != 1)
        continue;
      for (unsigned source = 0; source < op->getNumOperands() + 2; ++source)
        if (attempt([&](ModuleOp module) { return replaceOp(module, position, source); })) {
          any = true;
          break;
        }
    }
    return any;
  }

  bool shrinkSomeSizes() {
    bool any = false;
    std::set<int64_t, std::greater<>> sizes;
    for (Operation &op : bodyOf(*current))
      for (Value value : op.getOperands())
        sizes.insert(tensorType(value).getShape().begin(), tensorType(value).getShape().end());
    for (int64_t size : sizes)
      for (int64_t smaller : {int64_t(1), int64_t(2), int64_t(3), size / 2, size - 1})
        if (smaller > 0 && smaller < size &&
            attempt([&](ModuleOp module) { return resize(module, size, smaller), true; })) {
          any = true;
          break;
        }
    return any;
  }
};

} // namespace

int64_t countOps(ModuleOp module) {
  return llvm::count_if(bodyOf(module).without_terminator(), [](Operation &op) { return !isa<ConstantOp>(op); });
}

OwningOpRef<ModuleOp> reduceGraph(ModuleOp module, const std::function<bool(ModuleOp)> &fails, int tries) {
  return Reducer(module, fails, tries).run();
}

} // namespace tcc::test
