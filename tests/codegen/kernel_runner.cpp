#include "kernel_runner.h"
#include "ir/reference/bytes.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "runtime/cpu.h"
#include "tests/dialects.h"

using namespace mlir;

namespace tcc::test {
namespace {

//===- memory --------------------------------------------------------------------------------------------------===//

/// A tensor as bytes, with a guard pattern after it.
struct Buffer {
  static constexpr size_t guard = 64;
  std::vector<char> bytes;
  size_t size;

  explicit Buffer(RankedTensorType type) : bytes(byteSize(type) + guard, char(0xff)), size(bytes.size() - guard) {}
  bool guardIntact() const {
    return std::all_of(bytes.begin() + size, bytes.end(), [](char c) { return c == char(0xff); });
  }
};

} // namespace

LoadedKernel::LoadedKernel(const KernelText &text, const cpu::EmitOptions &options, const std::string &tuning)
    : context(MLIRContext::Threading::DISABLED) {
  test::loadDialects(context);
  module = parseSourceString<ModuleOp>(text.module(), ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module) {
    error = "the test's kernel does not parse:\n" + text.module();
    return;
  }
  function = *module->getOps<func::FuncOp>().begin();
  if (failed(decompose(function, PipelineOptions())) || failed(mlir::verify(*module))) { // composites have no kernels
    error = "the test's kernel is not one:\n" + text.module();
    return;
  }
  auto kernel = *function.getBody().getOps<KernelOp>().begin();
  std::string refusal;
  std::optional<KernelInfo> analysed = analyzeKernel(kernel, refusal);
  if (!analysed) {
    error = refusal;
    return;
  }
  info = std::move(*analysed);
  launch = cpu::launchOf(info, cpu::KernelTuning::of(tuning).value_or(cpu::KernelTuning()));
  auto bytes = cpu::emitKernels(KernelSource(FormKernel{.symbol = "kernel", .form = info, .tuning = tuning}), options,
                                cpu::Artefact::sharedObject);
  if (!bytes) {
    error = bytes.error().message();
    return;
  }
  auto loaded = runtime::SharedObject::load(*bytes, "kernels");
  if (!loaded) {
    error = loaded.error().message();
    return;
  }
  library = std::move(*loaded);
  entry = reinterpret_cast<void (*)(int64_t, int64_t, void *const *)>(library.symbol("kernel"));
}

std::vector<RefTensor> LoadedKernel::run(const std::vector<RefTensor> &inputs, int64_t piece, bool reversed,
                                         const std::vector<int> &shared) const {
  FunctionType type = const_cast<func::FuncOp &>(function).getFunctionType();
  std::vector<Buffer> buffers;
  for (Type port : type.getInputs())
    buffers.emplace_back(cast<RankedTensorType>(port));
  for (Type port : type.getResults())
    buffers.emplace_back(cast<RankedTensorType>(port));
  std::vector<void *> pointers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (i < inputs.size())
      writeBytes(inputs[i], buffers[i].bytes.data());
    pointers.push_back(buffers[i].bytes.data());
  }
  for (size_t i = 0; i < shared.size(); ++i)
    if (shared[i] >= 0)
      pointers[inputs.size() + i] = pointers[shared[i]];

  int64_t step = piece == 0 ? std::max<int64_t>(launch.extent, 1)
                            : (piece + launch.granularity - 1) / launch.granularity * launch.granularity;
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (int64_t begin = 0; begin < launch.extent; begin += step)
    pieces.emplace_back(begin, std::min(begin + step, launch.extent));
  if (reversed)
    std::reverse(pieces.begin(), pieces.end());
  for (auto [begin, end] : pieces)
    entry(begin, end, pointers.data());

  std::vector<RefTensor> results;
  for (auto [i, port] : llvm::enumerate(type.getResults())) {
    bool inPlace = i < shared.size() && shared[i] >= 0;
    results.push_back(
        readBytes(cast<RankedTensorType>(port), buffers[inPlace ? shared[i] : inputs.size() + i].bytes.data()));
  }
  for (const Buffer &buffer : buffers)
    EXPECT_TRUE(buffer.guardIntact()) << "a kernel wrote after a buffer's end";
  return results;
}

std::vector<RefTensor> LoadedKernel::randomInputs(double low, double high, uint64_t seed) const {
  std::vector<RefTensor> inputs;
  for (Type type : const_cast<func::FuncOp &>(function).getFunctionType().getInputs())
    inputs.push_back(randomTensor(cast<RankedTensorType>(type), seed++, low, high));
  return inputs;
}

std::vector<cpu::Target> runnableTargets() {
  std::vector<cpu::Target> targets = {{}, {"x86-64", "", 0}};
  if (!runtime::requireCpuFeatures("avx2,fma"))
    targets.push_back({"x86-64-v3", "", 0});
  return targets;
}

void expectLikeInterpreter(const KernelText &text, std::vector<RefTensor> inputs, Tolerance tolerance) {
  for (const cpu::Target &target : runnableTargets()) {
    SCOPED_TRACE("cpu " + target.cpu + "\n" + text.module());
    cpu::EmitOptions options;
    options.target = target;
    options.threads = 1;
    LoadedKernel kernel(text, options);
    ASSERT_EQ(kernel.error, "");
    std::vector<RefTensor> arguments = inputs.empty() ? kernel.randomInputs() : inputs;
    for (auto [argument, type] : llvm::zip(arguments, kernel.function.getFunctionType().getInputs()))
      argument.type = cast<RankedTensorType>(type); // of this kernel's context
    std::vector<RefTensor> results = kernel.run(arguments);
    for (int64_t piece : {int64_t(1), int64_t(3), (kernel.launch.extent + 1) / 2})
      EXPECT_TRUE(sameBits(results, kernel.run(arguments, piece, /*reversed=*/piece == 3)))
          << "the result depends on the division into pieces of " << piece;

    auto exact = interpret(kernel.function, arguments, RefMode::exact);
    ASSERT_TRUE(exact) << exact.error().message();
    auto rounded = interpret(kernel.function, arguments, RefMode::rounding);
    ASSERT_TRUE(rounded) << rounded.error().message();
    for (size_t i = 0; i < results.size(); ++i) {
      Comparison comparison = compare(results[i], (*exact)[i], (*rounded)[i], {}, tolerance);
      EXPECT_TRUE(comparison.ok) << "result " << i << ": " << comparison.message;
    }
  }
}

} // namespace tcc::test
