// What attention's emitted kernels reach beside the best matmul: causal, heads of 64, forward and backward, by turns
// in one run, medians; without and with dropout. attention_bench [T] [heads] [batch] [threads]; flops are of visible
// pairs alone.
#include "codegen/compile_session.h"
#include "ir/dialect.h"
#include "mlir/Parser/Parser.h"
#include "runtime/dtype.h"
#include "runtime/executable.h"
#include "tests/bench/median.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace mlir;

namespace {

using tcc::bench::median;
using namespace tcc;

struct Step {
  std::string name;
  double flops = 0;
  std::unique_ptr<runtime::Executable> executable;
  std::vector<runtime::TensorStorage> storage;
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> outputs;
  std::vector<double> rates;
};

/// Numbers about 1, of either sign.
void fill(runtime::TensorStorage &storage, runtime::DType dtype, uint32_t state) {
  for (int64_t i = 0; i < storage.bytes() / runtime::byteSize(dtype); ++i) {
    state = state * 1664525u + 1013904223u;
    float value = static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f;
    if (dtype == runtime::DType::f32)
      static_cast<float *>(storage.data())[i] = value;
    else
      static_cast<uint16_t *>(storage.data())[i] = runtime::floatToBf16(value);
  }
}

Step makeStep(MLIRContext &context, const std::string &name, const std::string &text, int threads) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, ParserConfig(&context));
  CompileOptions options;
  options.threads = threads;
  auto artefact = module ? compileArtefact(std::move(module), options) : runtime::Error("the text is no module");
  if (!artefact) {
    std::fprintf(stderr, "%s does not compile: %s\n", name.c_str(), artefact.error().message().c_str());
    std::exit(1);
  }
  Step step;
  step.name = name;
  for (const runtime::Instruction &instruction : artefact->targets[0].plan.instructions)
    step.flops += static_cast<double>(instruction.flops);
  step.executable = *runtime::Executable::load(std::move(*artefact), {.threads = threads});
  auto add = [&](const runtime::TensorSpec &spec) -> runtime::TensorStorage & {
    step.storage.push_back(*runtime::TensorStorage::zeros(spec));
    fill(step.storage.back(), spec.dtype, static_cast<uint32_t>(step.storage.size()));
    return step.storage.back();
  };
  for (const runtime::TensorSpec &spec : step.executable->plan().inputs)
    add(spec);
  for (const runtime::TensorSpec &spec : step.executable->plan().outputs)
    add(spec);
  size_t inputs = step.executable->plan().inputs.size();
  for (size_t i = 0; i < step.storage.size(); ++i)
    if (i < inputs)
      step.inputs.push_back({step.storage[i].data(), step.storage[i].bytes()});
    else
      step.outputs.push_back({step.storage[i].data(), step.storage[i].bytes()});
  return step;
}

void run(Step &step) {
  auto start = std::chrono::steady_clock::now();
  if (runtime::Error error = step.executable->run(step.inputs, step.outputs, {})) {
    std::fprintf(stderr, "%s\n", error.message().c_str());
    std::exit(1);
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  step.rates.push_back(step.flops / took.count() * 1e-9);
}

std::string format(const char *pattern, const std::string &element, int64_t batch, int64_t length, int64_t heads) {
  std::string text;
  for (const char *c = pattern; *c; ++c)
    if (*c == 'E')
      text += element;
    else if (*c == 'Q')
      text += "tensor<" + std::to_string(batch) + "x" + std::to_string(length) + "x" + std::to_string(heads) + "x64x" +
              element + ">";
    else if (*c == 'L')
      text += "tensor<" + std::to_string(batch) + "x" + std::to_string(heads) + "x" + std::to_string(length) + "xf32>";
    else
      text += *c;
  return text;
}

constexpr const char *product =
                         R"(func.func @main(%a: tensor<1024x768xE>, %b: tensor<768x3072xE>) -> tensor<1024x3072xf32> {
  %c = tcc.matmul %a, %b {dtype = f32} : tensor<1024x768xE>, tensor<768x3072xE> -> tensor<1024x3072xf32>
  return %c : tensor<1024x3072xf32>
})",
                     *forward = R"(func.func @main(%q: Q, %k: Q, %v: Q) -> (Q, L) {
  %r:2 = tcc.flash_attention %q, %k, %v diagonal 0 scale 0.125 : (Q, Q, Q) -> (Q, L)
  return %r#0, %r#1 : Q, L
})",
                     *forwardDropout = R"(func.func @main(%q: Q, %k: Q, %v: Q, %s: tensor<i32>) -> (Q, L) {
  %r:2 = tcc.flash_attention %q, %k, %v diagonal 0 scale 0.125 rate 0.1 stream 3 seed %s : (Q, Q, Q, tensor<i32>) -> (Q, L)
  return %r#0, %r#1 : Q, L
})",
                     *backwardDropout = R"(
func.func @main(%q: Q, %k: Q, %v: Q, %o: Q, %l: L, %g: Q, %s: tensor<i32>) -> (Q, Q, Q) {
  %d:3 = tcc.flash_attention_backward %q, %k, %v, %o, %l, %g diagonal 0 scale 0.125 rate 0.1 stream 3 seed %s
      : (Q, Q, Q, Q, L, Q, tensor<i32>) -> (Q, Q, Q)
  return %d#0, %d#1, %d#2 : Q, Q, Q
})",
                     *backward = R"(func.func @main(%q: Q, %k: Q, %v: Q, %o: Q, %l: L, %g: Q) -> (Q, Q, Q) {
  %d:3 = tcc.flash_attention_backward %q, %k, %v, %o, %l, %g diagonal 0 scale 0.125 : (Q, Q, Q, Q, L, Q) -> (Q, Q, Q)
  return %d#0, %d#1, %d#2 : Q, Q, Q
})";

} // namespace

int main(int argc, char **argv) {
  auto argument = [&](int i, int64_t otherwise) { return argc > i ? std::atoll(argv[i]) : otherwise; };
  int64_t length = argument(1, 1024), heads = argument(2, 12), batch = argument(3, 1);
  int threads = static_cast<int>(argument(4, 2));
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  std::printf("causal attention, B%ld H%ld T%ld d64, %d threads; GFLOP/s, medians (best)\n", static_cast<long>(batch),
              static_cast<long>(heads), static_cast<long>(length), threads);
  for (const std::string element : {"f32", "bf16"}) {
    std::vector<Step> steps;
    for (auto [name, text] : {std::pair("product", product),
                              {"forward", forward},
                              {"forward, dropout", forwardDropout},
                              {"backward", backward},
                              {"backward, dropout", backwardDropout}})
      steps.push_back(makeStep(context, name, format(text, element, batch, length, heads), threads));
    for (int round = 0; round < 25; ++round)
      for (Step &step : steps)
        run(step);
    const double peak = median(steps.front().rates); // the matmul's
    for (const Step &step : steps) {
      double rate = median(step.rates), best = *std::max_element(step.rates.begin(), step.rates.end());
      std::printf("%-4s %-17s %7.1f (%7.1f)  share %.2f  planned %.1f MB\n", element.c_str(), step.name.c_str(), rate,
                  best, rate / peak, static_cast<double>(step.executable->plannedBytes()) * 1e-6);
    }
  }
  return 0;
}
