// A product beside plain loops in double.
#pragma once
#include "runtime/gemm.h"
#include "runtime/memory.h"
#include "runtime/threads.h"
#include <cmath>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tcc::runtime {

// A tensor of floats or bf16s filled with a fixed pattern of small numbers.
class Operand {
public:
  Operand(DType dtype, int64_t bytes, uint32_t seed) : dtype(dtype), storage(*TensorStorage::zeros(bytes)) {
    for (int64_t i = 0; i < bytes / byteSize(dtype); ++i) {
      seed = seed * 1664525u + 1013904223u;
      set(i, static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
  }
  double get(int64_t i) const {
    return dtype == DType::f32 ? storage.as<float>()[i] : bf16ToFloat(storage.as<uint16_t>()[i]);
  }
  void set(int64_t i, float value) {
    if (dtype == DType::f32)
      storage.as<float>()[i] = value;
    else
      storage.as<uint16_t>()[i] = floatToBf16(value);
  }
  int64_t elements() const { return storage.bytes() / byteSize(dtype); }
  void *data() const { return storage.data(); }
  std::string bytes() const {
    return {static_cast<const char *>(storage.data()), static_cast<size_t>(storage.bytes())};
  }

private:
  DType dtype;
  TensorStorage storage;
};

inline int64_t offset(const MatrixLayout &layout, int64_t outer, int64_t inner, int64_t row, int64_t column) {
  return outer * layout.batchStrides[0] + inner * layout.batchStrides[1] + row * layout.rowStride +
         column * layout.columnStride;
}

inline void checkProduct(const GemmDesc &desc, int threads = 2) {
  SCOPED_TRACE(describe(desc));
  const auto extents = gemmExtents(desc);
  ASSERT_TRUE(extents) << extents.error().message();
  const auto gemm = Gemm::create(desc, threads);
  ASSERT_TRUE(gemm) << gemm.error().message();
  const auto scratchBytes = scratchpadBytes(desc, threads);
  ASSERT_TRUE(scratchBytes);
  EXPECT_EQ(*scratchBytes, gemm->scratchpadBytes());

  const Operand a(desc.a.dtype, extents->a, 1), b(desc.b.dtype, extents->b, 2);
  const Operand bias(desc.bias.value_or(DType::f32), extents->bias, 3);
  const Operand before(desc.c.dtype, extents->c, 4);
  Operand c(desc.c.dtype, extents->c, 4), again(desc.c.dtype, extents->c, 4);
  const auto scratch = *TensorStorage::zeros(*scratchBytes);
  ThreadCountScope scope(threads);
  for (Operand *result : {&c, &again}) {
    const Error error = gemm->run(a.data(), b.data(), result->data(), bias.data(), scratch.data());
    ASSERT_FALSE(error) << error.message();
  }
  EXPECT_EQ(c.bytes(), again.bytes()) << "two runs gave different bits";

  std::vector<bool> written(static_cast<size_t>(c.elements()), false);
  for (int64_t outer = 0; outer < desc.batch[0]; ++outer)
    for (int64_t inner = 0; inner < desc.batch[1]; ++inner)
      for (int64_t i = 0; i < desc.m; ++i)
        for (int64_t j = 0; j < desc.n; ++j) {
          const int64_t at = offset(desc.c, outer, inner, i, j);
          written[at] = true;
          double sum = 0, size = 0;
          auto add = [&](double term) {
            sum += term;
            size += std::fabs(term);
          };
          for (int64_t k = 0; k < desc.k; ++k)
            add(a.get(offset(desc.a, outer, inner, i, k)) * b.get(offset(desc.b, outer, inner, k, j)));
          if (desc.bias)
            add(bias.get(j));
          if (desc.accumulate)
            add(before.get(at));
          // Any order of k + 2 additions in f32, then the rounding of the result, once or (accumulating) twice.
          double bound = static_cast<double>(desc.k + 4) * 0x1p-24 * size;
          if (desc.c.dtype == DType::bf16)
            bound += 0x1p-8 * size;
          ASSERT_NEAR(c.get(at), sum, bound) << "at " << outer << "," << inner << "," << i << "," << j;
        }
  for (int64_t i = 0; i < c.elements(); ++i) {
    if (!written[i]) {
      ASSERT_EQ(c.get(i), before.get(i)) << "written outside of c at element " << i;
    }
  }
}

inline MatrixLayout dense(DType dtype, int64_t rows, int64_t columns, bool transposed = false) {
  return transposed ? MatrixLayout{dtype, 1, rows, {}} : MatrixLayout{dtype, columns, 1, {}};
}

inline GemmDesc product(DType in, DType out, int64_t m, int64_t n, int64_t k, bool transposeA = false,
                        bool transposeB = false) {
  GemmDesc desc;
  desc.m = m, desc.n = n, desc.k = k;
  desc.a = dense(in, m, k, transposeA);
  desc.b = dense(in, k, n, transposeB);
  desc.c = dense(out, m, n);
  return desc;
}

} // namespace tcc::runtime
