// Registration of the tcc dialect and what belongs to no op family.
#include "ir/dialect.h"
#include "ir/emit.h"
#include "ir/host_ops.h"
#include "ir/known_kernels.h"
#include "ir/scalar_form.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

#include "ir/Dialect.cpp.inc"
#include "ir/Enums.cpp.inc"
#include "ir/Interfaces.cpp.inc"
#define GET_OP_CLASSES
#include "ir/Ops.cpp.inc"

namespace tcc {

void TccDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "ir/Ops.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/HostOps.cpp.inc"
      >();
  addInterfaces<ScalarForms, KernelForms>();
}

Operation *TccDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

LogicalResult TccDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument, NamedAttribute attr) {
  if (attr.getName() == nameAttr && isa<StringAttr>(attr.getValue()))
    return success();
  if (attr.getName() == stateAttr && isa<UnitAttr>(attr.getValue()))
    return success();
  return op->emitError() << "argument " << argument << " has attribute '" << attr.getName().getValue()
                         << "'; the ones known are tcc.name = \"...\" and tcc.state (argument_c1)";
}

LogicalResult TccDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned result, NamedAttribute attr) {
  if ((attr.getName() == nameAttr || attr.getName() == updatesAttr) && isa<StringAttr>(attr.getValue()))
    return success();
  return op->emitError() << "result " << result << " has attribute '" << attr.getName().getValue()
                         << "'; the ones known are tcc.name = \"...\" and tcc.updates = \"...\" (result_c1)";
}

std::string typeText(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (int64_t size : type.getShape()) {
    if (ShapedType::isDynamic(size))
      stream << '?';
    else
      stream << size;
    stream << 'x';
  }
  stream << type.getElementType();
  return text;
}

void registerDialects(DialectRegistry &registry) {
  registry.insert<TccDialect, func::FuncDialect, arith::ArithDialect, math::MathDialect>();
}

} // namespace tcc
