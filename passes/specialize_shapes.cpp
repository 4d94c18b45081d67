// specialize-shapes: gives every value a static shape.
//   1. arguments with `?` take the sizes of --shape;
//   2. in program order each op infers its result again; views and sources with `?` follow their operand or `like`;
//   3. bodies take their operands' types when their op is reached;
//   4. `like` operands, now without a meaning, are dropped.
// It runs first, so that no later pass meets a `?`. It never changes what is computed.
#include "ir/emit.h"
#include "ir/ops/shapes.h"
#include "passes/bodies.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tcc {
namespace {

LogicalResult specializeArguments(func::FuncOp function, const PipelineOptions &options) {
  llvm::StringSet<> used;
  for (BlockArgument argument : function.getArguments()) {
    auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), nameAttr);
    auto given = name ? options.shapes.find(name.str()) : options.shapes.end();
    RankedTensorType type = tensorType(argument);
    if (given != options.shapes.end()) {
      used.insert(given->first);
      bool fits = static_cast<int64_t>(given->second.size()) == type.getRank();
      for (int64_t i = 0; fits && i < type.getRank(); ++i)
        fits = sameSize(type.getDimSize(i), given->second[i]);
      RankedTensorType wanted = RankedTensorType::get(given->second, type.getElementType());
      if (!fits)
        return function.emitError() << "--shape gives " << typeText(wanted) << " for '" << given->first
                                    << "', which is " << typeText(type) << "; only '?' sizes may be given";
      argument.setType(wanted);
    } else if (!type.hasStaticShape()) {
      std::string example = name ? name.str() : std::string("NAME");
      return function.emitError() << "argument " << argument.getArgNumber() << " '" << example << "' is "
                                  << typeText(type) << "; give its sizes, for example --shape=" << example << ":16x256";
    }
  }
  for (const auto &[name, shape] : options.shapes)
    if (!used.contains(name))
      return function.emitError() << "--shape names '" << name << "', which is no argument's tcc.name";
  return success();
}

/// The static result type of a source or view whose type is written out.
RankedTensorType writtenType(SizedOpInterface op, ArrayRef<int64_t> operandBefore) {
  RankedTensorType type = tensorType(op->getResult(0));
  if (Value like = op.getLike())
    return withShape(type, tensorType(like).getShape());
  if (isa<ReshapeOp>(op))
    if (auto shape = resolveReshape(operandBefore, type.getShape(), tensorType(op->getOperand(0)).getShape()))
      return withShape(type, *shape);
  return type;
}

using Before = llvm::DenseMap<Operation *, SmallVector<int64_t>>;
LogicalResult specialize(Block &block, const Before &before);

/// Bodies take what the operands are, and the results what they yield.
LogicalResult specialize(BodyOpInterface op, const Before &before) {
  SmallVector<Type> types = op.argumentTypes();
  for (Region &body : op->getRegions()) {
    for (auto [argument, type] : llvm::zip_equal(body.getArguments(), types))
      argument.setType(type);
    if (failed(specialize(body.front(), before)))
      return failure();
    for (auto [i, result, value] : llvm::enumerate(op->getResults(), body.front().getTerminator()->getOperands())) {
      const bool isFirst = body.getRegionNumber() == 0 && op.carriedArguments() == 0;
      Type wanted = isFirst ? value.getType() : i < op.carriedArguments() ? types[i] : result.getType();
      if (value.getType() != wanted)
        return op->emitOpError() << "gives " << typeText(tensorType(value)) << " for result " << i << ", which is "
                                 << typeText(cast<RankedTensorType>(wanted))
                                 << "; every body, and what a loop carries, has one shape";
      result.setType(wanted);
    }
  }
  return success();
}

/// The results' sizes are those that the body yields.
LogicalResult specializeCustom(CustomOp op, const Before &before) {
  auto specializeRegion = [&](Region &region, const SmallVector<Value> &like) {
    for (auto [argument, value] : llvm::zip(region.getArguments(), like))
      argument.setType(value.getType());
    return region.empty() ? success() : specialize(region.front(), before);
  };
  if (failed(specializeRegion(op.getBody(), SmallVector<Value>(op.getInputs()))))
    return failure();
  if (!op.getBody().empty())
    for (auto [result, value] : llvm::zip(op.getResults(), op.getBody().front().getTerminator()->getOperands()))
      result.setType(value.getType());
  SmallVector<Value> given(op.getInputs());
  llvm::append_range(given, op.getResults());
  for (Value result : op.getResults())
    if (isa<FloatType>(tensorType(result).getElementType()))
      given.push_back(result);
  return specializeRegion(op.getBackward(), given);
}

LogicalResult specialize(Operation *op, const Before &written) {
  if (auto bodies = dyn_cast<BodyOpInterface>(op))
    return specialize(bodies, written);
  if (auto custom = dyn_cast<CustomOp>(op); custom && failed(specializeCustom(custom, written)))
    return failure();
  if (auto inferable = dyn_cast<InferTypeOpInterface>(op)) {
    SmallVector<Type> types;
    if (failed(inferable.inferReturnTypes(op->getContext(), op->getLoc(), op->getOperands(), op->getAttrDictionary(),
                                          op->getPropertiesStorage(), op->getRegions(), types)))
      return failure();
    for (auto [result, type] : llvm::zip(op->getResults(), types))
      result.setType(type);
    return success();
  }
  RankedTensorType type = tensorType(op->getResult(0));
  if (auto sized = dyn_cast<SizedOpInterface>(op)) {
    op->getResult(0).setType(writtenType(sized, written.lookup(op)));
  } else if (op->hasTrait<OpTrait::SameOperandsAndResultShape>()) {
    op->getResult(0).setType(withShape(type, tensorType(op->getOperand(0)).getShape()));
  }
  for (Value result : op->getResults())
    if (!tensorType(result).hasStaticShape())
      return op->emitOpError() << "result " << typeText(tensorType(result))
                               << " keeps a '?' size; it follows from no operand";
  return success();
}

/// The sizes given may break a constraint that the `?` could not.
LogicalResult specializeAndVerify(Operation *op, const Before &before) {
  if (auto reshape = dyn_cast<ReshapeOp>(op); reshape && !reshape.getLike()) {
    RankedTensorType from = tensorType(reshape.getX()), to = tensorType(reshape.getResult());
    if (!resolveReshape(before.lookup(op), to.getShape(), from.getShape()))
      return op->emitOpError() << "cannot make " << typeText(to) << " of the " << from.getNumElements()
                               << " elements of " << typeText(from) << " (reshape_c1)";
  }
  if (failed(specialize(op, before)))
    return failure();
  return isa<BodyOpInterface, CustomOp>(op) ? success() : op->getName().verifyInvariants(op);
}

LogicalResult specialize(Block &block, const Before &before) {
  for (Operation &op : block.without_terminator()) {
    if (failed(specializeAndVerify(&op, before)))
      return failure();
    if (auto sized = dyn_cast<SizedOpInterface>(op))
      sized.getLikeMutable().clear();
  }
  return success();
}

} // namespace

LogicalResult specializeShapes(func::FuncOp function, const PipelineOptions &options) {
  if (BodyFunction::is(function)) // its op gives it its types, in program order
    return success();
  // Reshapes resolve their `?` from the operand's type as it was written.
  Before before;
  function.walk([&](ReshapeOp op) { before[op] = SmallVector<int64_t>(tensorType(op.getX()).getShape()); });
  if (failed(specializeArguments(function, options)))
    return failure();
  if (failed(specialize(function.getBody().front(), before)))
    return failure();
  pruneBodies(function); // a body reads literals from outside as its own
  Operation *terminator = function.getBody().front().getTerminator();
  function.setType(FunctionType::get(function.getContext(), function.getBody().front().getArgumentTypes(),
                                     terminator->getOperandTypes()));
  return success();
}

} // namespace tcc
