// A matmul beside plain loops in double.
#pragma once
#include "runtime/gemm.h"
#include "runtime/memory.h"
#include "runtime/threads.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace tcc::runtime {

// A tensor of floats of 32 or 16 bits filled with a fixed pattern of small numbers.
class Operand {
public:
  Operand(DType dtype, int64_t bytes, uint32_t seed) : dtype(dtype), storage(*TensorStorage::zeros(bytes)) {
    for (int64_t i = 0; i < bytes / byteSize(dtype); ++i) {
      seed = seed * 1664525u + 1013904223u;
      set(i, static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
  }
  double get(int64_t i) const {
    if (dtype == DType::f32)
      return storage.as<float>()[i];
    const uint16_t bits = storage.as<uint16_t>()[i];
    return dtype == DType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
  }
  void set(int64_t i, float value) {
    if (dtype == DType::f32)
      storage.as<float>()[i] = value;
    else
      storage.as<uint16_t>()[i] = dtype == DType::bf16 ? floatToBf16(value) : floatToF16(value);
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

/// One way to multiply, with memory that it needs.
struct Multiplication {
  std::string name;
  int64_t scratchBytes = 0;
  std::function<void(const void *a, const void *b, void *c, const void *bias, void *scratch)> run;
};

inline Multiplication byGemm(const GemmDesc &desc, int threads) {
  auto gemm = Gemm::create(desc, threads);
  EXPECT_TRUE(gemm) << gemm.error().message();
  if (!gemm)
    return {};
  auto shared = std::make_shared<Gemm>(std::move(*gemm));
  const auto scratchBytes = scratchpadBytes(desc, threads);
  EXPECT_TRUE(scratchBytes && *scratchBytes == shared->scratchpadBytes());
  return {shared->implementation(), shared->scratchpadBytes(),
          [shared](const void *a, const void *b, void *c, const void *bias, void *scratch) {
            shared->run(a, b, c, bias, scratch);
          }};
}

/// Compares each element with a sum in double.
inline void checkProduct(const GemmDesc &desc, const Multiplication &product, int threads) {
  SCOPED_TRACE(describe(desc) + " by " + product.name);
  const auto extents = gemmExtents(desc);
  ASSERT_TRUE(extents) << extents.error().message();
  ASSERT_TRUE(product.run);
  const Operand a(desc.a.dtype, extents->a, 1), b(desc.b.dtype, extents->b, 2);
  const Operand bias(desc.bias.value_or(DType::f32), extents->bias, 3);
  const Operand before(desc.c.dtype, extents->c, 4);
  Operand c(desc.c.dtype, extents->c, 4), again(desc.c.dtype, extents->c, 4);
  const auto scratch = *TensorStorage::zeros(product.scratchBytes);
  std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes())); // NaNs, which no result may see
  ThreadCountScope scope(threads);
  for (Operand *result : {&c, &again})
    product.run(a.data(), b.data(), result->data(), bias.data(), scratch.data());
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
          if (desc.c.dtype != DType::f32)
            bound += desc.c.dtype == DType::bf16 ? 0x1p-8 * size : 0x1p-11 * size + 0x1p-24;
          ASSERT_NEAR(c.get(at), sum, bound) << "at " << outer << "," << inner << "," << i << "," << j;
        }
  for (int64_t i = 0; i < c.elements(); ++i) {
    if (!written[i]) {
      ASSERT_EQ(c.get(i), before.get(i)) << "written outside of c at element " << i;
    }
  }
}

inline void checkProduct(const GemmDesc &desc, int threads = 2) {
  checkProduct(desc, byGemm(desc, threads), threads);
}

/// C of a matmul without bias, from operands that `change` may alter.
template <typename Change>
std::vector<float> resultOf(const GemmDesc &desc, const Multiplication &product, int threads, Change &&change) {
  const GemmExtents extents = *gemmExtents(desc);
  Operand a(desc.a.dtype, extents.a, 1), b(desc.b.dtype, extents.b, 2), c(desc.c.dtype, extents.c, 4);
  change(a, b);
  const auto scratch = *TensorStorage::zeros(product.scratchBytes);
  std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes())); // NaNs, which no result may see
  ThreadCountScope scope(threads);
  product.run(a.data(), b.data(), c.data(), nullptr, scratch.data());
  std::vector<float> values(static_cast<size_t>(c.elements()));
  for (int64_t i = 0; i < c.elements(); ++i)
    values[static_cast<size_t>(i)] = static_cast<float>(c.get(i));
  return values;
}

inline bool sameBits(const std::vector<float> &x, const std::vector<float> &y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
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

struct ProductErrors {
  double product = 0, loop = 0; // root mean squares of what is wrong, in units of the sum of magnitudes
};

/// The error of the f32 product of 64 × 64 numbers with exponents up to `spread` around 0, beside sums in f32 from
/// first to last.
inline ProductErrors errorsOf(int64_t depth, int spread,
                              const std::function<Multiplication(const GemmDesc &desc, int threads)> &multiplication) {
  constexpr int64_t lines = 64;
  const GemmDesc desc = product(DType::f32, DType::f32, lines, lines, depth);
  std::vector<float> a, b;
  const std::vector<float> c = resultOf(desc, multiplication(desc, 2), 2, [&](Operand &left, Operand &right) {
    std::mt19937 random(7);
    for (auto [operand, values] : {std::pair{&left, &a}, {&right, &b}})
      for (int64_t i = 0; i < operand->elements(); ++i) {
        const int exponent = spread ? static_cast<int>(random() % (2 * spread + 1)) - spread : 0;
        operand->set(i, std::ldexp(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f, exponent));
        values->push_back(static_cast<float>(operand->get(i)));
      }
  });
  ProductErrors errors;
  for (int64_t at = 0; at < lines * lines; ++at) {
    double sum = 0, size = 0;
    float inOrder = 0;
    for (int64_t k = 0; k < depth; ++k) {
      const float x = a[static_cast<size_t>(at / lines * depth + k)],
                  y = b[static_cast<size_t>(k * lines + at % lines)];
      sum += static_cast<double>(x) * y;
      size += std::fabs(static_cast<double>(x) * y);
      inOrder += x * y;
    }
    errors.product += std::pow((static_cast<double>(c[static_cast<size_t>(at)]) - sum) / size, 2) / (lines * lines);
    errors.loop += std::pow((static_cast<double>(inOrder) - sum) / size, 2) / (lines * lines);
  }
  return {std::sqrt(errors.product), std::sqrt(errors.loop)};
}

} // namespace tcc::runtime
