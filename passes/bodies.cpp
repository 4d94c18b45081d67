// Bodies of cond and repeat as functions, and what may be dropped of them.
#include "passes/bodies.h"
#include "ir/ops/control.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/memory_places.h"
#include "passes/stages.h"

using namespace mlir;

namespace tcc {
namespace {

/// The terminator as one of another kind, with its operands and attributes.
template <typename Terminator>
void replaceTerminator(Block &block) {
  Operation *old = block.getTerminator();
  OpBuilder builder(old);
  auto made = Terminator::create(builder, old->getLoc(), old->getOperands());
  made->setDiscardableAttrs(old->getDiscardableAttrDictionary());
  old->erase();
}

/// Arena bytes of each body, zeros before they are planned. A file may have any number of them.
SmallVector<int64_t> arenasOf(BodyOpInterface op) {
  SmallVector<int64_t> arenas;
  if (auto known = op->getAttrOfType<DenseI64ArrayAttr>(arenasAttr))
    arenas = llvm::to_vector(known.asArrayRef());
  arenas.resize(op->getNumRegions(), 0);
  return arenas;
}

/// The same op without the results that nobody uses.
void dropResults(CondOp op) {
  SmallVector<Type> types;
  llvm::BitVector unused(op.getNumResults());
  for (OpResult result : op->getResults())
    if (result.use_empty())
      unused.set(result.getResultNumber());
    else
      types.push_back(result.getType());
  if (unused.none())
    return;
  OpBuilder builder(op);
  auto made = CondOp::create(builder, op.getLoc(), types, op.getPredicate(), op.getInputs());
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  made.getThen().takeBody(op.getThen());
  made.getOtherwise().takeBody(op.getOtherwise());
  for (Region *body : {&made.getThen(), &made.getOtherwise()})
    body->front().getTerminator()->eraseOperands(unused);
  unsigned next = 0;
  for (OpResult result : op->getResults())
    if (!unused[result.getResultNumber()])
      result.replaceAllUsesWith(made.getResult(next++));
  op.erase();
}

/// Whether a gradient with respect to the value is still to be taken: its uses are then uses of this very value.
bool isWrt(Value value) {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    auto gradient = dyn_cast<GradientOp>(user);
    return gradient && llvm::is_contained(gradient.getWrt(), value);
  });
}

/// Drops input `i`, argument `argument` of every body, where none reads it.
void dropInput(BodyOpInterface op, MutableOperandRange &inputs, unsigned i, unsigned argument) {
  Value operand = inputs[i].get();
  if (auto literal = operand.getDefiningOp<ConstantOp>(); literal && literal.getValue().isSplat() && !isWrt(operand))
    for (Region &body : op->getRegions())
      if (!body.getArgument(argument).use_empty()) {
        OpBuilder builder = OpBuilder::atBlockBegin(&body.front());
        body.getArgument(argument).replaceAllUsesWith(builder.clone(*literal)->getResult(0));
      }
  for (Region &body : op->getRegions())
    if (!body.getArgument(argument).use_empty())
      return;
  for (Region &body : op->getRegions())
    body.front().eraseArgument(argument);
  inputs.erase(i);
}

void dropInputs(BodyOpInterface op, MutableOperandRange inputs) {
  const unsigned before = op.carriedArguments() + op.slicedArguments();
  for (unsigned i = inputs.size(); i-- > 0;)
    dropInput(op, inputs, i, before + i);
}

void prune(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (auto cond = dyn_cast<CondOp>(op)) {
      if (op.use_empty())
        op.erase();
      else
        dropResults(cond);
    }
  for (auto op : block.getOps<BodyOpInterface>()) {
    for (Region &body : op->getRegions()) {
      prune(body.front());
      for (Operation &each : llvm::make_early_inc_range(llvm::reverse(body.front())))
        if (isOpTriviallyDead(&each))
          each.erase();
    }
    if (auto cond = dyn_cast<CondOp>(op.getOperation()))
      dropInputs(op, cond.getInputsMutable());
    else if (auto lanes = dyn_cast<LanesOp>(op.getOperation()))
      dropInputs(op, lanes.getInputsMutable());
    else
      dropInputs(op, cast<RepeatOp>(op.getOperation()).getInputsMutable());
  }
}

} // namespace

BodyFunction::BodyFunction(BodyOpInterface op, unsigned number) : op(op), number(number) {
  Region &body = op->getRegion(number);
  replaceTerminator<func::ReturnOp>(body.front());
  MLIRContext *context = op->getContext();
  auto type =
      FunctionType::get(context, body.front().getArgumentTypes(), body.front().getTerminator()->getOperandTypes());
  OpBuilder builder(context);
  function = func::FuncOp::create(builder, op->getLoc(), (op->getName().stripDialect() + Twine(number)).str(), type);
  function.getBody().takeBody(body);
  for (unsigned i = 0; i < type.getNumInputs(); ++i)
    function.setArgAttr(i, nameAttr, builder.getStringAttr("argument" + Twine(i)));
  for (unsigned i = 0; i < op.carriedArguments(); ++i) {
    function.setArgAttr(i, stateAttr, builder.getUnitAttr());
    function.setResultAttr(i, updatesAttr, builder.getStringAttr("argument" + Twine(i)));
  }
  auto around = op->getParentOfType<func::FuncOp>();
  if (steadyOps(around).contains(op))
    function->setAttr(steadyAttr, builder.getUnitAttr());
  if (op->hasAttr(arenasAttr))
    function->setAttr(arenaAttr, builder.getI64IntegerAttr(arenasOf(op)[number]));
}

BodyFunction::~BodyFunction() {
  if (auto arena = function->getAttrOfType<IntegerAttr>(arenaAttr)) {
    SmallVector<int64_t> arenas = arenasOf(op);
    arenas[number] = arena.getInt();
    op->setAttr(arenasAttr, DenseI64ArrayAttr::get(op->getContext(), arenas));
  }
  Region &body = op->getRegion(number);
  body.takeBody(function.getBody());
  replaceTerminator<YieldOp>(body.front());
  function.erase();
}

LogicalResult runOnBodies(func::FuncOp function, llvm::function_ref<LogicalResult(func::FuncOp)> pass) {
  for (Operation &each : function.getBody().front())
    for (unsigned number = 0; number < each.getNumRegions(); ++number) {
      auto op = dyn_cast<BodyOpInterface>(each);
      if (!op)
        break;
      BodyFunction body(op, number);
      if (failed(runOnBodies(body.get(), pass)))
        return failure();
    }
  return pass(function);
}

void pruneBodies(func::FuncOp function) {
  prune(function.getBody().front());
}

bool isUnreadKernel(Operation *op) {
  return isa<KernelOp>(op) && llvm::all_of(op->getUses(), [](OpOperand &use) {
           auto loop = dyn_cast<RepeatOp>(use.getOwner());
           return loop && use.getOperandNumber() < loop.carriedArguments() &&
                  loop.getBody().getArgument(use.getOperandNumber()).use_empty();
         });
}

void inlineBodies(func::FuncOp function) {
  SmallVector<BodyOpInterface> work; // inner ones first
  function.walk([&](BodyOpInterface op) { work.push_back(op); });
  for (BodyOpInterface op : work) {
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    auto loop = dyn_cast<RepeatOp>(op.getOperation());
    op->replaceAllUsesWith(loop ? unrolled(emit, loop, loop->getOperands())
                                : cast<ExpandableOpInterface>(op.getOperation()).expand(emit));
    op->erase();
  }
}

BodyMemory memoryOfBodies(BodyOpInterface op, int64_t alignment) {
  BodyMemory memory;
  Block &body = op->getRegion(0).front();
  for (BlockArgument part : body.getArguments().slice(op.carriedArguments(), op.slicedArguments())) {
    memory.slices.push_back(memory.arena);
    memory.arena += llvm::alignTo(byteSize(tensorType(part)), alignment);
  }
  memory.bytes = memory.arena + *llvm::max_element(arenasOf(op));
  return memory;
}

} // namespace tcc
