// The op custom, which a user defines: its text, its verifier, its gradient and its cost.
#include "ir/emit.h"
#include "ir/names.h"
#include "ir/ops/control.h"
#include "ir/provided.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace tcc {
namespace {

bool isFloatTensor(Type type) {
  return isa<FloatType>(cast<RankedTensorType>(type).getElementType());
}

/// Types of the gradient's arguments, and of what it yields.
SmallVector<Type> backwardArguments(CustomOp op) {
  SmallVector<Type> types(op.getInputs().getTypes());
  llvm::append_range(types, op.getResultTypes());
  llvm::append_range(types, llvm::make_filter_range(op.getResultTypes(), isFloatTensor));
  return types;
}
SmallVector<Type> backwardResults(CustomOp op) {
  return llvm::to_vector(llvm::make_filter_range(op.getInputs().getTypes(), isFloatTensor));
}

/// The block's ops, cloned where `b` stands and at its location; what it yields.
SmallVector<Value> writeOut(Emit &b, Block &block, ValueRange operands) {
  SmallVector<Value> arguments(operands);
  // Where gradients are taken inside, arguments are values of their own: what one operand has to do with another is
  // not in the block.
  if (!block.getOps<GradientOp>().empty())
    for (Value &value : arguments)
      if (isFloatTensor(value.getType()))
        value = b.create<CastOp>(value.getType(), value);
  IRMapping mapping;
  mapping.map(block.getArguments(), arguments);
  for (Operation &op : block.without_terminator())
    b.builder.clone(op, mapping)->setLoc(b.loc);
  SmallVector<Value> values;
  const auto yielded = block.getTerminator()->getOperands();
  for (Value value : yielded) {
    Value written = mapping.lookup(value);
    // A result stays a value of its own: autodiff tells its gradient from the operand's, from those of other results
    // and from that of what the block computes from it.
    const bool shared =
        llvm::is_contained(arguments, written) || llvm::count(yielded, value) > 1 || !written.use_empty();
    values.push_back(shared ? b.create<CastOp>(written.getType(), written) : written);
  }
  return values;
}

ParseResult parseBinding(OpAsmParser &parser, SmallVectorImpl<OpAsmParser::Argument> &arguments,
                         SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands, SmallVectorImpl<Type> &types) {
  OpAsmParser::UnresolvedOperand first;
  if (parser.parseOperand(first))
    return failure();
  if (succeeded(parser.parseOptionalEqual())) {
    arguments.emplace_back().ssaName = first;
    if (parser.parseOperand(first))
      return failure();
  }
  operands.push_back(first);
  if (parser.parseColonType(types.emplace_back()))
    return failure();
  if (arguments.size() == operands.size())
    arguments.back().type = types.back();
  return success();
}

} // namespace

// tcc.custom "name" (%x = %a : type, ...) -> types attributes {...} { body } gradient (%x : type, ...) { body }
// Operands of an op without a body have no name of their own.
ParseResult CustomOp::parse(OpAsmParser &parser, OperationState &result) {
  SmallVector<OpAsmParser::Argument> arguments, gradientArguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  StringAttr called;
  auto binding = [&] { return parseBinding(parser, arguments, operands, types); };
  if (parser.parseAttribute(called, "called", result.attributes) ||
      parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, binding) ||
      parser.parseOptionalArrowTypeList(result.types) || parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(operands, types, parser.getCurrentLocation(), result.operands))
    return failure();
  Region *body = result.addRegion(), *backward = result.addRegion();
  const llvm::SMLoc place = parser.getCurrentLocation();
  if (OptionalParseResult parsed = parser.parseOptionalRegion(*body, arguments); parsed.has_value()) {
    if (failed(*parsed))
      return failure();
    if (arguments.size() != operands.size())
      return parser.emitError(place) << "each operand of an op with a body has a name in it: (%x = %a : type)";
  } else if (!arguments.empty()) {
    return parser.emitError(place) << "operands have names in a body, and there is none";
  }
  if (failed(parser.parseOptionalKeyword("gradient")))
    return success();
  return failure(parser.parseArgumentList(gradientArguments, OpAsmParser::Delimiter::Paren, /*allowType=*/true) ||
                 parser.parseRegion(*backward, gradientArguments));
}

void CustomOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getCalledAttr() << " (";
  const bool hasBody = !getBody().empty();
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    printer << (i ? ", " : "");
    if (hasBody)
      printer << getBody().getArgument(i) << " = ";
    printer << input << " : " << input.getType();
  }
  printer << ")";
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getCalledAttrName()});
  if (hasBody) {
    printer << ' ';
    printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
  }
  if (getBackward().empty())
    return;
  printer << " gradient (";
  llvm::interleaveComma(getBackward().getArguments(), printer,
                        [&](BlockArgument argument) { printer << argument << ": " << argument.getType(); });
  printer << ") ";
  printer.printRegion(getBackward(), /*printEntryBlockArgs=*/false);
}

LogicalResult CustomOp::verify() {
  const StringRef name = getCalled();
  if (name.empty() || !llvm::isAlpha(name.front()) ||
      !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; }))
    return emitOpError() << "is called '" << name
                         << "'; a name has letters, digits, '_' and '.', and begins with a letter (custom_c6)";
  if (!getBody().empty() && getBody().getArgumentTypes() != getInputs().getTypes())
    return emitOpError() << "'" << name << "': the body's arguments must have the operands' types (custom_c1)";
  if (getResults().empty() || (!getBody().empty() && !yields(getBody().front(), getResultTypes())))
    return emitOpError() << "'" << name
                         << "': the body must end with a tcc.yield of the results' types, of which there "
                         << "is at least one (custom_c2)";
  if (!getBackward().empty() && (getBackward().getArgumentTypes() != TypeRange(backwardArguments(*this)) ||
                                 !yields(getBackward().front(), TypeRange(backwardResults(*this)))))
    return emitOpError() << "'" << name
                         << "': the gradient takes the operands, the results and the gradients of the float results, "
                            "and yields those of the float operands (custom_c3)";
  if (getBody().empty() && !getHostReference() && !isProvided(*this))
    return emitOpError() << "'" << name << "' has no body; that is what it means, also where it has code (custom_c4)";
  if (getLibrary().has_value() != getSymbol().has_value() || getCuda().has_value() != getCudaKernel().has_value())
    return emitOpError() << "'" << name
                         << "': library and symbol come together, and so do cuda and cuda_kernel (custom_c5)";
  return verifyLaunch();
}

LogicalResult CustomOp::verifyLaunch() {
  int64_t threads = 1;
  bool good = static_cast<int64_t>(getElementsPerBlock().value_or(1)) >= 1 &&
              static_cast<int64_t>(getSharedBytes().value_or(0)) >= 0;
  for (std::optional<ArrayRef<int64_t>> sizes : {getBlock(), getGrid()})
    if (sizes)
      good &= !sizes->empty() && sizes->size() <= 3 && llvm::all_of(*sizes, [](int64_t size) { return size >= 1; });
  for (int64_t size : getBlock().value_or(ArrayRef<int64_t>()))
    good = good && size <= 1024 && (threads *= size) <= 1024;
  if (good)
    return success();
  return emitOpError() << "'" << getCalled()
                       << "': block and grid have one to three sizes of at least 1, a block at most 1024 threads "
                          "(custom_c7)";
}

std::string CustomOp::namedCode() {
  if (std::optional<StringRef> library = getLibrary())
    return "in '" + library->str() + "'";
  return getCuda() ? "as CUDA text" : "";
}

SmallVector<Value> CustomOp::expand(Emit &b) {
  return getBody().empty() ? SmallVector<Value>() : writeOut(b, getBody().front(), getInputs());
}

SmallVector<Value> CustomOp::gradient(Emit &b, ValueRange dResults) {
  if (getBackward().empty())
    return {};
  SmallVector<Value> arguments(getInputs());
  llvm::append_range(arguments, getResults());
  for (auto [result, given] : llvm::zip(getResults(), dResults))
    if (isFloatTensor(result.getType()))
      arguments.push_back(given ? given : b.zeros(tensorType(result)));
  SmallVector<Value> written = writeOut(b, getBackward().front(), arguments), shares;
  auto next = written.begin();
  for (Value input : getInputs())
    shares.push_back(isFloatTensor(input.getType()) ? *next++ : Value());
  return shares;
}

SmallVector<StridedView, 2> CustomOp::operandViews(const ViewLimits &) {
  SmallVector<StridedView, 2> views;
  for (Value input : getInputs()) {
    StridedView view = stridedView(input);
    views.push_back(isDense(view) ? view : denseView(input));
  }
  return views;
}

int64_t CustomOp::flops() {
  if (std::optional<uint64_t> given = getFlopCount())
    return static_cast<int64_t>(*given);
  int64_t elements = 0; // one operation an element, where nothing is said
  for (Value result : getResults())
    elements += tensorType(result).getNumElements();
  return elements;
}

int64_t CustomOp::bytes(const ViewLimits &limits) {
  if (std::optional<uint64_t> given = getTraffic())
    return static_cast<int64_t>(*given);
  return bytesOfViews(*this, operandViews(limits));
}

} // namespace tcc
