// Pages of what does not compile: the error, and how far it came.
#include "frontend/compile.h"
#include "frontend/report/report.h"
#include "tests/files.h"
#include "tests/frontend/quiet_functions.h"
#include "llvm/Support/JSON.h"
#include <filesystem>

using namespace tcc;

namespace {

struct FailurePage : testing::Test {
  test::TemporaryFolder folder;

  FunctionOptions options() const {
    FunctionOptions made = quiet();
    made.reportFolder = folder.path("pages");
    made.diskCache = false;
    return made;
  }
  llvm::json::Object report(const std::string &path) const {
    const auto reports = readReports(folder.path(path));
    EXPECT_TRUE(reports) << reports.error().message();
    auto parsed = reports ? llvm::json::parse(reports->front()) : llvm::json::Value(nullptr);
    EXPECT_TRUE(bool(parsed));
    return parsed && parsed->getAsObject() ? *parsed->getAsObject() : llvm::json::Object();
  }
  /// The last error on a page.
  static std::string errorOn(const llvm::json::Object &report) {
    const llvm::json::Array *list = report.getArray("diagnostics");
    return list && !list->empty() ? list->back().getAsObject()->getString("message").value_or("").str() : "";
  }
};

TEST_F(FailurePage, ShowsWhyAStepDoesNotCompile) {
  FunctionOptions tight = options();
  tight.memoryLimit = 1000;
  Function step = compile("step", [](Tensor x) { return tanh(x) * 2.0; }, tight);
  const std::string said = errorOf([&] { step(sequence({40, 50}, 0, 1)); });
  EXPECT_NE(said.find("its memory limit is 0.001 MB"), std::string::npos) << said;
  const llvm::json::Object page = report("pages/step");
  EXPECT_EQ(errorOn(page), said);
  EXPECT_EQ(page.getString("title"), "step");
  EXPECT_EQ(page.get("compile"), nullptr);

  // writeReport() of it as well, with what was logged before.
  EXPECT_NE(errorOf([&] {
              step.writeReport(folder.path("own"), std::vector{sequence({40, 50}, 0, 1)},
                               {.log = "{\"step\": 0, \"loss\": 2.5}\n"});
            }).find("cannot be shown"),
            std::string::npos);
  const llvm::json::Object own = report("own");
  EXPECT_NE(errorOn(own).find("its memory limit"), std::string::npos);
  EXPECT_EQ(own.getArray("training")->size(), 1u);
}

TEST_F(FailurePage, ShowsMistakesInTheTracedFunction) {
  Function step = compile("wrong", [](Tensor x) { return matmul(x, x); }, options());
  EXPECT_NE(errorOf([&] { step(sequence({4, 5}, 0, 1)); }), "no error");
  const llvm::json::Object page = report("pages/wrong");
  const llvm::json::Object &error = *page.getArray("diagnostics")->front().getAsObject();
  EXPECT_NE(error.getString("file")->find("failure_page_test.cpp"), llvm::StringRef::npos);
  EXPECT_GT(*error.getInteger("line"), 0);
  EXPECT_NE(page.getObject("sources"), nullptr);
}

TEST_F(FailurePage, ShowsWhatEndedARun) {
  Function step = compile("step", [](Tensor x) { return tanh(x) * 2.0; }, options());
  const std::vector<Array> arguments = {sequence({4, 5}, 0, 1)};
  step.call(arguments);
  step.writeReport(folder.path("own"), arguments, {.error = "the disk is full"});
  const llvm::json::Object own = report("own");
  EXPECT_EQ(errorOn(own), "the disk is full");
  EXPECT_NE(own.get("compile"), nullptr);
}

TEST_F(FailurePage, AFolderThatCannotBeWrittenHidesNoError) {
  std::vector<std::string> said;
  FunctionOptions bad = quiet(&said);
  folder.write("file", "");
  bad.reportFolder = folder.path("file");
  bad.memoryLimit = 1000;
  Function step = compile("step", [](Tensor x) { return tanh(x) * 2.0; }, bad);
  EXPECT_NE(errorOf([&] { step(sequence({40, 50}, 0, 1)); }).find("its memory limit"), std::string::npos);
  EXPECT_EQ(said.size(), 1u);
}

} // namespace
