// --bench of training steps and of graphs without a training step: what a run is said to work on, and its JSON.
#include "tests/frontend/run_tcc.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

namespace {

using namespace tcc::test;
using nlohmann::json;

/// "12800 tokens/s (64)" of a bench's first line, without the rate; empty where there is none.
std::string itemsIn(const std::string &text) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(", [\\d.e+]+ (\\w+/s \\([^)]*\\))")))
    return {};
  return found[1];
}

std::string itemsOf(const std::string &arguments) {
  const Result result = runTcc(arguments + " --threads=1 --bench=2");
  EXPECT_EQ(result.status, 0) << result.err;
  return itemsIn(result.out);
}

TEST(Bench, SaysTokensOfWhatTakesTokensAndRowsOfWhatElse) {
  EXPECT_EQ(itemsOf(model("train_step")), "tokens/s (64)");
  EXPECT_EQ(itemsOf(model("mlp") + " --shape=x:33x64"), "rows/s (33 of x)");
  EXPECT_EQ(itemsOf(model("layer_norm")), "rows/s (256 of x)");
  EXPECT_EQ(itemsOf(model("attention")), "rows/s (32 of x)");
  EXPECT_EQ(itemsOf(model("softcap")), "rows/s (16 of logits)"); // targets are no tokens
}

TEST(Bench, GraphsWithoutDataHaveNoRate) {
  EXPECT_EQ(itemsOf(file("scalar.graph", "func.func @f(%x: tensor<f32> {tcc.name = \"x\"}) -> tensor<f32> {\n"
                                         "  %y = tcc.gelu %x : tensor<f32>\n  func.return %y : tensor<f32>\n}\n")),
            "");
  EXPECT_EQ(
      itemsOf(file("state.graph", "func.func @f(%w: tensor<4xf32> {tcc.name = \"w\", tcc.state}) -> tensor<4xf32> {\n"
                                  "  %y = tcc.gelu %w : tensor<4xf32>\n  func.return %y : tensor<4xf32>\n}\n")),
      "");
}

TEST(Bench, AnArtefactIsBenchedAsItsGraph) {
  const std::string made = folder() / "step.tcc";
  ASSERT_EQ(runTcc(model("train_step") + " -o " + made).status, 0);
  EXPECT_EQ(itemsOf(made), "tokens/s (64)");
}

TEST(Bench, JsonHasTheFiguresOfTheText) {
  const std::string out = folder() / "bench.json";
  const Result result = runTcc(model("mlp") + " --shape=x:33x64 --threads=1 --bench=3 --json=" + out);
  ASSERT_EQ(result.status, 0) << result.err;
  const json read = json::parse(slurp(out));
  char first[64];
  std::snprintf(first, sizeof first, "%.4f ms median, %.4f min, %.4f max of 3 runs", read["ms"].get<double>(),
                read["ms_min"].get<double>(), read["ms_max"].get<double>());
  EXPECT_HAS(result.out, first);
  EXPECT_EQ(read["items"], 33);
  EXPECT_EQ(read["unit"], "rows");
  EXPECT_EQ(read["items_of"], "x");
  EXPECT_NEAR(read["items_per_second"].get<double>(), 33e3 / read["ms"].get<double>(), 1);
  EXPECT_GT(read["flops"], 2 * 33 * (64 * 256 + 256 * 10) - 1);
  EXPECT_EQ(read["matmuls"], 2);
  EXPECT_EQ(read["planned_bytes"],
            json::parse(runTcc(model("mlp") + " --shape=x:33x64 --threads=1 -emit=memory.json").out)["planned_bytes"]);
  EXPECT_EQ(read["peak_bytes"], read["planned_bytes"]);
  double share = 0;
  for (const auto &[name, ms] : read["bound"]["ms"].items())
    share += ms.get<double>();
  EXPECT_NEAR(share, read["profile"]["step_ms"].get<double>(), 1e-6);
  EXPECT_TRUE(json::accept(runTcc(model("mlp") + " --shape=x:1x64 --threads=1 --bench=1 --json=-").out));
}

TEST(Bench, ALoopsArithmeticCountsEachTurn) {
  const auto step = [](int turns) {
    return "func.func @f(%x: tensor<64x64xf32> {tcc.name = \"x\"}) -> (tensor<64x64xf32> {tcc.name = \"y\"}) {\n"
           "  %y = tcc.repeat " +
           std::to_string(turns) +
           " (%a = %x : tensor<64x64xf32>) {\n"
           "    %b = tcc.matmul %a, %a : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>\n"
           "    tcc.yield %b : tensor<64x64xf32>\n  }\n  func.return %y : tensor<64x64xf32>\n}\n";
  };
  const std::string out = folder() / "loop.json";
  const auto flopsOf = [&](int turns) {
    const Result result = runTcc(file("loop.graph", step(turns)) + " --threads=1 --bench=1 --json=" + out);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(slurp(out))["flops"].get<double>();
  };
  EXPECT_NEAR(flopsOf(30) / flopsOf(3), 10, 0.01);
}

} // namespace
