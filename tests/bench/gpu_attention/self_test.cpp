// Kernels against the reference, lane maps against the tables.
#include "program.h"

#include <cmath>
#include <cstdio>
#include <cstring>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using namespace tcc::attention_test;

namespace {

struct Compared {
  const char *name;
  Tensor tensor;
  std::vector<double> Results::*values;
};
const Compared outputs[] = {{"output", Tensor::Output, &Results::output},
                            {"query gradient", Tensor::QueryGradient, &Results::queryGradient},
                            {"key gradient", Tensor::KeyGradient, &Results::keyGradient},
                            {"value gradient", Tensor::ValueGradient, &Results::valueGradient}};

void launchAll(Memory &memory, Variant variant, Build build) {
  Backend &backend = memory.backend;
  for (AttentionPass pass : allPasses)
    backend.prepare(kernelFor(memory.problem, pass, backend.architecture(), variant), memory.arguments,
                    memory.problem.batch, build)();
  backend.finish();
}

bool report(const char *name, const Deviation &deviation, double got, double exact) {
  bool good = deviation.error <= deviation.allowed;
  std::printf("  %-15s error %.3g, allowed %.3g", name, deviation.error, deviation.allowed);
  if (!good)
    std::printf("  WRONG, worst at %zu: %g for %g", deviation.worst, got, exact);
  std::printf("\n");
  return good;
}

bool check(Memory &memory, const Results &exact, const Results &rounded) {
  bool good = true;
  for (const Compared &compared : outputs) {
    std::vector<double> got = memory.get(compared.tensor);
    if (got.empty())
      continue;
    Deviation result =
        deviation(got, exact.*compared.values, rounded.*compared.values, memory.problem.element, exact.largestTerm);
    good &= report(compared.name, result, got[result.worst], (exact.*compared.values)[result.worst]);
  }
  std::vector<float> logSumExp(memory.rows);
  memory.backend.read(logSumExp.data(), memory.arguments.logSumExp, memory.rows * 4);
  Deviation result;
  result.allowed = 1e-4;
  for (std::size_t i = 0; i < memory.rows; ++i) {
    double want = exact.logSumExp[i];
    double error = std::isinf(want) ? (double(logSumExp[i]) == want ? 0 : INFINITY) : std::abs(logSumExp[i] - want);
    if (!(error <= result.error)) {
      result.error = error;
      result.worst = i;
    }
  }
  return report("log-sum-exp", result, logSumExp[result.worst], exact.logSumExp[result.worst]) && good;
}

} // namespace

bool runCase(Backend &backend, const SelfTest &test) {
  const Problem &problem = test.problem;
  std::printf("%s %s\n", describe(problem, test.packed).c_str(), nameOf(test.variant));
  Inputs inputs = randomInputs(problem, 7);
  Results exact = attentionReference(problem, inputs, false);
  Results rounded = attentionReference(problem, inputs, true);
  Memory memory(backend, problem, test.packed);
  memory.fill(Tensor::Query, inputs.query);
  memory.fill(Tensor::Key, inputs.key);
  memory.fill(Tensor::Value, inputs.value);
  memory.fill(Tensor::OutputGradient, inputs.outputGradient);
  bool good = true;
  for (Build build : {Build::Probe, Build::Plain}) {
    std::printf(" %s build\n", build == Build::Probe ? "probe" : "plain");
    launchAll(memory, test.variant, build);
    good &= check(memory, exact, rounded);
  }
  std::vector<std::vector<double>> first;
  for (const Compared &compared : outputs)
    first.push_back(memory.get(compared.tensor));
  launchAll(memory, test.variant, Build::Plain);
  for (std::size_t i = 0; i < first.size(); ++i)
    if (std::memcmp(memory.get(outputs[i].tensor).data(), first[i].data(), first[i].size() * sizeof(double)) != 0) {
      std::printf("  WRONG: a second run gave other bits of the %s\n", outputs[i].name);
      good = false;
    }
  backend.releaseAll();
  return good;
}

bool runLanes(Backend &backend, const std::string &which, const std::string &folder) {
  bool hopper = backend.architecture() == "sm_90a";
  std::vector<std::string> differences;
  emulator::LaneTables recorded;
  if (which != "hopper") {
    differences = emulator::compareWarpLanes(backend, emulator::repositoryTables());
    if (!folder.empty())
      recorded = emulator::recordWarpLanes(backend);
  }
  if (which != "warp" && hopper) {
    for (std::string &text : emulator::compareHopperLanes(backend, emulator::repositoryTables()))
      differences.push_back(std::move(text));
    if (!folder.empty())
      recorded.merge(emulator::recordHopperLanes(backend));
  }
  std::printf("lane maps of %s%s: %s\n", backend.name().c_str(),
              hopper ? "" : " (ldmatrix and mma alone; wgmma and TMA boxes are sm_90a's)",
              differences.empty() ? "as in the tables" : "WRONG");
  for (const std::string &text : differences)
    std::printf("  %s\n", text.c_str());
  if (!recorded.empty()) {
    emulator::writeTables(recorded, folder);
    std::printf("%zu tables written to %s\n", recorded.size(), folder.c_str());
  }
  return differences.empty();
}

} // namespace tcc::gpu_attention
