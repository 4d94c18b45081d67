// A target that no file outside of this folder names: by flags, by a session, and trained by the command line.
#include "codegen/compile_session.h"
#include "codegen/graph_reference.h"
#include "codegen/graph_runner.h"
#include "codegen/targets.h"
#include "frontend/driver/options.h"
#include "frontend/driver/run.h"
#include "frontend/product_choice.h"
#include "frontend/shape.h"
#include "tests/forms_target/target.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include <cmath>
#include <gtest/gtest.h>
#include <sstream>

using namespace mlir;

namespace tcc::test {
namespace {

class FormsTarget : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    if (!targetKindOf("forms"))
      addTargetKind(forms::kind());
  }

  /// What is said against a command line, or nothing.
  static std::string refusal(std::vector<const char *> arguments) {
    arguments.push_back("x.graph");
    try {
      driver::parseOptions(arguments);
    } catch (const Error &error) {
      return error.message();
    }
    return "";
  }
  static std::string targetOf(std::vector<const char *> arguments) {
    arguments.push_back("x.graph");
    return driver::parseOptions(arguments).compile.targetName;
  }

  struct Output {
    int status;
    std::string out, err;
  };
  /// tcc in this process.
  static Output tcc(std::vector<const char *> arguments) {
    arguments.insert(arguments.begin(), "tcc");
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = driver::run(static_cast<int>(arguments.size()), arguments.data());
    llvm::outs().flush();
    llvm::errs().flush();
    std::string out = ::testing::internal::GetCapturedStdout();
    return {status, std::move(out), ::testing::internal::GetCapturedStderr()};
  }
};

TEST_F(FormsTarget, HasItsFlags) {
  EXPECT_EQ(kindNames(" or "), "cpu or cuda or forms");
  EXPECT_EQ(targetOf({"--target=forms"}), "forms");
  EXPECT_EQ(targetOf({"--target=forms", "-march=exact"}), "forms:exact");
  EXPECT_EQ(targetOf({"-emit=forms"}), "forms");
  EXPECT_EQ(targetOf({"-march=x86-64-v3"}), "cpu:x86-64-v3");
  EXPECT_EQ(refusal({"--target=tpu"}), "unknown target 'tpu' (cpu or cuda or forms)");
  EXPECT_EQ(refusal({"--target=forms:exact"}), "unknown target 'forms:exact' (cpu or cuda or forms)");
  EXPECT_EQ(refusal({"-march=exact"}), "-march=exact names a form interpreter; --target=forms compiles for it");
  EXPECT_EQ(refusal({"--target=forms", "-march=sm_90a"}), "-march=sm_90a names a GPU; --target=cuda compiles for it");
  EXPECT_EQ(refusal({"--target=forms", "-march=x86-64-v3"}),
            "unknown form interpreter 'x86-64-v3' of -march= with --target=forms; exact or rounding is expected");
  EXPECT_EQ(refusal({"--target=forms", "-march=exact,exact"}), "-march= names exact twice");
  EXPECT_EQ(refusal({"-emit=forms,asm"}), "-emit=llvm, -emit=asm and -emit=obj are of the CPU; -emit=forms prints the "
                                          "kernels for a form interpreter");
  EXPECT_EQ(refusal({"-emit=forms,ptx"}),
            "-emit=forms are of the form interpreter; -emit=cuda prints the kernels for a "
            "GPU");
  EXPECT_NE(refusal({"-emit=tiles"}).find("cubin, forms)"), std::string::npos);
  EXPECT_EQ(refusal({"--check-device", "--run"}),
            "--check-device without --target=cuda or --target=forms and --run or --bench");
  EXPECT_NE(tcc({"--help"}).out.find("the interpreter of kernel forms; -march=exact or rounding; -emit=forms"),
            std::string::npos);
  EXPECT_NE(tcc({"--doctor"}).out.find("for the interpreter of forms:"), std::string::npos);
  CompilerFlags flags;
  flags.chooseProducts = true;
  EXPECT_EQ(chooseProducts(flags, "forms"), "f32, since forms:rounding multiplies neither bf16 nor f16 faster");
}

TEST_F(FormsTarget, ShowsItsKernels) {
  const Output shown = tcc({"models/layer_norm.graph", "-emit=forms"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out.find("k0_"), 0u) << shown.out;
  EXPECT_NE(shown.out.find("k1_reduce_sum:\nspace 1 x 16 x 384, stages 1\n"), std::string::npos) << shown.out;
}

TEST_F(FormsTarget, GivesWhatTheReferenceGives) {
  const auto device = forms::kind().openDevice({});
  ASSERT_TRUE(device);
  std::unique_ptr<MLIRContext> context = makeContext();
  int kernels = 0, products = 0;
  for (int seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    GenerateOptions generated;
    generated.ops = 4 + seed % 13;
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, generated);
    CompileOptions options;
    options.targetName = "forms";
    options.threads = 1;
    options.pipeline.level = seed % 3;
    auto session = CompileSession::open(options);
    ASSERT_TRUE(session) << session.error().message();
    auto artefact = session->artefact(OwningOpRef<ModuleOp>(module->clone()));
    ASSERT_TRUE(artefact) << artefact.error().message() << textOf(*module);
    EXPECT_EQ(artefact->targets.front().target, "forms:rounding");
    kernels += static_cast<int>(session->report().compiledKernels);
    products += static_cast<int>(session->report().pipeline.matmuls);
    func::FuncOp function = onlyFunction(*module);
    auto runner = GraphRunner::load(std::move(*artefact), function, {.device = *device});
    ASSERT_TRUE(runner) << runner.error().message();
    auto reference = Reference::make(*module, generateInputs(function, seed));
    ASSERT_TRUE(reference) << reference.error().message();
    auto results = (*runner)->run(reference->arguments());
    ASSERT_TRUE(results) << results.error().message() << textOf(*module);
    EXPECT_EQ(reference->checkChain(*results), "") << textOf(*module);
  }
  EXPECT_GT(kernels, 100);
  EXPECT_GT(products, 10);
}

TEST_F(FormsTarget, SaysWhatItDoesNotHave) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = tcc.repeat 3 (%a = %x : tensor<4xf32>) {
    %b = tcc.tanh %a : tensor<4xf32>
    tcc.yield %b : tensor<4xf32>
  }
  return %y : tensor<4xf32>
})",
                                           messages);
  ASSERT_TRUE(module) << messages;
  CompileOptions options;
  options.targetName = "forms";
  EXPECT_EQ(compileArtefact(std::move(module), options).error().message(), "target 'forms' has no 'tcc.repeat'");
}

/// Numbers of two texts that are the same but for them.
void expectNear(const std::string &seen, const std::string &wanted) {
  std::istringstream left(seen), right(wanted);
  std::string a, b;
  while (left >> a && right >> b) {
    char *endA = nullptr, *endB = nullptr;
    const double x = std::strtod(a.c_str(), &endA), y = std::strtod(b.c_str(), &endB);
    if (*endA || *endB)
      EXPECT_EQ(a, b);
    else
      EXPECT_NEAR(x, y, std::max(1e-6, 1e-3 * std::fabs(y))) << wanted;
  }
  EXPECT_EQ(static_cast<bool>(left >> a), static_cast<bool>(right >> b));
}

TEST_F(FormsTarget, TrainsAsTheCpuDoes) {
  const char *graph = "models/train_step.graph";
  const Output here = tcc({graph, "--run=4"});
  const Output there = tcc({graph, "--run=4", "--target=forms", "--check-device", "-v"});
  ASSERT_EQ(here.status, 0) << here.err;
  ASSERT_EQ(there.status, 0) << there.err;
  EXPECT_NE(there.err.find("values are rounded where nothing else is said"), std::string::npos) << there.err;
  EXPECT_NE(there.err.find("target forms:rounding, -O2"), std::string::npos) << there.err;
  EXPECT_NE(there.err.find("on forms:0 (an interpreter) beside the CPU: no value differs beyond rounding"),
            std::string::npos)
      << there.err;
  expectNear(there.out, here.out);
  const auto loss = [&](const char *run) {
    const size_t at = there.out.find(run);
    return at == std::string::npos ? NAN : std::strtod(there.out.c_str() + at + std::strlen(run), nullptr);
  };
  EXPECT_LT(loss("run 4: loss "), loss("run 1: loss ")) << there.out;
}

} // namespace
} // namespace tcc::test
