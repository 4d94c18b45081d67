// -emit=dot, -emit=svg, -emit=model-explorer and their kin of the captured graph; -emit=memory.
#include "tests/frontend/run_tcc.h"
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

using namespace tcc::test;

namespace {

int matches(const std::string &text, const std::string &pattern) {
  const std::regex regex(pattern);
  return static_cast<int>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), std::sregex_iterator()));
}

/// A graph of `layers` equal blocks; names are those of a model's scopes.
std::string blocks(int layers) {
  std::string text = "func.func @f(%x: tensor<8x16xf32> {tcc.name = \"x\"}, %w: tensor<16x16xf32> {tcc.name = \"w\"})"
                     " -> (tensor<8x16xf32> {tcc.name = \"y\"}) {\n";
  std::string last = "%x";
  for (int i = 0; i < layers; ++i) {
    const std::string h = "%h." + std::to_string(i);
    text += "  " + h + ".mlp.up = tcc.matmul " + last +
            ", %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>\n" + "  " + h + ".mlp.gelu = tcc.gelu " +
            h + ".mlp.up : tensor<8x16xf32>\n" + "  " + h + ".mlp.down = tcc.matmul " + h +
            ".mlp.gelu, %w : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>\n" + "  " + h +
            ".norm = tcc.tanh " + h + ".mlp.down : tensor<8x16xf32>\n";
    last = h + ".norm";
  }
  return text + "  func.return " + last + " : tensor<8x16xf32>\n}\n";
}

TEST(Pictures, DotHasEveryKernelAndProductOnce) {
  const std::string fused = runTcc(model("train_step") + " -emit=fused").out;
  const Result dot = runTcc(model("train_step") + " -emit=dot");
  ASSERT_EQ(dot.status, 0) << dot.err;
  std::set<std::string> nodes;
  const std::regex node("n(\\d+) \\[label=");
  for (std::sregex_iterator each(dot.out.begin(), dot.out.end(), node), end; each != end; ++each)
    EXPECT_TRUE(nodes.insert((*each)[1]).second) << "twice: " << (*each)[1];
  const int computing = matches(fused, "= tcc\\.kernel") + matches(fused, "\n    \\S+ = tcc\\.matmul");
  const int inputs = 4;
  EXPECT_EQ(static_cast<int>(nodes.size()), computing + inputs) << dot.out << fused;
  const std::regex edge("n(\\d+) -> n(\\d+)");
  int edges = 0;
  for (std::sregex_iterator each(dot.out.begin(), dot.out.end(), edge), end; each != end; ++each, ++edges)
    EXPECT_TRUE(nodes.count((*each)[1]) && nodes.count((*each)[2])) << each->str();
  EXPECT_GE(edges, computing);
  for (const char *part : {"forward", "backward"})
    EXPECT_HAS(dot.out, "label=\"" + std::string(part) + "\"");
  EXPECT_EQ(matches(dot.out, "\\{"), matches(dot.out, "\\}"));
  EXPECT_HAS(runTcc(model("train_step") + " -emit=captured.dot").out, "op cross_entropy");
}

TEST(Pictures, EqualLayersAreDrawnOnce) {
  const std::string twelve = file("twelve.graph", blocks(12)), two = file("two.graph", blocks(2));
  const std::string picture = runTcc(twelve + " -emit=captured.svg").out;
  EXPECT_HAS(picture, "×12, one after another");
  const int boxes = 6; // x, w, up, gelu, down, norm
  EXPECT_EQ(matches(picture, "<g>"), boxes);
  EXPECT_EQ(matches(runTcc(two + " -emit=captured.svg").out, "<g>"), boxes);
  EXPECT_EQ(matches(picture, "<g>"), matches(picture, "</g>"));
  // Another form is another box: the last layer of this one has a tanh more.
  std::string odd = blocks(3);
  const std::string at = "  func.return %h.2.norm";
  odd.replace(odd.find(at), at.size(), "  %h.2.more = tcc.tanh %h.2.norm : tensor<8x16xf32>\n  func.return %h.2.more");
  const std::string apart = runTcc(file("odd.graph", odd) + " -emit=captured.svg").out;
  EXPECT_HAS(apart, "×2, one after another");
  EXPECT_EQ(matches(apart, "<g>"), 2 + 4 + 5);
}

TEST(Pictures, NamesAreQuoted) {
  const std::string text =
      "func.func @f(%x: tensor<4xf32> {tcc.name = \"a<b>&\\22\"}) -> (tensor<4xf32> {tcc.name = \"y\"}) {\n"
      "  %y = tcc.gelu %x : tensor<4xf32>\n  func.return %y : tensor<4xf32>\n}\n";
  const std::string path = file("quoted.graph", text);
  EXPECT_HAS(runTcc(path + " -emit=svg").out, "a&lt;b&gt;&amp;&quot;");
  EXPECT_HAS(runTcc(path + " -emit=dot").out, "label=\"a<b>&\\\"\"");
}

TEST(Pictures, ModelExplorerKnowsEveryEdge) {
  const nlohmann::json graph =
      nlohmann::json::parse(runTcc(model("train_step") + " -emit=model-explorer").out)["graphs"][0];
  std::set<std::string> ids;
  for (const nlohmann::json &node : graph["nodes"])
    EXPECT_TRUE(ids.insert(node["id"]).second);
  size_t edges = 0;
  for (const nlohmann::json &node : graph["nodes"])
    for (const nlohmann::json &edge : node["incomingEdges"]) {
      EXPECT_TRUE(ids.count(edge["sourceNodeId"])) << node;
      ++edges;
    }
  EXPECT_GE(edges, ids.size() - 4);
}

TEST(Memory, IsTheReportOfTheFlag) {
  const Result printed = runTcc(model("train_step") + " -emit=memory"),
               told = runTcc(model("train_step") + " -fmemory-report -o " + (folder() / "x.tcc").string());
  ASSERT_EQ(printed.status, 0) << printed.err;
  EXPECT_EQ(printed.out, told.err);
}

/// What the planner promises: no two values that live at once share a byte.
TEST(Memory, RectanglesDoNotOverlapAndAddUp) {
  for (const std::string of : {"train_step", "attention", "layer_norm"}) {
    const nlohmann::json memory = nlohmann::json::parse(runTcc(model(of) + " -emit=memory.json").out);
    const nlohmann::json plan = nlohmann::json::parse(runTcc(model(of) + " -emit=json").out);
    EXPECT_EQ(memory["arena_bytes"], plan["arena_bytes"]);
    int64_t parts = 0, gaps = 0, peak = 0;
    for (const nlohmann::json &part : memory["parts"]) {
      parts += part["bytes"].get<int64_t>();
      gaps += part["what"] == "arena: gaps" ? part["bytes"].get<int64_t>() : 0;
    }
    EXPECT_EQ(parts, memory["planned_bytes"]) << of;
    const nlohmann::json &arena = memory["arena"];
    for (size_t i = 0; i < arena.size(); ++i) {
      EXPECT_LE(arena[i]["offset"].get<int64_t>() + arena[i]["bytes"].get<int64_t>(),
                plan["arena_bytes"].get<int64_t>());
      for (size_t j = 0; j < i; ++j) {
        const auto overlap = [&](const char *from, int64_t a, int64_t b) {
          return arena[i][from].get<int64_t>() < b && arena[j][from].get<int64_t>() < a;
        };
        const bool inTime = overlap("first", arena[i]["last"].get<int64_t>() + 1, arena[j]["last"].get<int64_t>() + 1);
        const bool inPlace = overlap("offset", arena[i]["offset"].get<int64_t>() + arena[i]["bytes"].get<int64_t>(),
                                     arena[j]["offset"].get<int64_t>() + arena[j]["bytes"].get<int64_t>());
        EXPECT_FALSE(inTime && inPlace) << of << arena[i] << arena[j];
      }
    }
    for (size_t at = 0; at < plan["instructions"].size(); ++at) {
      int64_t live = 0;
      for (const nlohmann::json &value : arena)
        live += value["first"] <= at && at <= value["last"] ? value["bytes"].get<int64_t>() : 0;
      peak = std::max(peak, live);
    }
    EXPECT_EQ(peak + gaps, plan["arena_bytes"]) << of;
  }
}

/// A trace of two runs: its sums are the plan's, and its counter reaches the plan's peak.
TEST(Memory, IsACounterOfTheTrace) {
  const std::string trace = (folder() / "profile.json").string();
  ASSERT_EQ(runTcc(model("train_step") + " --run=2 --profile=" + trace).status, 0);
  const nlohmann::json plan = nlohmann::json::parse(runTcc(model("train_step") + " -emit=json").out);
  const nlohmann::json memory = nlohmann::json::parse(runTcc(model("train_step") + " -emit=memory.json").out);
  int64_t bytes = 0, flops = 0, peak = 0, planned = 0, arithmetic = 0, gaps = 0;
  size_t counters = 0;
  const nlohmann::json written = nlohmann::json::parse(slurp(trace));
  for (const nlohmann::json &event : written["traceEvents"])
    if (event["ph"] == "C") {
      peak = std::max(peak, event["args"]["bytes"].get<int64_t>());
      ++counters;
    } else if (event["ph"] == "X" && event["args"].contains("bytes")) {
      bytes += event["args"]["bytes"].get<int64_t>();
      flops += event["args"]["flops"].get<int64_t>();
    }
  for (const nlohmann::json &instruction : plan["instructions"]) {
    planned += 2 * instruction["bytes"].get<int64_t>();
    arithmetic += 2 * instruction["flops"].get<int64_t>();
  }
  for (const nlohmann::json &part : memory["parts"])
    gaps += part["what"] == "arena: gaps" ? part["bytes"].get<int64_t>() : 0;
  EXPECT_EQ(bytes, planned);
  EXPECT_EQ(flops, arithmetic);
  EXPECT_EQ(counters, 2 * (plan["instructions"].size() + 1));
  EXPECT_EQ(peak + gaps, plan["arena_bytes"]);
}

} // namespace
