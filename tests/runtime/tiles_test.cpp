// Matmuls by AMX's tiles: sizes around panels, blocks and chunks; f32's precision; what cannot be split into parts;
// equal bits for any number of threads. Skipped where the CPU has no tiles.
#include "check_product.h"
#include "runtime/cpu.h"
#include <limits>
#include <utility>

namespace tcc::runtime {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class TilesTest : public testing::Test {
protected:
  void SetUp() override {
    if (!hasTiles())
      GTEST_SKIP() << "no tiles here";
  }
};

Multiplication byTiles(const GemmDesc &desc, int threads) {
  Multiplication product = byGemm(desc, threads);
  EXPECT_TRUE(product.name.starts_with("amx")) << product.name;
  return product;
}

template <typename Change>
std::vector<float> run(const GemmDesc &desc, int threads, Change &&change) {
  return resultOf(desc, byTiles(desc, threads), threads, std::forward<Change>(change));
}

TEST_F(TilesTest, sizesAroundPanelsAndBlocks) {
  for (auto [in, out] : {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (auto [m, n, k] : {std::array{16, 16, 1},
                               {31, 65, 31},
                               {33, 16, 33},
                               {64, 96, 65},
                               {40, 17, 513},
                               {70, 100, 600},
                               {530, 40, 768},
                               {35, 70, 1100},
                               {65, 33, 2081}}) {
          GemmDesc desc = product(in, out, m, n, k, transposeA, transposeB);
          checkProduct(desc, 2);
          desc.accumulate = true;
          desc.bias = DType::f32;
          desc.c.rowStride += 3;
          checkProduct(desc, 3);
        }
}

/// Many small matmuls are divided among threads whole, few by their slabs.
TEST_F(TilesTest, batches) {
  for (int64_t batch : {2, 7}) {
    GemmDesc desc = product(DType::bf16, DType::f32, 40, 33, 70);
    desc.batch = {batch, 3};
    desc.a.batchStrides = {3 * 40 * 70, 40 * 70};
    desc.b.batchStrides = {70 * 33, 0};
    desc.c.batchStrides = {3 * 40 * 33, 40 * 33};
    for (int threads : {1, 4, 9})
      checkProduct(desc, threads);
  }
}

/// The resident operand is larger than its share of scratch: C adds up chunks of depth.
TEST_F(TilesTest, chunksOfDepth) {
  for (auto [dtype, result] :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::bf16, DType::bf16}}) {
    const int64_t depth = dtype == DType::f32 ? 4000 : 18000;
    GemmDesc desc = product(dtype, result, 544, 608, depth, true, false);
    desc.accumulate = dtype == result;
    const GemmExtents extents = *gemmExtents(desc);
    const Operand a(dtype, extents.a, 1), b(dtype, extents.b, 2), before(result, extents.c, 4);
    const std::vector<float> c = run(desc, 2, [](Operand &, Operand &) {});
    EXPECT_LT(Gemm::create(desc, 2)->scratchpadBytes(), 14 << 20) << "all of the operand is packed at once";
    for (int64_t at = 0; at < 544 * 608; at += 997) {
      const int64_t i = at / 608, j = at % 608;
      double sum = desc.accumulate ? before.get(at) : 0, size = std::fabs(sum);
      for (int64_t k = 0; k < depth; ++k) {
        const double term = a.get(k * 544 + i) * b.get(k * 608 + j);
        sum += term;
        size += std::fabs(term);
      }
      ASSERT_NEAR(c[static_cast<size_t>(at)], sum, (result == DType::f32 ? 0x1p-22 : 0x1p-8) * size) << i << ", " << j;
    }
  }
}

/// Results larger than a cache go past it, but for the columns after the last whole panel. Those of 16 bits go two
/// panels at a time, whichever operand is resident, with an odd number of panels too.
TEST_F(TilesTest, largeResults) {
  for (auto [dtype, m, n] : {std::tuple{DType::bf16, 1040, 1056},
                             {DType::bf16, 1040, 1072},
                             {DType::bf16, 2090, 544},
                             {DType::bf16, 1700, 656},
                             {DType::f32, 1040, 608},
                             {DType::f32, 1040, 620}})
    for (const int threads : {2, 5}) {
      GemmDesc desc = product(dtype, dtype, m, n, 3);
      checkProduct(desc, threads);
      desc.bias = DType::f32;
      desc.c.rowStride = 1088;
      checkProduct(desc, threads);
    }
}

/// Three bf16 have f32's 24 bits: what is dropped is below the roundings of sums.
TEST_F(TilesTest, f32HasItsPrecision) {
  for (int64_t depth : {1, 8, 64, 512, 4096})
    for (int spread : {0, 4, 30}) {
      const ProductErrors errors = errorsOf(depth, spread, byTiles);
      EXPECT_LE(errors.product, 1.1 * errors.loop) << "depth " << depth << ", spread " << spread;
    }
}

TEST_F(TilesTest, whatCannotBeSplit) {
  const float greatest = std::numeric_limits<float>::max();
  const GemmDesc desc = product(DType::f32, DType::f32, 80, 70, 600);
  for (const float special : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), greatest, 0x1.ffp127f}) {
    auto halves = [](Operand &b) {
      for (int64_t j = 0; j < 70; ++j)
        b.set(590 * 70 + j, j == 3 ? 0 : j % 2 ? 0.5f : -0.5f);
    };
    const std::vector<float> usual = run(desc, 2, [&](Operand &, Operand &b) { halves(b); });
    const std::vector<float> c = run(desc, 2, [&](Operand &a, Operand &b) {
      a.set(33 * 600 + 590, special); // in the last block of depth
      halves(b);
    });
    for (int64_t j = 0; j < 70; ++j) {
      const float element = c[static_cast<size_t>(33 * 70 + j)], expected = special * (j == 3  ? 0
                                                                                       : j % 2 ? 0.5f
                                                                                               : -0.5f);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(element)) << special << ", " << j;
      else if (j == 3) // a finite one times 0
        EXPECT_LT(std::fabs(element), 600) << special;
      else
        EXPECT_EQ(element, expected) << special << ", " << j;
    }
    for (int64_t i = 0; i < 80; ++i) // no other row sees it
      for (int64_t j = 0; i != 33 && j < 70; ++j)
        ASSERT_NEAR(c[static_cast<size_t>(i * 70 + j)], usual[static_cast<size_t>(i * 70 + j)], 1e-4)
            << special << ", " << i << ", " << j;
  }
}

/// Numbers so small that their third parts would be 0.
TEST_F(TilesTest, smallNumbersKeepTheirBits) {
  for (const float scale : {0x1p-96f, 0x1p-110f, 0x1p-120f}) {
    const GemmDesc desc = product(DType::f32, DType::f32, 33, 40, 50, false, true);
    Operand x(DType::f32, 33 * 50 * 4, 1), y(DType::f32, 40 * 50 * 4, 2);
    const std::vector<float> c = run(desc, 2, [&](Operand &a, Operand &) {
      for (int64_t i = 0; i < a.elements(); ++i)
        a.set(i, static_cast<float>(a.get(i)) * scale);
    });
    for (int64_t i = 0; i < 33; ++i)
      for (int64_t j = 0; j < 40; ++j) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < 50; ++k) {
          const double term = x.get(i * 50 + k) * scale * y.get(j * 50 + k);
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(c[static_cast<size_t>(i * 40 + j)], sum, 0x1p-20 * size) << scale << ", " << i << ", " << j;
      }
  }
}

TEST_F(TilesTest, sameBitsForAnyThreads) {
  for (auto [m, n, k] : {std::array{1000, 70, 1500}, {40, 40, 3000}, {257, 640, 384}})
    for (DType dtype : {DType::f32, DType::bf16}) {
      const GemmDesc desc = product(dtype, DType::f32, m, n, k, true, true);
      auto withOneInfinity = [](Operand &a, Operand &) { a.set(777, infinity); };
      const std::vector<float> one = run(desc, 1, withOneInfinity);
      for (int threads : {2, 3, 16})
        EXPECT_TRUE(sameBits(one, run(desc, threads, withOneInfinity))) << describe(desc) << ", " << threads;
    }
}

} // namespace
} // namespace tcc::runtime
