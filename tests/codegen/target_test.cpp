// The target's table and the structured ops' interface from the outside: a target and an op that no other file knows.
#include "codegen/compile_session.h"
#include "codegen/cpu/target.h"
#include "ir/dialect.h"
#include "mlir/Parser/Parser.h"
#include "runtime/cpu.h"
#include "runtime/executable.h"
#include "tests/dialects.h"
#include <cmath>
#include <gtest/gtest.h>
#include <set>

using namespace mlir;

namespace tcc::test {

/// The operand once more: an op outside of kernels that only its own target knows.
class DuplicateOp : public Op<DuplicateOp, OpTrait::ZeroRegions, OpTrait::OneResult, OpTrait::ZeroSuccessors,
                              OpTrait::OneOperand, MemoryEffectOpInterface::Trait, StructuredOpInterface::Trait> {
public:
  using Op::Op;
  static StringRef getOperationName() { return "stub.duplicate"; }
  static ArrayRef<StringRef> getAttributeNames() { return {}; }
  void getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &) {}

  SmallVector<StridedView, 2> operandViews(const ViewLimits &) { return {denseView(getOperation()->getOperand(0))}; }
  int64_t flops() { return 0; }
};

class StubDialect : public Dialect {
public:
  explicit StubDialect(MLIRContext *context) : Dialect(getDialectNamespace(), context, TypeID::get<StubDialect>()) {
    addOperations<DuplicateOp>();
  }
  static StringRef getDialectNamespace() { return "stub"; }
};

} // namespace tcc::test

MLIR_DECLARE_EXPLICIT_TYPE_ID(tcc::test::StubDialect)
MLIR_DEFINE_EXPLICIT_TYPE_ID(tcc::test::StubDialect)
MLIR_DECLARE_EXPLICIT_TYPE_ID(tcc::test::DuplicateOp)
MLIR_DEFINE_EXPLICIT_TYPE_ID(tcc::test::DuplicateOp)

namespace tcc::test {
namespace {

constexpr const char *text = R"(func.func @main(%x: tensor<4x6xf32> {tcc.name = "x"}) -> tensor<6x4xf32> {
  %e = tcc.exp %x : tensor<4x6xf32>
  %t = tcc.transpose %e [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %d = "stub.duplicate"(%t) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %n = tcc.neg %d : tensor<6x4xf32>
  %s = tcc.sub %n, %t : tensor<6x4xf32>
  return %s : tensor<6x4xf32>
})";
constexpr const char *productText = R"(func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tcc.exp %x : tensor<8x8xf32>
  %p = tcc.matmul %e, %e : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %p : tensor<8x8xf32>
})";

class TargetTable : public ::testing::Test {
protected:
  TargetTable() : context(MLIRContext::Threading::DISABLED) {
    test::loadDialects(context);
    context.getOrLoadDialect<StubDialect>();
  }

  OwningOpRef<ModuleOp> parse(const char *source) {
    return parseSourceString<ModuleOp>(source, ParserConfig(&context));
  }

  runtime::Expected<runtime::Artefact> compile(const char *source, const Target &target) {
    return compileArtefact(parse(source), optionsFor(target));
  }

  static CompileOptions optionsFor(const Target &target) {
    CompileOptions options;
    options.target = &target;
    options.threads = 1;
    return options;
  }

  MLIRContext context;
};

/// Records what it is asked; its code is the kernels' symbols.
class StubTarget : public Target {
public:
  StubTarget() {
    data.name = "stub";
    data.alignment = 256;
  }
  const TargetModel &model() const override { return data; }
  bool supports(StringRef op) const override { return op == "stub.duplicate"; }
  KernelLaunch launch(const KernelInfo &form) const override {
    launches.push_back(form.space.elements());
    return {form.space.elements(), 1};
  }
  int64_t scratchBytes(Operation *op) const override { return isa<DuplicateOp>(op) ? 100 : 0; }
  runtime::Expected<std::vector<std::string>> emit(ArrayRef<KernelSource> kernels) const override {
    std::string code = "code of";
    for (const KernelSource &kernel : kernels)
      code += " " + symbolOf(kernel);
    return std::vector<std::string>{code};
  }
  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &) const override {
    scratch.push_back(plan.buffers[call.scratch].bytes);
    runtime::Instruction copy;
    copy.call = runtime::CopyCall{call.operands[0], call.results[0]};
    plan.instructions.push_back(std::move(copy));
    return {};
  }
  FastProducts fastProducts() const override { return {}; }
  runtime::Expected<std::string> needs() const override { return std::string("imagination"); }

  TargetModel data;
  mutable std::vector<int64_t> launches, scratch;
};

/// What TCC_CPU shows of a level is what LLVM compiles for under the level's name.
TEST(CpuLevels, AreThoseOfTheCodeGenerator) {
  for (const char *level : {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const auto used = cpu::usedFeatures({level, "", 0}, runtime::knownCpuFeatures());
    ASSERT_TRUE(used) << used.error().message();
    EXPECT_EQ(*used, runtime::featuresOfLevel(level));
  }
}

TEST_F(TargetTable, IsAllThatATargetIs) {
  StubTarget target;
  auto artefact = compile(text, target);
  ASSERT_TRUE(artefact) << artefact.error().message();
  ASSERT_EQ(artefact->targets.size(), 1u);
  const runtime::TargetCode &code = artefact->targets[0];
  EXPECT_EQ(code.target, "stub");
  EXPECT_EQ(code.needs, "imagination");
  EXPECT_EQ(code.plan.alignment, 256);
  EXPECT_EQ(artefact->metadata.at("target"), "stub");
  ASSERT_EQ(code.code.size(), 1u);
  std::string symbols = "code of";
  for (const runtime::KernelCode &kernel : code.plan.kernels)
    symbols += " " + kernel.symbol;
  EXPECT_EQ(code.code[0], symbols);
  EXPECT_EQ(target.launches, (std::vector<int64_t>{24, 24}));
  EXPECT_EQ(target.scratch, (std::vector<int64_t>{100}));
  auto planned = CompileSession::open(optionsFor(target))->lowered(parse(text));
  ASSERT_TRUE(planned);
  EXPECT_EQ((**planned)->getAttrOfType<StringAttr>(targetAttr).getValue(), "stub");
}

TEST_F(TargetTable, NamesTheOpThatATargetDoesNotHave) {
  StubTarget target;
  EXPECT_EQ(compile(productText, target).error().message(), "target 'stub' has no 'tcc.matmul'");
  EXPECT_EQ(compile(text, cpu::CpuTarget({}, 1)).error().message(), "target 'cpu' has no 'stub.duplicate'");
}

TEST(CodeKey, SaysAllThatCodeForACpuDependsOn) {
  const auto key = [](const cpu::EmitOptions &options, int threads = 2) {
    const auto text = cpu::CpuTarget(options, threads).codeKey();
    return text ? *text : "error: " + text.error().message();
  };
  cpu::EmitOptions plain;
  plain.target.cpu = "x86-64-v3";
  auto level = plain, without = plain, narrow = plain, fast = plain, steady = plain, threads = plain;
  level.target.cpu = "x86-64-v2";
  without.target.features = "-fma";
  narrow.target.vectorBytes = 16;
  fast.fastMath = true;
  steady.steady = true;
  threads.threads = 7; // of the compiler
  EXPECT_EQ(key(threads), key(plain));
  EXPECT_EQ(key(plain, 3), key(plain)) << "threads at run time are a part of a step's key by themselves";
  const std::set<std::string> keys = {key(plain), key(level), key(without), key(narrow), key(fast), key(steady)};
  EXPECT_EQ(keys.size(), 6u);
  level.target.cpu = "no-such-cpu";
  EXPECT_EQ(key(level), "error: unknown CPU 'no-such-cpu'; names are LLVM's, for example x86-64-v3 or native");
  EXPECT_FALSE(StubTarget().codeKey());
}

/// The CPU with one op more.
class DuplicatingCpu : public cpu::CpuTarget {
public:
  DuplicatingCpu() : CpuTarget({}, 1) {}
  bool supports(StringRef op) const override { return op == "stub.duplicate" || CpuTarget::supports(op); }
  int64_t scratchBytes(Operation *op) const override {
    return isa<DuplicateOp>(op) ? 100 : CpuTarget::scratchBytes(op);
  }
  runtime::Error lower(const StructuredCall &call, runtime::Plan &plan, KernelTable &kernels) const override {
    if (!isa<DuplicateOp>(call.op))
      return CpuTarget::lower(call, plan, kernels);
    runtime::Instruction copy;
    copy.call = runtime::CopyCall{call.operands[0], call.results[0]};
    plan.instructions.push_back(std::move(copy));
    return {};
  }
};

TEST_F(TargetTable, RunsAnOpThatNoPassKnows) {
  DuplicatingCpu target;
  auto artefact = compile(text, target);
  ASSERT_TRUE(artefact) << artefact.error().message();
  // The ops around it are fused: one kernel before it, one after it.
  std::vector<size_t> calls;
  for (const runtime::Instruction &instruction : artefact->targets[0].plan.instructions)
    calls.push_back(instruction.call.index());
  EXPECT_EQ(calls, (std::vector<size_t>{0, 2, 0}));
  const runtime::Instruction &copy = artefact->targets[0].plan.instructions[1];
  EXPECT_EQ(copy.label, "stub.duplicate");
  EXPECT_EQ(copy.bytes, 2 * 24 * 4);

  auto executable = runtime::Executable::load(std::move(*artefact), {.threads = 1, .checked = true});
  ASSERT_TRUE(executable) << executable.error().message();
  auto in = *runtime::TensorStorage::zeros(24 * 4), out = *runtime::TensorStorage::zeros(24 * 4);
  auto *x = static_cast<float *>(in.data()), *y = static_cast<float *>(out.data());
  for (int i = 0; i < 24; ++i)
    x[i] = static_cast<float>(i) / 24;
  std::vector<runtime::ConstTensorRef> inputs{{in.data(), in.bytes()}};
  std::vector<runtime::TensorRef> outputs{{out.data(), out.bytes()}};
  runtime::Error failed = (*executable)->run(inputs, outputs, {});
  ASSERT_FALSE(failed) << failed.message();
  for (int i = 0; i < 24; ++i)
    EXPECT_NEAR(y[i], -2 * std::exp(x[i % 4 * 6 + i / 4]), 1e-5) << i;
}

} // namespace
} // namespace tcc::test
