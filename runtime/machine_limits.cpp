// Measuring: the best of repeated matmuls, and of passes over memory. Remembering: a JSON file a number of threads,
// which counts only for the processor and the instructions of matmuls that it names.
#include "runtime/machine_limits.h"
#include "runtime/cpu.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include "runtime/memory.h"
#include "runtime/panels/kernel.h"
#include "runtime/threads.h"
#include "runtime/tiles/multiply.h"
#include "runtime/wait_policy.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

namespace tcc::runtime {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t fileVersion = 3;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The shortest of the runs of `pass` that fit into about `seconds`, at least two; 0 where one fails.
template <typename Pass>
double shortest(double seconds, Pass &&pass) {
  double best = 0;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < 2 || secondsSince(start) < seconds; ++i) {
    const Clock::time_point begin = Clock::now();
    if (!pass())
      return 0;
    const double time = secondsSince(begin);
    best = best == 0 ? time : std::min(best, time);
  }
  return best;
}

/// Values of either sign without pattern, from a small linear congruential generator: products of zeros run faster.
void fillRandom(TensorStorage &matrix, DType dtype, uint32_t state) {
  auto next = [&] {
    state = state * 1664525 + 1013904223;
    return static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
  };
  if (dtype == DType::f32)
    std::ranges::generate(matrix.as<float>(), next);
  else
    std::ranges::generate(matrix.as<uint16_t>(), [&] { return floatToBf16(next()); });
}

constexpr int64_t size = 1024; // of the matmuls that are measured

GemmDesc measuredProduct(DType dtype) {
  const MatrixLayout rowMajor{.dtype = dtype, .rowStride = size};
  GemmDesc desc;
  desc.m = desc.n = desc.k = size;
  desc.a = desc.b = desc.c = rowMajor;
  return desc;
}

/// Operations a second of 1024 x 1024 x 1024 matmuls; 0 where they cannot be made.
double measureProduct(DType dtype, double seconds) {
  const GemmDesc desc = measuredProduct(dtype);
  auto product = Gemm::create(desc, threadCount());
  auto matrix = [dtype] { return TensorStorage::allocate(size * size * byteSize(dtype)); };
  auto a = matrix(), b = matrix(), c = matrix();
  if (!product || !a || !b || !c)
    return 0;
  auto scratch = TensorStorage::allocate(product->scratchpadBytes());
  if (!scratch)
    return 0;
  fillRandom(*a, dtype, 1);
  fillRandom(*b, dtype, 2);
  const double time = shortest(seconds, [&] {
    product->run(a->data(), b->data(), c->data(), nullptr, scratch->data());
    return true;
  });
  return time > 0 ? static_cast<double>(desc.flops()) / time : 0;
}

/// The best of copying and of updating in place tensors that are larger than caches.
double measureBandwidth(double seconds) {
  constexpr int64_t bytes = int64_t{1} << 27;
  auto source = TensorStorage::allocate(bytes), target = TensorStorage::allocate(bytes);
  if (!source || !target)
    return 0;
  constexpr int64_t floats = bytes / static_cast<int64_t>(sizeof(float)), grain = 1024;
  auto *in = static_cast<float *>(source->data()), *out = static_cast<float *>(target->data());
  parallelFor(floats, grain, [&](int64_t begin, int64_t end) { // first touched by the threads that use it
    std::fill(in + begin, in + end, 1.0f);
    std::fill(out + begin, out + end, 1.0f);
  });
  auto copy = [&] {
    parallelFor(floats, grain, [&](int64_t begin, int64_t end) {
      std::memcpy(out + begin, in + begin, static_cast<size_t>(end - begin) * sizeof(float));
    });
    return true;
  };
  auto update = [&] {
    parallelFor(floats, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = out[i] * 0.5f + 0.5f;
    });
    return true;
  };
  return 2.0 * bytes / std::min(shortest(seconds / 2, copy), shortest(seconds / 2, update));
}

/// What the figures hold for: the processor's name, and the level that TCC_CPU shows of it.
std::string processorName() {
  const std::string shown = cpuLimit().empty() ? "" : " as " + std::string(cpuLimit());
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name"))
      return line.substr(std::min(line.size(), line.find(':') + 2)) + shown;
  return "unknown" + shown;
}

std::string rememberedPath(int threads) {
  const std::string folder = cacheFolder("limits");
  return folder.empty() ? folder : (fs::path(folder) / (std::to_string(threads) + "-threads.json")).string();
}

std::optional<MachineLimits> remembered(int threads) {
  const std::string path = rememberedPath(threads);
  auto text = path.empty() ? Expected<std::string>(Error("")) : readFile(path);
  if (!text)
    return std::nullopt;
  auto json = parseJson(*text, 4096, path);
  if (!json || !json->is_object() || json->value("version", Json()) != fileVersion ||
      json->value("processor", Json()) != processorName() ||
      json->value("instructions", Json()) != productInstructions())
    return std::nullopt;
  auto figure = [&](const char *key) {
    const Json value = json->value(key, Json());
    const double number = value.is_number() ? value.get<double>() : -1;
    return number > 0 && number < 1e18 ? number : -1; // what could not be measured then is tried again
  };
  const MachineLimits limits{threads, figure("product_flops"), figure("bf16_product_flops"),
                             figure("bytes_per_second")};
  if (limits.productFlops < 0 || limits.bf16ProductFlops < 0 || limits.bytesPerSecond < 0)
    return std::nullopt;
  return limits;
}

/// The path, or nothing where it cannot be written: the limits are measured again by the next program.
std::string remember(const MachineLimits &limits) {
  const std::string path = rememberedPath(limits.threads);
  if (path.empty())
    return {};
  if (makePrivateFolder(fs::path(path).parent_path().string()))
    return {};
  const Json json = {{"version", fileVersion},
                     {"processor", processorName()},
                     {"instructions", productInstructions()},
                     {"threads", limits.threads},
                     {"product_flops", limits.productFlops},
                     {"bf16_product_flops", limits.bf16ProductFlops},
                     {"bytes_per_second", limits.bytesPerSecond}};
  return writeFileAtomically(path, writeJson(json) + "\n") ? std::string() : path;
}

/// What this process has measured or read, so that it measures only once where no file can be written.
std::mutex limitsMutex;
std::map<int, MachineLimits> known;

MachineLimits &knownLimits(int threads) {
  auto [place, inserted] = known.try_emplace(threads);
  if (inserted) {
    if (const std::optional<MachineLimits> old = remembered(threads)) {
      place->second = *old;
    } else {
      place->second = measureMachineLimits(threads, 0.15);
      remember(place->second);
    }
  }
  return place->second;
}

int threadsOrAll(int threads) {
  return threads > 0 ? threads : availableThreads();
}

constexpr std::array figures{&MachineLimits::productFlops, &MachineLimits::bf16ProductFlops,
                             &MachineLimits::bytesPerSecond};

/// Ticks of all CPUs since the machine began, and how many of them a virtual machine's host gave to others.
std::array<double, 2> cpuTicks() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  in >> cpu;
  std::array<double, 2> ticks{};
  constexpr int fields = 8, stolen = 7;
  for (int i = 0; i < fields; ++i) {
    double value = 0;
    in >> value;
    ticks[0] += value;
    ticks[1] = i == stolen ? value : 0;
  }
  return ticks;
}

/// From its construction on: how much of their time `threads` threads of this process waited for a CPU.
class WaitMeter {
public:
  explicit WaitMeter(int threads) : threads(threads) {}
  double share() const {
    const double time = secondsSince(start) * 1e9 * threads;
    const double queued = static_cast<double>(queuedNanoseconds().value_or(0) - queuedBefore) / time;
    const auto [ticks, stolen] = cpuTicks();
    const double ofHost = ticks > before[0] ? (stolen - before[1]) / (ticks - before[0]) : 0;
    return std::clamp(std::max(queued, ofHost), 0.0, 1.0);
  }

private:
  int threads;
  Clock::time_point start = Clock::now();
  int64_t queuedBefore = queuedNanoseconds().value_or(0);
  std::array<double, 2> before = cpuTicks();
};

} // namespace

std::string rateText(double flops) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f GFLOP/s", flops * 1e-9);
  return text.data();
}

Expected<std::string> productImplementation(DType dtype, int threads) {
  auto product = Gemm::create(measuredProduct(dtype), threadsOrAll(threads));
  return product ? Expected<std::string>(product->implementation()) : product.error();
}

double measureBareLoop(DType dtype, int threads, double seconds) {
  threads = threadsOrAll(threads);
  const ThreadCountScope scope(threads);
  auto rateOf = [&](double (*loop)(int64_t turns), double share) {
    constexpr int64_t turns = 1'000'000; // about as long as a matmul of 1024 rows, which other programs disturb as much
    const double operations = threads * loop(turns); // a first run, which is not timed
    const double time = shortest(share * seconds, [&] {
      parallelRun(threads, [&](int64_t) { loop(turns); });
      return true;
    });
    return operations / time;
  };
  if (!hasTiles())
    return rateOf(panels::bestKernel(dtype).multiplyInRegisters, 1);
  // Matmuls of f32 are six of bf16 there.
  const double byTiles = rateOf(tiles::multiplyInRegisters, 0.5);
  return dtype == DType::f32 ? std::max(byTiles / 6, rateOf(panels::bestKernel(dtype).multiplyInRegisters, 0.5))
                             : byTiles;
}

MachineLimits measureMachineLimits(int threads, double seconds) {
  threads = threadsOrAll(threads);
  const ThreadCountScope scope(threads);
  const double wide = measureProduct(DType::f32, seconds), narrow = measureProduct(DType::bf16, seconds);
  return {threads, wide, multipliesBf16() ? narrow : std::min(narrow, wide), measureBandwidth(seconds)};
}

MachineLimits machineLimits(int threads) {
  const std::lock_guard lock(limitsMutex);
  return knownLimits(threadsOrAll(threads));
}

MachineLimits improvedMachineLimits(int threads, DType dtype, double seconds) {
  const std::lock_guard lock(limitsMutex);
  MachineLimits &limits = knownLimits(threadsOrAll(threads));
  const ThreadCountScope scope(limits.threads);
  const MachineLimits before = limits;
  double &peak = dtype == DType::f32 ? limits.productFlops : limits.bf16ProductFlops;
  peak = std::max(peak, measureProduct(dtype, seconds));
  limits.bytesPerSecond = std::max(limits.bytesPerSecond, measureBandwidth(seconds / 2));
  if (!(limits == before))
    remember(limits);
  return limits;
}

Calibration judgeRounds(const std::vector<LimitsRound> &rounds) {
  constexpr double near = 0.97, quiet = 0.03; // of the best figure; of the time
  Calibration found;
  found.waited = 1;
  for (const LimitsRound &round : rounds) {
    found.limits.threads = round.limits.threads;
    for (double MachineLimits::*figure : figures)
      found.limits.*figure = std::max(found.limits.*figure, round.limits.*figure);
    found.waited = std::min(found.waited, round.waited);
  }
  found.isSure = std::ranges::all_of(figures, [&](double MachineLimits::*figure) {
    return std::ranges::count_if(rounds, [&](const LimitsRound &round) {
             return round.waited < quiet && round.limits.*figure >= near * found.limits.*figure;
           }) >= 2;
  });
  return found;
}

Calibration calibrateMachineLimits(int threads, double seconds, size_t mostRounds) {
  const std::lock_guard lock(limitsMutex);
  threads = threadsOrAll(threads);
  const double longest = 3 * seconds * static_cast<double>(mostRounds); // a busy machine stretches every pass
  const Clock::time_point start = Clock::now();
  std::vector<LimitsRound> rounds;
  Calibration found;
  while (rounds.size() < mostRounds && !found.isSure && secondsSince(start) < longest) {
    const WaitMeter meter(threads);
    const MachineLimits limits = measureMachineLimits(threads, seconds / figures.size());
    rounds.push_back({limits, meter.share()});
    found = judgeRounds(rounds);
  }
  if (const auto old = found.isSure ? std::nullopt : remembered(threads))
    for (double MachineLimits::*figure : figures)
      found.limits.*figure = std::max(found.limits.*figure, (*old).*figure);
  known[threads] = found.limits;
  found.path = remember(found.limits);
  return found;
}

} // namespace tcc::runtime
