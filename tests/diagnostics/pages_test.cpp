// Numbered diagnostics: each number has a page, each page an example that gives it, each message in cases.txt a number
// of its own; --explain and SARIF show the same.
#include "frontend/diagnostic_pages.h"
#include "frontend/graph_warnings.h"
#include "tests/frontend/run_tcc.h"
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

using namespace tcc;
using namespace tcc::test;
using nlohmann::json;

namespace {

/// The lines of a page's example.
std::string example(const DiagnosticPage &page, const std::string &language) {
  const std::string fence = "```" + language + "\n";
  const size_t begin = page.text.find(fence);
  if (begin == std::string::npos)
    return {};
  return page.text.substr(begin + fence.size(), page.text.find("```", begin + 3) - begin - fence.size());
}

/// A .npy file of one dimension.
std::string npy(const std::string &type, size_t count, const std::string &data) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + '\n' + data;
}

/// The files that examples name, in a folder of their own.
std::filesystem::path examplesFolder() {
  const auto place = folder() / "examples";
  std::filesystem::create_directories(place);
  const auto write = [&](const std::string &name, const std::string &text) { file("examples/" + name, text); };
  write("model.graph", good);
  write("open.graph", slurp(model("mlp")));
  write("loss.graph", R"(func.func @loss(%x: tensor<2x3xf32> {tcc.name = "x"}, %t: tensor<2xi32> {tcc.name = "t"})
    -> (tensor<f32> {tcc.name = "loss"}) {
  %l = tcc.cross_entropy %x, %t : tensor<2x3xf32>, tensor<2xi32> -> tensor<f32>
  func.return %l : tensor<f32>
}
)");
  write("t.npy", npy("<i4", 2, std::string("\0\0\0\0\x03\0\0\0", 8)));
  write("cut.npy", "\x93NUMPY");
  write("model.pt2", "no archive");
  write("damaged.tcc", "tccart, but no more");
  write("break.graph", R"(func.func @f(%x: tensor<f32> {tcc.name = "x"}) -> (tensor<f32> {tcc.name = "y"}) {
  %y = tcc.item %x : tensor<f32>
  %r = tcc.add %x, %y : tensor<f32>
  func.return %r : tensor<f32>
}
)");
  write("custom.graph", R"(func.func @f(%x: tensor<4xf32> {tcc.name = "x"}) -> (tensor<4xf32> {tcc.name = "y"}) {
  %y = tcc.custom "twice" (%a = %x : tensor<4xf32>) -> tensor<4xf32>
      attributes {library = "twice.so", symbol = "twice"} {
    %b = tcc.add %a, %a : tensor<4xf32>
    tcc.yield %b : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}
)");
  return place;
}

TEST(Pages, EachNumberHasAPageAndAnExampleThatGivesIt) {
  const auto place = examplesFolder();
  std::string before;
  for (const DiagnosticPage &page : diagnosticPages()) {
    EXPECT_TRUE(std::regex_match(page.id, std::regex("TCC\\d{4}"))) << page.id;
    EXPECT_LT(before, page.id) << "in the order of their numbers, each once";
    before = page.id;
    EXPECT_GT(page.title.size(), 5u) << page.id;
    EXPECT_GT(page.text.find("```"), 60u) << page.id << " explains itself";
    const std::string graph = example(page, "graph"), console = example(page, "console");
    ASSERT_NE(graph.empty(), console.empty()) << page.id;
    Result result;
    if (!graph.empty()) {
      result = runTcc("-fsyntax-only " + file("example.graph", graph));
    } else {
      ASSERT_EQ(console.rfind("$ tcc ", 0), 0u) << console;
      result = runTccIn(place, console.substr(6, console.find('\n') - 6));
    }
    EXPECT_HAS(result.err, " [" + page.id + "]\n");
    EXPECT_EQ(result.status == 0, page.title.rfind("-W", 0) == 0) << page.id << "\n" << result.err;
  }
}

TEST(Pages, EachMessageOfTheCasesHasANumberOfItsOwn) {
  std::istringstream text(slurp(CASES));
  const std::regex message("^f\\.graph:.*: (error|warning): .* \\[(TCC\\d{4})\\]$");
  std::set<std::string> seen;
  int messages = 0;
  for (std::string line; std::getline(text, line);) {
    if (line.rfind("f.graph", 0) != 0 || line.find(": note: ") != std::string::npos)
      continue;
    std::smatch found;
    ASSERT_TRUE(std::regex_match(line, found, message)) << line;
    EXPECT_NE(found[2], "TCC0006") << "has no page: " << line;
    seen.insert(found[2]);
    ++messages;
  }
  EXPECT_GT(messages, 60);
  EXPECT_GT(seen.size(), 15u);
}

TEST(Pages, EachWarningHasOne) {
  for (const WarningInfo &warning : warningTable())
    EXPECT_NE(diagnosticPage(std::string("-W") + warning.name), nullptr) << warning.name;
}

TEST(Pages, FormsAreMatchedAsAWhole) {
  EXPECT_TRUE(hasForm("'%x' is not defined; did you mean '%y'?", "'…' is not defined…"));
  EXPECT_FALSE(hasForm("value '%x' is not defined", "'…' is not defined…"));
  EXPECT_FALSE(hasForm("'%x' is used before it is defined, here", "'…' is used before it is defined"));
  EXPECT_TRUE(hasForm("string is never closed", "string is never closed"));
  EXPECT_FALSE(hasForm("string is never closed at all", "string is never closed"));
  EXPECT_TRUE(hasForm("`matmul` contraction sizes 3 and 4 differ (matmul_c1)", "`…`…(…_c…)"));
  EXPECT_TRUE(hasForm("bracket '(' is never closed", "bracket '…"));
  EXPECT_TRUE(hasForm("the graph's argument `x` keeps a '?' size", "…keeps a '?' size…"));
  EXPECT_FALSE(hasForm("cannot read 'a without --run.graph': No such file", "… without --run…"));
}

TEST(Pages, ExplainPrintsThem) {
  for (const DiagnosticPage &page : diagnosticPages()) {
    const Result shown = runTcc("--explain " + page.id);
    EXPECT_EQ(shown.status, 0) << page.id;
    EXPECT_EQ(shown.out.rfind(page.id + ": " + page.title, 0), 0u) << shown.out;
    EXPECT_LACKS(shown.out, "```");
  }
  const std::string page = runTcc("--explain TCC0404").out;
  for (const std::string other : {"404", "tcc0404", "narrowing", "-Wnarrowing"})
    EXPECT_EQ(runTcc("--explain=" + other).out, page) << other;
  const Result unknown = runTcc("--explain TCC9999");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_HAS(unknown.err, "there is no such diagnostic");
}

TEST(Sarif, HasResultsWithPlacesAndRules) {
  const std::string path =
                        file("ä wrong.graph", "func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
                                              "  /* ä */ %a = tcc.exp %b : tensor<4xf32>\n"
                                              "  func.return %a : tensor<4xf32>\n}\n"),
                    twice = file("twice.graph", "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                                                "  %a = tcc.exp %x : tensor<4xf32>\n  %a = tcc.log %x : "
                                                "tensor<4xf32>\n  func.return %a : tensor<4xf32>\n}\n"),
                    warned = file("warned.graph", "func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> "
                                                  "tensor<4xf32> {\n  func.return %x : tensor<4xf32>\n}\n");
  const Result result =
      runTcc("-fsyntax-only -fdiagnostics-format=sarif '" + path + "' " + twice + " " + warned + " /no/such.graph");
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  const json log = json::parse(result.err);
  EXPECT_EQ(log["version"], "2.1.0");
  ASSERT_EQ(log["runs"].size(), 1u);
  const json &run = log["runs"][0], &results = run["results"];
  EXPECT_EQ(run["tool"]["driver"]["name"], "tcc");
  ASSERT_EQ(results.size(), 4u) << result.err;
  std::set<std::string> rules, used;
  for (const json &rule : run["tool"]["driver"]["rules"])
    rules.insert(rule["id"]);
  for (const json &each : results)
    used.insert(each["ruleId"]);
  EXPECT_EQ(rules, used);
  const json &again = results[1], &place = again["locations"][0]["physicalLocation"];
  EXPECT_EQ(again["ruleId"], "TCC0203");
  EXPECT_EQ(again["level"], "error");
  EXPECT_EQ(place["artifactLocation"]["uri"], "file://" + twice);
  EXPECT_EQ(place["region"]["startLine"], 3);
  EXPECT_EQ(place["region"]["startColumn"], 3);
  EXPECT_EQ(place["region"]["endColumn"], 5);
  EXPECT_EQ(again["relatedLocations"][0]["physicalLocation"]["region"]["startLine"], 2);
  EXPECT_EQ(again["relatedLocations"][0]["message"]["text"], "it is defined here first");
  EXPECT_EQ(results[2]["level"], "warning");
  EXPECT_EQ(results[3].contains("locations"), false) << "no place in a text";
  EXPECT_EQ(results[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            "file://" + folder().string() + "/%C3%A4%20wrong.graph");

  const json clean = json::parse(runTcc("-fsyntax-only -fdiagnostics-format=sarif " + file("good.graph", good)).err);
  EXPECT_TRUE(clean["runs"][0]["results"].is_array() && clean["runs"][0]["results"].empty());
  const json usage = json::parse(runTcc("-fdiagnostics-format=sarif -O7 x").err);
  EXPECT_EQ(usage["runs"][0]["results"][0]["ruleId"], "TCC0001");
  EXPECT_EQ(runTcc("-fdiagnostics-format=xml x").status, 2);
}

} // namespace
