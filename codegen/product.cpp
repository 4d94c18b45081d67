// Makes the runtime's description of a matmul from the op of the planned function.
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

runtime::Instruction lowerProduct(MatmulGeluGradientOp op, const StructuredCall &call, const ViewLimits &limits) {
  runtime::MatmulCall product = callOf(op, call, limits);
  product.aux = call.operands[2];
  return instructionOf(product);
}

runtime::Error lowerProduct(const StructuredCall &call, const TargetModel &model, runtime::Plan &plan) {
  auto product = dyn_cast<MatmulOp>(call.op);
  if (!product)
    return runtime::Error("'" + call.op->getName().getStringRef().str() + "' has no lowering for target '" +
                          model.name + "'");
  runtime::MatmulCall matmul = callOf(product, call, model.views);
  if (product.getBias())
    matmul.bias = call.operands[2];
  if (product.getAddend() && call.operands.back() != matmul.c)
    matmul.addend = call.operands.back();
  plan.instructions.push_back(instructionOf(matmul));
  return {};
}

} // namespace tcc
