// One step on a GPU: how it runs each kind of instruction (Runner), and the program that loads, places and issues them.
// Loading: modules, kernels, matmuls. Placing: addresses into parameter blocks and tensor maps.
// Running: the first step is launched call by call, since libraries load what they need at first use; the second is
// captured, and from then on a step is one launch of the graph. Around it, and ordered with it: inputs from pinned
// memory that is filled for the next step while this one runs, outputs into a ring of pinned memory. Exchanges with
// other ranks run on a stream of their own, which NCCL's ranks have (nccl_ranks.h); all ranks run a step in the same
// way.
#include "runtime/device/cuda/nccl_ranks.h"
#include "runtime/device/cuda/session.h"
#include "runtime/device/cuda/tensor_map.h"
#include "runtime/device/cuda/transfers.h"
#include "runtime/exchange.h"
#include "runtime/profiler.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <optional>

namespace tcc::runtime::cuda {

namespace {

DevicePointer toDevice(const char *address) {
  return reinterpret_cast<DevicePointer>(address);
}

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

/// What the runners of a program's instructions share. Everything throws CudaError.
struct Step {
  Step(std::shared_ptr<Session> session, const Plan &plan, std::shared_ptr<Ranks> ranks)
      : session(std::move(session)), plan(plan), ranks(std::move(ranks)) {}
  virtual ~Step() = default;

  /// Called after each instruction was issued; for those in a loop, in each turn.
  using Issued = std::function<void(std::size_t index)>;
  /// Issues instructions [begin, end), and the parts of branches and loops among them.
  virtual void issueList(std::size_t begin, std::size_t end, const Issued &issued) = 0;
  /// How many launches and copies that gives.
  virtual double issues(std::size_t begin, std::size_t end) const = 0;

  /// Errors of `action` name the instruction.
  template <typename Action>
  void naming(std::size_t index, Action &&action) {
    try {
      action();
    } catch (const CudaError &error) {
      throw CudaError(instructionError(index, plan.instructions[index], error.what()).message(), error.code());
    }
  }
  DevicePointer at(BufferId id) const { return id == noBuffer ? DevicePointer(0) : buffers[id]; }
  std::size_t bytesOf(BufferId id) const { return static_cast<std::size_t>(plan.buffers[id].bytes); }
  /// Lets what is issued from now on come after these collectives.
  void waitFor(std::span<const RankWork> works) const {
    for (RankWork work : works)
      orThrow(session->ranks->wait(work));
  }
  static void orThrow(const Error &error) {
    if (error)
      throw CudaError(error.message());
  }

  std::shared_ptr<Session> session;
  const Plan &plan;
  std::shared_ptr<Ranks> ranks; ///< the processes of which this is one, by the host's engine; may be null
  bool exchanges = false;       ///< whether the plan has an exchange between several ranks
  std::vector<Module> modules;
  std::vector<DevicePointer> buffers;
  std::map<std::int64_t, std::vector<RankWork>> flights; ///< by number: what was started and not waited for
};

/// How a GPU runs a kind of instruction, with what it needs: prepare() when code is loaded, place() whenever addresses
/// are new, issue() into the session's stream. There is one for each kind.
template <typename Call>
struct Runner;

/// The parts of a runner that has nothing to keep and issues one launch or copy.
struct StatelessRunner {
  void prepare(Step &, const auto &) {}
  void place(const Step &, const auto &) {}
  double issues(const Step &, const auto &, std::size_t) const { return 1; }
};

/// For a kind that prepare() refuses.
struct RefusedRunner : StatelessRunner {
  void issue(Step &, const auto &, std::size_t, const Step::Issued &) const {}
};

template <>
struct Runner<LaunchCall> : StatelessRunner {
  /// The parameters are one block, aligned as tensor maps need it.
  struct alignas(64) Line {
    char bytes[64];
  };
  Kernel kernel;
  LaunchShape shape;
  std::vector<Line> block;
  std::vector<void *> arguments;

  char *parameters() { return block.data()->bytes; }

  void prepare(Step &step, const LaunchCall &call) {
    const KernelCode &code = step.plan.kernels[call.kernel];
    // How much shared memory a kernel may have is set once, for all of its launches.
    std::int64_t mostShared = 0;
    for (const Instruction &instruction : step.plan.instructions)
      if (const auto *other = std::get_if<LaunchCall>(&instruction.call); other && other->kernel == call.kernel)
        mostShared = std::max(mostShared, other->sharedBytes);
    kernel = step.modules[code.module].kernel(code.symbol, unsigned(mostShared));
    shape.grid = narrow(call.grid);
    if (call.loops)
      shape.grid[0] = std::min(shape.grid[0], unsigned(step.session->device->attribute(attributeMultiprocessors)));
    shape.block = narrow(call.block);
    shape.cluster = narrow(call.cluster);
    shape.sharedBytes = unsigned(call.sharedBytes);
    block.resize((call.parameters.size() + 63) / 64);
    if (!call.parameters.empty())
      std::memcpy(parameters(), call.parameters.data(), call.parameters.size());
    for (std::int64_t offset : call.parameterOffsets)
      arguments.push_back(parameters() + offset);
  }
  void place(const Step &step, const LaunchCall &call) {
    for (const PointerSlot &slot : call.pointerSlots)
      std::memcpy(parameters() + slot.offset, &step.buffers[slot.buffer], sizeof(DevicePointer));
    for (const MapSlot &slot : call.mapSlots)
      encodeMap(step.session->device->driver(), slot, step.buffers[slot.buffer], parameters() + slot.offset);
  }
  void issue(Step &step, const LaunchCall &, std::size_t, const Step::Issued &) const {
    kernel.launch(step.session->stream, shape, arguments);
  }
};

template <>
struct Runner<MatmulCall> : StatelessRunner {
  std::optional<Product> product;

  void prepare(Step &step, const MatmulCall &call) {
    Session &session = *step.session;
    if (!session.products)
      session.products = std::make_unique<Products>(*session.device, session.options.tuningFile);
    const auto alignment = [&](BufferId id) { return alignmentOf(step.plan, id); };
    ProductPromise promise{alignment(call.a), alignment(call.b), alignment(call.c), 0};
    promise.c = std::min({promise.c, alignment(call.addend), alignment(call.aux)});
    promise.bias = alignment(call.bias);
    if (call.scratch != noBuffer)
      promise.workspaceBytes = step.bytesOf(call.scratch);
    product.emplace(session.products->make(call.desc, promise));
  }
  void place(const Step &step, const MatmulCall &call) {
    product->place({step.at(call.a), step.at(call.b), step.at(call.c), step.at(call.bias), step.at(call.scratch),
                    step.at(call.addend), step.at(call.aux)});
  }
  void issue(Step &step, const MatmulCall &, std::size_t, const Step::Issued &) const {
    product->run(step.session->stream);
  }
};

template <>
struct Runner<CopyCall> : StatelessRunner {
  void issue(Step &step, const CopyCall &call, std::size_t, const Step::Issued &) const {
    step.session->stream.copyOnDevice(step.at(call.target), step.at(call.source), step.bytesOf(call.source));
  }
};

template <>
struct Runner<FillCall> : StatelessRunner {
  void issue(Step &step, const FillCall &call, std::size_t, const Step::Issued &) const {
    step.session->stream.setBytes(step.at(call.target), call.value, step.bytesOf(call.target));
  }
};

template <>
struct Runner<LoopCall> : StatelessRunner {
  void issue(Step &step, const LoopCall &call, std::size_t index, const Step::Issued &issued) const {
    for (std::int64_t turn = 0; turn < call.count; ++turn) {
      step.naming(index, [&] {
        for (const LoopSlice &slice : call.slices) {
          const std::size_t bytes = step.bytesOf(slice.target);
          step.session->stream.copyOnDevice(step.at(slice.target),
                                            step.at(slice.source) + static_cast<std::size_t>(turn) * bytes, bytes);
        }
      });
      issued(index);
      step.issueList(index + 1, index + 1 + call.body, issued);
    }
  }
  double issues(const Step &step, const LoopCall &call, std::size_t index) const {
    return double(call.count) * (double(call.slices.size()) + step.issues(index + 1, index + 1 + call.body));
  }
};

template <>
struct Runner<KernelCall> : RefusedRunner {
  void prepare(Step &, const KernelCall &) { throw CudaError("it calls a kernel of a CPU; a GPU launches kernels"); }
};

template <>
struct Runner<CustomCall> : RefusedRunner {
  void prepare(Step &, const CustomCall &call) {
    throw CudaError("it calls custom op `" + call.name + "` on a CPU; a GPU launches kernels");
  }
};

template <>
struct Runner<BranchCall> : RefusedRunner {
  void prepare(Step &, const BranchCall &) {
    throw CudaError("it branches on a value in memory, which a CPU does; a GPU computes both and selects");
  }
};

template <>
struct Runner<CollectiveCall> : StatelessRunner {
  RankExchange exchange;

  void prepare(Step &step, const CollectiveCall &call) {
    auto made = RankExchange::of(call, step.plan, step.ranks.get());
    if (!made)
      throw CudaError(made.error().message());
    exchange = std::move(*made);
    if (call.ranks == 1 || call.kind() == Exchange::shard)
      return;
    step.exchanges = true;
    if (const Ranks *known = step.session->ranks.get()) {
      if (known->count() != step.ranks->count() || known->rank() != step.ranks->rank())
        throw CudaError("the GPU exchanges as rank " + std::to_string(known->rank()) + " of " +
                        std::to_string(known->count()) + " already; its programs have the same ranks");
      return;
    }
    auto joined = joinNcclRanks(*step.session, step.ranks);
    if (!joined)
      throw CudaError(joined.error().message());
    step.session->ranks = std::move(*joined);
  }
  void issue(Step &step, const CollectiveCall &call, std::size_t, const Step::Issued &) const {
    const Stream &stream = step.session->stream;
    for (const ExchangeCopy &copy : exchange.copies) {
      const DevicePointer to = step.at(copy.target) + static_cast<std::size_t>(copy.to);
      const auto bytes = static_cast<std::size_t>(copy.bytes);
      if (copy.source == noBuffer)
        stream.setBytes(to, 0, bytes);
      else
        stream.copyOnDevice(to, step.at(copy.source) + static_cast<std::size_t>(copy.from), bytes);
    }
    std::vector<RankWork> works;
    const auto address = [&](BufferId id) { return reinterpret_cast<char *>(step.at(id)); };
    Step::orThrow(exchange.start(call, step.plan, step.session->ranks.get(), address, works));
    if (call.flight == 0)
      step.waitFor(works);
    else
      step.flights[call.flight] = std::move(works);
  }
  double issues(const Step &, const CollectiveCall &, std::size_t) const { return double(exchange.copies.size()) + 1; }
};

template <>
struct Runner<WaitCall> : StatelessRunner {
  void issue(Step &step, const WaitCall &call, std::size_t, const Step::Issued &) const {
    if (const auto works = step.flights.extract(call.flight))
      step.waitFor(works.mapped());
  }
};

using AnyRunner = RunnersOf<Runner>::Any;

class StepProgram final : public Program, private Step {
public:
  StepProgram(std::shared_ptr<Session> session, const Plan &plan, const ProgramOptions &options)
      : Step(std::move(session), plan, options.ranks), options(options) {}
  ~StepProgram() override {
    (void)session->attempt([&] { session->wait(); });
  }

  /// Throws CudaError.
  void load(std::span<const std::string> code);

  Error place(const Placement &placement) override;
  Error run(Profiler *profiler) override { return runPart(0, runners.size(), profiler); }
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
  std::int64_t ownBytes() const override {
    return codeBytes + (staging ? std::int64_t(staging->bytes() + ring->bytes()) : 0);
  }
  std::int64_t arenaTouched() const override { return std::int64_t(session->arena.size()); }

private:
  /// Calls action(runner, call) for instruction `index`, and gives what it gives.
  template <typename Self, typename Action>
  static auto withRunner(Self &self, std::size_t index, Action &&action) {
    return std::visit(
        [&]<typename Call>(const Call &call) { return action(std::get<Runner<Call>>(self.runners[index]), call); },
        self.plan.instructions[index].call);
  }
  void issueList(std::size_t begin, std::size_t end, const Issued &issued) override;
  double issues(std::size_t begin, std::size_t end) const override;
  void poison();
  Graph capture(std::size_t begin, std::size_t end);
  void runProfiled(std::size_t first, std::size_t last, Profiler &profiler);

  ProgramOptions options;
  std::int64_t codeBytes = 0;
  std::vector<AnyRunner> runners; // one an instruction, of its kind
  std::optional<InputStaging> staging;
  std::optional<OutputRing> ring;
  std::vector<DevicePointer> inputs, outputs;
  DevicePointer arena = 0;
  /// Instructions that run in one go: a step, or a part of one between which the host looks at outputs.
  struct Part {
    bool hasRun = false;
    Graph graph;
  };
  /// How a part runs: by its graph, by a new graph of it, or call by call.
  enum class Way : char { byGraph, byNewGraph, byCalls };
  Way agreed(Way own) const;
  std::map<std::pair<std::size_t, std::size_t>, Part> parts;
  bool captures = false;    // the second run of each part
  std::vector<Event> marks; // of a profile: one before each instruction that is issued and one at the end
};

void StepProgram::load(std::span<const std::string> code) {
  if (plan.alignment < 256)
    throw CudaError("the plan is aligned to " + std::to_string(plan.alignment) + " bytes; one for a GPU to 256");
  for (const std::string &object : code) {
    modules.push_back(session->device->load(std::span(object.data(), object.size())));
    codeBytes += std::int64_t(object.size());
  }
  runners.reserve(plan.instructions.size());
  for (std::size_t i = 0; i < plan.instructions.size(); ++i) {
    std::visit([&]<typename Call>(const Call &) { runners.emplace_back(std::in_place_type<Runner<Call>>); },
               plan.instructions[i].call);
    naming(i, [&] { withRunner(*this, i, [&](auto &runner, const auto &call) { runner.prepare(*this, call); }); });
  }
  captures = options.captures && session->options.capture &&
             issues(0, runners.size()) <= double(session->options.mostCaptured);
  if (!options.deviceTensors) {
    staging.emplace(session, plan.inputs);
    ring.emplace(session, plan.outputs);
  }
}

Error StepProgram::place(const Placement &placement) {
  return session->attempt([&] {
    for (auto &[range, part] : parts) {
      if (part.graph)
        session->wait(); // a graph is not destroyed while it runs
      part = Part();     // captured when these addresses are there a second time
    }
    auto take = [](std::vector<DevicePointer> &target, std::span<char *const> addresses) {
      target.clear();
      for (const char *address : addresses)
        target.push_back(toDevice(address));
    };
    take(buffers, placement.buffers);
    take(inputs, placement.inputs);
    take(outputs, placement.outputs);
    arena = toDevice(placement.arena);
    for (std::size_t i = 0; i < runners.size(); ++i)
      naming(i, [&] { withRunner(*this, i, [&](auto &runner, const auto &call) { runner.place(*this, call); }); });
  });
}

// Fills with NaN whatever a step must write before it reads.
void StepProgram::poison() {
  if (arena)
    session->stream.setBytes(arena, 0xFF, static_cast<std::size_t>(plan.arenaBytes));
  for (std::size_t i = 0; i < outputs.size(); ++i)
    session->stream.setBytes(outputs[i], 0xFF, static_cast<std::size_t>(plan.outputs[i].bytes()));
}

void StepProgram::issueList(std::size_t begin, std::size_t end, const Issued &issued) {
  for (std::size_t i = begin; i < end; ++i) {
    const auto issue = [&] {
      withRunner(*this, i, [&](const auto &runner, const auto &call) { runner.issue(*this, call, i, issued); });
    };
    if (isControl(plan.instructions[i])) { // its parts are issued and named by it; an error names the part alone
      issue();
      i += partsOf(plan.instructions[i]);
      continue;
    }
    naming(i, issue);
    issued(i);
  }
}

double StepProgram::issues(std::size_t begin, std::size_t end) const {
  double count = 0;
  for (std::size_t i = begin; i < end; i += 1 + partsOf(plan.instructions[i]))
    count += withRunner(*this, i, [&](const auto &runner, const auto &call) { return runner.issues(*this, call, i); });
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
    const std::int64_t end = after(i + 1);
    recordInstruction(profiler, plan.instructions[issued[i]], begin + start, end - start);
    start = end;
  }
  profiler.record({plan.name, "step", begin, start, 0, 0, {}});
}

// NCCL wants a collective to be captured on all ranks or on none. But a rank may have its tensors moved, and so its
// graph dropped, or be profiled, while another one is not.
StepProgram::Way StepProgram::agreed(Way own) const {
  if (!exchanges)
    return own;
  std::vector<Way> all(static_cast<std::size_t>(ranks->count()));
  orThrow(gatherAll(*ranks, &own, all.data(), sizeof own));
  return *std::ranges::max_element(all);
}

Error StepProgram::runPart(std::size_t begin, std::size_t end, Profiler *profiler) {
  return session->attempt([&] {
    if (begin == 0)
      flights.clear(); // of a step that failed
    if (options.checked && begin == 0)
      poison();
    Part &part = parts[{begin, end}];
    const bool isByCalls = profiler || !part.hasRun || !captures;
    const Way way = agreed(isByCalls ? Way::byCalls : part.graph ? Way::byGraph : Way::byNewGraph);
    if (profiler)
      return runProfiled(begin, end, *profiler);
    if (way == Way::byCalls) {
      issueList(begin, end, [](std::size_t) {});
      part.hasRun = true;
    } else if (begin < end) {
      if (way == Way::byNewGraph) {
        if (part.graph)
          session->wait(); // a graph is not destroyed while it runs
        part.graph = capture(begin, end);
      }
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
