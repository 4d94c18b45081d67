// TFLOP/s. Forward counts two products, backward five, whatever the kernels do; causal counts half.
#include "program.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

namespace tcc::gpu_attention {

using namespace tcc::cuda;
using namespace tcc::attention_test;

namespace {

/// Normally distributed values, a million of them over and over: speed on zeros would flatter.
void fillForSpeed(Memory &memory) {
  static const std::vector<std::uint16_t> pattern = [] {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> values(1 << 20);
    for (std::uint16_t &value : values)
      value = roundToElement(normal(generator), Element::Bf16);
    return values;
  }();
  for (Tensor tensor : {Tensor::Query, Tensor::Key, Tensor::Value, Tensor::OutputGradient}) {
    std::vector<std::uint16_t> host(placeOf(memory.problem, tensor, memory.packed).elements);
    for (std::size_t i = 0; i < host.size(); i += pattern.size())
      std::copy_n(pattern.begin(), std::min(pattern.size(), host.size() - i), host.begin() + std::ptrdiff_t(i));
    memory.backend.write(memory.bases[int(tensor)], host.data(), host.size() * 2);
  }
}

/// Products of queries × keys × headDim a second, in 10¹² operations.
double speedOf(Backend &backend, const Problem &problem, double products, bool rehearsal,
               const std::function<void()> &work) {
  double pairs = double(problem.queries) * problem.keys * (problem.causal ? 0.5 : 1);
  double product = 2 * pairs * problem.headDim * problem.batch * problem.heads;
  double once = backend.time(rehearsal ? 1 : 3, work) / (rehearsal ? 1 : 3);
  int repeats = rehearsal ? 1 : std::clamp(int(0.1 / once), 3, 200);
  return products * product * repeats / backend.time(repeats, work) / 1e12;
}

std::string shapeJson(const Problem &problem) {
  std::ostringstream json;
  json << "\"d\": " << problem.headDim << ", \"T\": " << problem.queries
       << ", \"causal\": " << (problem.causal ? "true" : "false") << ", \"batch\": " << problem.batch
       << ", \"heads\": " << problem.heads;
  return json.str();
}

std::ofstream open(const std::string &file) {
  std::ofstream json(file);
  if (!json)
    throw std::runtime_error("cannot write " + file);
  return json;
}

} // namespace

void bench(Backend &backend, const std::string &file, bool rehearsal) {
  std::ofstream json = open(file);
  double copy = backend.copySpeed(std::size_t(1) << (rehearsal ? 20 : 30));
  json << "{\"device\": \"" << backend.name() << "\", \"copy_bytes_per_second\": " << copy << "}\n";
  std::printf("%s, copy %.0f GB/s\n", backend.name().c_str(), copy / 1e9);
  std::printf("%4s %6s %-6s %-18s %8s %12s %12s %12s\n", "d", "T", "mask", "path", "heads", "forward", "backward",
              "registers");
  for (const Problem &problem : benchProblems(rehearsal)) {
    Memory memory(backend, problem, false);
    fillForSpeed(memory);
    for (Variant variant : variantsOf(problem, backend.architecture())) {
      std::ostringstream registers;
      std::vector<std::function<void()>> passes;
      for (AttentionPass pass : allPasses) {
        AttentionKernel kernel = kernelFor(problem, pass, backend.architecture(), variant);
        registers << (passes.empty() ? "" : "/") << backend.registers(kernel);
        passes.push_back(backend.prepare(kernel, memory.arguments, problem.batch));
      }
      double forward = speedOf(backend, problem, 2, rehearsal, passes[0]);
      json << "{\"who\": \"tcc " << nameOf(variant) << "\", " << shapeJson(problem)
           << ", \"forward_tflops\": " << forward;
      std::printf("%4d %6d %-6s %-18s %8d %12.1f ", problem.headDim, problem.queries,
                  problem.causal ? "causal" : "full", nameOf(variant), problem.batch * problem.heads, forward);
      double backward = speedOf(backend, problem, 5, rehearsal, [&] {
        passes[1]();
        passes[2]();
      });
      json << ", \"backward_tflops\": " << backward << "}" << std::endl;
      std::printf("%12.1f ", backward);
      std::printf("%12s\n", registers.str().c_str());
      std::fflush(stdout);
    }
    backend.releaseAll();
  }
}

namespace {

const char *nameOf(AttentionPass pass) {
  constexpr const char *names[] = {"forward", "dQ", "dK/dV"};
  return names[int(pass)];
}

std::string switchesOf(const AttentionTiles &tiles) {
  std::string text;
  for (auto [set, name] : {std::pair(tiles.overlap, " overlap"),
                           {tiles.pingPong, " turns"},
                           {tiles.persistent, " persistent"},
                           {tiles.shortestFirst, " shortest"}})
    text += set ? name : "";
  return text;
}

/// Runs a pass over poisoned results and gives their bits.
std::vector<std::vector<std::uint16_t>> bitsAfter(Memory &memory, AttentionPass pass,
                                                  const std::function<void()> &work) {
  std::vector<Tensor> results = {Tensor::KeyGradient, Tensor::ValueGradient};
  if (pass != AttentionPass::BackwardKeys)
    results = {pass == AttentionPass::Forward ? Tensor::Output : Tensor::QueryGradient};
  for (Tensor tensor : results)
    memory.poison(tensor);
  work();
  memory.backend.finish();
  std::vector<std::vector<std::uint16_t>> bits;
  for (Tensor tensor : results)
    bits.push_back(memory.bits(tensor));
  return bits;
}

/// One pass of a problem with all its candidates; the passes before it have run.
void sweepPass(Memory &memory, AttentionPass pass, bool rehearsal, std::ofstream &json) {
  Backend &backend = memory.backend;
  const Problem &problem = memory.problem;
  auto prepared = [&](const AttentionKernel &kernel) {
    return backend.prepare(kernel, memory.arguments, problem.batch);
  };
  auto chosen = bitsAfter(memory, pass, prepared(kernelFor(problem, pass, backend.architecture(), Variant::Chosen)));
  // Products that the pass does, whatever the whole backward counts.
  double products = pass == AttentionPass::Forward ? 2 : pass == AttentionPass::BackwardQuery ? 3 : 4;
  std::string best;
  double bestSpeed = 0;
  int number = 0;
  for (const AttentionTiles &tiles : candidatesFor(problem, pass, backend.architecture())) {
    if (rehearsal && number++ % 5 != 4)
      continue;
    AttentionKernel kernel = *attentionKernel(caseOf(problem, pass), tiles);
    std::function<void()> work = prepared(kernel);
    bool equal = bitsAfter(memory, pass, work) == chosen;
    double speed = speedOf(backend, problem, products, rehearsal, work);
    char line[160];
    std::snprintf(line, sizeof line, "%4d %6d %-6s %-8s %5d %7d %6d %10.1f  %s%s", problem.headDim, problem.queries,
                  problem.causal ? "causal" : "full", nameOf(pass), tiles.warps, tiles.columns, tiles.stages, speed,
                  equal ? "equal bits" : "OTHER BITS", switchesOf(tiles).c_str());
    std::printf("%s\n", line);
    std::fflush(stdout);
    auto flag = [](bool set) { return set ? "true" : "false"; };
    json << "{\"pass\": \"" << nameOf(pass) << "\", " << shapeJson(problem) << ", \"warps\": " << tiles.warps
         << ", \"columns\": " << tiles.columns << ", \"stages\": " << tiles.stages
         << ", \"overlap\": " << flag(tiles.overlap) << ", \"turns\": " << flag(tiles.pingPong)
         << ", \"persistent\": " << flag(tiles.persistent) << ", \"shortest_first\": " << flag(tiles.shortestFirst)
         << ", \"equal_bits\": " << flag(equal) << ", \"tflops\": " << speed << "}" << std::endl;
    if (speed > bestSpeed) {
      bestSpeed = speed;
      best = line;
    }
  }
  std::printf("best %s\n", best.c_str());
}

} // namespace

void sweep(Backend &backend, const std::string &file, bool rehearsal) {
  std::ofstream json = open(file);
  std::printf("%4s %6s %-6s %-8s %5s %7s %6s %10s\n", "d", "T", "mask", "pass", "warps", "columns", "stages",
              "TFLOP/s");
  for (const Problem &problem : sweepProblems(rehearsal)) {
    Memory memory(backend, problem, false);
    fillForSpeed(memory);
    for (AttentionPass pass : allPasses)
      sweepPass(memory, pass, rehearsal, json);
    backend.releaseAll();
  }
}

} // namespace tcc::gpu_attention
