// The program that a machine with a GPU runs once: flash attention's kernels against a reference, then their speed.
//   gpu_attention cases                    number of self-test cases
//   gpu_attention case N                   one self-test case; exit 1 and the first wrong element if it fails
//   gpu_attention small                    a few small launches, for compute-sanitizer
//   gpu_attention bench FILE               TFLOP/s of all shapes, one JSON line each into FILE, a table on stdout
//   gpu_attention prebuild ARCHITECTURE    cubins into the folder of --cubins; needs NVRTC, no device
// Options: --cubins FOLDER; --emulator ARCHITECTURE runs in the emulator instead of on a device (a rehearsal: small
// shapes, meaningless times).
#include "attention_case.h"
#include "gpu_attention/backend.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>

using namespace tcc::attention_test;
using namespace tcc::cuda;
using tcc::gpu_attention::Backend;

namespace {

struct Options {
  std::string cubins;
  std::string emulator;
  std::vector<std::string> words;
};

struct SelfTest {
  Problem problem;
  bool packed;
  /// The portable path even where Hopper's would be taken.
  bool portable;
};

AttentionKernel kernelFor(const Problem &problem, AttentionPass pass, const std::string &architecture, bool portable) {
  AttentionCase of = caseOf(problem, pass);
  return attentionKernel(of, chooseAttention(of, portable ? "sm_80" : architecture, problem.keys));
}

Problem problemOf(int headDim, int length, bool causal, int batch, int heads) {
  Problem problem;
  problem.headDim = headDim;
  problem.queries = problem.keys = length;
  problem.causal = causal;
  problem.batch = batch;
  problem.heads = heads;
  problem.scale = 1 / std::sqrt(double(headDim));
  return problem;
}

/// Every path at the lengths where tiles end, and one case each of dropout, groups, f16, other key lengths.
std::vector<SelfTest> selfTests(bool rehearsal) {
  std::vector<SelfTest> tests;
  for (bool portable : {true, false})
    for (int headDim : {64, 128, 32, 96})
      for (int length : {64, 65, 200, 1024}) {
        if (rehearsal && length > 200)
          continue;
        tests.push_back({problemOf(headDim, length, true, 2, 2), true, portable});
        if (length != 1024)
          tests.push_back({problemOf(headDim, length, false, 2, 2), false, portable});
        Problem special = problemOf(headDim, length, length % 2 == 0, 2, 6);
        special.element = headDim % 64 ? Element::F16 : Element::Bf16;
        special.group = 3;
        special.dropout = 0.1;
        special.keys = length * 2 / 3;
        special.diagonal = special.keys - special.queries;
        if (length == 200)
          tests.push_back({special, true, portable});
      }
  return tests;
}

/// A case's tensors on the device.
struct Memory {
  Memory(Backend &backend, const Problem &problem, bool packed) : backend(backend), problem(problem), packed(packed) {
    for (int i = 0; i < tensorCount; ++i)
      bases[i] = backend.allocate(placeOf(problem, Tensor(i), packed).elements * 2);
    arguments = argumentsOf(problem, packed, bases);
    rows = std::size_t(problem.batch) * problem.heads * problem.queries;
    std::size_t padded = std::size_t(attentionWorkspace(arguments, problem.batch));
    arguments.logSumExp = static_cast<float *>(backend.allocate(rows * 4));
    arguments.rowShift = static_cast<float *>(backend.allocate(padded * 4));
    arguments.rowDelta = static_cast<float *>(backend.allocate(padded * 4));
    void *seed = backend.allocate(8);
    backend.write(seed, problem.seed, 8);
    arguments.seed = static_cast<unsigned *>(seed);
  }
  void fill(Tensor tensor, const std::vector<double> &dense) {
    Place place = placeOf(problem, tensor, packed);
    backend.write(bases[int(tensor)], scatter(problem, place, dense).data(), place.elements * 2);
  }
  std::vector<double> get(Tensor tensor) {
    Place place = placeOf(problem, tensor, packed);
    std::vector<std::uint16_t> buffer(place.elements);
    backend.read(buffer.data(), bases[int(tensor)], place.elements * 2);
    return gather(problem, place, buffer.data());
  }

  Backend &backend;
  Problem problem;
  bool packed;
  void *bases[tensorCount];
  AttentionArguments arguments;
  std::size_t rows;
};

void launchAll(Backend &backend, Memory &memory, bool portable) {
  for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys})
    backend.launch(kernelFor(memory.problem, pass, backend.architecture(), portable), memory.arguments,
                   memory.problem.batch);
}

bool report(const char *name, const Deviation &deviation, double got, double exact) {
  bool good = deviation.error <= deviation.allowed;
  std::printf("  %-15s error %.3g, allowed %.3g", name, deviation.error, deviation.allowed);
  if (!good)
    std::printf("  WRONG, worst at %zu: %g for %g", deviation.worst, got, exact);
  std::printf("\n");
  return good;
}

bool runCase(Backend &backend, const SelfTest &test) {
  const Problem &problem = test.problem;
  std::printf("%s%s\n", describe(problem, test.packed).c_str(), test.portable ? " portable" : "");
  Inputs inputs = randomInputs(problem, 7);
  Results exact = attentionReference(problem, inputs, false);
  Results rounded = attentionReference(problem, inputs, true);
  Memory memory(backend, problem, test.packed);
  memory.fill(Tensor::Query, inputs.query);
  memory.fill(Tensor::Key, inputs.key);
  memory.fill(Tensor::Value, inputs.value);
  memory.fill(Tensor::OutputGradient, inputs.outputGradient);
  launchAll(backend, memory, test.portable);
  backend.finish();

  struct Compared {
    const char *name;
    Tensor tensor;
    std::vector<double> Results::*values;
  };
  bool good = true;
  std::vector<std::vector<double>> first;
  for (const Compared &compared : {Compared{"output", Tensor::Output, &Results::output},
                                   {"query gradient", Tensor::QueryGradient, &Results::queryGradient},
                                   {"key gradient", Tensor::KeyGradient, &Results::keyGradient},
                                   {"value gradient", Tensor::ValueGradient, &Results::valueGradient}}) {
    first.push_back(memory.get(compared.tensor));
    const std::vector<double> &got = first.back();
    if (got.empty())
      continue;
    Deviation result =
        deviation(got, exact.*compared.values, rounded.*compared.values, problem.element, exact.largestTerm);
    good &= report(compared.name, result, got[result.worst], (exact.*compared.values)[result.worst]);
  }
  std::vector<float> logSumExp(memory.rows);
  backend.read(logSumExp.data(), memory.arguments.logSumExp, memory.rows * 4);
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
  good &= report("log-sum-exp", result, logSumExp[result.worst], exact.logSumExp[result.worst]);

  launchAll(backend, memory, test.portable);
  backend.finish();
  const Tensor outputs[] = {Tensor::Output, Tensor::QueryGradient, Tensor::KeyGradient, Tensor::ValueGradient};
  for (std::size_t i = 0; i < first.size(); ++i)
    if (std::memcmp(memory.get(outputs[i]).data(), first[i].data(), first[i].size() * sizeof(double)) != 0) {
      std::printf("  WRONG: a second run gave other bits\n");
      good = false;
    }
  backend.releaseAll();
  return good;
}

/// Normally distributed values, a million of them over and over: speed on zeros would flatter.
void fillForSpeed(Backend &backend, void *to, std::size_t elements) {
  static const std::vector<std::uint16_t> pattern = [] {
    std::mt19937 generator(1);
    std::normal_distribution<float> normal;
    std::vector<std::uint16_t> values(1 << 20);
    for (std::uint16_t &value : values)
      value = roundToElement(normal(generator), Element::Bf16);
    return values;
  }();
  std::vector<std::uint16_t> host(elements);
  for (std::size_t i = 0; i < elements; ++i)
    host[i] = pattern[i % pattern.size()];
  backend.write(to, host.data(), elements * 2);
}

std::vector<Problem> benchProblems(bool rehearsal) {
  std::vector<Problem> problems;
  for (int headDim : {64, 128})
    for (int length : {512, 1024, 2048, 4096, 8192, 16384})
      for (bool causal : {true, false}) {
        if (rehearsal && length > 512)
          continue;
        // Rows · heads · headDim stay those of 768 heads of 1024 rows at headDim 64.
        int heads = rehearsal ? 1 : 768 * 1024 / length * 64 / headDim;
        problems.push_back(problemOf(headDim, length, causal, heads % 16 ? 1 : heads / 12, heads % 16 ? heads : 12));
      }
  return problems;
}

void bench(Backend &backend, const std::string &file, bool rehearsal) {
  std::ofstream json(file);
  if (!json)
    throw std::runtime_error("cannot write " + file);
  double copy = backend.copySpeed(std::size_t(1) << (rehearsal ? 20 : 30));
  json << "{\"device\": \"" << backend.name() << "\", \"copy_bytes_per_second\": " << copy << "}\n";
  std::printf("%s, copy %.0f GB/s\n", backend.name().c_str(), copy / 1e9);
  std::printf("%4s %6s %-6s %-8s %8s %12s %12s %12s\n", "d", "T", "mask", "path", "heads", "forward", "backward",
              "registers");
  for (const Problem &problem : benchProblems(rehearsal))
    for (bool portable : {true, false}) {
      AttentionKernel forward = kernelFor(problem, AttentionPass::Forward, backend.architecture(), portable);
      AttentionKernel query = kernelFor(problem, AttentionPass::BackwardQuery, backend.architecture(), portable);
      AttentionKernel keys = kernelFor(problem, AttentionPass::BackwardKeys, backend.architecture(), portable);
      bool hopper = forward.tiles.path == AttentionPath::Hopper || keys.tiles.path == AttentionPath::Hopper;
      if (!portable && !hopper)
        continue;
      Memory memory(backend, problem, false);
      for (Tensor tensor : {Tensor::Query, Tensor::Key, Tensor::Value, Tensor::OutputGradient})
        fillForSpeed(backend, memory.bases[int(tensor)], placeOf(problem, tensor, false).elements);
      auto runForward = [&] { backend.launch(forward, memory.arguments, problem.batch); };
      auto runBackward = [&] {
        backend.launch(query, memory.arguments, problem.batch);
        backend.launch(keys, memory.arguments, problem.batch);
      };
      double pairs = double(problem.queries) * problem.keys * (problem.causal ? 0.5 : 1);
      double product = 2 * pairs * problem.headDim * problem.batch * problem.heads;
      auto speed = [&](double products, const std::function<void()> &work) {
        double once = backend.time(rehearsal ? 1 : 3, work) / (rehearsal ? 1 : 3);
        int repeats = rehearsal ? 1 : std::clamp(int(0.1 / once), 3, 200);
        return products * product * repeats / backend.time(repeats, work) / 1e12;
      };
      double forwardSpeed = speed(2, runForward);
      double backwardSpeed = speed(5, runBackward);
      const char *path = portable ? "portable" : "hopper";
      std::ostringstream registers;
      registers << backend.registers(forward) << "/" << backend.registers(query) << "/" << backend.registers(keys);
      std::printf("%4d %6d %-6s %-8s %8d %12.1f %12.1f %12s\n", problem.headDim, problem.queries,
                  problem.causal ? "causal" : "full", path, problem.batch * problem.heads, forwardSpeed, backwardSpeed,
                  registers.str().c_str());
      std::fflush(stdout);
      json << "{\"who\": \"tcc " << path << "\", \"d\": " << problem.headDim << ", \"T\": " << problem.queries
           << ", \"causal\": " << (problem.causal ? "true" : "false") << ", \"batch\": " << problem.batch
           << ", \"heads\": " << problem.heads << ", \"forward_tflops\": " << forwardSpeed
           << ", \"backward_tflops\": " << backwardSpeed << "}" << std::endl;
      backend.releaseAll();
    }
}

/// One launch of every pass and path at a size that compute-sanitizer can afford.
bool small(Backend &backend) {
  bool good = true;
  for (bool portable : {true, false})
    for (int headDim : {64, 128}) {
      Problem problem = problemOf(headDim, 200, true, 1, 2);
      problem.group = 2;
      problem.dropout = 0.1;
      good &= runCase(backend, {problem, true, portable});
    }
  return good;
}

std::vector<AttentionKernel> allKernels(const std::string &architecture) {
  std::vector<AttentionKernel> kernels;
  auto add = [&](const Problem &problem, bool portable) {
    for (AttentionPass pass : {AttentionPass::Forward, AttentionPass::BackwardQuery, AttentionPass::BackwardKeys}) {
      AttentionKernel kernel = kernelFor(problem, pass, architecture, portable);
      bool known = std::any_of(kernels.begin(), kernels.end(),
                               [&](const AttentionKernel &other) { return other.text == kernel.text; });
      if (!known)
        kernels.push_back(std::move(kernel));
    }
  };
  for (const SelfTest &test : selfTests(false))
    add(test.problem, test.portable);
  for (const Problem &problem : benchProblems(false)) {
    add(problem, true);
    add(problem, false);
  }
  for (int headDim : {64, 128}) {
    Problem problem = problemOf(headDim, 200, true, 1, 2);
    problem.dropout = 0.1;
    add(problem, true);
    add(problem, false);
  }
  return kernels;
}

int run(const Options &options) {
  const std::string command = options.words.empty() ? "" : options.words[0];
  const std::string argument = options.words.size() < 2 ? "" : options.words[1];
  bool rehearsal = !options.emulator.empty();
  std::vector<SelfTest> tests = selfTests(rehearsal);
  if (command == "cases") {
    std::printf("%zu\n", tests.size());
    return 0;
  }
  if (command == "prebuild") {
    std::vector<AttentionKernel> kernels = allKernels(argument);
    tcc::gpu_attention::prebuild(options.cubins, argument, kernels);
    std::printf("%zu cubins for %s in %s\n", kernels.size(), argument.c_str(), options.cubins.c_str());
    return 0;
  }
  std::unique_ptr<Backend> backend =
      rehearsal ? tcc::gpu_attention::openEmulator(options.emulator) : tcc::gpu_attention::openDevice(options.cubins);
  if (!backend)
    throw std::runtime_error("this program was built without the emulator");
  if (command == "case") {
    std::size_t number = std::strtoul(argument.c_str(), nullptr, 10);
    if (argument.empty() || number >= tests.size())
      throw std::runtime_error("case " + argument + ": there are cases 0 to " + std::to_string(tests.size() - 1));
    return runCase(*backend, tests[number]) ? 0 : 1;
  }
  if (command == "small")
    return small(*backend) ? 0 : 1;
  if (command == "bench" && !argument.empty()) {
    bench(*backend, argument, rehearsal);
    return 0;
  }
  std::fprintf(stderr,
               "usage: gpu_attention [--cubins FOLDER] [--emulator ARCHITECTURE] cases | case N | small | bench "
               "FILE | prebuild ARCHITECTURE\n");
  return 2;
}

} // namespace

int main(int count, char **values) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = values[i];
    if (word == "--cubins" && i + 1 < count)
      options.cubins = values[++i];
    else if (word == "--emulator" && i + 1 < count)
      options.emulator = values[++i];
    else
      options.words.push_back(word);
  }
  try {
    return run(options);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "gpu_attention: %s\n", error.what());
    return 1;
  }
}
