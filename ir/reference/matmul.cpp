// The op matmul, batched.
#include "ir/reference/registry.h"

using namespace mlir;

namespace tcc::reference {
namespace {

/// Matrix `number` of a batch, stored without transposition.
struct Matrix {
  int64_t rows, columns;
  std::vector<double> data;

  Matrix(const RefTensor &batch, int64_t number, bool transposed) {
    ArrayRef<int64_t> last = batch.shape().take_back(2);
    rows = transposed ? last[1] : last[0];
    columns = transposed ? last[0] : last[1];
    const double *from = batch.data.data() + number * rows * columns;
    data.resize(rows * columns);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j)
        data[i * columns + j] = transposed ? from[j * rows + i] : from[i * columns + j];
  }
};

} // namespace

void addMatmul(Registry &registry) {
  add<MatmulOp>(registry, [](Call &call, MatmulOp op) {
    const RefTensor &a = call.in(0), &b = call.in(1);
    bool shared = b.shape().size() == 2; // one matrix for all of a's batch
    if (!shared && a.shape().drop_back(2) != b.shape().drop_back(2))
      return call.refuse("batch sizes of " + typeText(a.type) + " and " + typeText(b.type) + " differ (matmul_c2)");
    Shape shape(a.shape());
    int64_t rank = shape.size(), batch = elementCount(a.shape().drop_back(2));
    shape[rank - 2] = a.shape()[rank - (op.getTransposeA() ? 1 : 2)];
    shape[rank - 1] = b.shape()[b.shape().size() - (op.getTransposeB() ? 2 : 1)];
    const RefTensor *bias = op.getBias() ? &call.in(2) : nullptr;
    const RefTensor *addend = op.getAddend() ? &call.in(bias ? 3 : 2) : nullptr;
    if (bias && bias->shape() != ArrayRef<int64_t>(shape.back()))
      return call.refuse("the bias is " + typeText(bias->type) + ", not [N] (matmul_c6)");
    if (addend && addend->shape() != ArrayRef<int64_t>(shape))
      return call.refuse("the addend is " + typeText(addend->type) + ", not of the result's shape (matmul_c7)");
    RefTensor &result = call.addResult(shape);
    double *next = result.data.data();
    for (int64_t number = 0; number < batch; ++number) {
      Matrix left(a, number, op.getTransposeA()), right(b, shared ? 0 : number, op.getTransposeB());
      if (left.columns != right.rows)
        return call.refuse("contraction sizes " + Twine(left.columns) + " and " + Twine(right.rows) +
                           " differ (matmul_c1)");
      for (int64_t i = 0; i < left.rows; ++i) {
        std::vector<Sum> sums(right.columns, Sum(call.mode));
        for (int64_t k = 0; k < left.columns; ++k)
          for (int64_t j = 0; j < right.columns; ++j)
            sums[j].add(left.data[i * left.columns + k] * right.data[k * right.columns + j]);
        for (int64_t j = 0; j < right.columns; ++j, ++next) {
          if (bias)
            sums[j].add(bias->data[j]);
          if (addend)
            sums[j].add(addend->data[next - result.data.data()]);
          *next = sums[j].get();
        }
      }
    }
  });
}

} // namespace tcc::reference
