// compileGraph(): a text to an executable, with ops that are functions of this process.
#include "frontend/compile_graph.h"
#include "runtime/executable.h"
#include <gmock/gmock.h>

namespace tcc {
namespace {

using testing::AllOf;
using testing::HasSubstr;

GraphOptions plain() {
  GraphOptions options;
  options.diskCache = false;
  return options;
}

std::string message(std::string_view text, const GraphOptions &options) {
  try {
    compileGraph(text, "model", options);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// x · 2, then an op that a function computes, then + 1.
std::string withHostOp(const HostOp &op) {
  return R"(func.func @f(%x: tensor<4xf32> {tcc.name = "x"}) -> (tensor<4xf32> {tcc.name = "y"}) {
    %two = tcc.constant dense<2.0> : tensor<4xf32>
    %a = tcc.mul %x, %two : tensor<4xf32>
    %b = "tcc.custom"(%a) <{called = "reversed", host_function = )" +
         std::to_string(op.function) + " : i64, host_reference = " + std::to_string(op.reference) +
         R"( : i64, unchecked}> ({}, {}) : (tensor<4xf32>) -> tensor<4xf32>
    %one = tcc.constant dense<1.0> : tensor<4xf32>
    %y = tcc.add %b, %one : tensor<4xf32>
    func.return %y : tensor<4xf32>
  })";
}

HostOp reversed(int &calls) {
  return addHostOp([&calls](const runtime::CustomArguments &arguments) {
    ++calls;
    const auto in = arguments.input<float>(0);
    const auto out = arguments.output<float>(0);
    std::reverse_copy(in.begin(), in.end(), out.begin());
  });
}

std::vector<float> run(const CompiledGraph &graph, std::vector<float> values) {
  const Array x = Array::of(values, {4}), y({4});
  const runtime::ConstTensorRef in(x.rawForReading(), x.bytes());
  const runtime::TensorRef out{y.raw(), y.bytes()};
  const runtime::Error error = graph.executable->run({&in, 1}, {&out, 1}, {});
  EXPECT_FALSE(error) << error.message();
  return {y.read<float>().begin(), y.read<float>().end()};
}

TEST(CompileGraph, GivesWhatTheTextSays) {
  const CompiledGraph graph = compileGraph(
      R"(func.func @f(%x: tensor<4xf32> {tcc.name = "x"}) -> (tensor<4xf32> {tcc.name = "y"}) {
        %y = tcc.neg %x : tensor<4xf32>
        func.return %y : tensor<4xf32>
      })",
      "model", plain());
  EXPECT_EQ(run(graph, {1, 2, 3, 4}), (std::vector<float>{-1, -2, -3, -4}));
  EXPECT_EQ(graph.summary.kernels, 1);
  EXPECT_EQ(graph.summary.cache, "not used: off, by --no-cache");
}

TEST(CompileGraph, SaysWhatIsWrongWithATextAndWhere) {
  const std::string text = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = tcc.neg %z : tensor<4xf32>\n"
                           "  func.return %y : tensor<4xf32>\n}\n";
  EXPECT_THAT(message(text, plain()), AllOf(HasSubstr("model:2:16"), HasSubstr("%z")));
}

TEST(CompileGraph, FunctionsOfTheProcessNeedAWord) {
  int calls = 0;
  EXPECT_THAT(message(withHostOp(reversed(calls)), plain()), HasSubstr("names a function of a process"));
  EXPECT_EQ(calls, 0);
}

TEST(CompileGraph, RunsFunctionsOfTheProcess) {
  int calls = 0;
  GraphOptions options = plain();
  options.hostCode = true;
  const CompiledGraph graph = compileGraph(withHostOp(reversed(calls)), "model", options);
  EXPECT_EQ(calls, 0) << "code that is what it means was compared with itself";
  EXPECT_EQ(run(graph, {1, 2, 3, 4}), (std::vector<float>{9, 7, 5, 3}));
  EXPECT_EQ(calls, 1);
}

TEST(CompileGraph, EachPassIsVerifiedWithFunctionsOfTheProcess) {
  int calls = 0;
  GraphOptions options = plain();
  options.hostCode = options.verifyEach = true;
  const CompiledGraph graph = compileGraph(withHostOp(reversed(calls)), "model", options);
  EXPECT_GT(calls, 0) << "the interpreter did not ask the function";
  EXPECT_EQ(run(graph, {1, 2, 3, 4}), (std::vector<float>{9, 7, 5, 3}));
}

TEST(CompileGraph, AStepWithFunctionsOfTheProcessIsNotKept) {
  int calls = 0;
  GraphOptions options;
  options.hostCode = true;
  EXPECT_THAT(compileGraph(withHostOp(reversed(calls)), "model", options).summary.cache, HasSubstr("not used"));
}

} // namespace
} // namespace tcc
