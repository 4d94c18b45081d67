// Each kernel of a plan is run alone, over memory of its own that has the sizes and overlaps of its tensors in the
// plan:
//   1. one number of KernelTuning after the other is varied; each variation runs in turn with the best code so far;
//   2. what comes out runs in turn with the default once more, and is taken if it is clearly faster there too.
// Two codes are compared by the quotients of neighbouring runs, since the speed of shared machines drifts.
#include "codegen/cpu/tune_kernels.h"
#include "codegen/cpu/kernel_plan.h"
#include "codegen/cpu/machine_code.h"
#include "codegen/cpu/shared_code.h"
#include "codegen/graph_digest.h"
#include "codegen/stopwatch.h"
#include "runtime/arena.h"
#include "runtime/chunk_table.h"
#include "runtime/shared_object.h"
#include "runtime/threads.h"
#include "runtime/tuning_file.h"
#include <cstring>

namespace tcc::cpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t leastBytes = int64_t{1} << 20;  // of a call's tensors: smaller ones lie in a core's cache
constexpr int64_t mostBytes = int64_t{384} << 20; // of what a kernel is measured on
constexpr int64_t coldBytes = int64_t{64} << 20;  // a call's tensors have so many copies that these bytes are used
constexpr int64_t mostCopies = 16;
constexpr double clearGain = 0.97;       // of the default's time
constexpr int rounds = 9, fewRounds = 5; // of runs in turn; after a few it may be clear that nothing is gained
constexpr double leastSeconds = 1e-3;    // of a run

/// Memory that all kernels are measured on, one after the other.
using Pool = runtime::Arena;

/// Bytes of the plan that a call uses, and where they lie in the pool.
struct Region {
  runtime::Space space;
  uint32_t index;
  int64_t begin, end;
  int64_t place = 0;
};

/// The code of a kernel under one choice.
struct Code {
  KernelTuning tuning;
  runtime::SharedObject object;
  runtime::KernelFunction function = nullptr;
  runtime::ChunkTable table;
};

/// A call of the plan over memory of its own.
class Bench {
public:
  Bench(const runtime::Plan &plan, const runtime::KernelCall &call, const KernelInfo &form, int threads)
      : plan(plan), form(form), threads(threads) {
    for (const runtime::Segment &segment : call.segments) {
      std::vector<Region> more = regions;
      for (runtime::BufferId id : segment.args)
        addRegion(more, plan.buffers[id]);
      if (bytesOf(more) > mostBytes)
        continue; // of several tensors the smaller ones
      regions = std::move(more);
      segments.push_back(&segment);
    }
  }

  /// Of one copy.
  int64_t bytes() const { return bytesOf(regions); }
  bool isEmpty() const { return segments.empty(); }

  /// Places the tensors and fills them.
  runtime::Error place() {
    int64_t size = 0;
    for (Region &region : regions) {
      region.place = (size + pageBytes - 1) / pageBytes * pageBytes + region.begin % pageBytes;
      size = region.place + region.end - region.begin;
    }
    size = (size + pageBytes - 1) / pageBytes * pageBytes;
    const int64_t copies = std::clamp(coldBytes / std::max<int64_t>(1, bytes()), int64_t{1}, mostCopies);
    auto made = Pool::create(size * copies, pageBytes);
    if (!made)
      return made.error();
    pool = std::move(*made);
    for (int64_t copy = 0; copy < copies; ++copy) {
      arguments.emplace_back();
      for (const runtime::Segment *segment : segments) {
        std::vector<void *> &addresses = arguments.back().emplace_back();
        for (auto [i, id] : llvm::enumerate(segment->args)) {
          const runtime::Buffer &buffer = plan.buffers[id];
          char *const address = pool.data() + copy * size + placeOf(buffer);
          addresses.push_back(address);
          const bool isInput = i < form.arguments.size();
          fill(address, buffer.bytes, isInput ? form.arguments[i].type : form.results[i - form.arguments.size()].type);
        }
      }
    }
    return {};
  }

  /// How the runtime divides the call among threads, with this choice.
  runtime::ChunkTable tableOf(const KernelTuning &tuning) const {
    const KernelLaunch launch = launchOf(form, tuning);
    std::vector<int64_t> extents;
    for (const runtime::Segment *segment : segments)
      extents.push_back(form.isSegment() ? segment->extent : launch.extent);
    return runtime::cutSegments(extents, launch.granularity, threads);
  }

  /// The seconds of one call, over the copy that was used longest ago.
  double run(const Code &code) {
    const auto start = Clock::now();
    const std::vector<std::vector<void *>> &addresses = arguments[next++ % arguments.size()];
    runtime::parallelRun(code.table.busyParts, [&](int64_t part) {
      for (uint32_t i = code.table.partBegin[part]; i < code.table.partBegin[part + 1]; ++i) {
        const runtime::Chunk &chunk = code.table.chunks[i];
        code.function(chunk.begin, chunk.end, addresses[chunk.segment].data());
      }
    });
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  /// The seconds of `calls` calls.
  double run(const Code &code, int calls) {
    double seconds = 0;
    for (int i = 0; i < calls; ++i)
      seconds += run(code);
    return seconds;
  }

private:
  static constexpr int64_t pageBytes = 4096;
  const runtime::Plan &plan;
  const KernelInfo &form;
  const int threads;
  std::vector<const runtime::Segment *> segments;
  std::vector<Region> regions;
  Pool pool;
  std::vector<std::vector<std::vector<void *>>> arguments; // for each copy and segment
  size_t next = 0;

  static int64_t bytesOf(llvm::ArrayRef<Region> regions) {
    int64_t bytes = 0;
    for (const Region &region : regions)
      bytes += region.end - region.begin;
    return bytes;
  }

  /// Buffers that overlap are one region.
  static void addRegion(std::vector<Region> &regions, const runtime::Buffer &buffer) {
    Region added{buffer.space, buffer.index, buffer.offset, buffer.offset + buffer.bytes};
    llvm::erase_if(regions, [&](const Region &other) {
      const bool overlaps = other.space == added.space && other.index == added.index && other.begin < added.end &&
                            added.begin < other.end;
      if (overlaps) {
        added.begin = std::min(added.begin, other.begin);
        added.end = std::max(added.end, other.end);
      }
      return overlaps;
    });
    regions.push_back(added);
  }

  int64_t placeOf(const runtime::Buffer &buffer) const {
    for (const Region &region : regions)
      if (region.space == buffer.space && region.index == buffer.index && region.begin <= buffer.offset &&
          buffer.offset + buffer.bytes <= region.end)
        return region.place + buffer.offset - region.begin;
    return 0; // an empty buffer, of which nothing is read
  }

  /// Numbers of usual size: floats from 0.5 to 2, whichever of their types reads them, and small integers.
  static void fill(char *memory, int64_t bytes, ElementType type) {
    uint32_t state = 12345;
    const auto random = [&] { return (state = state * 1664525u + 1013904223u) >> 16; };
    if (type == ElementType::i1) {
      std::memset(memory, 1, static_cast<size_t>(bytes));
    } else if (!facts(type).isFloat) {
      const int64_t size = facts(type).bytes;
      std::memset(memory, 0, static_cast<size_t>(bytes));
      for (int64_t i = 0; i + size <= bytes; i += size) {
        const auto number = static_cast<uint16_t>(random() % 1024);
        std::memcpy(memory + i, &number, sizeof number);
      }
    } else {
      for (int64_t i = 0; i + 2 <= bytes; i += 2) {
        const auto half = static_cast<uint16_t>(0x3f00u + random() % 128);
        std::memcpy(memory + i, &half, sizeof half);
      }
    }
  }
};

/// The median and the third quartile of what runs of `other` take beside those of `base`.
struct Comparison {
  double median = 1, quartile = 1;
  bool isClearGain() const { return median < clearGain && quartile < 1; }
};

Comparison compare(Bench &bench, const Code &base, const Code &other) {
  bench.run(other); // its pages and code are there
  const double once = std::max(bench.run(base), 1e-6);
  const int calls = static_cast<int>(std::clamp(leastSeconds / once, 1.0, 1000.0));
  std::vector<double> quotients;
  const auto at = [&](double share) {
    std::vector<double> sorted = quotients;
    llvm::sort(sorted);
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
  };
  for (int round = 0; round < rounds; ++round) {
    double own = 0, others = 0;
    if (round % 2 == 0)
      own = bench.run(base, calls);
    others = bench.run(other, calls);
    if (round % 2 != 0)
      own = bench.run(base, calls);
    quotients.push_back(others / own);
    if (round + 1 == fewRounds && at(0.5) > (1 + clearGain) / 2)
      break;
  }
  return {at(0.5), at(0.75)};
}

runtime::Expected<std::vector<Code>> compile(const FormKernel &kernel, llvm::ArrayRef<KernelTuning> tunings,
                                             const EmitOptions &emit, const Bench &bench) {
  std::vector<KernelSource> sources;
  for (const KernelTuning &tuning : tunings)
    sources.push_back(
        FormKernel{.symbol = "variant" + std::to_string(sources.size()), .form = kernel.form, .tuning = tuning.text()});
  std::vector<Code> codes;
  for (auto [source, tuning] : llvm::zip_equal(sources, tunings)) {
    SharedCode code(source, emit);
    if (runtime::Error problem = code.compileMissing())
      return problem;
    const runtime::Expected<std::string> linked = code.link();
    if (!linked)
      return linked.error();
    auto object = runtime::SharedObject::load(*linked, "tuning");
    if (!object)
      return object.error();
    Code made{tuning, std::move(*object), nullptr, bench.tableOf(tuning)};
    made.function = reinterpret_cast<runtime::KernelFunction>(made.object.symbol(symbolOf(source)));
    codes.push_back(std::move(made));
  }
  return codes;
}

/// The best choice for one kernel, and how many times as fast as the default it is.
struct Choice {
  KernelTuning tuning;
  double gain = 1;
};

/// Nothing if `isOver` says that the time is over.
runtime::Expected<std::optional<Choice>> choose(const FormKernel &kernel, Bench &bench, const EmitOptions &emit,
                                                int threads, llvm::function_ref<bool()> isOver) {
  auto compiled = compile(kernel, KernelTuning(), emit, bench);
  if (!compiled)
    return compiled.error();
  const Code base = std::move(compiled->front());
  std::optional<Code> best;
  for (TunedNumber number : tunedNumbers) {
    const KernelTuning from = best ? best->tuning : base.tuning;
    auto variations =
        compile(kernel, variationsOf(kernel.form, from, number, emit.steady, emit.fastMath, threads), emit, bench);
    if (!variations)
      return variations.error();
    Code *fastest = nullptr;
    double least = 1;
    for (Code &variation : *variations) {
      if (isOver())
        return std::optional<Choice>();
      const Comparison compared = compare(bench, best ? *best : base, variation);
      if (compared.isClearGain() && compared.median < least) {
        least = compared.median;
        fastest = &variation;
      }
    }
    if (fastest) {
      Code taken = std::move(*fastest);
      best = std::move(taken);
    }
  }
  if (!best)
    return std::optional(Choice());
  // The best of several measurements was lucky, too: it is measured anew.
  const Comparison compared = compare(bench, base, *best);
  return std::optional(compared.isClearGain() ? Choice{best->tuning, 1 / compared.median} : Choice());
}

/// A kernel, and the call of the plan that moves most bytes.
struct Candidate {
  size_t kernel;
  const runtime::KernelCall *call;
  int64_t bytes;    // of this call
  int64_t allBytes; // of all calls
};

std::vector<Candidate> candidatesOf(llvm::ArrayRef<KernelSource> kernels, const runtime::Plan &plan) {
  std::map<size_t, Candidate> found;
  for (const runtime::Instruction &instruction : plan.instructions) {
    const auto *call = std::get_if<runtime::KernelCall>(&instruction.call);
    if (!call || !std::holds_alternative<FormKernel>(kernels[call->kernel]))
      continue;
    Candidate &candidate = found.try_emplace(call->kernel, Candidate{call->kernel, call, 0, 0}).first->second;
    candidate.allBytes += instruction.bytes;
    if (instruction.bytes > candidate.bytes) {
      candidate.bytes = instruction.bytes;
      candidate.call = call;
    }
  }
  std::vector<Candidate> sorted;
  llvm::append_range(sorted, llvm::make_second_range(found));
  llvm::stable_sort(sorted, [](const Candidate &a, const Candidate &b) { return a.allBytes > b.allBytes; });
  return sorted;
}

void apply(const KernelTuning &tuning, size_t number, std::vector<KernelSource> &kernels, runtime::Plan &plan) {
  auto &kernel = std::get<FormKernel>(kernels[number]);
  kernel.tuning = tuning.text();
  if (kernel.form.isSegment())
    return; // its items are those of its tensors
  const KernelLaunch launch = launchOf(kernel.form, tuning);
  for (runtime::Instruction &instruction : plan.instructions)
    if (auto *call = std::get_if<runtime::KernelCall>(&instruction.call); call && call->kernel == number) {
      call->granularity = launch.granularity;
      for (runtime::Segment &segment : call->segments)
        segment.extent = launch.extent;
    }
}

} // namespace

runtime::Expected<TuningReport> tuneKernels(std::vector<KernelSource> &kernels, runtime::Plan &plan,
                                            const EmitOptions &emit, const std::string &machine,
                                            const TuningOptions &options) {
  TuningReport report;
  const auto start = Clock::now();
  const auto isOver = [&] { return millisecondsSince(start) >= options.seconds * 1e3; };
  auto opened = runtime::TuningFile::open(options.file);
  if (!opened && options.isOfUser)
    return opened.error();
  if (!opened)
    report.notKept = opened.error().message();
  runtime::TuningFile none, &file = opened ? *opened : none;
  runtime::Expected<std::string> key = machineKey(emit);
  if (!key)
    return key.error();
  const runtime::ThreadCountScope scope(options.threads);
  std::map<std::string, std::string> fresh;
  for (const Candidate &candidate : candidatesOf(kernels, plan)) {
    const auto &kernel = std::get<FormKernel>(kernels[candidate.kernel]);
    const std::string name = "kernel " + hexDigest(*key + bytesOf(kernel.form)) + " on " + machine + ", " +
                             std::to_string(options.threads) + " threads";
    if (const std::optional<std::string> known = file.choice(name)) {
      const std::optional<KernelTuning> tuning = KernelTuning::of(*known);
      if (!tuning && options.isOfUser)
        return runtime::Error("tuning file `" + options.file + "`: " + name + " is '" + *known +
                              "', which is no choice for a kernel");
      if (tuning) {
        ++report.kept;
        report.choices[name] = *known;
        if (*tuning != KernelTuning())
          report.tuned.push_back({candidate.kernel, *known});
        apply(*tuning, candidate.kernel, kernels, plan);
        continue;
      }
    }
    Bench bench(plan, *candidate.call, kernel.form, options.threads);
    if (bench.isEmpty() || bench.bytes() < leastBytes) {
      ++report.small;
      continue;
    }
    if (isOver()) {
      ++report.left;
      continue;
    }
    if (runtime::Error problem = bench.place())
      return problem;
    auto choice = choose(kernel, bench, emit, options.threads, isOver);
    if (!choice)
      return choice.error();
    if (!*choice) {
      ++report.left;
      continue;
    }
    ++report.measured;
    const std::string text = (*choice)->tuning.text();
    fresh[name] = report.choices[name] = text;
    if (!text.empty())
      report.tuned.push_back({candidate.kernel, text, (*choice)->gain});
    apply((*choice)->tuning, candidate.kernel, kernels, plan);
  }
  report.seconds = millisecondsSince(start) * 1e-3;
  if (fresh.empty())
    return report;
  if (runtime::Error problem = file.addChoices(fresh)) {
    if (options.isOfUser)
      return problem;
    report.notKept = problem.message();
  }
  return report;
}

} // namespace tcc::cpu
