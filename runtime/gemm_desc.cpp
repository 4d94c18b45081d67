// Checks the description of a matmul, and says which bytes of its operands it reads and writes.
#include "runtime/gemm.h"
#include "runtime/plan.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

constexpr int64_t maxExtent = maxPlanBytes;

bool isProductDType(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

std::string product(std::initializer_list<int64_t> dims) {
  std::string text;
  for (int64_t dim : dims)
    text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

std::string strideText(const char *operand, const MatrixLayout &layout) {
  std::string text = std::string(" ") + operand + "[";
  if (layout.batchStrides[0] || layout.batchStrides[1])
    text += std::to_string(layout.batchStrides[0]) + "," + std::to_string(layout.batchStrides[1]) + ",";
  return text + std::to_string(layout.rowStride) + "," + std::to_string(layout.columnStride) + "]";
}

// Bytes from the first element to the end of the last one; negative when a size overflows or a stride is negative.
int64_t extentBytes(const MatrixLayout &layout, int64_t rows, int64_t columns, const std::array<int64_t, 2> &batch) {
  const std::array<std::pair<int64_t, int64_t>, 4> dims{{{batch[0], layout.batchStrides[0]},
                                                         {batch[1], layout.batchStrides[1]},
                                                         {rows, layout.rowStride},
                                                         {columns, layout.columnStride}}};
  __int128 last = 0;
  for (auto [extent, stride] : dims) {
    if (extent < 0 || extent > maxExtent || stride < 0 || stride > maxExtent)
      return -1;
    if (extent == 0)
      return 0;
    last += static_cast<__int128>(extent - 1) * stride;
  }
  const __int128 bytes = (last + 1) * byteSize(layout.dtype);
  return bytes > maxExtent ? -1 : static_cast<int64_t>(bytes);
}

// Whether two different indices of C can name one element. Sorted by stride, each stride must step over all that the
// smaller ones reach.
bool overlapsItself(const MatrixLayout &layout, int64_t rows, int64_t columns, const std::array<int64_t, 2> &batch) {
  std::array<std::pair<int64_t, int64_t>, 4> dims{{{layout.batchStrides[0], batch[0]},
                                                   {layout.batchStrides[1], batch[1]},
                                                   {layout.rowStride, rows},
                                                   {layout.columnStride, columns}}};
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, extent] : dims) {
    if (extent == 1)
      continue;
    if (stride <= reach)
      return true;
    reach += stride * (extent - 1);
  }
  return false;
}

} // namespace

MatrixLayout normalized(MatrixLayout layout, int64_t rows, int64_t columns) {
  if (columns == 1 && rows == 1) {
    layout.rowStride = layout.columnStride = 1;
  } else if (columns == 1) {
    layout.columnStride = 1;
  } else if (rows == 1) {
    layout.rowStride = layout.columnStride == 1 ? columns : 1;
  }
  return layout;
}

GemmDesc transposed(const GemmDesc &desc) {
  auto flip = [](MatrixLayout layout) {
    std::swap(layout.rowStride, layout.columnStride);
    return layout;
  };
  GemmDesc result = desc;
  std::swap(result.m, result.n);
  result.a = flip(desc.b);
  result.b = flip(desc.a);
  result.c = flip(desc.c);
  return result;
}

std::string describe(const GemmDesc &desc) {
  std::string text = std::string(name(desc.a.dtype));
  if (desc.c.dtype != desc.a.dtype)
    text += "->" + std::string(name(desc.c.dtype));
  text += " ";
  if (desc.batchCount() != 1)
    text += product({desc.batch[0], desc.batch[1]}) + " of ";
  text += product({desc.m, desc.n, desc.k});
  text += strideText("a", desc.a) + strideText("b", desc.b) + strideText("c", desc.c);
  if (desc.accumulate)
    text += " +c";
  if (desc.bias)
    text += " +bias";
  if (desc.geluGradient)
    text += " *gelu'";
  if (desc.tf32)
    text += " tf32";
  return text;
}

Expected<GemmExtents> gemmExtents(const GemmDesc &desc) {
  const bool dtypes = isProductDType(desc.a.dtype) && desc.b.dtype == desc.a.dtype && isProductDType(desc.c.dtype) &&
                      (desc.c.dtype == desc.a.dtype || desc.c.dtype == DType::f32);
  if (!dtypes)
    return Error("product of " + std::string(name(desc.a.dtype)) + " and " + std::string(name(desc.b.dtype)) +
                 " into " + std::string(name(desc.c.dtype)) +
                 "; f32 gives f32, bf16 gives bf16 or f32, f16 gives f16 or f32");
  if (desc.bias && *desc.bias != DType::f32 && *desc.bias != desc.a.dtype)
    return Error("bias of dtype " + std::string(name(*desc.bias)) + "; it is f32 or has the dtype of a");
  for (int64_t size : {desc.batch[0], desc.batch[1], desc.m, desc.n, desc.k})
    if (size < 0 || size > maxExtent)
      return Error("product size " + std::to_string(size) + " is out of range; sizes are 0 to 2^46");
  if (static_cast<__int128>(desc.batch[0]) * desc.batch[1] > maxExtent)
    return Error("product batch " + product({desc.batch[0], desc.batch[1]}) + " is too large; 2^46 elements at most");
  if (desc.geluGradient && (desc.bias || desc.accumulate || desc.batchCount() != 1 || desc.c.dtype == DType::f32))
    return Error("product " + describe(desc) +
                 " is multiplied by slopes of GELU, which one of 16 bits without batches, "
                 "bias and accumulation can be");
  const GemmExtents extents{
      extentBytes(desc.a, desc.m, desc.k, desc.batch), extentBytes(desc.b, desc.k, desc.n, desc.batch),
      extentBytes(desc.c, desc.m, desc.n, desc.batch), desc.bias ? desc.n * byteSize(*desc.bias) : 0};
  for (auto [operand, bytes] : {std::pair{"a", extents.a}, std::pair{"b", extents.b}, std::pair{"c", extents.c}})
    if (bytes < 0)
      return Error(std::string(operand) + " of product " + describe(desc) +
                   " has a negative stride or more than 2^46 bytes");
  if (extents.c > 0 && overlapsItself(desc.c, desc.m, desc.n, desc.batch))
    return Error("c of product " + describe(desc) + " overlaps itself; each element of a result has its own place");
  return extents;
}

} // namespace tcc::runtime
