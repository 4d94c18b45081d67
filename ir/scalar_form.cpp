// An op's scalarBody is built on scalars in a block of its own and read off, op by op, by the table of opcodes.
#include "ir/scalar_form.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tcc {
namespace {

Type computedType(Type element) {
  return mlirType(element.getContext(), facts(*elementTypeOf(element)).computed);
}

int predicateOf(Operation &op) {
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return static_cast<int>(compare.getPredicate());
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return static_cast<int>(compare.getPredicate());
  return -1;
}

bool translate(Operation &op, llvm::DenseMap<Value, unsigned> &numbers, ScalarSteps &form, std::string &refusal) {
  StringRef name = op.getName().getStringRef();
  const OpcodeFacts *row = findOpcode(name, predicateOf(op));
  std::optional<ElementType> type = op.getNumResults() == 1 ? elementTypeOf(op.getResult(0).getType()) : std::nullopt;
  if (!row || !type || facts(*type).computed != *type || op.getNumOperands() != row->operands ||
      numbers.size() > std::numeric_limits<uint8_t>::max()) {
    refusal = "'" + name.str() + "' has no scalar form";
    return false;
  }
  ScalarStep step;
  step.opcode = row->opcode;
  step.type = *type;
  for (auto [i, operand] : llvm::enumerate(op.getOperands()))
    step.operands[i] = numbers.lookup(operand);
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    step.literal = literalOf(constant.getValue());
  numbers.try_emplace(op.getResult(0), numbers.size());
  form.steps.push_back(step);
  return true;
}

bool build(ElementwiseOpInterface op, ScalarSteps &form, std::string &refusal) {
  Block block;
  llvm::DenseMap<Value, unsigned> numbers;
  for (Value operand : op->getOperands())
    numbers.try_emplace(block.addArgument(computedType(tensorType(operand).getElementType()), op.getLoc()),
                        numbers.size());
  OpBuilder builder(op->getContext());
  builder.setInsertionPointToEnd(&block);
  Type type = computedType(tensorType(op->getResult(0)).getElementType());
  Value result = op.scalarBody(builder, builder.getUnknownLoc(), block.getArguments(), type);
  for (Operation &step : block)
    if (!translate(step, numbers, form, refusal))
      return false;
  form.result = numbers.lookup(result);
  return true;
}

} // namespace

ScalarLiteral literalOf(Attribute value) {
  if (auto number = dyn_cast<FloatAttr>(value))
    return ScalarLiteral::ofFloat(number.getValueAsDouble());
  APInt integer = cast<IntegerAttr>(value).getValue();
  return ScalarLiteral::ofInteger(integer.getBitWidth() == 1 ? integer.getZExtValue() : integer.getSExtValue());
}

std::optional<ElementType> elementTypeOf(Type type) {
  if (type.isF32())
    return ElementType::f32;
  if (type.isBF16())
    return ElementType::bf16;
  if (type.isF16())
    return ElementType::f16;
  if (isa<Float8E4M3FNType>(type))
    return ElementType::f8E4M3FN;
  if (isa<Float8E5M2Type>(type))
    return ElementType::f8E5M2;
  if (type.isInteger(1))
    return ElementType::i1;
  if (type.isInteger(32))
    return ElementType::i32;
  if (type.isInteger(64))
    return ElementType::i64;
  return std::nullopt;
}

Type mlirType(MLIRContext *context, ElementType type) {
  switch (type) {
  case ElementType::f32:
    return Float32Type::get(context);
  case ElementType::bf16:
    return BFloat16Type::get(context);
  case ElementType::f16:
    return Float16Type::get(context);
  case ElementType::f8E4M3FN:
    return Float8E4M3FNType::get(context);
  case ElementType::f8E5M2:
    return Float8E5M2Type::get(context);
  case ElementType::i1:
    return IntegerType::get(context, 1);
  case ElementType::i32:
    return IntegerType::get(context, 32);
  case ElementType::i64:
    return IntegerType::get(context, 64);
  }
  llvm_unreachable("a type that the table does not list");
}

const ScalarSteps *ScalarForms::of(ElementwiseOpInterface op, std::string &refusal) {
  const auto *known = op->getContext()->getLoadedDialect<TccDialect>()->getRegisteredInterface<ScalarForms>();
  uint64_t types = op->getNumOperands() + 1;
  for (Value operand : op->getOperands())
    types = types * elementTypes.size() + static_cast<uint64_t>(*elementTypeOf(tensorType(operand).getElementType()));
  types = types * elementTypes.size() +
          static_cast<uint64_t>(*elementTypeOf(tensorType(op->getResult(0)).getElementType()));
  Key key{op->getName().getAsOpaquePointer(), op->getPropertiesAsAttribute().getAsOpaquePointer(), types};
  std::scoped_lock lock(known->mutex);
  auto [place, isNew] = known->forms.try_emplace(key);
  Form &form = place->second;
  if (isNew)
    build(op, form.steps, form.refusal);
  if (form.refusal.empty())
    return &form.steps;
  refusal = form.refusal;
  return nullptr;
}

} // namespace tcc
