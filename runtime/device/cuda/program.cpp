// One step on a GPU. Loading: modules, kernels, products. Placing: addresses into parameter blocks and tensor maps.
// Running: the first step is launched call by call, since libraries load what they need at first use; the second is
// captured, and from then on a step is one launch of the graph. Around it, and ordered with it: inputs from pinned
// memory that is filled for the next step while this one runs, outputs into a ring of pinned memory.
#include "runtime/device/cuda/session.h"
#include "runtime/device/cuda/transfers.h"
#include "runtime/profiler.h"

#include <array>
#include <cstring>
#include <map>
#include <optional>

namespace tcc::runtime::cuda {

namespace {

DevicePointer toDevice(const char *address) {
  return reinterpret_cast<DevicePointer>(address);
}

/// A launch with its parameters in one block, aligned as tensor maps need it.
struct Launch {
  struct alignas(64) Line {
    char bytes[64];
  };
  Kernel kernel;
  LaunchShape shape;
  std::vector<Line> block;
  std::vector<void *> arguments;

  char *parameters() { return block.data()->bytes; }
};

/// What an instruction needs at run time; the member that its kind uses.
struct Ready {
  Launch launch;
  std::optional<Product> product;
  DevicePointer target = 0, source = 0;
  std::size_t bytes = 0;
};

std::array<unsigned, 3> narrow(const std::array<std::int64_t, 3> &values) {
  return {unsigned(values[0]), unsigned(values[1]), unsigned(values[2])};
}

/// The largest power of two, 256 at most, that divides a buffer's place; tensors and arena start at multiples of 256.
std::uint32_t alignmentOf(const Plan &plan, BufferId id) {
  if (id == noBuffer)
    return 256;
  const std::int64_t offset = plan.buffers[id].offset | 256;
  return static_cast<std::uint32_t>(offset & -offset);
}

void encodeMap(const Driver &driver, const MapSlot &slot, DevicePointer address, void *target) {
  if (!driver.encodeTensorMap)
    throw CudaError("this driver has no tensor maps: one for CUDA 12.0 or later is needed");
  const int elements = slot.elementBytes == 1   ? 0
                       : slot.elementBytes == 2 ? mapElement16
                       : slot.elementBytes == 4 ? 2
                                                : 4;
  const int swizzle = slot.swizzleBytes == 0    ? mapSwizzleNone
                      : slot.swizzleBytes == 32 ? mapSwizzle32
                      : slot.swizzleBytes == 64 ? mapSwizzle64
                                                : mapSwizzle128;
  std::array<std::uint64_t, maxMapRank> sizes{}, strides{};
  std::array<std::uint32_t, maxMapRank> box{}, steps{};
  for (std::size_t i = 0; i < slot.sizes.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(slot.sizes[i]);
    box[i] = static_cast<std::uint32_t>(slot.box[i]);
    steps[i] = 1;
    if (i > 0)
      strides[i - 1] = static_cast<std::uint64_t>(slot.strides[i - 1]);
  }
  driver.check(driver.encodeTensorMap(static_cast<TensorMap *>(target), elements,
                                      static_cast<std::uint32_t>(slot.sizes.size()), reinterpret_cast<void *>(address),
                                      sizes.data(), strides.data(), box.data(), steps.data(), 0, swizzle, mapPromote128,
                                      0),
               "describing a tensor for bulk copies");
}

class StepProgram final : public Program {
public:
  StepProgram(std::shared_ptr<Session> session, const Plan &plan, const ProgramOptions &options)
      : session(std::move(session)), plan(plan), options(options) {}
  ~StepProgram() override {
    (void)session->attempt([&] { session->wait(); });
  }

  /// Throws CudaError.
  void load(std::span<const std::string> code);

  Error place(const Placement &placement) override;
  Error run(Profiler *profiler) override { return runPart(0, ready.size(), profiler); }
  Error runPart(std::size_t begin, std::size_t end, Profiler *profiler) override;
  Error finish() override {
    return session->attempt([&] { session->wait(); });
  }
  Error sendInputs(std::span<const ConstTensorRef> given) override {
    return session->attempt([&] { staging->send(given, inputs); });
  }
  Expected<std::shared_ptr<StepOutputs>> receiveOutputs(std::size_t count) override {
    std::shared_ptr<StepOutputs> received;
    if (Error error = session->attempt([&] { received = ring->receive(std::span(outputs).first(count)); }))
      return error;
    return received;
  }
  std::int64_t ownBytes() const override { return codeBytes + std::int64_t(staging->bytes() + ring->bytes()); }
  std::int64_t arenaTouched() const override { return std::int64_t(session->arena.size()); }

private:
  void prepare(const Instruction &instruction, Ready &target);
  void prepareLaunch(const LaunchCall &call, Launch &target);
  Product prepareProduct(const MatmulCall &call);
  void placeInstruction(const Instruction &instruction, Ready &target);
  void fillParameters(const LaunchCall &call, Launch &target);
  /// Throws CudaError that names the instruction.
  template <typename Action>
  void naming(std::size_t index, Action &&action);
  void issue(std::size_t index);
  /// Issues instructions [begin, end), those of loops once a turn; `issued` is told of each behind it.
  template <typename Issued>
  void issueList(std::size_t begin, std::size_t end, Issued &&issued);
  /// How many launches and copies issueList gives.
  double issues(std::size_t begin, std::size_t end) const;
  void poison();
  Graph capture(std::size_t begin, std::size_t end);
  void runProfiled(std::size_t first, std::size_t last, Profiler &profiler);

  std::shared_ptr<Session> session;
  const Plan &plan;
  ProgramOptions options;
  std::int64_t codeBytes = 0;
  std::vector<Module> modules;
  std::vector<Ready> ready; // one an instruction
  std::optional<InputStaging> staging;
  std::optional<OutputRing> ring;
  std::vector<DevicePointer> buffers, inputs, outputs;
  DevicePointer arena = 0;
  /// Instructions that run in one go: a step, or a part of one between which the host looks at outputs.
  struct Part {
    bool hasRun = false;
    Graph graph;
  };
  std::map<std::pair<std::size_t, std::size_t>, Part> parts;
  bool captures = false;    // the second run of each part
  std::vector<Event> marks; // of a profile: one before each instruction that is issued and one at the end
};

template <typename Action>
void StepProgram::naming(std::size_t index, Action &&action) {
  try {
    action();
  } catch (const CudaError &error) {
    throw CudaError(instructionError(index, plan.instructions[index], error.what()).message(), error.code());
  }
}

void StepProgram::load(std::span<const std::string> code) {
  if (plan.alignment < 256)
    throw CudaError("the plan is aligned to " + std::to_string(plan.alignment) + " bytes; one for a GPU to 256");
  for (const std::string &object : code) {
    modules.push_back(session->device->load(std::span(object.data(), object.size())));
    codeBytes += std::int64_t(object.size());
  }
  ready.resize(plan.instructions.size());
  for (std::size_t i = 0; i < ready.size(); ++i)
    naming(i, [&] { prepare(plan.instructions[i], ready[i]); });
  captures = session->options.capture && issues(0, ready.size()) <= double(session->options.mostCaptured);
  staging.emplace(session, plan.inputs);
  ring.emplace(session, plan.outputs);
}

void StepProgram::prepare(const Instruction &instruction, Ready &target) {
  if (const auto *launch = std::get_if<LaunchCall>(&instruction.call))
    prepareLaunch(*launch, target.launch);
  else if (const auto *matmul = std::get_if<MatmulCall>(&instruction.call))
    target.product.emplace(prepareProduct(*matmul));
  else if (std::holds_alternative<KernelCall>(instruction.call))
    throw CudaError("it calls a kernel of a CPU; a GPU launches kernels");
  else if (const auto *custom = std::get_if<CustomCall>(&instruction.call))
    throw CudaError("it calls custom op `" + custom->name + "` on a CPU; a GPU launches kernels");
  else if (std::holds_alternative<BranchCall>(instruction.call))
    throw CudaError("it branches on a value in memory, which a CPU does; a GPU computes both and selects");
}

void StepProgram::prepareLaunch(const LaunchCall &call, Launch &target) {
  const KernelCode &kernel = plan.kernels[call.kernel];
  // A kernel has one permission for all its launches.
  std::int64_t mostShared = 0;
  for (const Instruction &instruction : plan.instructions)
    if (const auto *other = std::get_if<LaunchCall>(&instruction.call); other && other->kernel == call.kernel)
      mostShared = std::max(mostShared, other->sharedBytes);
  target.kernel = modules[kernel.module].kernel(kernel.symbol, unsigned(mostShared));
  target.shape.grid = narrow(call.grid);
  target.shape.block = narrow(call.block);
  target.shape.cluster = narrow(call.cluster);
  target.shape.sharedBytes = unsigned(call.sharedBytes);
  target.block.resize((call.parameters.size() + 63) / 64);
  if (!call.parameters.empty())
    std::memcpy(target.parameters(), call.parameters.data(), call.parameters.size());
  for (std::int64_t offset : call.parameterOffsets)
    target.arguments.push_back(target.parameters() + offset);
}

Product StepProgram::prepareProduct(const MatmulCall &call) {
  if (!session->products)
    session->products = std::make_unique<Products>(*session->device, session->options.tuningFile);
  ProductPromise promise{alignmentOf(plan, call.a), alignmentOf(plan, call.b), alignmentOf(plan, call.c), 0};
  if (call.addend != noBuffer)
    promise.c = std::min(promise.c, alignmentOf(plan, call.addend));
  if (call.aux != noBuffer)
    promise.c = std::min(promise.c, alignmentOf(plan, call.aux));
  promise.bias = alignmentOf(plan, call.bias);
  if (call.scratch != noBuffer)
    promise.workspaceBytes = static_cast<std::size_t>(plan.buffers[call.scratch].bytes);
  return session->products->make(call.desc, promise);
}

Error StepProgram::place(const Placement &placement) {
  return session->attempt([&] {
    session->wait(); // a graph is not destroyed while it runs
    for (auto &[range, part] : parts)
      part.graph = Graph();
    auto take = [](std::vector<DevicePointer> &target, std::span<char *const> addresses) {
      target.clear();
      for (const char *address : addresses)
        target.push_back(toDevice(address));
    };
    take(buffers, placement.buffers);
    take(inputs, placement.inputs);
    take(outputs, placement.outputs);
    arena = toDevice(placement.arena);
    for (std::size_t i = 0; i < ready.size(); ++i)
      naming(i, [&] { placeInstruction(plan.instructions[i], ready[i]); });
  });
}

void StepProgram::placeInstruction(const Instruction &instruction, Ready &target) {
  auto at = [&](BufferId id) { return id == noBuffer ? DevicePointer(0) : buffers[id]; };
  if (const auto *launch = std::get_if<LaunchCall>(&instruction.call)) {
    fillParameters(*launch, target.launch);
  } else if (const auto *matmul = std::get_if<MatmulCall>(&instruction.call)) {
    target.product->place({at(matmul->a), at(matmul->b), at(matmul->c), at(matmul->bias), at(matmul->scratch),
                           at(matmul->addend), at(matmul->aux)});
  } else if (const auto *copy = std::get_if<CopyCall>(&instruction.call)) {
    target.source = at(copy->source);
    target.target = at(copy->target);
    target.bytes = static_cast<std::size_t>(plan.buffers[copy->source].bytes);
  } else if (const auto *fill = std::get_if<FillCall>(&instruction.call)) {
    target.target = at(fill->target);
    target.bytes = static_cast<std::size_t>(plan.buffers[fill->target].bytes);
  }
}

void StepProgram::fillParameters(const LaunchCall &call, Launch &target) {
  for (const PointerSlot &slot : call.pointerSlots)
    std::memcpy(target.parameters() + slot.offset, &buffers[slot.buffer], sizeof(DevicePointer));
  for (const MapSlot &slot : call.mapSlots)
    encodeMap(session->device->driver(), slot, buffers[slot.buffer], target.parameters() + slot.offset);
}

void StepProgram::issue(std::size_t index) {
  const Instruction &instruction = plan.instructions[index];
  const Ready &each = ready[index];
  const Stream &stream = session->stream;
  if (std::holds_alternative<LaunchCall>(instruction.call))
    each.launch.kernel.launch(stream, each.launch.shape, each.launch.arguments);
  else if (std::holds_alternative<MatmulCall>(instruction.call))
    each.product->run(stream);
  else if (const auto *fill = std::get_if<FillCall>(&instruction.call))
    stream.setBytes(each.target, fill->value, each.bytes);
  else
    stream.copyOnDevice(each.target, each.source, each.bytes);
}

// NaN wherever a step must write before it reads.
void StepProgram::poison() {
  if (arena)
    session->stream.setBytes(arena, 0xFF, static_cast<std::size_t>(plan.arenaBytes));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    session->stream.setBytes(outputs[i], 0xFF, static_cast<std::size_t>(plan.outputs[i].bytes()));
}

template <typename Issued>
void StepProgram::issueList(std::size_t begin, std::size_t end, Issued &&issued) {
  for (std::size_t i = begin; i < end; ++i) {
    const auto *loop = std::get_if<LoopCall>(&plan.instructions[i].call);
    for (std::int64_t turn = 0; loop && turn < loop->count; ++turn) {
      naming(i, [&] {
        for (const LoopSlice &slice : loop->slices) {
          const auto bytes = static_cast<std::size_t>(plan.buffers[slice.target].bytes);
          session->stream.copyOnDevice(buffers[slice.target],
                                       buffers[slice.source] + static_cast<std::size_t>(turn) * bytes, bytes);
        }
      });
      issued(i);
      issueList(i + 1, i + 1 + loop->body, issued);
    }
    if (loop) {
      i += loop->body;
      continue;
    }
    naming(i, [&] { issue(i); });
    issued(i);
  }
}

double StepProgram::issues(std::size_t begin, std::size_t end) const {
  double count = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto *loop = std::get_if<LoopCall>(&plan.instructions[i].call);
    if (loop)
      count += double(loop->count) * (double(loop->slices.size()) + issues(i + 1, i + 1 + loop->body));
    else
      ++count;
    i += loop ? loop->body : 0;
  }
  return count;
}

// Whatever fails, the capture is ended and what it recorded dropped.
Graph StepProgram::capture(std::size_t begin, std::size_t end) {
  std::lock_guard guard(session->capturing);
  session->stream.beginCapture();
  try {
    issueList(begin, end, [](std::size_t) {});
    return session->stream.endCapture();
  } catch (const CudaError &) {
    try {
      session->stream.endCapture();
    } catch (const CudaError &) { // it had ended
    }
    throw;
  }
}

void StepProgram::runProfiled(std::size_t first, std::size_t last, Profiler &profiler) {
  const auto mark = [&](std::size_t number) {
    if (marks.size() <= number)
      marks.push_back(session->device->makeEvent());
    session->stream.record(marks[number]);
  };
  const std::int64_t begin = Profiler::now();
  std::vector<std::size_t> issued;
  mark(0);
  issueList(first, last, [&](std::size_t index) {
    issued.push_back(index);
    mark(issued.size());
  });
  session->stream.synchronize();
  auto after = [&](std::size_t mark) { return std::int64_t(1e6 * marks[mark].millisecondsSince(marks[0])); };
  std::int64_t start = 0;
  for (std::size_t i = 0; i < issued.size(); ++i) {
    const Instruction &instruction = plan.instructions[issued[i]];
    const std::int64_t end = after(i + 1);
    profiler.record({instruction.label, category(instruction), begin + start, end - start, 0, instruction.flops,
                     instruction.bytes, firstSource(instruction)});
    start = end;
  }
  profiler.record({plan.name, "step", begin, start, 0, 0, 0, {}});
}

Error StepProgram::runPart(std::size_t begin, std::size_t end, Profiler *profiler) {
  return session->attempt([&] {
    if (options.checked && begin == 0)
      poison();
    if (profiler)
      return runProfiled(begin, end, *profiler);
    Part &part = parts[{begin, end}];
    if (!part.hasRun || !captures) {
      issueList(begin, end, [](std::size_t) {});
      part.hasRun = true;
    } else if (begin < end) {
      if (!part.graph)
        part.graph = capture(begin, end);
      session->stream.launch(part.graph);
    }
  });
}

} // namespace

Expected<std::unique_ptr<Program>> loadProgram(std::shared_ptr<Session> session, const Plan &plan,
                                               std::span<const std::string> code, const ProgramOptions &options) {
  auto program = std::make_unique<StepProgram>(session, plan, options);
  if (Error error = session->attempt([&] { program->load(code); }))
    return error;
  return std::unique_ptr<Program>(std::move(program));
}

} // namespace tcc::runtime::cuda
