// Loading: code, symbols, products, arena, chunk tables. Running: pointers into place, then one instruction after
// another.
#include "runtime/executable.h"
#include "runtime/arena.h"
#include "runtime/chunk_table.h"
#include "runtime/cpu.h"
#include "runtime/handed_tensors.h"
#include "runtime/profiler.h"
#include "runtime/shared_object.h"
#include "runtime/threads.h"
#include "runtime/wait_policy.h"
#include <algorithm>
#include <cstring>
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

const char *category(const Instruction &instruction) {
  constexpr const char *names[] = {"kernel", "matmul", "copy"};
  return names[instruction.call.index()];
}

std::string firstSource(const Instruction &instruction) {
  if (instruction.sources.empty())
    return {};
  return instruction.sources[0].file + ":" + std::to_string(instruction.sources[0].line);
}

} // namespace

struct Executable::Impl {
  // What an instruction needs at run time; the member that its kind uses.
  struct Prepared {
    KernelFunction function = nullptr;
    std::vector<std::vector<void *>> args; // one list a segment
    ChunkTable table;
    std::shared_ptr<Gemm> gemm;
    TensorStorage extraScratch; // when this thread count needs more than the plan has
  };

  Artefact artefact;
  ExecutableOptions options;
  SharedObject code;
  Arena arena;
  std::vector<TensorStorage> constants;
  std::vector<Prepared> prepared;       // one an instruction
  std::vector<char *> pointers;         // one a buffer
  std::vector<const void *> lastHanded; // pointers of the last run, in the order inputs, outputs, states
  bool placed = false;
  int64_t handedBytes = 0, countedBytes = 0, touchedBytes = 0;

  const Plan &plan() const { return artefact.plan; }

  Error prepare();
  Error prepareKernel(const Instruction &instruction, const KernelCall &call, Prepared &target);
  Error prepareMatmul(const MatmulCall &call, Prepared &target);

  Error place(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
              std::span<const TensorRef> states);
  Error execute(size_t index);
  Error executeAll(Profiler *profiler);
  XXH128_hash_t hashReadOnly(std::span<const ConstTensorRef> inputs) const;
};

Error Executable::Impl::prepare() {
  if (Error error = validatePlan(plan()))
    return error;
  if (auto needed = artefact.metadata.find("cpu_features"); needed != artefact.metadata.end())
    if (Error error = requireCpuFeatures(needed->second))
      return error;
  if (!plan().kernels.empty()) {
    auto loaded = SharedObject::load(artefact.code, plan().name);
    if (!loaded)
      return loaded.error();
    code = std::move(*loaded);
  }
  for (const std::string &constant : plan().constants) {
    auto storage = TensorStorage::allocate(static_cast<int64_t>(constant.size()));
    if (!storage)
      return storage.error();
    std::copy(constant.begin(), constant.end(), static_cast<char *>(storage->data()));
    constants.push_back(std::move(*storage));
  }
  auto mapped = Arena::create(plan().arenaBytes);
  if (!mapped)
    return mapped.error();
  arena = std::move(*mapped);
  pointers.resize(plan().buffers.size());
  prepared.resize(plan().instructions.size());
  for (size_t i = 0; i < prepared.size(); ++i) {
    const Instruction &instruction = plan().instructions[i];
    Error error;
    if (const auto *kernel = std::get_if<KernelCall>(&instruction.call))
      error = prepareKernel(instruction, *kernel, prepared[i]);
    else if (const auto *matmul = std::get_if<MatmulCall>(&instruction.call))
      error = prepareMatmul(*matmul, prepared[i]);
    if (error)
      return Error("instruction " + std::to_string(i) + " `" + instruction.label + "`: " + error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
  }
  return Error::success();
}

namespace {

/// Work that one thread finishes before a second one has been woken.
bool isTooSmallToShare(const Instruction &instruction) {
  constexpr int64_t fewBytes = 32 << 10, fewFlops = 128 << 10;
  return instruction.bytes <= fewBytes && instruction.flops <= fewFlops;
}

} // namespace

Error Executable::Impl::prepareKernel(const Instruction &instruction, const KernelCall &call, Prepared &target) {
  const std::string &symbol = plan().kernels[call.kernel].symbol;
  target.function = reinterpret_cast<KernelFunction>(code.symbol(symbol));
  if (!target.function)
    return Error("the artefact's machine code has no symbol `" + symbol + "`");
  std::vector<int64_t> extents;
  for (const Segment &segment : call.segments) {
    extents.push_back(segment.extent);
    target.args.emplace_back(segment.args.size());
  }
  target.table = cutSegments(extents, call.granularity, isTooSmallToShare(instruction) ? 1 : options.threads);
  return Error::success();
}

Error Executable::Impl::prepareMatmul(const MatmulCall &call, Prepared &target) {
  for (size_t i = 0; i < prepared.size() && !target.gemm; ++i) { // equal products share one primitive
    const auto *other = std::get_if<MatmulCall>(&plan().instructions[i].call);
    if (other && prepared[i].gemm && other->desc == call.desc)
      target.gemm = prepared[i].gemm;
  }
  if (!target.gemm) {
    auto gemm = Gemm::create(call.desc, options.threads);
    if (!gemm)
      return gemm.error();
    target.gemm = std::make_shared<Gemm>(std::move(*gemm));
  }
  const int64_t planned = call.scratch == noBuffer ? 0 : plan().buffers[call.scratch].bytes;
  if (target.gemm->scratchpadBytes() <= planned)
    return Error::success();
  auto extra = TensorStorage::allocate(target.gemm->scratchpadBytes());
  if (!extra)
    return extra.error();
  target.extraScratch = std::move(*extra);
  return Error::success();
}

// Every buffer's address, and from them every kernel's arguments.
Error Executable::Impl::place(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                              std::span<const TensorRef> states) {
  if (Error error = checkTensors("input", plan().inputs, inputs))
    return error;
  if (Error error = checkTensors("output", plan().outputs, outputs))
    return error;
  if (Error error = checkTensors("state", plan().states, states))
    return error;
  std::vector<const void *> handed;
  std::vector<HandedRange> ranges;
  auto hand = [&](const void *data, bool written, const TensorSpec &spec) {
    handed.push_back(data);
    const char *begin = static_cast<const char *>(data);
    if (spec.bytes() > 0)
      ranges.push_back({begin, begin + spec.bytes(), written, &spec});
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    hand(inputs[i].data, false, plan().inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    hand(outputs[i].data, true, plan().outputs[i]);
  for (size_t i = 0; i < states.size(); ++i)
    hand(states[i].data, true, plan().states[i]);
  if (placed && handed == lastHanded)
    return Error::success();
  auto foreign = checkOverlap(std::move(ranges));
  if (!foreign)
    return foreign.error();
  handedBytes = *foreign;
  placed = true;
  lastHanded = std::move(handed);
  for (size_t i = 0; i < pointers.size(); ++i) {
    const Buffer &buffer = plan().buffers[i];
    char *base = nullptr;
    switch (buffer.space) {
    case Space::arena:
      base = arena.data();
      break;
    case Space::input:
      base = static_cast<char *>(const_cast<void *>(inputs[buffer.index].data));
      break;
    case Space::output:
      base = static_cast<char *>(outputs[buffer.index].data);
      break;
    case Space::state:
      base = static_cast<char *>(states[buffer.index].data);
      break;
    case Space::constant:
      base = static_cast<char *>(constants[buffer.index].data());
      break;
    }
    pointers[i] = base ? base + buffer.offset : nullptr;
  }
  for (size_t i = 0; i < prepared.size(); ++i)
    if (const auto *call = std::get_if<KernelCall>(&plan().instructions[i].call))
      for (size_t segment = 0; segment < call->segments.size(); ++segment)
        for (size_t arg = 0; arg < call->segments[segment].args.size(); ++arg)
          prepared[i].args[segment][arg] = pointers[call->segments[segment].args[arg]];
  return Error::success();
}

Error Executable::Impl::execute(size_t index) {
  const Instruction &instruction = plan().instructions[index];
  Prepared &ready = prepared[index];
  auto at = [&](BufferId id) -> char * { return id == noBuffer ? nullptr : pointers[id]; };
  if (std::holds_alternative<KernelCall>(instruction.call)) {
    parallelRun(ready.table.busyParts, [&](int64_t part) {
      for (uint32_t i = ready.table.partBegin[part]; i < ready.table.partBegin[part + 1]; ++i) {
        const Chunk &chunk = ready.table.chunks[i];
        ready.function(chunk.begin, chunk.end, ready.args[chunk.segment].data());
      }
    });
    return Error::success();
  }
  if (const auto *call = std::get_if<MatmulCall>(&instruction.call)) {
    void *scratch = ready.extraScratch.data() ? ready.extraScratch.data() : at(call->scratch);
    return ready.gemm->run(at(call->a), at(call->b), at(call->c), at(call->bias), scratch);
  }
  const CopyCall &call = std::get<CopyCall>(instruction.call);
  const int64_t bytes = plan().buffers[call.source].bytes;
  char *target = at(call.target);
  const char *source = at(call.source);
  if (bytes < parallelCopyBytes) {
    if (bytes > 0)
      std::memcpy(target, source, static_cast<size_t>(bytes));
  } else {
    parallelFor(bytes, 4096, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  }
  return Error::success();
}

Error Executable::Impl::executeAll(Profiler *profiler) {
  const int64_t stepStart = profiler ? Profiler::now() : 0;
  for (size_t i = 0; i < prepared.size(); ++i) {
    const Instruction &instruction = plan().instructions[i];
    const int64_t start = profiler ? Profiler::now() : 0;
    if (Error error = execute(i))
      return Error("instruction " + std::to_string(i) + " `" + instruction.label + "`: " + error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
    if (profiler)
      profiler->record({instruction.label, category(instruction), start, Profiler::now() - start, 0, instruction.flops,
                        instruction.bytes, firstSource(instruction)});
  }
  if (profiler)
    profiler->record({plan().name, "step", stepStart, Profiler::now() - stepStart, 0, 0, 0, {}});
  return Error::success();
}

XXH128_hash_t Executable::Impl::hashReadOnly(std::span<const ConstTensorRef> inputs) const {
  std::vector<XXH128_hash_t> hashes;
  for (const ConstTensorRef &input : inputs)
    hashes.push_back(XXH3_128bits(input.data, static_cast<size_t>(input.bytes)));
  for (const TensorStorage &constant : constants)
    hashes.push_back(XXH3_128bits(constant.data(), static_cast<size_t>(constant.bytes())));
  return XXH3_128bits(hashes.data(), hashes.size() * sizeof(XXH128_hash_t));
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Executable::~Executable() = default;

Expected<std::unique_ptr<Executable>> Executable::load(Artefact artefact, const ExecutableOptions &options) {
  auto impl = std::make_unique<Impl>();
  impl->artefact = std::move(artefact);
  impl->options = options;
  if (options.threads < 0 || options.threads > 4096)
    return Error(std::to_string(options.threads) + " threads were asked for; 1 to 4096 are possible, 0 chooses");
  if (options.threads == 0)
    impl->options.threads = availableThreads();
  ThreadCountScope scope(impl->options.threads);
  if (Error error = impl->prepare())
    return error;
  return std::unique_ptr<Executable>(new Executable(std::move(impl)));
}

Expected<std::unique_ptr<Executable>> Executable::load(std::string_view bytes, const ExecutableOptions &options) {
  auto artefact = parseArtefact(bytes);
  if (!artefact)
    return artefact.error();
  return load(std::move(*artefact), options);
}

Error Executable::run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                      std::span<const TensorRef> states, Profiler *profiler) {
  if (Error error = impl->place(inputs, outputs, states))
    return error;
  PeakScope peak;
  ThreadCountScope scope(threads());
  Error result;
  if (!impl->options.checked) {
    result = impl->executeAll(profiler);
  } else {
    impl->arena.poison();
    for (const TensorRef &output : outputs)
      if (output.bytes > 0)
        std::memset(output.data, 0xFF, static_cast<size_t>(output.bytes));
    std::vector<unsigned> before(static_cast<size_t>(threads())), after(before.size());
    parallelRun(threads(), [&](int64_t part) { before[part] = floatControl(); });
    const XXH128_hash_t readOnly = impl->hashReadOnly(inputs);
    result = impl->executeAll(profiler);
    parallelRun(threads(), [&](int64_t part) { after[part] = floatControl(); });
    impl->touchedBytes = std::max(impl->touchedBytes, impl->arena.changedBytes());
    if (!result && before != after)
      result = Error("the step changed the float environment (MXCSR) of a thread; kernels leave it as it is");
    if (!result && !XXH128_isEqual(readOnly, impl->hashReadOnly(inputs)))
      result = Error("the step wrote into an input or a constant; kernels only read these");
  }
  impl->countedBytes = std::max(impl->countedBytes, peak.bytes());
  return result;
}

const Plan &Executable::plan() const {
  return impl->plan();
}
const std::map<std::string, std::string> &Executable::metadata() const {
  return impl->artefact.metadata;
}
int Executable::threads() const {
  return impl->options.threads;
}
int64_t Executable::plannedBytes() const {
  return plan().plannedBytes();
}
int64_t Executable::peakBytes() const {
  return memory().peak();
}

MemoryReport Executable::memory() const {
  return {plannedBytes(), impl->options.checked ? impl->touchedBytes : impl->arena.residentBytes(), impl->countedBytes,
          impl->handedBytes};
}

int64_t Executable::ownBytes() const {
  int64_t bytes = impl->arena.bytes() + static_cast<int64_t>(impl->artefact.code.size());
  for (const TensorStorage &constant : impl->constants)
    bytes += constant.bytes();
  return bytes;
}

} // namespace tcc::runtime
