#include "runtime/plan.h"
#include "runtime/profile_report.h"
#include <gtest/gtest.h>
#include <numeric>

namespace tcc::runtime {
namespace {

Profiler::Event kernel(const char *label, int64_t start) {
  return {label, "kernel", start, 2000, 1000, 10000, ""};
}

/// Two steps of 20 µs: two layers of a kernel, a bf16 matmul, a copy, 1 µs of waiting.
Profiler sample() {
  Profiler profiler;
  for (int64_t start : {0, 20000}) {
    profiler.record(kernel("h.0.mlp.gelu", start));
    profiler.record(kernel("h.1.mlp.gelu", start + 2000));
    profiler.record(
        {"head: matmul 8x8x8 nn", "matmul", start + 4000, 12000, 600000, 2000, "", StepPart::products, DType::bf16});
    profiler.record({"save old state", "copy", start + 16000, 3000, 0, 3000, "", StepPart::copies});
    profiler.record({"step", "step", start, 20000, 0, 0, ""});
  }
  return profiler;
}

TEST(ProfileReport, rowsAreSharesOfTheLimitsAndPartsAddUp) {
  const MachineLimits limits{2, 50e9, 100e9, 10e9};
  EXPECT_EQ(profileReport(sample(), limits),
            "  calls         ms   share     GB/s   GFLOP/s  limit  bound by    what\n"
            "      1      0.012   60.0%      0.2      50.0     50%  arithmetic  head: matmul 8x8x8 nn\n"
            "      2      0.004   20.0%      5.0       0.5     50%  memory      h.*.mlp.gelu\n"
            "      1      0.003   15.0%      1.0       0.0     10%  memory      save old state\n"
            "a step takes 0.020 ms: products 60.0 %, attention 0.0 %, kernels 20.0 %, copies 15.0 %, waiting 5.0 %\n");
}

TEST(ProfileReport, marksLimitsThatTheRunHasExceeded) {
  const std::string products = profileReport(sample(), {2, 50e9, 40e9, 10e9});
  EXPECT_NE(products.find("    125%! arithmetic  head: matmul"), std::string::npos) << products;
  EXPECT_NE(products.find("    50%  memory      h.*.mlp.gelu"), std::string::npos) << products;
  EXPECT_NE(
      products.find("\n! above the limit: that was measured on a busy machine, tcc --calibrate measures it again\na "
                    "step takes"),
      std::string::npos)
      << products;
  const std::string memory = profileReport(sample(), {2, 50e9, 100e9, 4e9});
  EXPECT_NE(memory.find("   125%! memory      h.*.mlp.gelu"), std::string::npos) << memory;
  EXPECT_NE(memory.find("\n! above memory's limit: a cache had the data"), std::string::npos) << memory;
  EXPECT_EQ(memory.find("! above the limit"), std::string::npos) << memory;
  EXPECT_EQ(profileReport(sample(), {2, 50e9, 50e9, 10e9}).find('!'), std::string::npos) << "100 % is no more";
}

TEST(ProfileReport, theRestIsOneRow) {
  const std::string text = profileReport(sample(), {}, 1);
  EXPECT_NE(text.find("      3      0.007   35.0%      3.3       0.3       -  -           others (2 rows)\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("gelu"), std::string::npos) << text;
  EXPECT_EQ(profileReport(Profiler(), {}), "") << "no whole step";
}

TEST(ProfileReport, AttentionIsWhatComesFromItsOpWhateverItIsCalled) {
  Instruction kernel, product, other;
  kernel.label = other.label = "attention 2 x 4";
  kernel.origin.op = product.origin.op = "flash_attention_backward";
  product.call = MatmulCall();
  other.origin.op = "kernel";
  EXPECT_EQ(partOf(kernel), StepPart::attention);
  EXPECT_EQ(partOf(product), StepPart::products);
  EXPECT_EQ(partOf(other), StepPart::kernels);
}

TEST(ProfileReport, tenthsAddUpToAThousand) {
  for (const std::vector<double> &parts :
       std::vector<std::vector<double>>{{1, 1, 1}, {2, 3, 5, 7, 11, 13}, {0, 1e-9}}) {
    const std::vector<int> tenths = tenthsOfPercent(parts);
    EXPECT_EQ(std::accumulate(tenths.begin(), tenths.end(), 0), 1000);
  }
  EXPECT_EQ(tenthsOfPercent({1, 1, 1}), (std::vector<int>{334, 333, 333}));
}

} // namespace
} // namespace tcc::runtime
