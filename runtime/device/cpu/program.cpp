// One step on a CPU: how it runs each kind of instruction (Runner), and the program that loads and places them and runs
// one after another.
#include "runtime/device/cpu/program.h"
#include "runtime/chunk_table.h"
#include "runtime/custom_call.h"
#include "runtime/exchange.h"
#include "runtime/profiler.h"
#include "runtime/shared_object.h"
#include "runtime/threads.h"
#include "runtime/wait_policy.h"
#include <algorithm>
#include <cstring>
#include <map>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime {
namespace {

constexpr int64_t parallelCopyBytes = int64_t{1} << 20;

// Rounding and exception masks of the float unit; its sticky exception flags may change.
unsigned floatControl() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu;
#else
  return 0;
#endif
}

/// Work that one thread finishes before a second one has been woken.
bool isTooSmallToShare(const Instruction &instruction) {
  constexpr int64_t fewBytes = 32 << 10, fewFlops = 128 << 10;
  return instruction.bytes <= fewBytes && instruction.flops <= fewFlops;
}

std::string_view nameOf(const LinkedKernel &kernel) {
  return kernel.symbol;
}

/// What the runners of a program's instructions share.
struct Step {
  Step(const Plan &plan, const ProgramOptions &options) : plan(plan), options(options) {}
  virtual ~Step() = default;

  /// Runs instructions [begin, end), with the parts of those among them.
  virtual Error runList(size_t begin, size_t end, Profiler *profiler) = 0;

  /// The kernel's function, or null.
  KernelFunction functionOf(const KernelCode &kernel) const {
    if (options.linked.empty())
      return reinterpret_cast<KernelFunction>(modules[kernel.module].symbol(kernel.symbol));
    const auto found = std::ranges::lower_bound(options.linked, kernel.symbol, {}, nameOf);
    return found != options.linked.end() && nameOf(*found) == kernel.symbol ? found->function : nullptr;
  }

  char *at(BufferId id) const { return id == noBuffer ? nullptr : pointers[id]; }

  /// Lets collectives in flight go on, where the engine moves bytes only while it is asked.
  Error pollFlights() {
    for (auto &[flight, works] : flights)
      while (!works.empty()) {
        const Expected<bool> over = options.ranks->isOver(works.back());
        if (!over)
          return over.error();
        if (!*over)
          break;
        works.pop_back();
      }
    return Error::success();
  }
  Error waitFor(std::span<const RankWork> works) const {
    for (RankWork work : works)
      if (Error error = options.ranks->wait(work))
        return error;
    return Error::success();
  }

  const Plan &plan;
  ProgramOptions options;
  std::vector<SharedObject> modules;                                // none where kernels are linked
  std::vector<std::pair<GemmDesc, std::shared_ptr<Gemm>>> products; // equal ones share one
  std::vector<char *> pointers;                                     // one a buffer
  int64_t own = 0;                                                  // bytes of code and of what was allocated
  std::map<int64_t, std::vector<RankWork>> flights;                 // by number: what is not known to be over
};

void copyBytes(char *target, const char *source, int64_t bytes) {
  if (bytes < parallelCopyBytes) {
    if (bytes > 0)
      std::memcpy(target, source, static_cast<size_t>(bytes));
    return;
  }
  parallelFor(bytes, 4096, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

/// An instruction of the list on its way.
struct Running {
  size_t index;
  Profiler *profiler;
};

/// How a CPU runs a kind of instruction, with what it needs: prepare() when code is loaded, place() whenever addresses
/// are new, run() in each step. There is one for each kind.
template <typename Call>
struct Runner;

/// The parts of a runner that has nothing to keep.
struct StatelessRunner {
  Error prepare(Step &, const Instruction &, const auto &) { return Error::success(); }
  void place(const Step &, const auto &) {}
};

template <>
struct Runner<KernelCall> {
  KernelFunction function = nullptr;
  std::vector<std::vector<void *>> args; // one list a segment
  ChunkTable table;

  Error prepare(Step &step, const Instruction &instruction, const KernelCall &call) {
    const KernelCode &kernel = step.plan.kernels[call.kernel];
    function = step.functionOf(kernel);
    if (!function)
      return Error("the artefact's machine code has no symbol `" + kernel.symbol + "`");
    std::vector<int64_t> extents;
    for (const Segment &segment : call.segments) {
      extents.push_back(segment.extent);
      args.emplace_back(segment.args.size());
    }
    table = cutSegments(extents, call.granularity, isTooSmallToShare(instruction) ? 1 : step.options.threads);
    return Error::success();
  }
  void place(const Step &step, const KernelCall &call) {
    for (size_t segment = 0; segment < call.segments.size(); ++segment)
      for (size_t arg = 0; arg < call.segments[segment].args.size(); ++arg)
        args[segment][arg] = step.pointers[call.segments[segment].args[arg]];
  }
  Error run(Step &, const KernelCall &, const Running &) const {
    parallelRun(table.busyParts, [&](int64_t part) {
      for (uint32_t i = table.partBegin[part]; i < table.partBegin[part + 1]; ++i) {
        const Chunk &chunk = table.chunks[i];
        function(chunk.begin, chunk.end, args[chunk.segment].data());
      }
    });
    return Error::success();
  }
};

template <>
struct Runner<MatmulCall> {
  std::shared_ptr<Gemm> gemm;
  TensorStorage extraScratch; // when this thread count needs more than the plan has
  bool keepsPacked = false;   // whether the plan has room for b as this machine packs it

  Error prepare(Step &step, const Instruction &, const MatmulCall &call) {
    const int64_t dense = call.desc.batchCount() * call.desc.m * call.desc.n * byteSize(call.desc.c.dtype);
    if (call.addend != noBuffer && gemmExtents(call.desc)->c != dense) // it is copied to c first, gaps and all
      return Error("product " + describe(call.desc) +
                   " adds a tensor that is not c; on a CPU it needs a c whose elements lie side by side");
    for (const auto &[desc, known] : step.products)
      if (!gemm && desc == call.desc)
        gemm = known;
    if (!gemm) {
      auto made = Gemm::create(call.desc, step.options.threads);
      if (!made)
        return made.error();
      gemm = std::make_shared<Gemm>(std::move(*made));
      step.products.emplace_back(call.desc, gemm);
    }
    auto plannedBytes = [&](BufferId id) { return id == noBuffer ? 0 : step.plan.buffers[id].bytes; };
    keepsPacked = gemm->packedBytes() > 0 && gemm->packedBytes() <= plannedBytes(call.packed);
    const int64_t planned = plannedBytes(call.scratch);
    if (gemm->scratchpadBytes() <= planned)
      return Error::success();
    auto extra = TensorStorage::allocate(gemm->scratchpadBytes());
    if (!extra)
      return extra.error();
    step.own += extra->bytes();
    extraScratch = std::move(*extra);
    return Error::success();
  }
  void place(const Step &, const MatmulCall &) {}
  Error run(Step &step, const MatmulCall &call, const Running &) const {
    if (call.addend != noBuffer) // matmuls add to what is there
      copyBytes(step.at(call.c), step.at(call.addend), gemmExtents(call.desc)->c);
    void *scratch = extraScratch.data() ? extraScratch.data() : step.at(call.scratch);
    const PackedOperand packed = keepsPacked ? PackedOperand{step.at(call.packed), call.isPacked} : PackedOperand();
    gemm->run(step.at(call.a), step.at(call.b), step.at(call.c), step.at(call.bias), scratch, packed);
    return Error::success();
  }
};

template <>
struct Runner<CopyCall> : StatelessRunner {
  Error run(Step &step, const CopyCall &call, const Running &) const {
    copyBytes(step.at(call.target), step.at(call.source), step.plan.buffers[call.source].bytes);
    return Error::success();
  }
};

template <>
struct Runner<FillCall> : StatelessRunner {
  Error run(Step &step, const FillCall &call, const Running &) const {
    const int64_t bytes = step.plan.buffers[call.target].bytes;
    if (bytes > 0)
      std::memset(step.at(call.target), call.value, static_cast<size_t>(bytes));
    return Error::success();
  }
};

template <>
struct Runner<CustomCall> {
  CustomFunction function;
  std::vector<char *> inputs, outputs;

  Error prepare(Step &, const Instruction &, const CustomCall &call) {
    auto found = CustomFunction::find(call);
    if (!found)
      return found.error();
    function = std::move(*found);
    return Error::success();
  }
  void place(const Step &step, const CustomCall &call) {
    const auto addresses = [&](const std::vector<CustomTensor> &tensors) {
      std::vector<char *> list;
      for (const CustomTensor &tensor : tensors)
        list.push_back(step.pointers[tensor.buffer]);
      return list;
    };
    inputs = addresses(call.inputs);
    outputs = addresses(call.outputs);
  }
  Error run(Step &step, const CustomCall &call, const Running &) const {
    return step.options.checked ? function.runGuarded(call, inputs, outputs) : function.run(call, inputs, outputs);
  }
};

template <>
struct Runner<LaunchCall> {
  Error prepare(Step &, const Instruction &, const LaunchCall &) {
    return Error("it launches a kernel of a GPU; a CPU calls kernels");
  }
  void place(const Step &, const LaunchCall &) {}
  Error run(Step &, const LaunchCall &, const Running &) const { return Error::success(); } // prepare() refuses
};

template <>
struct Runner<BranchCall> : StatelessRunner {
  Error run(Step &step, const BranchCall &call, const Running &running) const {
    const size_t first = running.index + 1, middle = first + call.then;
    return *step.at(call.predicate) ? step.runList(first, middle, running.profiler)
                                    : step.runList(middle, middle + call.otherwise, running.profiler);
  }
};

template <>
struct Runner<LoopCall> : StatelessRunner {
  Error run(Step &step, const LoopCall &call, const Running &running) const {
    const size_t first = running.index + 1;
    for (int64_t turn = 0; turn < call.count; ++turn) {
      for (const LoopSlice &slice : call.slices) {
        const int64_t bytes = step.plan.buffers[slice.target].bytes;
        copyBytes(step.at(slice.target), step.at(slice.source) + turn * bytes, bytes);
      }
      if (Error error = step.runList(first, first + call.body, running.profiler))
        return error;
    }
    return Error::success();
  }
};

template <>
struct Runner<CollectiveCall> {
  RankExchange exchange;

  Error prepare(Step &step, const Instruction &, const CollectiveCall &call) {
    auto made = RankExchange::of(call, step.plan, step.options.ranks.get());
    if (!made)
      return made.error();
    exchange = std::move(*made);
    return Error::success();
  }
  void place(const Step &, const CollectiveCall &) {}
  Error run(Step &step, const CollectiveCall &call, const Running &) const {
    for (const ExchangeCopy &copy : exchange.copies) {
      char *to = step.at(copy.target) + copy.to;
      if (copy.source == noBuffer)
        std::memset(to, 0, static_cast<size_t>(copy.bytes));
      else
        copyBytes(to, step.at(copy.source) + copy.from, copy.bytes);
    }
    std::vector<RankWork> works;
    const auto address = [&](BufferId id) { return step.at(id); };
    if (Error error = exchange.start(call, step.plan, step.options.ranks.get(), address, works))
      return error;
    if (call.flight == 0)
      return step.waitFor(works);
    step.flights[call.flight] = std::move(works);
    return Error::success();
  }
};

template <>
struct Runner<WaitCall> : StatelessRunner {
  Error run(Step &step, const WaitCall &call, const Running &) const {
    const auto works = step.flights.extract(call.flight);
    return works ? step.waitFor(works.mapped()) : Error("nothing is in flight"); // validatePlan() refuses
  }
};

using AnyRunner = RunnersOf<Runner>::Any;

class CpuProgram final : public Program, private Step {
public:
  CpuProgram(const Plan &plan, const ProgramOptions &options, std::shared_ptr<Arena> arena)
      : Step(plan, options), arena(std::move(arena)) {}

  Error load(std::span<const std::string> code);
  Error place(const Placement &placement) override;
  Error run(Profiler *profiler) override { return runPart(0, runners.size(), profiler); }
  Error runPart(size_t begin, size_t end, Profiler *profiler) override;
  Error finish() override { return Error::success(); }
  int64_t ownBytes() const override { return own; }
  int64_t arenaTouched() const override {
    return options.checked ? touchedBytes : arena->residentBytes(plan.arenaBytes);
  }
  int threads() const override { return options.threads; }

private:
  /// What action(runner, call) gives for instruction `index`.
  template <typename Action>
  auto withRunner(size_t index, Action &&action) {
    return std::visit(
        [&]<typename Call>(const Call &call) { return action(std::get<Runner<Call>>(runners[index]), call); },
        plan.instructions[index].call);
  }
  Error runList(size_t begin, size_t end, Profiler *profiler) override;
  Error runStretch(size_t begin, size_t end, Profiler *profiler);
  Error executeRange(size_t begin, size_t end, Profiler *profiler);
  Error executeChecked(size_t begin, size_t end, Profiler *profiler);
  void poison();
  XXH128_hash_t hashReadOnly() const;

  std::shared_ptr<Arena> arena;
  std::vector<AnyRunner> runners; // one an instruction, of its kind
  std::vector<bool> callsUser;    // of each: whether it or a part of it calls a function of the user's
  std::vector<char *> inputs, outputs, constants;
  int64_t touchedBytes = 0;
};

Error CpuProgram::load(std::span<const std::string> code) {
  for (const std::string &object : code)
    own += static_cast<int64_t>(object.size());
  for (size_t i = 0; i < code.size() && !plan.kernels.empty() && options.linked.empty(); ++i) {
    auto loaded = SharedObject::load(code[i], plan.name);
    if (!loaded)
      return loaded.error();
    modules.push_back(std::move(*loaded));
  }
  runners.reserve(plan.instructions.size());
  for (size_t i = 0; i < plan.instructions.size(); ++i) {
    const Instruction &instruction = plan.instructions[i];
    std::visit([&]<typename Call>(const Call &) { runners.emplace_back(std::in_place_type<Runner<Call>>); },
               instruction.call);
    if (Error error =
            withRunner(i, [&](auto &runner, const auto &call) { return runner.prepare(*this, instruction, call); }))
      return instructionError(i, instruction, error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
  }
  callsUser.assign(plan.instructions.size(), false);
  for (size_t i = 0; i < callsUser.size(); ++i)
    for (size_t part = i; part <= i + partsOf(plan.instructions[i]) && part < callsUser.size(); ++part)
      if (std::holds_alternative<CustomCall>(plan.instructions[part].call))
        callsUser[i] = true;
  return Error::success();
}

Error CpuProgram::place(const Placement &placement) {
  pointers.assign(placement.buffers.begin(), placement.buffers.end());
  inputs.assign(placement.inputs.begin(), placement.inputs.end());
  outputs.assign(placement.outputs.begin(), placement.outputs.end());
  constants.assign(placement.constants.begin(), placement.constants.end());
  for (size_t i = 0; i < runners.size(); ++i)
    withRunner(i, [&](auto &runner, const auto &call) { runner.place(*this, call); });
  return Error::success();
}

Error CpuProgram::runList(size_t begin, size_t end, Profiler *profiler) {
  for (size_t i = begin; i < end; ++i) {
    const Instruction &instruction = plan.instructions[i];
    const Running running{i, profiler};
    const int64_t start = profiler ? Profiler::now() : 0;
    Error error = withRunner(i, [&](auto &runner, const auto &call) { return runner.run(*this, call, running); });
    if (isControl(instruction)) { // what is said of it its parts have said
      if (error)
        return error;
      i += partsOf(instruction);
      continue;
    }
    if (!error && !flights.empty())
      error = pollFlights();
    if (error)
      return instructionError(i, instruction, error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
    if (profiler)
      recordInstruction(*profiler, instruction, start, Profiler::now() - start);
  }
  return Error::success();
}

/// Instructions that call nothing of the user's. One team of threads runs all, if more than one of them is shared among
/// threads.
Error CpuProgram::runStretch(size_t begin, size_t end, Profiler *profiler) {
  const auto isShared = [](const Instruction &instruction) { return !isTooSmallToShare(instruction); };
  if (std::count_if(plan.instructions.begin() + static_cast<ptrdiff_t>(begin),
                    plan.instructions.begin() + static_cast<ptrdiff_t>(end), isShared) < 2)
    return runList(begin, end, profiler);
  Error error = Error::success();
  withTeam([&] { error = runList(begin, end, profiler); });
  return error;
}

Error CpuProgram::executeRange(size_t begin, size_t end, Profiler *profiler) {
  if (begin == 0)
    flights.clear(); // of a step that failed
  const int64_t stepStart = profiler ? Profiler::now() : 0;
  // A user's function may have threads of its own, so that no team may be there.
  for (size_t first = begin; first < end;) {
    size_t last = first;
    while (last < end && !callsUser[last])
      last += 1 + partsOf(plan.instructions[last]);
    if (Error error = runStretch(first, last, profiler))
      return error;
    first = last;
    if (first < end) {
      last += 1 + partsOf(plan.instructions[first]);
      if (Error error = runList(first, last, profiler))
        return error;
      first = last;
    }
  }
  if (profiler)
    profiler->record({plan.name, "step", stepStart, Profiler::now() - stepStart, 0, 0, {}});
  return Error::success();
}

XXH128_hash_t CpuProgram::hashReadOnly() const {
  std::vector<XXH128_hash_t> hashes;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i])
      hashes.push_back(XXH3_128bits(inputs[i], static_cast<size_t>(plan.inputs[i].bytes())));
  for (size_t i = 0; i < constants.size(); ++i)
    hashes.push_back(XXH3_128bits(constants[i], plan.constants[i].size()));
  return XXH3_128bits(hashes.data(), hashes.size() * sizeof(XXH128_hash_t));
}

void CpuProgram::poison() {
  arena->poison(plan.arenaBytes);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const int64_t bytes = plan.outputs[i].bytes(); bytes > 0 && outputs[i])
      std::memset(outputs[i], 0xFF, static_cast<size_t>(bytes));
}

Error CpuProgram::executeChecked(size_t begin, size_t end, Profiler *profiler) {
  if (begin == 0)
    poison();
  std::vector<unsigned> before(static_cast<size_t>(threads())), after(before.size());
  parallelRun(threads(), [&](int64_t part) { before[part] = floatControl(); });
  const XXH128_hash_t readOnly = hashReadOnly();
  Error result = executeRange(begin, end, profiler);
  parallelRun(threads(), [&](int64_t part) { after[part] = floatControl(); });
  touchedBytes = std::max(touchedBytes, arena->changedBytes(plan.arenaBytes));
  if (!result && before != after)
    result = Error("the step changed the float environment (MXCSR) of a thread; kernels leave it as it is");
  if (!result && !XXH128_isEqual(readOnly, hashReadOnly()))
    result = Error("the step wrote into an input or a constant; kernels only read these");
  return result;
}

Error CpuProgram::runPart(size_t begin, size_t end, Profiler *profiler) {
  ThreadCountScope scope(threads());
  return options.checked ? executeChecked(begin, end, profiler) : executeRange(begin, end, profiler);
}

} // namespace

Expected<std::unique_ptr<Program>> loadCpuProgram(const Plan &plan, std::span<const std::string> code,
                                                  const ProgramOptions &given, std::shared_ptr<Arena> arena) {
  ProgramOptions options = given;
  if (options.threads < 0 || options.threads > 4096)
    return Error(std::to_string(options.threads) + " threads were asked for; 1 to 4096 are possible, 0 chooses");
  if (options.threads == 0)
    options.threads = availableThreads();
  ThreadCountScope scope(options.threads);
  auto program = std::make_unique<CpuProgram>(plan, options, std::move(arena));
  if (Error error = program->load(code))
    return error;
  return std::unique_ptr<Program>(std::move(program));
}

} // namespace tcc::runtime
