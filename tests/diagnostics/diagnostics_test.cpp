// Messages about .graph texts: a table of typical mistakes, and properties that hold for every text.
#include "frontend/capture.h"
#include "frontend/graph_file.h"
#include "frontend/graph_warnings.h"
#include "passes/pipeline.h"
#include "tests/files.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>

using namespace tcc;

namespace {

struct Case {
  std::string name, text, messages;
  int mistakes = 1;
};

/// Blocks "=== name [(N mistakes)]", text, "---", messages.
std::vector<Case> readCases() {
  std::vector<Case> cases;
  const std::string file = test::readAll(CASES);
  size_t at = file.find("=== ");
  while (at != std::string::npos) {
    const size_t next = file.find("\n=== ", at), lineEnd = file.find('\n', at), split = file.find("\n---\n", at);
    const size_t end = next == std::string::npos ? file.size() : next + 1;
    Case one{file.substr(at + 4, lineEnd - at - 4), file.substr(lineEnd + 1, split - lineEnd),
             file.substr(split + 5, end - split - 5)};
    if (const size_t count = one.name.find(" ("); count != std::string::npos)
      one.mistakes = std::atoi(one.name.c_str() + count + 2);
    cases.push_back(one);
    at = next == std::string::npos ? next : next + 1;
  }
  return cases;
}

struct Said {
  bool accepted = false;
  int errors = 0;
  std::string messages;
};

Said diagnose(const std::string &text) {
  Said said;
  llvm::raw_string_ostream stream(said.messages);
  DiagnosticPrinter printer(stream);
  mlir::OwningOpRef<mlir::ModuleOp> module = parseGraph(text, "f.graph", threadContext(), printer);
  if (module)
    warnAboutGraph(functionOf(*module), text, "f.graph", Warnings(), printer);
  said.accepted = static_cast<bool>(module);
  said.errors = printer.errors();
  return said;
}

TEST(Diagnostics, EveryCaseWordForWord) {
  const std::vector<Case> cases = readCases();
  EXPECT_GE(cases.size(), 45u);
  const bool regenerate = std::getenv("TCC_REGENERATE");
  std::string renewed;
  for (const Case &one : cases) {
    const std::string messages = diagnose(one.text).messages;
    renewed += "=== " + one.name + "\n" + one.text + "---\n" + messages;
    if (!regenerate) {
      EXPECT_EQ(messages, one.messages) << one.name;
    }
  }
  if (regenerate)
    std::ofstream(CASES, std::ios::binary) << renewed;
}

TEST(Diagnostics, OneMistakeIsOneErrorAndSeveralAreSeveral) {
  for (const Case &one : readCases()) {
    const Said said = diagnose(one.text);
    const bool warned = said.messages.find("warning: ") != std::string::npos;
    EXPECT_EQ(said.errors, warned ? 0 : one.mistakes) << one.name << "\n" << said.messages;
    EXPECT_EQ(said.accepted, warned) << one.name;
  }
}

TEST(Diagnostics, TheExamplesHaveNoneAndNoWarning) {
  int seen = 0;
  for (const auto &entry : std::filesystem::directory_iterator("models"))
    if (entry.path().extension() == ".graph") {
      const Said said = diagnose(test::readAll(entry.path()));
      EXPECT_TRUE(said.accepted) << entry.path();
      EXPECT_EQ(said.messages, "") << entry.path();
      ++seen;
    }
  EXPECT_GE(seen, 4);
}

/// Each line of a text removed, doubled, or cut in half: refused with a reason inside of the text, or accepted.
TEST(Diagnostics, ARefusalAlwaysSaysWhyAndWhere) {
  std::set<std::string> texts;
  for (const auto &entry : std::filesystem::directory_iterator("models"))
    if (entry.path().extension() == ".graph")
      texts.insert(test::readAll(entry.path()));
  int refused = 0;
  for (const std::string &text : texts)
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      const std::string line = text.substr(begin, end - begin), head = text.substr(0, begin), tail = text.substr(end);
      for (const std::string &changed : {std::string(), line + line, line.substr(0, line.size() / 2) + "\n"}) {
        const Said said = diagnose(head + changed + tail);
        refused += !said.accepted;
        EXPECT_EQ(said.accepted, said.errors == 0);
        if (!said.accepted) {
          EXPECT_EQ(said.messages.rfind("f.graph:", 0), 0u) << said.messages;
          EXPECT_EQ(said.messages.find("MLIR"), std::string::npos) << said.messages;
        }
      }
      begin = end;
    }
  EXPECT_GT(refused, 100);
}

/// Each op of a long text wrong, in four ways. Work that grew with errors times names would not end.
TEST(Diagnostics, ALongTextIsExplainedToo) {
  for (const std::string &line : {std::string("  %NEW = tcc.exp %undefined : tensor<4xf32>\n"),
                                  std::string("  %NEW = tcc.gelo %x : tensor<4xf32>\n"),
                                  std::string("  %NEW = tcc.exp %x {a = 1} : tensor<4xf32>\n"),
                                  std::string("  %NEW = tcc.exp %x axis : tensor<4xf32>\n")}) {
    std::string text = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n";
    for (int i = 0; i < 50000; ++i)
      text += line.substr(0, 3) + std::to_string(i) + line.substr(6);
    text += "  func.return %x : tensor<4xf32>\n}\n";
    const Said said = diagnose(text);
    EXPECT_FALSE(said.accepted);
    EXPECT_GE(said.errors, 1);
    EXPECT_LE(said.errors, 20);
  }
}

TEST(Warnings, FlagsAreReadInOrder) {
  std::string candidate;
  Warnings warnings;
  EXPECT_TRUE(warnings.isOn("unused-argument"));
  EXPECT_EQ(warnings.severity("unused-argument"), Severity::warning);
  EXPECT_TRUE(warnings.set("no-unused-argument", candidate));
  EXPECT_FALSE(warnings.isOn("unused-argument"));
  EXPECT_TRUE(warnings.set("error=unused-argument", candidate));
  EXPECT_TRUE(warnings.isOn("unused-argument"));
  EXPECT_EQ(warnings.severity("unused-argument"), Severity::error);
  EXPECT_EQ(warnings.severity("unused-value"), Severity::warning);
  EXPECT_TRUE(warnings.set("error", candidate));
  EXPECT_EQ(warnings.severity("unused-value"), Severity::error);
  EXPECT_TRUE(warnings.set("no-error=unused-value", candidate));
  EXPECT_EQ(warnings.severity("unused-value"), Severity::warning);
  EXPECT_FALSE(warnings.set("unused-valeu", candidate));
  EXPECT_EQ(candidate, "-Wunused-value");
  EXPECT_FALSE(warnings.set("no-such", candidate));
}

} // namespace
