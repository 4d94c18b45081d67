#include "models/sampling.h"
#include "test_files.h"

#include <cmath>
#include <map>

namespace tcc::models {
namespace {

constexpr float nan = NAN, infinity = INFINITY;

TEST(Sampling, temperatureZeroTakesTheLikeliest) {
  std::vector<float> logits = {0, 3, nan, 3, -infinity};
  EXPECT_EQ(sampleToken(logits, {.temperature = 0}, 0), 1);
  EXPECT_EQ(sampleToken(logits, {.temperature = 1, .topK = 1}, 5), 1);
}

TEST(Sampling, frequenciesFollowTheLogits) {
  std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f), nan};
  std::map<int32_t, int> counts;
  for (int64_t position = 0; position < 20000; ++position)
    ++counts[sampleToken(logits, {.temperature = 1, .seed = 4}, position)];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_NEAR(counts[0], 10000, 300);
  EXPECT_NEAR(counts[1], 6000, 300);
  EXPECT_NEAR(counts[2], 4000, 300);
}

TEST(Sampling, topKKeepsTheLikeliest) {
  std::vector<float> logits(1000, 0.f);
  logits[700] = logits[20] = 1;
  logits[3] = 0.5f;
  std::map<int32_t, int> counts;
  for (int64_t position = 0; position < 300; ++position)
    ++counts[sampleToken(logits, {.temperature = 1, .topK = 3}, position)];
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_TRUE(counts.count(3) && counts.count(20) && counts.count(700));
}

TEST(Sampling, topPKeepsTheLikeliestThatReachTheShare) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.5f), nan, std::log(0.25f), std::log(0.15f)};
  const auto seen = [&](double topP, int topK = 0) {
    std::map<int32_t, int> counts;
    for (int64_t position = 0; position < 12000; ++position)
      ++counts[sampleToken(logits, {.temperature = 1, .topK = topK, .topP = topP}, position)];
    return counts;
  };
  EXPECT_EQ(seen(0.3), (std::map<int32_t, int>{{1, 12000}})) << "always at least one";
  std::map<int32_t, int> counts = seen(0.7);
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_NEAR(counts[1], 8000, 250) << "in their proportion";
  EXPECT_EQ(seen(0.8).size(), 3u);
  EXPECT_EQ(seen(0.999).size(), 4u);
  EXPECT_EQ(seen(0.999, 2).size(), 2u) << "both limits hold";
}

TEST(Sampling, isAFunctionOfSeedAndPosition) {
  std::vector<float> logits(256, 0.f);
  SamplingOptions options{.temperature = 1, .seed = 9};
  EXPECT_EQ(sampleToken(logits, options, 12), sampleToken(logits, options, 12));
  int differ = 0;
  for (int64_t position = 0; position < 20; ++position)
    differ += sampleToken(logits, options, position) != sampleToken(logits, {.temperature = 1, .seed = 10}, position);
  EXPECT_GT(differ, 15);
}

TEST(Sampling, extremeLogitsAndTemperatures) {
  std::vector<float> logits = {-3e38f, 3e38f, 1};
  EXPECT_EQ(sampleToken(logits, {.temperature = 1}, 0), 1);
  EXPECT_EQ(sampleToken(logits, {.temperature = 1e-300}, 0), 1);
  std::vector<float> lost = {nan, infinity, -infinity};
  expectContains(errorOf([&] { sampleToken(lost, {}, 0); }), "none of the logits is finite");
}

std::string rendered(const std::string &bytes) {
  std::vector<int32_t> tokens;
  for (char c : bytes)
    tokens.push_back(uint8_t(c));
  return renderTokens(tokens, 256);
}

TEST(Sampling, rendersBytesSafely) {
  EXPECT_EQ(rendered("In the\tbeginning\n"), "In the\tbeginning\n");
  EXPECT_EQ(rendered("é€😀"), "é€😀");
  EXPECT_EQ(rendered("a\x1b[2Jb\r\x7f"), "a·[2Jb··");
  EXPECT_EQ(rendered("\xc3"), "·");
  EXPECT_EQ(rendered("\xe2\x82z"), "··z");
  EXPECT_EQ(rendered("\xc0\x80"), "··");
  EXPECT_EQ(rendered("\xed\xa0\x80"), "···");
  EXPECT_EQ(rendered("\xf5\x80\x80\x80"), "····");
  EXPECT_EQ(rendered("\xc2\x9b"), "··"); // the one-character form of ESC [
  EXPECT_EQ(renderTokens(std::vector<int32_t>{5, 50256}, 50257), "5 50256");
}

} // namespace
} // namespace tcc::models
