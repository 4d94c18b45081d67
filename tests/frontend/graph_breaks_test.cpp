// tcc.item and tcc.print in .graph files: the path that a function wrote runs and prints what the function printed;
// lines are never lost, doubled or moved, at any level, in the interpreter and after a dump; --graph-breaks; errors.
#include "frontend/npy.h"
#include "tests/cuda_machine/run_command.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include "tests/frontend/quiet_functions.h"
#include <cmath>
#include <gtest/gtest.h>
#include <sstream>

using namespace tcc;

namespace {

class GraphBreaks : public testing::Test {
protected:
  test::TemporaryFolder folder;

  std::string write(const std::string &name, const std::string &text) const { return folder.write(name, text); }
  static CommandResult tcc(const std::string &arguments) { return runCommand("'" TCC_PROGRAM "' " + arguments); }

  static std::string linesWith(const std::string &text, const std::string &part) {
    std::istringstream stream(text);
    std::string found;
    for (std::string line; std::getline(stream, line);)
      if (line.find(part) != std::string::npos)
        found += line + "\n";
    return found;
  }
};

const char *const prints = R"(func.func @f(%x: tensor<2x2xf32> {tcc.name = "x"}) -> (tensor<2x2xf32> {tcc.name = "y"}) {
  %a = tcc.exp %x : tensor<2x2xf32>
  tcc.print "second, by name", %a : tensor<2x2xf32>
  tcc.print "a", %a : tensor<2x2xf32>
  %b = tcc.exp %x : tensor<2x2xf32>
  tcc.print "a", %b : tensor<2x2xf32>
  %s = tcc.reduce_sum %b axes [0, 1] : tensor<2x2xf32> -> tensor<1x1xf32>
  %seen = tcc.item %s : tensor<1x1xf32>
  %zero = tcc.constant dense<0.0> : tensor<f32>
  tcc.print "x", %x : tensor<2x2xf32>
  tcc.print "zero", %zero : tensor<f32>
  %n = tcc.cast %x : tensor<2x2xf32> -> tensor<2x2xbf16>
  tcc.print "n", %n : tensor<2x2xbf16>
  func.return %a : tensor<2x2xf32>
}
)";

TEST_F(GraphBreaks, LinesAreNeitherLostNorDoubledNorMoved) {
  const Array x = sequence({2, 2}, 0.1f, 1.0f / 3);
  writeNpy(folder / "x.npy", x);
  const std::string file = write("f.graph", prints), input = " --input x=" + folder / "x.npy";
  const std::string before = tcc(file + " --run -O0" + input).output;
  std::string lines = linesWith(before, "] = ");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << before;
  const size_t order[] = {before.find("second, by name [2, 2] = "),
                          before.find("a [2, 2] = "),
                          before.rfind("a [2, 2] = "),
                          before.find("x [2, 2] = "),
                          before.find("zero = 0\n"),
                          before.find("n [2, 2] = ")};
  for (size_t i = 1; i < std::size(order); ++i)
    EXPECT_LT(order[i - 1], order[i]) << before;
  EXPECT_NE(order[std::size(order) - 1], std::string::npos) << before;
  std::istringstream digits(before.substr(before.find("x [2, 2] = ") + 11));
  for (int64_t i = 0; i < 4; ++i) {
    float value = NAN;
    digits >> value;
    EXPECT_EQ(value, x.read<float>()[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(linesWith(tcc(file + " --run -O2" + input).output, "= "), linesWith(before, "= "));
  EXPECT_HAS(tcc(file + " --run -fverify-each" + input).output, "\nzero = 0\n");
  const std::string twice = tcc(file + " --run=2" + input).output;
  lines = linesWith(twice, "zero = 0");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << twice;
  const std::string reference = tcc(file + " --run=reference" + input).output;
  EXPECT_HAS(reference, "x [2, 2] = 0.1 0.43333334 0.76666665 1.1");
  const std::string artefact = folder / "f.tcc";
  EXPECT_EQ(tcc(file + " -o " + artefact).status, 0);
  EXPECT_EQ(linesWith(tcc(artefact + " --run" + input).output, "= "), linesWith(before, "= "));
  const std::string planned = tcc(file + " -emit=planned").output;
  EXPECT_EQ(linesWith(tcc(write("planned.graph", planned) + " --run" + input).output, "= "), linesWith(before, "= "));
}

TEST_F(GraphBreaks, ThePathThatACallTookRunsAndPrintsTheSame) {
  Function f = compile(
      "path",
      [](Tensor x) {
        Tensor s = sum(x * x);
        print("sum", s);
        int turns = 0;
        while (s > 1.0) {
          s = s * 0.25;
          ++turns;
        }
        print("left", s * double(turns));
        return x * s.item();
      },
      [] {
        FunctionOptions options = quiet();
        options.inputs = {"x"};
        return options;
      }());
  const Array x = sequence({5}, 0.3f, 0.7f);
  testing::internal::CaptureStdout();
  const Array result = f(x)[0];
  const std::string printed = testing::internal::GetCapturedStdout();
  const std::string text = f.graph(std::vector<Array>{x});
  EXPECT_HAS(text, "tcc.print \"sum\", ");
  EXPECT_HAS(text, "tcc.item ");
  writeNpy(folder / "x.npy", x);
  const std::string files = " --input x=" + folder / "x.npy" + " --output result0=";
  const CommandResult run = tcc(write("path.graph", text) + " --run" + files + folder / "y.npy");
  EXPECT_EQ(run.status, 0) << run.output << text;
  EXPECT_EQ(linesWith(run.output, "sum = ") + linesWith(run.output, "left = "), printed);
  const Array again = readNpy(folder / "y.npy", DType::f32);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_NEAR(again.item(i), result.item(i), 1e-6 * std::abs(result.item(i)));
}

TEST_F(GraphBreaks, TheReportSaysWhereWhyWhatItCostsAndWhatToWrite) {
  const std::string file = write("f.graph", prints);
  const CommandResult report = tcc(file + " --graph-breaks");
  EXPECT_EQ(report.status, 0) << report.output;
  EXPECT_HAS(report.output, "f.graph:4:3: graph break: `print()` asks for a value, 'a'\n"
                            "    tcc.print \"a\", %a : tensor<2x2xf32>\n");
  EXPECT_HAS(report.output, "f.graph:8:11: graph break: `item()` asks for a value\n");
  EXPECT_HAS(report.output, "16 bytes to the host");
  EXPECT_HAS(report.output, "try: return the tensor from the function and print it after the call");
  const CommandResult json = tcc(file + " --graph-breaks=json");
  EXPECT_HAS(json.output, "\"function\":\"f\"");
  EXPECT_HAS(json.output, "\"line\":8,");
  EXPECT_HAS(json.output, "\"bytes_to_host\":8,"); // of bf16
  EXPECT_HAS(tcc(write("g.graph", "func.func @g(%x: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : "
                                  "tensor<2xf32>\n}\n") +
                 " --graph-breaks")
                 .output,
             "no graph breaks");
  EXPECT_EQ(tcc(file + " --graph-breaks=xml").status, 2);
}

TEST_F(GraphBreaks, BreaksAreErrorsWhereNoneIsAllowed) {
  const CommandResult refused = tcc(write("f.graph", prints) + " -Werror=graph-break");
  EXPECT_EQ(refused.status, 1);
  EXPECT_HAS(refused.output, "f.graph:4:3: error: graph break: `print()` asks for a value in the middle of 'f'; "
                             "return the value instead [-Werror=graph-break]");
  EXPECT_HAS(refused.output, "f.graph:8:11: error: graph break: `item()`");
  EXPECT_EQ(tcc(write("f.graph", prints) + " -Werror=recompile --run").status, 0);
}

} // namespace
