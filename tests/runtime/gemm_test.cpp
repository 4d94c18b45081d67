// Matmuls against plain loops in double: transposes, strides, batches, beta, bias, 16 bits, sizes of 1 and 0; nothing
// outside C is written; equal bits run to run.
#include "check_product.h"

namespace tcc::runtime {
namespace {

class GemmTest : public testing::TestWithParam<std::pair<DType, DType>> {
protected:
  DType in = GetParam().first, out = GetParam().second;
};

TEST_P(GemmTest, transposes) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (auto [m, n, k] : {std::array{33, 17, 45}, {64, 64, 64}, {5, 130, 7}})
        checkProduct(product(in, out, m, n, k, transposeA, transposeB));
}

TEST_P(GemmTest, sizesOfOne) {
  for (int64_t m : {1, 19})
    for (int64_t n : {1, 19})
      for (int64_t k : {1, 19})
        for (bool transpose : {false, true})
          checkProduct(product(in, out, m, n, k, transpose, !transpose));
}

TEST_P(GemmTest, accumulateAndBias) {
  for (bool accumulate : {false, true})
    for (int bias = 0; bias < 3; ++bias) {
      GemmDesc desc = product(in, out, 21, 40, 33, accumulate, false);
      desc.accumulate = accumulate;
      if (bias)
        desc.bias = bias == 1 ? in : DType::f32;
      checkProduct(desc);
    }
}

TEST_P(GemmTest, emptyProducts) {
  for (auto [m, n, k] : {std::array{0, 5, 7}, {5, 0, 7}, {5, 6, 0}, {0, 0, 0}})
    for (bool accumulate : {false, true})
      for (bool bias : {false, true}) {
        GemmDesc desc = product(in, out, m, n, k);
        desc.accumulate = accumulate;
        if (bias)
          desc.bias = in;
        checkProduct(desc);
      }
  GemmDesc none = product(in, out, 3, 4, 5);
  none.batch = {0, 3};
  checkProduct(none);
  GemmDesc batchOfZeros = product(in, out, 3, 4, 0);
  batchOfZeros.batch = {2, 2};
  batchOfZeros.c.batchStrides = {24, 12};
  checkProduct(batchOfZeros);
}

TEST_P(GemmTest, paddedRows) {
  GemmDesc desc = product(in, out, 20, 24, 28);
  desc.a.rowStride = 100;
  desc.b.rowStride = 77;
  desc.c.rowStride = 50;
  checkProduct(desc);
  desc.accumulate = true;
  checkProduct(desc);
  desc.b = {in, 1, 61, {}};
  checkProduct(desc);
}

TEST_P(GemmTest, rowsAndColumnsOfLargerMatrices) {
  GemmDesc column = product(in, out, 20, 24, 1); // one column of A, one row of B
  column.a.rowStride = 9;
  checkProduct(column);
  GemmDesc row = product(in, out, 1, 24, 20);
  row.a = {in, 1, 9, {}}; // a column of a matrix, used as the row
  checkProduct(row);
  GemmDesc result = product(in, out, 20, 1, 24);
  result.c.rowStride = 5; // into a column of a matrix
  checkProduct(result);
}

TEST_P(GemmTest, transposedResult) {
  GemmDesc desc = product(in, out, 20, 24, 28, true, false);
  desc.c = dense(out, 20, 24, true);
  checkProduct(desc);
  desc.accumulate = true;
  checkProduct(desc);
}

TEST_P(GemmTest, batches) {
  GemmDesc desc = product(in, out, 12, 20, 16, false, true);
  desc.batch = {1, 5};
  desc.a.batchStrides = {0, 12 * 16};
  desc.b.batchStrides = {0, 16 * 20};
  desc.c.batchStrides = {0, 12 * 20};
  checkProduct(desc);
  desc.accumulate = true;
  checkProduct(desc);
}

TEST_P(GemmTest, broadcastBatches) {
  GemmDesc desc = product(in, out, 12, 20, 16);
  desc.batch = {2, 3};
  desc.a.batchStrides = {3 * 12 * 16, 12 * 16};
  desc.c.batchStrides = {3 * 12 * 20, 12 * 20};
  for (auto strides : {std::array<int64_t, 2>{0, 0}, {0, 16 * 20}, {16 * 20, 0}}) {
    desc.b.batchStrides = strides;
    checkProduct(desc);
  }
  desc.b.batchStrides = {3 * 16 * 20, 16 * 20};
  desc.a.batchStrides = {0, 12 * 16};
  checkProduct(desc);
  desc.bias = DType::f32;
  checkProduct(desc);
}

// Attention over a packed [batch, tokens, 3, heads, width] tensor, without a copy.
TEST_P(GemmTest, packedHeads) {
  const int64_t B = 2, T = 20, H = 3, D = 8, row = 3 * H * D;
  GemmDesc scores;
  scores.batch = {B, H};
  scores.m = scores.n = T, scores.k = D;
  scores.a = {in, row, 1, {T * row, D}};
  scores.b = {in, 1, row, {T * row, D}};
  scores.c = {out, T, 1, {H * T * T, T * T}};
  checkProduct(scores);
  GemmDesc values;
  values.batch = {B, H};
  values.m = T, values.n = D, values.k = T;
  values.a = {in, T, 1, {H * T * T, T * T}};
  values.b = {in, row, 1, {T * row, D}};
  values.c = {out, H * D, 1, {T * H * D, D}};
  checkProduct(values);
  checkProduct(values, 1);
  GemmDesc gradient = values; // P^T dO into a packed result
  gradient.a = {in, 1, T, {H * T * T, T * T}};
  gradient.b = {in, H * D, 1, {T * H * D, D}};
  gradient.c = {out, row, 1, {T * row, D}};
  checkProduct(gradient);
}

INSTANTIATE_TEST_SUITE_P(dtypes, GemmTest,
                         testing::Values(std::pair{DType::f32, DType::f32}, std::pair{DType::bf16, DType::bf16},
                                         std::pair{DType::bf16, DType::f32}, std::pair{DType::f16, DType::f16},
                                         std::pair{DType::f16, DType::f32}),
                         [](const auto &info) {
                           return std::string(name(info.param.first)) + "_" + std::string(name(info.param.second));
                         });

TEST(Gemm, refusesWhatNeedsACopy) {
  GemmDesc stepped = product(DType::f32, DType::f32, 8, 8, 8);
  stepped.a = {DType::f32, 32, 2, {}};
  const auto a = Gemm::create(stepped, 2);
  ASSERT_FALSE(a);
  EXPECT_NE(a.error().message().find("a of product"), std::string::npos) << a.error().message();

  GemmDesc broadcastRow = product(DType::f32, DType::f32, 8, 8, 8);
  broadcastRow.b.rowStride = 0;
  const auto b = Gemm::create(broadcastRow, 2);
  ASSERT_FALSE(b);
  EXPECT_NE(b.error().message().find("b of product"), std::string::npos) << b.error().message();

  GemmDesc result = product(DType::f32, DType::f32, 8, 8, 8);
  result.c = {DType::f32, 32, 2, {}};
  const auto c = Gemm::create(result, 2);
  ASSERT_FALSE(c);
  EXPECT_NE(c.error().message().find("c of product"), std::string::npos) << c.error().message();

  GemmDesc biased = product(DType::f32, DType::f32, 8, 8, 8);
  biased.c = dense(DType::f32, 8, 8, true);
  biased.bias = DType::f32;
  EXPECT_FALSE(Gemm::create(biased, 2));
  EXPECT_FALSE(Gemm::create(product(DType::f32, DType::bf16, 8, 8, 8), 2));
  EXPECT_FALSE(scratchpadBytes(stepped, 2));
}

// In a transposed result the operands trade places inside; the error still names the caller's operand.
TEST(Gemm, errorNamesTheCallersOperand) {
  GemmDesc desc = product(DType::f32, DType::f32, 8, 8, 8);
  desc.c = dense(DType::f32, 8, 8, true);
  desc.b = {DType::f32, 32, 2, {}};
  const auto gemm = Gemm::create(desc, 2);
  ASSERT_FALSE(gemm);
  EXPECT_EQ(gemm.error().message().substr(0, 12), "b of product");
}

TEST(Gemm, extentsCoverStridesAndRefuseOverflow) {
  GemmDesc desc = product(DType::f32, DType::f32, 3, 4, 5);
  desc.c.rowStride = 10;
  EXPECT_EQ(gemmExtents(desc)->a, 3 * 5 * 4);
  EXPECT_EQ(gemmExtents(desc)->c, (2 * 10 + 4) * 4);
  desc.a.rowStride = int64_t{1} << 45;
  EXPECT_FALSE(gemmExtents(desc));
}

TEST(Gemm, largerProductOnSeveralThreadCounts) {
  for (int threads : {1, 2, 3})
    checkProduct(product(DType::f32, DType::f32, 100, 96, 300, true, false), threads);
}

/// docs/LANGUAGE.md promises it of every matmul, whatever multiplies here.
TEST_P(GemmTest, sameBitsForAnyThreads) {
  for (auto [m, n, k] : {std::array{31, 65, 2},
                         {1, 300, 257},
                         {300, 1, 257},
                         {130, 400, 900},
                         {40, 40, 3000},
                         {192, 384, 4096},
                         {16, 16, 20000},
                         {65, 384, 5000}})
    for (bool transpose : {false, true}) {
      const GemmDesc desc = product(in, out, m, n, k, transpose, transpose);
      auto unchanged = [](Operand &, Operand &) {};
      const std::vector<float> one = resultOf(desc, byGemm(desc, 1), 1, unchanged);
      for (int threads : {2, 3, 4, 7, 16})
        EXPECT_TRUE(sameBits(one, resultOf(desc, byGemm(desc, threads), threads, unchanged)))
            << describe(desc) << ", " << threads << " threads";
    }
}

// Rows of B that lie 12288 bytes apart share cache sets; with all that may stand around a product.
TEST(Gemm, rowsThatShareCacheSets) {
  GemmDesc desc = product(DType::f32, DType::f32, 64, 3072, 256);
  checkProduct(desc, 1);
  desc.accumulate = true;
  desc.bias = DType::f32;
  checkProduct(desc);
  GemmDesc turned = product(DType::f32, DType::f32, 3072, 64, 256, true, true);
  turned.c = dense(DType::f32, 3072, 64, true); // the operands change places
  checkProduct(turned);
}

} // namespace
} // namespace tcc::runtime
