// pack-attention: where a function joins the gradients of attention's queries, keys and values side by side, the
// kernels that make them write them to one tensor, so that no kernel copies them.
//   1. each of the three is followed through the casts and reshapes that only it goes through to a pad of its rows: the
//      gradient of the slice that it was read from;
//   2. the pads must be those of one tensor, queries first and values last, and be added up with nothing else;
//   3. flash_attention_packed_gradient takes the place of the gradient, the pads and the sum, where the target has it.
// It runs on final types, since casts say what is stored, and before fusion, which would make the sum a kernel. A sum
// of pads and the joined tensor differ in the sign of zeros alone.
#include "ir/emit.h"
#include "ir/ops/attention.h"
#include "ir/tensor_bytes.h"
#include "passes/dead_ops.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

Operation *onlyUser(Value value) {
  return value.hasOneUse() ? *value.getUsers().begin() : nullptr;
}

/// A pad of one dimension, in elements of a row: everything from that dimension on.
struct PaddedRow {
  Value padded;
  int64_t before = 0, own = 0, after = 0;
};

/// The pad of `value` if nothing else reads it, perhaps through casts and reshapes.
std::optional<PaddedRow> paddedRow(Value value) {
  Operation *user = onlyUser(value);
  while (isa_and_nonnull<CastOp, ReshapeOp>(user))
    user = onlyUser(user->getResult(0));
  auto pad = dyn_cast_or_null<PadOp>(user);
  if (!pad || !pad.isOfZeros())
    return std::nullopt;
  ArrayRef<int64_t> sizes = tensorType(pad.getX()).getShape(), low = pad.getLow(), high = pad.getHigh();
  auto isPadded = [&](size_t dim) { return low[dim] != 0 || high[dim] != 0; };
  size_t dim = 0;
  while (dim < sizes.size() && !isPadded(dim))
    ++dim;
  int64_t inner = 1;
  for (size_t inside = dim + 1; inside < sizes.size(); ++inside) {
    if (isPadded(inside))
      return std::nullopt;
    inner *= sizes[inside];
  }
  if (dim == sizes.size())
    return std::nullopt;
  return PaddedRow{pad.getResult(), low[dim] * inner, sizes[dim] * inner, high[dim] * inner};
}

/// The terms of a sum whose parts nobody else reads.
void addTerms(Value sum, SmallVectorImpl<Value> &terms) {
  auto add = sum.getDefiningOp<AddOp>();
  if (!add)
    return terms.push_back(sum);
  for (Value operand : add->getOperands())
    if (operand.hasOneUse())
      addTerms(operand, terms);
    else
      terms.push_back(operand);
}

/// The sum of exactly the three pads, or null.
Value sumOf(ArrayRef<Value> pads) {
  Value sum = pads[0];
  for (int i = 0; i < 2; ++i) {
    SmallVector<Value> terms;
    auto add = dyn_cast_or_null<AddOp>(onlyUser(sum));
    if (!add)
      return nullptr;
    sum = add.getResult();
    addTerms(sum, terms);
    if (terms.size() == pads.size() && llvm::all_of(pads, [&](Value pad) { return llvm::is_contained(terms, pad); }))
      return sum;
  }
  return nullptr;
}

/// The sum that joins the three gradients side by side, or null if there is none.
Value joinedGradients(FlashAttentionBackwardOp op) {
  AttentionSizes sizes = attentionSizes(op);
  if (sizes.queries != sizes.keys)
    return nullptr;
  int64_t ofQueries = sizes.heads * sizes.width, ofKeys = sizes.keyHeads * sizes.width, total = ofQueries + 2 * ofKeys;
  SmallVector<Value> pads;
  int64_t at = 0;
  for (auto [gradient, width] : {std::pair(op.getDQ(), ofQueries), {op.getDK(), ofKeys}, {op.getDV(), ofKeys}}) {
    std::optional<PaddedRow> row = paddedRow(gradient);
    if (!row || row->before != at || row->own != width || row->after != total - at - width)
      return nullptr;
    at += width;
    pads.push_back(row->padded);
  }
  return sumOf(pads);
}

/// Lets those that read `joined` read `packed`, in its own type where they would cast to it.
void replaceJoined(Value joined, Value packed, Emit &b) {
  Value flat = b.reshape(packed, tensorType(joined).getShape());
  for (Operation *user : llvm::make_early_inc_range(joined.getUsers()))
    if (auto cast = dyn_cast<CastOp>(user); cast && cast.getResult().getType() == flat.getType()) {
      cast.getResult().replaceAllUsesWith(flat);
      cast.erase();
    }
  if (!joined.use_empty())
    joined.replaceAllUsesWith(b.cast(flat, tensorType(joined).getElementType()));
}

} // namespace

LogicalResult packAttention(func::FuncOp function, const PipelineOptions &options) {
  SmallVector<FlashAttentionBackwardOp> work(function.getBody().front().getOps<FlashAttentionBackwardOp>());
  bool changed = false;
  for (FlashAttentionBackwardOp op : work) {
    Value joined = options.queries ? joinedGradients(op) : Value();
    if (!joined)
      continue;
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    auto packed = FlashAttentionPackedGradientOp::create(
        builder, op.getLoc(), op.getQ(), op.getK(), op.getV(), op.getOut(), op.getLse(), op.getDOut(), op.getBias(),
        op.getSeed(), op.getFirst(), op.getScaleAttr(), op.getDiagonalAttr(), op.getWindowAttr(), op.getRateAttr(),
        op.getStreamAttr());
    if (!options.queries->hasKernel(packed)) {
      packed->erase();
      continue;
    }
    if (options.remarks)
      options.remarks->push_back({Remark::Kind::passed, "pack-attention", op.getLoc(),
                                  "the gradients of q, k and v are written into one tensor",
                                  2 * byteSize(tensorType(packed.getPacked()))});
    replaceJoined(joined, packed.getPacked(), emit);
    changed = true;
  }
  if (changed)
    eraseDeadOps(function);
  return success();
}

} // namespace tcc
