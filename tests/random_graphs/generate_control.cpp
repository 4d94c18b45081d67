// A range of consecutive ops becomes the body of a tcc.cond or of a tcc.repeat. The values that it reads become the
// body's inputs, and those of its values that are read after it become the results. The second body of a cond computes
// the same values, negated or halved. A loop halves its results in each turn and adds the body's values.
#include "tests/random_graphs/generate_control.h"
#include "ir/emit.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "tests/random_graphs/dice.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tcc::test {
namespace {

bool isFloat(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

/// Consecutive ops of one block, the values from before that they read, and their values that others read.
struct Range {
  SmallVector<Operation *> ops;
  llvm::SetVector<Value> inputs, results;

  explicit Range(ArrayRef<Operation *> list) : ops(list) {
    llvm::DenseSet<Operation *> inside(list.begin(), list.end());
    for (Operation *op : list) {
      for (Value operand : op->getOperands())
        if (!operand.getDefiningOp() || !inside.contains(operand.getDefiningOp()))
          inputs.insert(operand);
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
          results.insert(result);
    }
  }
};

class Outliner {
public:
  Outliner(func::FuncOp function, uint64_t seed)
      : function(function), dice(seed), builder(function.getContext()), emit(builder, function.getLoc()) {}

  void run() {
    for (int64_t left = dice.between(1, 3); left > 0; --left)
      outlineOne(function.getBody().front());
  }

private:
  func::FuncOp function;
  Dice dice;
  OpBuilder builder;
  Emit emit;

  void outlineOne(Block &block) {
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator()) {
      if (isa<GradientOp>(op))
        break;
      ops.push_back(&op);
    }
    if (ops.size() < 2)
      return;
    const int64_t first = dice.below(static_cast<int64_t>(ops.size()) - 1);
    const int64_t most = std::min<int64_t>(10, static_cast<int64_t>(ops.size()) - first);
    Range range(ArrayRef<Operation *>(ops).slice(first, dice.between(1, most)));
    if (range.results.empty())
      return;
    builder.setInsertionPoint(range.ops.front());
    const bool loops = llvm::all_of(range.results, isFloat) && dice.chance(50);
    Operation *made = loops ? repeat(range) : cond(range);
    replace(range, made);
    if (dice.chance(40))
      outlineInside(made->getRegion(0).front());
  }

  static void replace(const Range &range, Operation *made) {
    for (auto [i, old] : llvm::enumerate(range.results))
      Value(old).replaceAllUsesWith(made->getResult(i));
    for (Operation *op : llvm::reverse(range.ops))
      op->erase();
  }

  /// Puts one op of a body into a loop. It is never a cond, whose predicate must be an argument of the function.
  void outlineInside(Block &block) {
    SmallVector<Operation *> ops = llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    if (ops.empty())
      return;
    Range range(ops[static_cast<size_t>(dice.below(static_cast<int64_t>(ops.size())))]);
    if (range.results.empty() || !llvm::all_of(range.results, isFloat))
      return;
    builder.setInsertionPoint(range.ops.front());
    Operation *made = repeat(range);
    replace(range, made);
  }

  /// Clones the range's ops to where `into` stands, on `inputs` instead of the range's inputs. Gives the results.
  SmallVector<Value> clone(const Range &range, OpBuilder &into, ValueRange inputs) {
    IRMapping map;
    map.map(range.inputs.getArrayRef(), inputs);
    for (Operation *op : range.ops)
      into.clone(*op, map);
    return llvm::map_to_vector(range.results, [&](Value value) { return map.lookup(value); });
  }

  Block &addBlock(Region &region, TypeRange types) {
    Block &block = region.emplaceBlock();
    for (Type type : types)
      block.addArgument(type, emit.loc);
    return block;
  }

  Operation *cond(const Range &range) {
    const unsigned number = function.getNumArguments();
    NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr("flag" + std::to_string(number)));
    auto flag = RankedTensorType::get({}, builder.getI1Type());
    (void)function.insertArgument(number, flag, attributes.getDictionary(builder.getContext()), emit.loc);
    ValueRange results(range.results.getArrayRef());
    auto made =
        CondOp::create(builder, emit.loc, TypeRange(results), function.getArgument(number), range.inputs.getArrayRef());
    for (Region *body : {&made.getThen(), &made.getOtherwise()}) {
      Block &block = addBlock(*body, made.getInputs().getTypes());
      OpBuilder inside = OpBuilder::atBlockEnd(&block);
      Emit own(inside, emit.loc);
      SmallVector<Value> values = clone(range, inside, block.getArguments());
      for (Value &value : values)
        if (body == &made.getOtherwise() && isFloat(value))
          value = dice.chance(50) ? own.neg(value) : own.mul(value, 0.5);
      YieldOp::create(inside, emit.loc, values);
    }
    return made;
  }

  /// In each turn carried ← carried / 2 + values, and often + a scanned value; carried begins at zeros.
  Operation *repeat(const Range &range) {
    const int64_t count = dice.between(1, 4);
    SmallVector<Value> start =
        llvm::map_to_vector(range.results, [&](Value value) { return emit.zeros(tensorType(value)); });
    SmallVector<Value> scanned;
    if (dice.chance(60)) { // one number for each turn, which the body broadcasts
      Value parts = emit.iota(0, {count, 1}, emit.f32());
      scanned.push_back(emit.mul(parts, 0.25));
    }
    auto made = RepeatOp::create(builder, emit.loc, TypeRange(ValueRange(start)), builder.getI64IntegerAttr(count),
                                 start, scanned, range.inputs.getArrayRef());
    Block &block = addBlock(made.getBody(), made.argumentTypes());
    OpBuilder inside = OpBuilder::atBlockEnd(&block);
    Emit own(inside, emit.loc);
    SmallVector<Value> values = clone(range, inside, block.getArguments().take_back(range.inputs.size()));
    for (auto [i, value] : llvm::enumerate(values)) {
      if (!scanned.empty()) {
        Value part = own.cast(own.reshape(block.getArgument(start.size()), {}), tensorType(value).getElementType());
        value = own.add(value, own.broadcast(part, tensorType(value).getShape()));
      }
      value = own.add(own.mul(block.getArgument(i), 0.5), value);
    }
    YieldOp::create(inside, emit.loc, values);
    return made;
  }
};

} // namespace

void outlineControl(ModuleOp module, uint64_t seed) {
  auto function = *module.getOps<func::FuncOp>().begin();
  Outliner(function, seed).run();
  Block &block = function.getBody().front();
  function.setType(
      FunctionType::get(function.getContext(), block.getArgumentTypes(), block.getTerminator()->getOperandTypes()));
}

} // namespace tcc::test
