// Loading: code, symbols, products, chunk tables. Placing: arguments of kernels. Running: one instruction after
// another.
#include "runtime/device/cpu/program.h"
#include "runtime/chunk_table.h"
#include "runtime/custom_call.h"
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

/// Work that one thread finishes before a second one has been woken.
bool isTooSmallToShare(const Instruction &instruction) {
  constexpr int64_t fewBytes = 32 << 10, fewFlops = 128 << 10;
  return instruction.bytes <= fewBytes && instruction.flops <= fewFlops;
}

class CpuProgram final : public Program {
public:
  CpuProgram(const Plan &plan, const ProgramOptions &options, std::shared_ptr<Arena> arena)
      : plan(plan), options(options), arena(std::move(arena)) {}

  Error load(std::span<const std::string> code);
  Error place(const Placement &placement) override;
  Error run(Profiler *profiler) override { return runPart(0, prepared.size(), profiler); }
  Error runPart(size_t begin, size_t end, Profiler *profiler) override;
  Error finish() override { return Error::success(); }
  int64_t ownBytes() const override { return own; }
  int64_t arenaTouched() const override {
    return options.checked ? touchedBytes : arena->residentBytes(plan.arenaBytes);
  }
  int threads() const override { return options.threads; }

private:
  // What an instruction needs at run time; the member that its kind uses.
  struct Prepared {
    KernelFunction function = nullptr;
    std::vector<std::vector<void *>> args; // one list a segment
    ChunkTable table;
    std::shared_ptr<Gemm> gemm;
    TensorStorage extraScratch; // when this thread count needs more than the plan has
    CustomFunction custom;
    std::vector<char *> customInputs, customOutputs;
  };

  Error prepare(const Instruction &instruction, Prepared &target);
  Error prepareKernel(const Instruction &instruction, const KernelCall &call, Prepared &target);
  Error prepareMatmul(const MatmulCall &call, Prepared &target);
  Error execute(size_t index);
  void copy(char *target, const char *source, int64_t bytes);
  Error executeRange(size_t begin, size_t end, Profiler *profiler);
  Error executeList(size_t begin, size_t end, Profiler *profiler);
  Error executeParts(size_t index, Profiler *profiler);
  Error executeChecked(size_t begin, size_t end, Profiler *profiler);
  void poison();
  XXH128_hash_t hashReadOnly() const;

  const Plan &plan;
  ProgramOptions options;
  std::shared_ptr<Arena> arena;
  std::vector<SharedObject> modules;
  std::vector<Prepared> prepared; // one an instruction
  std::vector<char *> pointers;   // one a buffer
  std::vector<char *> inputs, outputs, constants;
  int64_t own = 0, touchedBytes = 0;
};

Error CpuProgram::load(std::span<const std::string> code) {
  for (const std::string &object : code)
    own += static_cast<int64_t>(object.size());
  for (size_t i = 0; i < code.size() && !plan.kernels.empty(); ++i) {
    auto loaded = SharedObject::load(code[i], plan.name);
    if (!loaded)
      return loaded.error();
    modules.push_back(std::move(*loaded));
  }
  prepared.resize(plan.instructions.size());
  for (size_t i = 0; i < prepared.size(); ++i) {
    if (Error error = prepare(plan.instructions[i], prepared[i]))
      return instructionError(i, plan.instructions[i], error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
  }
  return Error::success();
}

Error CpuProgram::prepare(const Instruction &instruction, Prepared &target) {
  if (const auto *kernel = std::get_if<KernelCall>(&instruction.call))
    return prepareKernel(instruction, *kernel, target);
  if (const auto *matmul = std::get_if<MatmulCall>(&instruction.call))
    return prepareMatmul(*matmul, target);
  if (const auto *custom = std::get_if<CustomCall>(&instruction.call)) {
    auto found = CustomFunction::find(*custom);
    if (!found)
      return found.error();
    target.custom = std::move(*found);
  }
  if (std::holds_alternative<LaunchCall>(instruction.call))
    return Error("it launches a kernel of a GPU; a CPU calls kernels");
  return Error::success();
}

Error CpuProgram::prepareKernel(const Instruction &instruction, const KernelCall &call, Prepared &target) {
  const KernelCode &kernel = plan.kernels[call.kernel];
  target.function = reinterpret_cast<KernelFunction>(modules[kernel.module].symbol(kernel.symbol));
  if (!target.function)
    return Error("the artefact's machine code has no symbol `" + kernel.symbol + "`");
  std::vector<int64_t> extents;
  for (const Segment &segment : call.segments) {
    extents.push_back(segment.extent);
    target.args.emplace_back(segment.args.size());
  }
  target.table = cutSegments(extents, call.granularity, isTooSmallToShare(instruction) ? 1 : options.threads);
  return Error::success();
}

Error CpuProgram::prepareMatmul(const MatmulCall &call, Prepared &target) {
  const int64_t dense = call.desc.batchCount() * call.desc.m * call.desc.n * byteSize(call.desc.c.dtype);
  if (call.addend != noBuffer && gemmExtents(call.desc)->c != dense) // it is copied to c first, gaps and all
    return Error("product " + describe(call.desc) +
                 " adds a tensor that is not c; on a CPU it needs a c whose elements lie side by side");
  for (size_t i = 0; i < prepared.size() && !target.gemm; ++i) { // equal products share one primitive
    const auto *other = std::get_if<MatmulCall>(&plan.instructions[i].call);
    if (other && prepared[i].gemm && other->desc == call.desc)
      target.gemm = prepared[i].gemm;
  }
  if (!target.gemm) {
    auto gemm = Gemm::create(call.desc, options.threads);
    if (!gemm)
      return gemm.error();
    target.gemm = std::make_shared<Gemm>(std::move(*gemm));
  }
  const int64_t planned = call.scratch == noBuffer ? 0 : plan.buffers[call.scratch].bytes;
  if (target.gemm->scratchpadBytes() <= planned)
    return Error::success();
  auto extra = TensorStorage::allocate(target.gemm->scratchpadBytes());
  if (!extra)
    return extra.error();
  own += extra->bytes();
  target.extraScratch = std::move(*extra);
  return Error::success();
}

Error CpuProgram::place(const Placement &placement) {
  pointers.assign(placement.buffers.begin(), placement.buffers.end());
  inputs.assign(placement.inputs.begin(), placement.inputs.end());
  outputs.assign(placement.outputs.begin(), placement.outputs.end());
  constants.assign(placement.constants.begin(), placement.constants.end());
  auto addresses = [&](const std::vector<CustomTensor> &tensors) {
    std::vector<char *> list;
    for (const CustomTensor &tensor : tensors)
      list.push_back(pointers[tensor.buffer]);
    return list;
  };
  for (size_t i = 0; i < prepared.size(); ++i)
    if (const auto *custom = std::get_if<CustomCall>(&plan.instructions[i].call)) {
      prepared[i].customInputs = addresses(custom->inputs);
      prepared[i].customOutputs = addresses(custom->outputs);
    } else if (const auto *call = std::get_if<KernelCall>(&plan.instructions[i].call))
      for (size_t segment = 0; segment < call->segments.size(); ++segment)
        for (size_t arg = 0; arg < call->segments[segment].args.size(); ++arg)
          prepared[i].args[segment][arg] = pointers[call->segments[segment].args[arg]];
  return Error::success();
}

void CpuProgram::copy(char *target, const char *source, int64_t bytes) {
  if (bytes < parallelCopyBytes) {
    if (bytes > 0)
      std::memcpy(target, source, static_cast<size_t>(bytes));
    return;
  }
  parallelFor(bytes, 4096, [&](int64_t begin, int64_t end) {
    std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
  });
}

Error CpuProgram::execute(size_t index) {
  const Instruction &instruction = plan.instructions[index];
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
    if (call->addend != noBuffer) // products add to what is there
      copy(at(call->c), at(call->addend), gemmExtents(call->desc)->c);
    void *scratch = ready.extraScratch.data() ? ready.extraScratch.data() : at(call->scratch);
    ready.gemm->run(at(call->a), at(call->b), at(call->c), at(call->bias), scratch);
    return Error::success();
  }
  if (const auto *call = std::get_if<FillCall>(&instruction.call)) {
    const int64_t bytes = plan.buffers[call->target].bytes;
    if (bytes > 0)
      std::memset(at(call->target), call->value, static_cast<size_t>(bytes));
    return Error::success();
  }
  if (const auto *call = std::get_if<CustomCall>(&instruction.call))
    return options.checked ? ready.custom.runGuarded(*call, ready.customInputs, ready.customOutputs)
                           : ready.custom.run(*call, ready.customInputs, ready.customOutputs);
  const CopyCall &call = std::get<CopyCall>(instruction.call);
  copy(at(call.target), at(call.source), plan.buffers[call.source].bytes);
  return Error::success();
}

/// A branch or a loop, with its parts.
Error CpuProgram::executeParts(size_t index, Profiler *profiler) {
  const size_t first = index + 1;
  if (const auto *branch = std::get_if<BranchCall>(&plan.instructions[index].call)) {
    const size_t middle = first + branch->then;
    return *pointers[branch->predicate] ? executeList(first, middle, profiler)
                                        : executeList(middle, middle + branch->otherwise, profiler);
  }
  const LoopCall &loop = std::get<LoopCall>(plan.instructions[index].call);
  for (int64_t turn = 0; turn < loop.count; ++turn) {
    for (const LoopSlice &slice : loop.slices) {
      const int64_t bytes = plan.buffers[slice.target].bytes;
      copy(pointers[slice.target], pointers[slice.source] + turn * bytes, bytes);
    }
    if (Error error = executeList(first, first + loop.body, profiler))
      return error;
  }
  return Error::success();
}

Error CpuProgram::executeList(size_t begin, size_t end, Profiler *profiler) {
  for (size_t i = begin; i < end; ++i) {
    const Instruction &instruction = plan.instructions[i];
    if (isControl(instruction)) {
      if (Error error = executeParts(i, profiler))
        return error;
      i += partsOf(instruction);
      continue;
    }
    const int64_t start = profiler ? Profiler::now() : 0;
    if (Error error = execute(i))
      return instructionError(i, instruction, error.message());
    adaptWaiting(options.threads); // a clock's look, mostly
    if (profiler)
      profiler->record({instruction.label, category(instruction), start, Profiler::now() - start, 0, instruction.flops,
                        instruction.bytes, firstSource(instruction)});
  }
  return Error::success();
}

Error CpuProgram::executeRange(size_t begin, size_t end, Profiler *profiler) {
  const int64_t stepStart = profiler ? Profiler::now() : 0;
  if (Error error = executeList(begin, end, profiler))
    return error;
  if (profiler)
    profiler->record({plan.name, "step", stepStart, Profiler::now() - stepStart, 0, 0, 0, {}});
  return Error::success();
}

XXH128_hash_t CpuProgram::hashReadOnly() const {
  std::vector<XXH128_hash_t> hashes;
  for (size_t i = 0; i < inputs.size(); ++i)
    hashes.push_back(XXH3_128bits(inputs[i], static_cast<size_t>(plan.inputs[i].bytes())));
  for (size_t i = 0; i < constants.size(); ++i)
    hashes.push_back(XXH3_128bits(constants[i], plan.constants[i].size()));
  return XXH3_128bits(hashes.data(), hashes.size() * sizeof(XXH128_hash_t));
}

void CpuProgram::poison() {
  arena->poison(plan.arenaBytes);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const int64_t bytes = plan.outputs[i].bytes())
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
