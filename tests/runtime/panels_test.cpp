// Matmuls by panels, by each instruction set that this CPU has: sizes around panels, blocks, chunks and stretches of
// depth; f32's precision; infinities and NaNs; one rounding of 16-bit results; equal bits for any number of threads.
#include "check_product.h"
#include "runtime/cpu.h"
#include "runtime/panels/product.h"
#include "runtime/wait_policy.h"
#include <limits>

namespace tcc::runtime {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// What multiplies bf16, what all else, and the CPU features that they need.
struct Instructions {
  const char *name, *needs;
  const panels::Kernel *bf16, *others;
};

class PanelsTest : public testing::TestWithParam<Instructions> {
protected:
  void SetUp() override {
    if (const Error missing = requireCpuFeatures(GetParam().needs))
      GTEST_SKIP() << missing.message();
  }
  static Multiplication byPanels(const GemmDesc &desc, int threads) {
    const auto product =
        panels::Product::plan(desc, threads, desc.a.dtype == DType::bf16 ? GetParam().bf16 : GetParam().others);
    return {product->name(), product->scratchBytes(),
            [product](const void *a, const void *b, void *c, const void *bias, void *scratch) {
              product->run(a, b, c, bias, scratch);
            }};
  }
  static void check(const GemmDesc &desc, int threads) { checkProduct(desc, byPanels(desc, threads), threads); }
  /// Two matmuls by one B, of which the first packs it and the second reads neither it nor its place.
  static void checkPackedOnce(const GemmDesc &desc, int threads) {
    SCOPED_TRACE(describe(desc) + " on " + std::to_string(threads) + " threads");
    const auto product =
        *panels::Product::plan(desc, threads, desc.a.dtype == DType::bf16 ? GetParam().bf16 : GetParam().others);
    const GemmExtents extents = *gemmExtents(desc);
    const Operand b(desc.b.dtype, extents.b, 2), bias(desc.a.dtype, extents.bias, 3);
    const auto scratch = *TensorStorage::zeros(product.scratchBytes()),
               packed = *TensorStorage::zeros(product.packedBytes());
    ASSERT_GT(product.packedBytes(), 0);
    std::memset(packed.data(), 0xff, static_cast<size_t>(packed.bytes()));
    ThreadCountScope scope(threads);
    for (uint32_t seed : {10u, 11u}) {
      const Operand a(desc.a.dtype, extents.a, seed);
      Operand expected(desc.c.dtype, extents.c, 4), found(desc.c.dtype, extents.c, 4);
      std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes()));
      product.run(a.data(), b.data(), expected.data(), bias.data(), scratch.data());
      std::memset(scratch.data(), 0xff, static_cast<size_t>(scratch.bytes()));
      const bool isPacked = seed == 11;
      product.run(a.data(), isPacked ? nullptr : b.data(), found.data(), bias.data(), scratch.data(),
                  {packed.data(), isPacked});
      EXPECT_EQ(found.bytes(), expected.bytes());
    }
  }
  template <typename Change>
  static std::vector<float> run(const GemmDesc &desc, int threads, Change &&change) {
    return resultOf(desc, byPanels(desc, threads), threads, change);
  }
  static std::vector<float> run(const GemmDesc &desc, int threads) {
    return run(desc, threads, [](Operand &, Operand &) {});
  }
};

constexpr const char *avx512 = "avx512f,avx512bw,avx512dq,avx512vl,fma,f16c";
INSTANTIATE_TEST_SUITE_P(
    instructions, PanelsTest,
    testing::Values(Instructions{"sse2", "", &panels::sse2Kernel, &panels::sse2Kernel},
                    Instructions{"avx2", "avx2,fma,f16c", &panels::avx2Kernel, &panels::avx2Kernel},
                    Instructions{"avx512", avx512, &panels::avx512Kernel, &panels::avx512Kernel},
                    Instructions{"avx512bf16", "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma,f16c",
                                 &panels::avx512Bf16Kernel, &panels::avx512Kernel}),
    [](const auto &info) { return std::string(info.param.name); });

constexpr std::pair<DType, DType> dtypes[] = {{DType::f32, DType::f32},
                                              {DType::bf16, DType::f32},
                                              {DType::bf16, DType::bf16},
                                              {DType::f16, DType::f32},
                                              {DType::f16, DType::f16}};

TEST_P(PanelsTest, sizesAroundPanelsAndStretches) {
  for (auto [in, out] : dtypes)
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (auto [m, n, k] : {std::array{1, 1, 1},
                               {5, 15, 3},
                               {6, 16, 4},
                               {7, 17, 5},
                               {100, 40, 11},
                               {31, 65, 2},
                               {13, 50, 384},
                               {40, 33, 385},
                               {20, 34, 1000}}) {
          GemmDesc desc = product(in, out, m, n, k, transposeA, transposeB);
          check(desc, 2);
          desc.accumulate = true;
          desc.c.rowStride += 3;
          desc.bias = in;
          check(desc, 3);
        }
}

/// Every number of rows and of columns in the last panels.
TEST_P(PanelsTest, edges) {
  for (auto [in, out] : dtypes)
    for (int64_t m = 1; m < 15; ++m)
      for (int64_t n = 1; n < 35; ++n)
        check(product(in, out, m, n, 9, m % 2, n % 2), 1);
}

TEST_P(PanelsTest, chunksOfRowsAndColumns) {
  for (auto [in, out] : {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::bf16}})
    for (int64_t k : {3, 400})
      for (auto [m, n] : {std::array{1540, 33}, {33, 1540}, {1600, 1601}}) {
        if (m > 1000 && n > 1000 && k > 3) // the loops of the check take long
          continue;
        GemmDesc desc = product(in, out, m, n, k, false, true);
        check(desc, 2);
        desc.bias = in;
        desc.accumulate = true;
        check(desc, 3);
      }
}

/// Two chunks of rows, each packed in two parts of some stretches.
TEST_P(PanelsTest, partsOfSomeStretches) {
  for (auto [in, out] : dtypes) {
    GemmDesc desc = product(in, out, 1600, 33, 2000 * (in == DType::bf16 ? 2 : 1), true, false);
    check(desc, 2);
    desc.bias = in;
    desc.accumulate = true;
    check(desc, 3);
  }
}

/// A matmul packs B into memory that lasts; equal ones by that B then have the bits that they have without it.
TEST_P(PanelsTest, packedOnce) {
  for (auto [in, out] : dtypes)
    for (auto [m, n, k] : {std::array{9, 5, 3}, {40, 33, 385}, {20, 1601, 2000}, {1540, 33, 20}})
      for (bool transposeB : {false, true})
        for (int threads : {1, 2, 5}) {
          GemmDesc desc = product(in, out, m, n, k, transposeB, transposeB);
          desc.bias = in;
          desc.accumulate = threads == 2;
          checkPackedOnce(desc, threads);
        }
  GemmDesc few = product(DType::f32, DType::f32, 8, 33, 20), many = product(DType::f32, DType::f32, 40, 40, 20);
  EXPECT_EQ(panels::Product::plan(few, 2, GetParam().others)->packedBytes(), 0);
  EXPECT_GT(panels::Product::plan(many, 2, GetParam().others)->packedBytes(), 40 * 20 * 4);
  many.batch = {1, 2};
  many.a.batchStrides = many.b.batchStrides = {0, 800};
  many.c.batchStrides = {0, 1600};
  EXPECT_EQ(panels::Product::plan(many, 2, GetParam().others)->packedBytes(), 0);
}

/// Many matmuls are divided among threads whole, few by their blocks.
TEST_P(PanelsTest, batches) {
  for (int64_t batch : {2, 7, 30}) {
    GemmDesc desc = product(DType::bf16, DType::f32, 40, 33, 70);
    desc.batch = {batch, 3};
    desc.a.batchStrides = {3 * 40 * 70, 40 * 70};
    desc.b.batchStrides = {70 * 33, 0};
    desc.c.batchStrides = {3 * 40 * 33, 40 * 33};
    desc.bias = DType::bf16;
    for (int threads : {1, 4, 9})
      check(desc, threads);
  }
}

/// A matrix times its own transpose, half of which is copied, has the bits that it has with a copy of the matrix.
TEST_P(PanelsTest, symmetricResults) {
  for (auto [in, out] : dtypes)
    for (bool transposed : {false, true})
      for (auto [lines, depth] :
           {std::array{9, 5}, {33, 64}, {225, 20}, {300, 900}, {777, 33}, {1700, 3}, {1601, 1601}}) {
        if (depth > 1000 && (in == DType::f16 || out == DType::f32))
          continue; // several chunks of rows and parts of the depth come with 16-bit results alone
        GemmDesc desc = product(in, out, lines, lines, depth, transposed, !transposed);
        if (lines == 33) {
          desc.batch = {3, 5};
          desc.a.batchStrides = desc.b.batchStrides = {5 * lines * depth, lines * depth};
          desc.c.batchStrides = {5 * lines * lines, lines * lines};
        }
        desc.c.rowStride += lines == 300 ? 7 : 0;
        SCOPED_TRACE(describe(desc));
        const GemmExtents extents = *gemmExtents(desc);
        const Operand a(in, extents.a, 1), copy(in, extents.a, 1);
        for (int threads : {1, 2, 3, 7}) {
          const Multiplication product = byPanels(desc, threads);
          Operand c(out, extents.c, 4), whole(out, extents.c, 4);
          const auto scratch = *TensorStorage::zeros(product.scratchBytes);
          ThreadCountScope scope(threads);
          product.run(a.data(), a.data(), c.data(), nullptr, scratch.data());
          product.run(a.data(), copy.data(), whole.data(), nullptr, scratch.data());
          ASSERT_TRUE(c.bytes() == whole.bytes()) << threads << " threads";
        }
      }
}

TEST_P(PanelsTest, f32HasItsPrecision) {
  for (int64_t depth : {1, 8, 64, 512, 4096})
    for (int spread : {0, 4, 30}) {
      const ProductErrors errors = errorsOf(depth, spread, byPanels);
      EXPECT_LE(errors.product, 1.1 * errors.loop) << "depth " << depth << ", spread " << spread;
    }
}

/// 1 + 2^-9 + 2^-9 is halfway between two bf16 after the first sum, and not after the second: sums of a depth of
/// several stretches are rounded when they are done.
TEST_P(PanelsTest, sixteenBitsAreRoundedOnce) {
  for (auto [dtype, half] : {std::pair{DType::bf16, 0x1p-9f}, {DType::f16, 0x1p-12f}}) {
    const GemmDesc desc = product(dtype, dtype, 8, 40, 1200);
    const std::vector<float> c = run(desc, 2, [half](Operand &a, Operand &b) {
      for (int64_t i = 0; i < a.elements(); ++i)
        a.set(i, i % 1200 == 0 ? 1.0f : i % 300 == 0 ? half : 0.0f);
      for (int64_t i = 0; i < b.elements(); ++i)
        b.set(i, 1.0f);
    });
    for (const float element : c) // 1 + 3 half: the tie between 1 + 2 half and 1 + 4 half goes to the even one
      EXPECT_EQ(element, 1 + 4 * half);
  }
}

TEST_P(PanelsTest, infinitiesAndNaNs) {
  for (auto [in, out] : dtypes)
    for (const float special : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
      const GemmDesc desc = product(in, out, 15, 37, 400, false, true);
      auto change = [special](Operand &a, Operand &b, bool isThere) {
        for (int64_t j = 0; j < 37; ++j)
          b.set(j * 400 + 390, j == 3 ? 0 : j % 2 ? 0.5f : -0.5f);
        if (isThere)
          a.set(14 * 400 + 390, special); // in the last row, whose panel is not full
      };
      const std::vector<float> usual = run(desc, 2, [&](Operand &a, Operand &b) { change(a, b, false); });
      const std::vector<float> c = run(desc, 2, [&](Operand &a, Operand &b) { change(a, b, true); });
      for (int64_t j = 0; j < 37; ++j) {
        const float element = c[static_cast<size_t>(14 * 37 + j)];
        if (j == 3 || std::isnan(special)) // 0 times infinity
          EXPECT_TRUE(std::isnan(element)) << special << ", " << j;
        else
          EXPECT_EQ(element, j % 2 ? special : -special) << j;
      }
      EXPECT_TRUE(std::equal(usual.begin(), usual.begin() + 14 * 37, c.begin())) << "another row sees " << special;
      const std::vector<float> column = run(desc, 1, [special](Operand &, Operand &b) {
        b.set(36 * 400 + 5, special); // in the last column
      });
      for (int64_t i = 0; i < 15; ++i) {
        EXPECT_FALSE(std::isfinite(column[static_cast<size_t>(i * 37 + 36)])) << i;
        for (int64_t j = 0; j < 36; ++j)
          ASSERT_TRUE(std::isfinite(column[static_cast<size_t>(i * 37 + j)])) << i << ", " << j;
      }
    }
}

TEST_P(PanelsTest, allNumbersOf16Bits) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    constexpr int64_t count = 1 << 16;
    const GemmDesc desc = product(dtype, DType::f32, count, 1, 1), back = product(dtype, dtype, count, 1, 1);
    auto allNumbers = [](Operand &a, Operand &b) {
      for (int64_t i = 0; i < count; ++i)
        static_cast<uint16_t *>(a.data())[i] = static_cast<uint16_t>(i);
      b.set(0, 1.0f);
    };
    const std::vector<float> wide = run(desc, 2, allNumbers), narrow = run(back, 2, allNumbers);
    for (int64_t i = 0; i < count; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const float expected = dtype == DType::bf16 ? bf16ToFloat(bits) : f16ToFloat(bits);
      for (const float seen : {wide[static_cast<size_t>(i)], narrow[static_cast<size_t>(i)]})
        ASSERT_TRUE(seen == expected || (std::isnan(seen) && std::isnan(expected))) << name(dtype) << " " << i;
    }
  }
}

TEST_P(PanelsTest, sameBitsForAnyThreads) {
  for (auto [m, n, k] : {std::array{31, 65, 2}, {300, 70, 900}, {40, 40, 1500}, {257, 340, 200}, {1, 1000, 400}})
    for (auto [in, out] : dtypes) {
      const GemmDesc desc = product(in, out, m, n, k, true, true);
      auto withOneInfinity = [](Operand &a, Operand &) { a.set(7, infinity); };
      const std::vector<float> one = run(desc, 1, withOneInfinity);
      for (int threads : {2, 3, 4, 7, 16})
        EXPECT_TRUE(sameBits(one, run(desc, threads, withOneInfinity))) << describe(desc) << ", " << threads;
    }
}

// Several rounds of stretches, and of chunks of columns or rows, which threads work at one beside the other.
TEST_P(PanelsTest, sameBitsOverManyRounds) {
  for (auto [m, n, k] : {std::array{100, 1700, 3000}, {40, 3300, 900}, {1600, 40, 3000}})
    for (auto [in, out] : dtypes) {
      const GemmDesc desc = product(in, out, m, n, k, true, true);
      const auto unchanged = [](Operand &, Operand &) {};
      const std::vector<float> one = run(desc, 1);
      for (int threads : {2, 3, 7, 16})
        EXPECT_TRUE(sameBits(one, run(desc, threads))) << describe(desc) << ", " << threads;
      // A team may be smaller than the one that was planned for.
      for (int team : {1, 2})
        EXPECT_TRUE(sameBits(one, resultOf(desc, byPanels(desc, 5), team, unchanged)))
            << describe(desc) << ", " << team;
      setBriefWaits(true, 2);
      const std::vector<float> sleeping = run(desc, 2);
      setBriefWaits(false, 2);
      EXPECT_TRUE(sameBits(one, sleeping)) << describe(desc);
    }
}

} // namespace
} // namespace tcc::runtime
