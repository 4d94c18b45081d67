// Strided views of values, and the form of a matmul's operands.
#include "ir/dialect.h"
#include "ir/tensor_bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tcc {

StridedView denseView(Value value) {
  StridedView view;
  view.root = value;
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  view.sizes.assign(shape.begin(), shape.end());
  view.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    view.strides[i] = stride;
    stride *= shape[i];
  }
  return view;
}

namespace {

/// Strides of `shape` over the same elements; nothing where a new dim would span a gap.
std::optional<SmallVector<int64_t>> reshapeStrides(const StridedView &view, ArrayRef<int64_t> shape) {
  // Runs of old dims that lie densely in each other, as (elements, stride of the innermost).
  SmallVector<std::pair<int64_t, int64_t>> runs;
  for (auto [size, stride] : llvm::zip(view.sizes, view.strides)) {
    if (size == 1)
      continue;
    if (!runs.empty() && runs.back().second == size * stride)
      runs.back() = {runs.back().first * size, stride};
    else
      runs.push_back({size, stride});
  }
  SmallVector<int64_t> strides(shape.size(), 1);
  size_t run = runs.size();
  int64_t left = 1, stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1)
      continue;
    if (left == 1) {
      if (run == 0)
        return std::nullopt;
      left = runs[--run].first;
      stride = runs[run].second;
    }
    if (left % shape[i] != 0)
      return std::nullopt;
    strides[i] = stride;
    stride *= shape[i];
    left /= shape[i];
  }
  return strides;
}

bool hasWindows(ViewOpInterface op) {
  std::optional<SmallVector<ViewedDim>> dims = op.viewedDims();
  return dims && llvm::any_of(*dims, [](const ViewedDim &viewed) { return viewed.inner.has_value(); });
}

/// `inner` as the view op on it shows it.
StridedView throughView(ViewOpInterface op, const StridedView &inner) {
  Value result = op->getResult(0);
  StridedView view;
  view.root = inner.root;
  view.offset = inner.offset;
  ArrayRef<int64_t> shape = tensorType(result).getShape();
  view.sizes.assign(shape.begin(), shape.end());
  if (std::optional<SmallVector<ViewedDim>> dims = op.viewedDims()) {
    view.strides.assign(shape.size(), 0);
    for (auto [viewed, stride] : llvm::zip_equal(*dims, inner.strides)) {
      view.offset += viewed.offset * stride;
      if (viewed.dim)
        view.strides[*viewed.dim] += viewed.stride * stride;
    }
    return view;
  }
  std::optional<SmallVector<int64_t>> strides = reshapeStrides(inner, shape);
  if (!strides)
    return denseView(result);
  view.strides = *strides;
  return view;
}

} // namespace

StridedView stridedView(Value value) {
  if (tensorType(value).getNumElements() == 0) { // strides do not matter; reshapes share memory here too
    StridedView view = denseView(value);
    while (auto reshape = view.root.getDefiningOp<ReshapeOp>())
      view.root = reshape.getX();
    return view;
  }
  SmallVector<ViewOpInterface> views; // from the value down
  Value below = value;
  while (auto op = below.getDefiningOp<ViewOpInterface>()) {
    if (hasWindows(op)) // whose elements may overlap: no library reads that
      break;
    views.push_back(op);
    below = op->getOperand(0);
  }
  StridedView view = denseView(below);
  for (ViewOpInterface op : llvm::reverse(views))
    view = throughView(op, view);
  return view;
}

bool isDense(const StridedView &view) {
  int64_t stride = 1;
  for (size_t i = view.sizes.size(); i-- > 0;) {
    if (view.sizes[i] != 1 && view.strides[i] != stride)
      return false;
    stride *= view.sizes[i];
  }
  return view.offset == 0 && stride == tensorType(view.root).getNumElements();
}

int64_t spanOf(const StridedView &view) {
  int64_t span = 1;
  for (auto [size, stride] : llvm::zip_equal(view.sizes, view.strides)) {
    if (size == 0)
      return 0;
    span += (size - 1) * stride;
  }
  return span;
}

SmallVector<StridedView, 2> denseOperands(Operation *op) {
  SmallVector<StridedView, 2> views;
  for (Value operand : op->getOperands())
    views.push_back(denseView(denseRoot(operand)));
  return views;
}

int64_t bytesOfViews(Operation *op, ArrayRef<StridedView> views) {
  int64_t bytes = 0;
  for (const StridedView &view : views)
    bytes += spanOf(view) * elementBytes(tensorType(view.root).getElementType());
  for (Value result : op->getResults())
    bytes += byteSize(tensorType(result));
  return bytes;
}

Value denseRoot(Value value) {
  StridedView view = stridedView(value);
  return isDense(view) ? view.root : value;
}

SmallVector<Value> memoryOperands(Operation *op, const ViewLimits &limits) {
  SmallVector<Value> roots;
  if (auto structured = dyn_cast<StructuredOpInterface>(op))
    for (const StridedView &view : structured.operandViews(limits))
      roots.push_back(view.root);
  else if (isa<func::ReturnOp>(op))
    for (Value operand : op->getOperands())
      roots.push_back(denseRoot(operand));
  return roots;
}

namespace {

/// `view` as a matrix operand: leading dims are batch dims, or rows where `flatten` is set (and they can be joined).
std::optional<MatrixView> matrixView(const StridedView &view, bool transposed, bool flatten, const ViewLimits &limits) {
  MatrixView matrix;
  matrix.root = view.root;
  matrix.offset = view.offset;
  size_t rank = view.sizes.size();
  matrix.rows = view.sizes[rank - 2];
  matrix.columns = view.sizes[rank - 1];
  matrix.rowStride = view.strides[rank - 2];
  matrix.columnStride = view.strides[rank - 1];
  SmallVector<std::pair<int64_t, int64_t>> batch; // (size, stride), joined where dense in each other
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (view.sizes[i] == 1)
      continue;
    bool joins = !batch.empty() && batch.back().second == view.sizes[i] * view.strides[i];
    if (joins)
      batch.back() = {batch.back().first * view.sizes[i], view.strides[i]};
    else
      batch.push_back({view.sizes[i], view.strides[i]});
  }
  if (flatten && !batch.empty()) {
    if (batch.size() != 1 || (matrix.rows != 1 && batch[0].second != matrix.rows * matrix.rowStride))
      return std::nullopt;
    if (matrix.rows == 1)
      matrix.rowStride = batch[0].second;
    matrix.rows *= batch[0].first;
    batch.clear();
  }
  if (static_cast<int64_t>(batch.size()) > std::min<int64_t>(2, limits.batchDims))
    return std::nullopt;
  for (size_t i = 0; i < batch.size(); ++i) {
    size_t slot = i + 2 - batch.size();
    matrix.batch[slot] = batch[i].first;
    matrix.batchStride[slot] = batch[i].second;
  }
  // A size of one has no stride of its own: it takes the dense one.
  if (matrix.columns == 1 && matrix.rowStride != 1)
    matrix.columnStride = 1;
  if (matrix.rows == 1 && matrix.columnStride == 1)
    matrix.rowStride = matrix.columns;
  bool rowMajor = matrix.columnStride == 1 && matrix.rowStride >= matrix.columns;
  bool columnMajor = matrix.rowStride == 1 && matrix.columnStride >= matrix.rows;
  if (!rowMajor && !columnMajor)
    return std::nullopt;
  if (transposed) {
    std::swap(matrix.rows, matrix.columns);
    std::swap(matrix.rowStride, matrix.columnStride);
  }
  return matrix;
}

MatrixView denseMatrix(Value value, bool transposed, bool flatten) {
  return *matrixView(denseView(value), transposed, flatten, {1}); // dense batch dims are one
}

/// Splits `matrix`'s one joined batch dim as the other operand needs it.
bool splitBatch(MatrixView &matrix, const MatrixView &like) {
  if (matrix.batch[0] == like.batch[0] && matrix.batch[1] == like.batch[1])
    return true;
  if (matrix.batch[0] != 1 || matrix.batch[1] != like.batch[0] * like.batch[1])
    return false;
  matrix.batch[0] = like.batch[0];
  matrix.batch[1] = like.batch[1];
  matrix.batchStride[0] = matrix.batchStride[1] * like.batch[1];
  return true;
}

MatmulViews viewsOf(Value left, bool transposeA, Value right, bool transposeB, const ViewLimits &limits) {
  bool single = tensorType(right).getRank() == 2; // one matrix b: the rows of a are all one matrix
  std::optional<MatrixView> a = matrixView(stridedView(left), transposeA, single, limits);
  std::optional<MatrixView> b = matrixView(stridedView(right), transposeB, false, limits);
  MatmulViews views{a ? *a : denseMatrix(left, transposeA, single), b ? *b : denseMatrix(right, transposeB, false)};
  if (single || splitBatch(views.a, views.b) || splitBatch(views.b, views.a))
    return views;
  // Batches joined differently: dense copies always agree.
  return {denseMatrix(left, transposeA, single), denseMatrix(right, transposeB, false)};
}

} // namespace

MatmulViews matmulViews(MatmulOp op, const ViewLimits &limits) {
  return viewsOf(op.getA(), op.getTransposeA(), op.getB(), op.getTransposeB(), limits);
}

MatmulViews matmulViews(MatmulGeluGradientOp op, const ViewLimits &limits) {
  return viewsOf(op.getA(), false, op.getB(), op.getTransposeB(), limits);
}

} // namespace tcc
