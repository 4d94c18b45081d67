// From a product of the planned function to the runtime's.
#include "codegen/product.h"
#include "codegen/dtypes.h"
#include "ir/scalar_form.h"

using namespace mlir;

namespace tcc {

std::optional<runtime::DType> runtimeDType(Type element) {
  std::optional<ElementType> type = elementTypeOf(element);
  return type ? std::optional(dtypeOf(*type)) : std::nullopt;
}

template <typename Op>
static runtime::GemmDesc plainDesc(Op op, const ViewLimits &limits) {
  MatmulViews views = matmulViews(op, limits);
  runtime::GemmDesc desc;
  desc.m = views.a.rows;
  desc.k = views.a.columns;
  desc.n = views.b.columns;
  desc.batch = {views.a.batch[0], views.a.batch[1]};
  auto layout = [](const MatrixView &view, Value value) {
    runtime::MatrixLayout made;
    made.dtype = *runtimeDType(tensorType(value).getElementType());
    made.rowStride = view.rowStride;
    made.columnStride = view.columnStride;
    made.batchStrides = {view.batchStride[0], view.batchStride[1]};
    return made;
  };
  desc.a = layout(views.a, op.getA());
  desc.b = layout(views.b, op.getB());
  desc.c.dtype = *runtimeDType(tensorType(op.getResult()).getElementType());
  desc.c.rowStride = desc.n;
  desc.c.columnStride = 1;
  desc.c.batchStrides = {desc.batch[1] * desc.m * desc.n, desc.m * desc.n};
  return desc;
}

runtime::GemmDesc gemmDesc(MatmulOp op, const ViewLimits &limits) {
  runtime::GemmDesc desc = plainDesc(op, limits);
  if (op.getBias())
    desc.bias = *runtimeDType(tensorType(op.getBias()).getElementType());
  desc.accumulate = static_cast<bool>(op.getAddend());
  return desc;
}

runtime::GemmDesc gemmDesc(MatmulGeluGradientOp op, const ViewLimits &limits) {
  runtime::GemmDesc desc = plainDesc(op, limits);
  desc.geluGradient = true;
  return desc;
}

std::string productLabel(const runtime::GemmDesc &desc) {
  std::string label = "matmul ";
  if (desc.batchCount() != 1)
    label += std::to_string(desc.batchCount()) + " x ";
  label += std::to_string(desc.m) + "x" + std::to_string(desc.n) + "x" + std::to_string(desc.k) + " ";
  label += desc.a.columnStride == 1 ? 'n' : 't';
  label += desc.b.columnStride == 1 ? 'n' : 't';
  if (desc.bias)
    label += " +bias";
  if (desc.accumulate)
    label += " +addend";
  if (desc.geluGradient)
    label += " *gelu'";
  return label;
}

template <typename Op>
static runtime::MatmulCall callOf(Op op, const StructuredCall &call, const ViewLimits &limits) {
  runtime::MatmulCall product;
  product.desc = gemmDesc(op, limits);
  product.a = call.operands[0];
  product.b = call.operands[1];
  product.c = call.results[0];
  product.scratch = call.scratch;
  return product;
}

static runtime::Instruction instructionOf(const runtime::MatmulCall &product) {
  runtime::Instruction made;
  made.label = productLabel(product.desc);
  made.call = product;
  return made;
}

runtime::Instruction lowerProduct(MatmulOp op, const StructuredCall &call, const ViewLimits &limits) {
  runtime::MatmulCall product = callOf(op, call, limits);
  if (op.getBias())
    product.bias = call.operands[2];
  if (op.getAddend() && call.operands.back() != product.c)
    product.addend = call.operands.back();
  return instructionOf(product);
}

runtime::Instruction lowerProduct(MatmulGeluGradientOp op, const StructuredCall &call, const ViewLimits &limits) {
  runtime::MatmulCall product = callOf(op, call, limits);
  product.aux = call.operands[2];
  return instructionOf(product);
}

} // namespace tcc
