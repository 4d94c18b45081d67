// cond, repeat and lanes: their text, verifiers, gradients, and what they are in memory.
#include "ir/ops/control.h"
#include "ir/emit.h"
#include "ir/lanes.h"
#include "ir/ops/bindings.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tcc {

bool yields(Block &block, TypeRange types) {
  auto yield = dyn_cast_or_null<YieldOp>(block.empty() ? nullptr : &block.back());
  return yield && yield.getValues().getTypes() == types;
}

llvm::BitVector sharedPairs(Operation *op) {
  llvm::BitVector shared(op->getNumResults() * op->getNumOperands());
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    shared.set(i * op->getNumOperands() + i);
  return shared;
}

namespace {

/// The body's ops on other operands, at the builder's place; gives what it yields.
SmallVector<Value> inlined(OpBuilder &builder, Region &body, ValueRange arguments) {
  IRMapping map;
  map.map(body.front().getArguments(), arguments);
  for (Operation &op : body.front().without_terminator())
    builder.clone(op, map);
  SmallVector<Value> results;
  for (Value value : body.front().getTerminator()->getOperands())
    results.push_back(map.lookup(value));
  return results;
}

bool isFloat(Value value) {
  return isa<FloatType>(tensorType(value).getElementType());
}

/// Σ over results of value · adjoint: its gradients are the vector-Jacobian product with the adjoints (null: none).
Value contraction(Emit &b, ValueRange values, ValueRange adjoints) {
  Value sum;
  for (auto [value, adjoint] : llvm::zip(values, adjoints)) {
    if (!adjoint)
      continue;
    Value product = b.mul(value, adjoint);
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, tensorType(product).getRank()));
    Value total = b.cast(axes.empty() ? product : b.reshape(b.reduceSum(product, axes), {}), b.f32());
    sum = sum ? b.add(sum, total) : total;
  }
  return sum;
}

SmallVector<Value> floatsOf(ValueRange values) {
  return llvm::filter_to_vector(values, isFloat);
}

int64_t flopsOf(Region &body) {
  int64_t flops = 0;
  for (auto op : body.front().getOps<StructuredOpInterface>())
    flops += op.flops();
  return flops;
}

/// What stands in the text of repeat and lanes.
struct LoopText {
  Bindings carried, scanned, inputs;

  static ParseResult parseCount(OpAsmParser &parser, OperationState &result) {
    IntegerAttr count;
    return parser.parseAttribute(count, parser.getBuilder().getI64Type(), "count", result.attributes);
  }
  ParseResult parseRest(OpAsmParser &parser) {
    return failure((succeeded(parser.parseOptionalKeyword("slices")) && parseBindings(parser, scanned)) ||
                   (succeeded(parser.parseOptionalKeyword("uses")) && parseBindings(parser, inputs)));
  }
  /// The body and what follows; `groups` are the op's segments of operands.
  ParseResult parseBody(OpAsmParser &parser, OperationState &result, ArrayRef<Bindings *> groups) {
    SmallVector<OpAsmParser::Argument> arguments;
    SmallVector<int32_t> counts;
    for (Bindings *group : groups) {
      if (resolveBindings(parser, *group, result))
        return failure();
      counts.push_back(static_cast<int32_t>(group->operands.size()));
      for (OpAsmParser::Argument &argument : group->arguments) {
        auto type = dyn_cast<RankedTensorType>(argument.type);
        if (group == &scanned && type && type.getRank() > 0) // of rank 0: what the verifier refuses
          argument.type = RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
        arguments.push_back(argument);
      }
    }
    result.addAttribute("operandSegmentSizes", parser.getBuilder().getDenseI32ArrayAttr(counts));
    if (parser.parseRegion(*result.addRegion(), arguments))
      return failure();
    return parser.parseOptionalAttrDict(result.attributes);
  }
};

void printRest(OpAsmPrinter &printer, ValueRange arguments, ValueRange scanned, ValueRange inputs) {
  if (!scanned.empty()) {
    printer << " slices ";
    printBindings(printer, arguments.take_front(scanned.size()), scanned);
  }
  if (!inputs.empty()) {
    printer << " uses ";
    printBindings(printer, arguments.drop_front(scanned.size()), inputs);
  }
}

void printBody(OpAsmPrinter &printer, Operation *op) {
  printer << ' ';
  printer.printRegion(op->getRegion(0), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict(op->getAttrs(), {"count", "operandSegmentSizes"});
}

/// The parts that a turn sees of scanned values.
void addPartTypes(ValueRange scanned, SmallVector<Type> &types) {
  for (Value value : scanned) {
    RankedTensorType type = tensorType(value);
    types.push_back(withShape(type, type.getShape().drop_front()));
  }
}

/// Refuses scanned values that have not `count` parts.
LogicalResult verifyScanned(Operation *op, ValueRange scanned, int64_t count, StringRef rule) {
  for (auto [i, value] : llvm::enumerate(scanned)) {
    RankedTensorType type = tensorType(value);
    if (type.getRank() == 0 || (type.getDimSize(0) != count && !type.isDynamicDim(0)))
      return op->emitOpError() << "scanned value " << i << " is " << typeText(type)
                               << "; its first size must be the count " << count << " (" << rule << ")";
  }
  return success();
}

} // namespace

//===- text of regions -----------------------------------------------------------------------------------------===//

ParseResult parseBindings(OpAsmParser &parser, Bindings &bindings) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
    if (parser.parseArgument(bindings.arguments.emplace_back()) || parser.parseEqual() ||
        parser.parseOperand(bindings.operands.emplace_back()) || parser.parseColonType(bindings.types.emplace_back()))
      return failure();
    bindings.arguments.back().type = bindings.types.back();
    return success();
  });
}

ParseResult resolveBindings(OpAsmParser &parser, const Bindings &bindings, OperationState &result) {
  return parser.resolveOperands(bindings.operands, bindings.types, parser.getCurrentLocation(), result.operands);
}

void printBindings(OpAsmPrinter &printer, ValueRange arguments, ValueRange operands) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(arguments, operands), printer, [&](auto binding) {
    auto [argument, operand] = binding;
    printer << argument << " = " << operand << " : " << operand.getType();
  });
  printer << ')';
}

//===- cond ----------------------------------------------------------------------------------------------------===//

// tcc.cond %p (%x = %a : type, ...) -> (types) { body } else { body } attributes
ParseResult CondOp::parse(OpAsmParser &parser, OperationState &result) {
  OpAsmParser::UnresolvedOperand predicate;
  Bindings bindings;
  auto scalar = RankedTensorType::get({}, parser.getBuilder().getI1Type());
  if (parser.parseOperand(predicate) || parseBindings(parser, bindings) ||
      parser.parseOptionalArrowTypeList(result.types) || parser.resolveOperand(predicate, scalar, result.operands) ||
      resolveBindings(parser, bindings, result) || parser.parseRegion(*result.addRegion(), bindings.arguments) ||
      parser.parseKeyword("else") || parser.parseRegion(*result.addRegion(), bindings.arguments))
    return failure();
  return parser.parseOptionalAttrDict(result.attributes);
}

void CondOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getPredicate() << ' ';
  printBindings(printer, getThen().front().getArguments(), getInputs());
  printer.printOptionalArrowTypeList(getResultTypes());
  printer << ' ';
  printer.printRegion(getThen(), /*printEntryBlockArgs=*/false);
  printer << " else ";
  printer.shadowRegionArgs(getOtherwise(), getThen().front().getArguments());
  printer.printRegion(getOtherwise(), /*printEntryBlockArgs=*/false);
  printer.printOptionalAttrDict((*this)->getAttrs());
}

LogicalResult CondOp::verify() {
  for (Region *body : {&getThen(), &getOtherwise()}) {
    StringRef which = body == &getThen() ? "first" : "second";
    if (body->front().getArgumentTypes() != getInputs().getTypes())
      return emitOpError() << "block arguments of the " << which << " body must have the inputs' types (cond_c1)";
    if (!yields(body->front(), getResultTypes()))
      return emitOpError() << which << " body must end with a tcc.yield of the results' types (cond_c2)";
  }
  return success();
}

SmallVector<Type> CondOp::argumentTypes() {
  return llvm::to_vector(getInputs().getTypes());
}

SmallVector<Value> CondOp::expand(Emit &b) {
  SmallVector<Value> chosen, others = inlined(b.builder, getOtherwise(), getInputs());
  for (auto [yes, no] : llvm::zip(inlined(b.builder, getThen(), getInputs()), others))
    chosen.push_back(b.select(b.broadcast(getPredicate(), tensorType(yes).getShape()), yes, no));
  return chosen;
}

SmallVector<Value> CondOp::gradient(Emit &b, ValueRange dResults) {
  SmallVector<Value> adjoints = llvm::filter_to_vector(dResults, [](Value value) { return bool(value); });
  SmallVector<Value> wanted = floatsOf(getInputs()), inputs = llvm::to_vector(getInputs());
  llvm::append_range(inputs, adjoints);
  auto made = CondOp::create(b.builder, b.loc, TypeRange(ValueRange(wanted)), getPredicate(), inputs);
  for (auto [from, to] : {std::pair(&getThen(), &made.getThen()), std::pair(&getOtherwise(), &made.getOtherwise())}) {
    Block &block = to->emplaceBlock();
    for (Value input : inputs)
      block.addArgument(input.getType(), input.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(&block);
    Emit emit(builder, b.loc);
    ValueRange own = ValueRange(block.getArguments()).take_front(getInputs().size());
    SmallVector<Value> shares(dResults.size());
    unsigned next = getInputs().size();
    for (auto [share, given] : llvm::zip(shares, dResults))
      if (given)
        share = block.getArgument(next++);
    SmallVector<Value> values = inlined(builder, *from, own);
    auto gradients = GradientOp::create(builder, b.loc, contraction(emit, values, shares), floatsOf(own));
    YieldOp::create(builder, b.loc, gradients.getResults());
  }
  SmallVector<Value> answer(getNumOperands());
  unsigned next = 0;
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    if (isFloat(operand))
      answer[i] = made.getResult(next++);
  return answer;
}

int64_t CondOp::flops() {
  return std::max(flopsOf(getThen()), flopsOf(getOtherwise()));
}

//===- repeat --------------------------------------------------------------------------------------------------===//

// tcc.repeat n (%c = %start : type, ...) slices (%s = %scanned : type, ...) uses (%x = %a : type, ...) { body }
ParseResult RepeatOp::parse(OpAsmParser &parser, OperationState &result) {
  LoopText text;
  if (text.parseCount(parser, result) || parseBindings(parser, text.carried) || text.parseRest(parser))
    return failure();
  result.addTypes(text.carried.types);
  return text.parseBody(parser, result, {&text.carried, &text.scanned, &text.inputs});
}

void RepeatOp::print(OpAsmPrinter &printer) {
  ValueRange arguments = getBody().front().getArguments();
  printer << ' ' << getCount() << ' ';
  printBindings(printer, arguments.take_front(getStart().size()), getStart());
  printRest(printer, arguments.drop_front(getStart().size()), getScanned(), getInputs());
  printBody(printer, *this);
}

LogicalResult RepeatOp::verify() {
  constexpr int64_t mostTurns = int64_t{1} << 31;
  if (const auto count = static_cast<int64_t>(getCount()); count < 1 || count > mostTurns)
    return emitOpError() << "count is " << count << "; it must be " << (count < 1 ? "1 or more" : "at most 2147483648")
                         << " (repeat_c1)";
  if (failed(verifyScanned(*this, getScanned(), static_cast<int64_t>(getCount()), "repeat_c2")))
    return failure();
  if (TypeRange(getBody().front().getArgumentTypes()) != TypeRange(argumentTypes()))
    return emitOpError("block arguments must have the types of start, of the scanned values' parts and of the inputs "
                       "(repeat_c3)");
  if (getStart().getTypes() != getResultTypes() || !yields(getBody().front(), getResultTypes()))
    return emitOpError("must end with a tcc.yield of the results' types, which are those of start (repeat_c4)");
  return success();
}

SmallVector<Type> RepeatOp::argumentTypes() {
  SmallVector<Type> types(getStart().getTypes());
  addPartTypes(getScanned(), types);
  llvm::append_range(types, getInputs().getTypes());
  return types;
}

unsigned RepeatOp::carriedArguments() {
  return getStart().size();
}

unsigned RepeatOp::slicedArguments() {
  return getScanned().size();
}

SmallVector<Value> unrolled(Emit &b, RepeatOp op, ValueRange operands) {
  SmallVector<Value> carried = llvm::to_vector(operands.take_front(op.getStart().size()));
  for (int64_t turn = 0; turn < static_cast<int64_t>(op.getCount()); ++turn) {
    SmallVector<Value> arguments = carried;
    for (Value scanned : operands.slice(op.getStart().size(), op.getScanned().size())) {
      ArrayRef<int64_t> shape = tensorType(scanned).getShape();
      SmallVector<int64_t> starts(shape.size(), 0), limits(shape);
      starts[0] = turn;
      limits[0] = turn + 1;
      arguments.push_back(b.reshape(b.slice(scanned, starts, limits), shape.drop_front()));
    }
    llvm::append_range(arguments, operands.take_back(op.getInputs().size()));
    carried = inlined(b.builder, op.getBody(), arguments);
  }
  return carried;
}

// The turns are written out, and differentiated by the rules of their ops.
SmallVector<Value> RepeatOp::gradient(Emit &b, ValueRange dResults) {
  constexpr int64_t mostTurns = 32;
  const auto count = static_cast<int64_t>(getCount());
  if (count > mostTurns) {
    emitOpError() << "has " << count << " turns; a gradient through 'tcc.repeat' is known for up to " << mostTurns
                  << ": take it inside of the body, or detach what the loop reads";
    return {};
  }
  // Copies of the operands: one operand may be computed from another, and the gradient of that step is not this op's.
  SmallVector<Value> operands = llvm::map_to_vector(getOperands(), [&](Value operand) {
    return isFloat(operand) ? b.create<CastOp>(operand.getType(), operand) : operand;
  });
  SmallVector<Value> carried = unrolled(b, *this, operands);
  auto gradients = GradientOp::create(b.builder, b.loc, contraction(b, carried, dResults), floatsOf(operands));
  SmallVector<Value> answer(getNumOperands());
  unsigned next = 0;
  for (auto [i, operand] : llvm::enumerate(getOperands()))
    if (isFloat(operand))
      answer[i] = gradients.getResult(next++);
  return answer;
}

/// A carried value starts where it ends: in the result's memory.
llvm::BitVector RepeatOp::sharedBuffers() {
  return sharedPairs(*this);
}

int64_t RepeatOp::flops() {
  return static_cast<int64_t>(getCount()) * flopsOf(getBody());
}

//===- lanes ---------------------------------------------------------------------------------------------------===//

// tcc.lanes n slices (%s = %scanned : type, ...) uses (%x = %a : type, ...) -> (types) { body }
ParseResult LanesOp::parse(OpAsmParser &parser, OperationState &result) {
  LoopText text;
  if (text.parseCount(parser, result) || text.parseRest(parser) || parser.parseOptionalArrowTypeList(result.types))
    return failure();
  return text.parseBody(parser, result, {&text.scanned, &text.inputs});
}

void LanesOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getCount();
  printRest(printer, getBody().front().getArguments(), getScanned(), getInputs());
  printer.printOptionalArrowTypeList(getResultTypes());
  printBody(printer, *this);
}

LogicalResult LanesOp::verify() {
  if (const auto count = static_cast<int64_t>(getCount()); count < 1 || count > mostLanes)
    return emitOpError() << "count is " << count << "; it must be 1 to " << mostLanes << " (lanes_c1)";
  if (failed(verifyScanned(*this, getScanned(), static_cast<int64_t>(getCount()), "lanes_c2")))
    return failure();
  if (TypeRange(getBody().front().getArgumentTypes()) != TypeRange(argumentTypes()))
    return emitOpError("block arguments must have the types of the scanned values' parts and of the inputs (lanes_c3)");
  if (!yields(getBody().front(), getResultTypes()) ||
      !llvm::all_of(getResults(), [](Value value) { return tensorType(value).getElementType().isF32(); }))
    return emitOpError("must end with a tcc.yield of the results' types, which are f32 (lanes_c4)");
  return success();
}

SmallVector<Type> LanesOp::argumentTypes() {
  SmallVector<Type> types;
  addPartTypes(getScanned(), types);
  llvm::append_range(types, getInputs().getTypes());
  return types;
}

unsigned LanesOp::slicedArguments() {
  return getScanned().size();
}

} // namespace tcc
