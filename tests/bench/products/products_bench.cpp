// Matmuls of the steps of char (B16 T256) and gpt2 (1024 tokens), and odd ones: runtime/gemm.h beside other libraries,
// in one process, by turns with a bare loop of multiply-adds in registers, as medians and as shares of that loop.
// Operands are cold, as those of a long step: each run takes others than the one before. With one thread the clock is
// the processor time, so that other programs disturb less. What a library computes is compared with ours.
#include "runtime/cpu.h"
#include "runtime/gemm.h"
#include "runtime/machine_limits.h"
#include "runtime/memory.h"
#include "runtime/threads.h"
#include "tests/bench/median.h"
#include "tests/bench/products/libraries.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace {

using namespace tcc::runtime;
using namespace tcc::bench;
using Json = nlohmann::ordered_json;

struct Settings {
  int threads = availableThreads();
  double seconds = 1; // a shape
  bool isCold = true;
  std::vector<std::string> groups;
  std::vector<std::unique_ptr<Library>> libraries;
};

double now(int threads) {
  timespec time;
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Buffers that runs take in turn.
struct Operands {
  std::vector<TensorStorage> a, b, c;
  Operands(const GemmExtents &extents, DType dtype, bool isCold) {
    constexpr int64_t beyondCaches = int64_t{96} << 20;
    const int64_t bytes = extents.a + extents.b + extents.c;
    const int64_t sets = isCold ? std::clamp<int64_t>(beyondCaches / bytes + 1, 2, 64) : 1;
    uint32_t state = 1;
    for (int64_t i = 0; i < sets; ++i)
      for (auto [list, size] : {std::pair{&a, extents.a}, {&b, extents.b}, {&c, extents.c}}) {
        list->push_back(std::move(*TensorStorage::allocate(size)));
        for (int64_t j = 0; j < size / byteSize(dtype); ++j) {
          state = state * 1664525u + 1013904223u;
          const float value = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
          if (dtype == DType::f32)
            static_cast<float *>(list->back().data())[j] = value;
          else
            static_cast<uint16_t *>(list->back().data())[j] = floatToBf16(value);
        }
      }
  }
};

/// Who multiplies, and how long each run took.
struct Contestant {
  std::string name;
  DType dtype;
  Run run;
  std::vector<double> times = {};
};

Run ours(const GemmDesc &desc, int threads, std::string &name) {
  auto gemm = Gemm::create(desc, threads);
  if (!gemm) {
    std::fprintf(stderr, "%s\n", gemm.error().message().c_str());
    std::exit(1);
  }
  name = gemm->implementation();
  auto scratch = TensorStorage::allocate(gemm->scratchpadBytes());
  auto product = std::make_shared<std::pair<Gemm, TensorStorage>>(std::move(*gemm), std::move(*scratch));
  return [product](const void *a, const void *b, void *c) {
    product->first.run(a, b, c, nullptr, product->second.data());
  };
}

/// Ends the program where two results of one matmul differ by more than sums in another order do.
void compare(const Contestant &left, const Contestant &right, const Operands &operands, const Shape &shape) {
  const TensorStorage &a = operands.a[0], &b = operands.b[0], &c = operands.c[0];
  const auto count = static_cast<size_t>(shape.batch * shape.m * shape.n);
  const auto *result = static_cast<const float *>(c.data());
  left.run(a.data(), b.data(), const_cast<void *>(c.data()));
  const std::vector<float> expected(result, result + count);
  right.run(a.data(), b.data(), const_cast<void *>(c.data()));
  const double most = 1e-5 * std::sqrt(static_cast<double>(shape.k)); // of random signs
  for (size_t i = 0; i < count; ++i)
    if (!(std::abs(result[i] - expected[i]) <= most)) {
      std::fprintf(stderr, "%s: %s and %s differ at %zu: %g and %g\n", shape.text().c_str(), left.name.c_str(),
                   right.name.c_str(), i, expected[i], result[i]);
      std::exit(1);
    }
}

/// Seconds of each contestant by name and type, and what a bare loop would take for the f32 matmul.
struct Seconds {
  std::map<std::pair<std::string, DType>, double> by;
  double bare = 0;
};

constexpr const char *own = "tcc";

std::vector<Contestant> contestantsFor(const Shape &shape, const Settings &settings, std::string &implementation) {
  std::vector<Contestant> list;
  std::string narrow;
  list.push_back({own, DType::f32, ours(descOf(shape, DType::f32), settings.threads, implementation)});
  list.push_back({own, DType::bf16, ours(descOf(shape, DType::bf16), settings.threads, narrow)});
  for (const std::unique_ptr<Library> &library : settings.libraries)
    for (const DType dtype : {DType::f32, DType::bf16})
      if (Run run = library->matmul(shape, dtype))
        list.push_back({library->name(), dtype, std::move(run)});
  return list;
}

Seconds measure(const Shape &shape, const Settings &settings, std::string &implementation) {
  std::vector<Contestant> contestants = contestantsFor(shape, settings, implementation);
  const GemmDesc wide = descOf(shape, DType::f32), narrow = descOf(shape, DType::bf16);
  const Operands ofWide(*gemmExtents(wide), DType::f32, settings.isCold);
  const Operands ofNarrow(*gemmExtents(narrow), DType::bf16, settings.isCold);
  for (const Contestant &contestant : contestants)
    if (contestant.dtype == DType::f32)
      compare(contestants[0], contestant, ofWide, shape);
  // Short matmuls are timed several at a time.
  const double guess = static_cast<double>(wide.flops()) / (30e9 * settings.threads) + 1e-6;
  const int repeats = std::max(1, static_cast<int>(30e-6 / guess));
  constexpr int clock = 2, leastRounds = 5;
  const double begin = now(clock);
  size_t turn = 0;
  std::vector<double> bareRates;
  for (int round = 0; round < leastRounds || now(clock) - begin < settings.seconds; ++round) {
    constexpr double moment = 1e-3;
    bareRates.push_back(measureBareLoop(DType::f32, settings.threads, moment));
    for (Contestant &contestant : contestants) {
      const Operands &operands = contestant.dtype == DType::f32 ? ofWide : ofNarrow;
      const double start = now(settings.threads);
      for (int i = 0; i < repeats; ++i, ++turn) {
        const size_t at = turn % operands.a.size();
        contestant.run(operands.a[at].data(), operands.b[at].data(), const_cast<void *>(operands.c[at].data()));
      }
      if (round > 0)
        contestant.times.push_back((now(settings.threads) - start) / repeats);
    }
  }
  Seconds result;
  for (const Contestant &contestant : contestants)
    result.by[{contestant.name, contestant.dtype}] = median(contestant.times);
  result.bare = static_cast<double>(wide.flops()) / median(bareRates);
  return result;
}

/// "oneDNN 2.6 1.10 (bf16 0.98)": how many times as long it takes as ours.
std::string besideOurs(const std::string &name, const Seconds &seconds) {
  std::string text = "  " + name;
  for (const DType dtype : {DType::f32, DType::bf16})
    if (const auto found = seconds.by.find({name, dtype}); found != seconds.by.end()) {
      char ratio[32];
      std::snprintf(ratio, sizeof ratio, dtype == DType::f32 ? " %.2f" : " (bf16 %.2f)",
                    found->second / seconds.by.at({own, dtype}));
      text += ratio;
    }
  return text;
}

Json inJson(const Seconds &seconds, const Settings &settings) {
  Json list = Json::object();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    list[own][std::string(tcc::runtime::name(dtype))] = seconds.by.at({own, dtype});
    for (const std::unique_ptr<Library> &library : settings.libraries)
      if (const auto found = seconds.by.find({library->name(), dtype}); found != seconds.by.end())
        list[library->name()][std::string(tcc::runtime::name(dtype))] = found->second;
  }
  return {{"bare_seconds", seconds.bare}, {"seconds", list}};
}

void print(FILE *out, const std::string &what, const std::string &rate, const Seconds &seconds,
           const Settings &settings) {
  const double wide = seconds.by.at({own, DType::f32});
  std::fprintf(out, "%-40s %s %5.2f of bare, bf16 %5.2f of f32 |", what.c_str(), rate.c_str(), seconds.bare / wide,
               wide / seconds.by.at({own, DType::bf16}));
  for (const std::unique_ptr<Library> &library : settings.libraries)
    std::fprintf(out, "%s", besideOurs(library->name(), seconds).c_str());
  std::fprintf(out, "\n");
  std::fflush(out);
}

/// Measures all shapes, prints them, and gives all figures.
Json measureAll(const Settings &settings, FILE *out) {
  std::fprintf(out, "%d threads, %s operands, %s; after the bar how many times as long the others take as tcc\n",
               settings.threads, settings.isCold ? "cold" : "warm", productInstructions().c_str());
  Json shapes = Json::array(), steps = Json::object();
  std::map<std::string, Seconds> totals;
  for (const Shape &shape : allShapes()) {
    if (std::ranges::find(settings.groups, shape.group) == settings.groups.end())
      continue;
    std::string implementation;
    const Seconds seconds = measure(shape, settings, implementation);
    print(out, shape.group + " " + shape.text(),
          rateText(static_cast<double>(descOf(shape, DType::f32).flops()) / seconds.by.at({own, DType::f32})), seconds,
          settings);
    Json row = {{"group", shape.group},
                {"m", shape.m},
                {"n", shape.n},
                {"k", shape.k},
                {"transpose_a", shape.transposeA},
                {"transpose_b", shape.transposeB},
                {"batch", shape.batch},
                {"count", shape.count},
                {"implementation", implementation}};
    row.update(inJson(seconds, settings));
    shapes.push_back(std::move(row));
    if (shape.count == 0)
      continue;
    Seconds &total = totals[shape.group];
    total.bare += shape.count * seconds.bare;
    for (const auto &[who, time] : seconds.by)
      total.by[who] += shape.count * time;
  }
  for (const auto &[group, total] : totals) {
    char text[32];
    std::snprintf(text, sizeof text, "%8.1f ms", total.by.at({own, DType::f32}) * 1e3);
    print(out, "all of a step of " + group, text, total, settings);
    steps[group] = inJson(total, settings);
  }
  return {{"threads", settings.threads},
          {"cold", settings.isCold},
          {"instructions", productInstructions()},
          {"shapes", shapes},
          {"steps", steps}};
}

/// Libraries read their number of threads from the environment when a program begins.
void beginWithThreads(int threads, char **arguments) {
  const std::string count = std::to_string(threads);
  bool isSet = true;
  for (const char *variable : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"}) {
    const char *value = std::getenv(variable);
    isSet = isSet && value && value == count;
    setenv(variable, count.c_str(), /*overwrite=*/1);
  }
  if (!isSet)
    execv("/proc/self/exe", arguments);
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Matmuls of training steps beside a bare loop of multiply-adds and other libraries.");
  Settings settings;
  std::vector<std::string> libraries;
  std::string json;
  bool isWarm = false, isAlone = false;
  app.add_option("--threads", settings.threads, "all by default")->check(CLI::Range(1, 1024));
  app.add_option("--seconds", settings.seconds, "a shape (1)")->check(CLI::Range(0.0, 1000.0));
  app.add_flag("--warm", isWarm, "each run takes the same operands");
  app.add_option("--library", libraries,
                 "NAME=FILE.so: f32 matmuls of another library: any BLAS, MKL, oneDNN, PyTorch's libtorch_cpu.so")
      ->allow_extra_args(false);
  app.add_flag("--no-onednn", isAlone, "without the oneDNN that this program is linked with");
  app.add_option("--json", json, "write the figures to a file; - is stdout");
  app.add_option("groups", settings.groups, "char, gpt2, odd, batched, small (all but small)")
      ->check(CLI::IsMember({"char", "gpt2", "odd", "batched", "small"}));
  CLI11_PARSE(app, argc, argv);
  beginWithThreads(settings.threads, argv);
  setThreadCount(settings.threads);
  settings.isCold = !isWarm;
  if (settings.groups.empty())
    settings.groups = {"char", "gpt2", "odd", "batched"};
  if (auto linked = isAlone ? nullptr : linkedOneDnn())
    settings.libraries.push_back(std::move(linked));
  for (const std::string &word : libraries) {
    const size_t sign = word.find('=');
    auto opened = sign == std::string::npos || sign == 0
                      ? Expected<std::unique_ptr<Library>>(Error("NAME=FILE.so is expected"))
                      : openLibrary(word.substr(0, sign), word.substr(sign + 1));
    if (!opened) {
      std::fprintf(stderr, "--library=%s: %s\n", word.c_str(), opened.error().message().c_str());
      return 2;
    }
    settings.libraries.push_back(std::move(*opened));
  }
  const Json figures = measureAll(settings, json == "-" ? stderr : stdout);
  if (json == "-")
    std::cout << figures.dump(1) << '\n';
  else if (!json.empty() && !(std::ofstream(json) << figures.dump(1) << '\n')) {
    std::fprintf(stderr, "--json=%s: cannot be written\n", json.c_str());
    return 1;
  }
  return 0;
}
