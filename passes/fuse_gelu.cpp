// fuse-gelu: a matmul whose result nothing reads but the gradient of a GELU multiplies its sums by GELU's slopes.
//   1. gelu_gradients of matmuls of 16 bits that are stored in 16 bits are found;
//   2. what GELU was taken of is stored in 16 bits, and forward and backward both read that: a matmul's result is so
//      already, a sum with a bias becomes so;
//   3. matmul_gelu_gradient takes the place of matmul and gradient, where the target has it.
// It saves a kernel that reads two tensors and writes one, all as wide as the hidden layer. It runs on final types, and
// before fusion, which would make the gradient a kernel; at every -O level, like the rounding that it does. The matmul
// is no longer rounded before it is multiplied.
#include "ir/emit.h"
#include "ir/tensor_bytes.h"
#include "passes/dead_ops.h"
#include "passes/narrow_type.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

/// `value` below casts from `narrow` and reshapes that nobody else reads.
Value belowWidening(Value value, Type narrow) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<CastOp, ReshapeOp>(op) ||
        (isa<CastOp>(op) && tensorType(op->getOperand(0)).getElementType() != narrow))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The 16-bit tensor that `x` is a widened view of, or null.
Value storedBelow(Value x, Type narrow) {
  while (auto reshape = x.getDefiningOp<ReshapeOp>())
    x = reshape.getX();
  auto cast = x.getDefiningOp<CastOp>();
  return cast && tensorType(cast.getX()).getElementType() == narrow ? cast.getX() : Value();
}

/// Stores `x` in 16 bits, and lets all that read `x` read that.
Value store(Value x, Type narrow) {
  OpBuilder builder(x.getContext());
  builder.setInsertionPointAfterValue(x);
  auto stored = CastOp::create(builder, x.getLoc(), tensorType(x).clone(narrow), x);
  readNarrow(x, stored, x.getType());
  return stored;
}

/// The cast to 16 bits if nothing else reads the gradient, or null.
CastOp storedGradient(GeluGradientOp op, Type narrow) {
  Operation *user = op->hasOneUse() ? *op->getUsers().begin() : nullptr;
  return user && isCastTo(user, narrow) ? cast<CastOp>(user) : CastOp();
}

void fuse(GeluGradientOp op, const PipelineOptions &options, Type narrow) {
  CastOp stored = storedGradient(op, narrow);
  auto product = belowWidening(op.getDy(), narrow).getDefiningOp<MatmulOp>();
  if (!stored || !product || !product->hasOneUse() || product.getTransposeA() ||
      tensorType(product.getResult()).getElementType() != narrow ||
      tensorType(product.getA()).getElementType() != narrow || product->getNumOperands() != 2)
    return;
  RankedTensorType type = tensorType(product.getResult());
  if (type.getRank() != 2 || type.getNumElements() != tensorType(op.getX()).getNumElements())
    return;
  OpBuilder builder(op);
  Emit emit(builder, op.getLoc());
  Value probe = emit.constant(0, type);
  auto create = [&](Value x) {
    return MatmulGeluGradientOp::create(builder, op.getLoc(), product.getA(), product.getB(), x,
                                        product.getTransposeB());
  };
  MatmulGeluGradientOp fused = create(probe);
  bool has = options.queries->hasKernel(fused);
  fused->erase();
  probe.getDefiningOp()->erase();
  if (!has)
    return;
  Value x = storedBelow(op.getX(), narrow);
  if (!x)
    x = store(op.getX(), narrow);
  fused = create(emit.reshape(x, type.getShape()));
  if (options.remarks)
    options.remarks->push_back({Remark::Kind::passed, "fuse-gelu", op.getLoc(),
                                "the product before it is multiplied by GELU's slopes", 3 * byteSize(type)});
  stored.getResult().replaceAllUsesWith(emit.reshape(fused.getResult(), tensorType(stored.getResult()).getShape()));
  stored.erase();
  op.erase();
}

} // namespace

LogicalResult fuseGelu(func::FuncOp function, const PipelineOptions &options) {
  Type narrow = narrowType(options.products, function.getContext());
  if (!narrow || !options.queries)
    return success();
  SmallVector<GeluGradientOp> work(function.getBody().front().getOps<GeluGradientOp>());
  for (GeluGradientOp op : work)
    fuse(op, options, narrow);
  eraseDeadOps(function);
  return success();
}

} // namespace tcc
