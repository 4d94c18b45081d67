// Loading: the part for the device, its program, memory for constants and tables. Running: what is handed is checked,
// every buffer gets its address, the program does the rest.
#include "runtime/executable.h"
#include "runtime/describe_memory.h"
#include "runtime/handed_tensors.h"
#include "runtime/printed.h"
#include "runtime/profiler.h"
#include "runtime/separate_values.h"
#include "runtime/step_parts.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

namespace tcc::runtime {

namespace {

/// Where the tensors of a run lie, on the device.
struct Addresses {
  std::vector<char *> inputs, outputs, states;
  bool operator==(const Addresses &) const = default;
};

template <typename Tensors>
std::vector<char *> addressesOf(const Tensors &tensors) {
  std::vector<char *> addresses;
  addresses.reserve(tensors.size());
  for (const auto &tensor : tensors) {
    if constexpr (requires { tensor.address; })
      addresses.push_back(tensor.address);
    else
      addresses.push_back(static_cast<char *>(const_cast<void *>(static_cast<const void *>(tensor.data))));
  }
  return addresses;
}

} // namespace

struct Executable::Impl {
  TargetCode part;
  std::map<std::string, std::string> metadata;
  std::shared_ptr<Device> device;
  std::unique_ptr<Program> program; // before `device` goes
  std::vector<DeviceMemory> constants, tables;
  std::vector<SeparatePlan::Range> values; // with memory for each, where they are separate
  std::vector<DeviceMemory> valueMemory;
  bool separate = false, checked = false, deviceTensors = false;
  // For a device with memory of its own: where its steps find inputs, outputs, and the states of run().
  std::vector<DeviceMemory> inputPlaces, outputPlaces, statePlaces;
  std::vector<char *> buffers; // one a buffer, computed from:
  char *placedArena = nullptr;
  Addresses placed;
  bool isPlaced = false;
  std::optional<TensorTimes> times; // when a step with stops first ran
  int64_t handedBytes = 0, countedBytes = 0, deviceBytes = 0;

  const Plan &plan() const { return part.plan; }

  Error choosePart(Artefact artefact);
  Error prepare(const ProgramOptions &options);
  Error separateArena();
  Expected<char *> arena() const;
  char *addressOf(const Buffer &buffer, char *base) const;
  void poisonValues();
  Error allocateEach(const std::vector<TensorSpec> &specs, std::vector<DeviceMemory> &places);
  Error checkOverlaps(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                      std::span<const TensorRef> states);
  bool isPlacedAt(char *arena, const Addresses &tensors) const;
  Error place(char *arena, Addresses tensors);
  Error placeHanded(char *arena, Addresses tensors, std::span<const ConstTensorRef> inputs,
                    std::span<const TensorRef> outputs, std::span<const TensorRef> states);
  Error fillTables();
  Expected<bool> runInPlace(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                            std::span<const TensorRef> states, PartialStep &step, size_t end, Profiler *profiler);
  Error runElsewhere(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                     std::span<const TensorRef> states, Profiler *profiler);
  Expected<std::shared_ptr<StepOutputs>> start(std::span<const ConstTensorRef> inputs,
                                               std::span<const TensorRef> states, PartialStep &step, size_t end,
                                               size_t count, Profiler *profiler);
  Error startOn(void *stream, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                std::span<const TensorRef> states);
  /// Checks that inputs and outputs have places of their own on the device.
  Error checkCopies() const;
  /// An error of a device that has closed, with what was on it alone.
  Error withLosses(const Error &error) const;
  /// A failed allocation with what the step needs, and its largest values.
  Error withSizes(const Error &error) const {
    return device->isClosed() ? withLosses(error) : Error(error.message() + "; " + describeMemory(plan()));
  }
};

Error Executable::Impl::choosePart(Artefact artefact) {
  if (Error error = validateArtefact(artefact))
    return error;
  std::string reasons;
  for (TargetCode &candidate : artefact.targets) {
    if (Error refusal = device->accepts(candidate)) {
      reasons += "\n  " + candidate.target + ": " + refusal.message();
      continue;
    }
    part = std::move(candidate);
    metadata = std::move(artefact.metadata);
    return Error::success();
  }
  return Error("the artefact has nothing that runs on " + device->name() + reasons);
}

Error Executable::Impl::prepare(const ProgramOptions &options) {
  if (separate)
    if (Error error = separateArena())
      return error;
  ProgramOptions given = options;
  given.linked = part.linked;
  auto loaded = device->load(plan(), part.code, given);
  if (!loaded)
    return loaded.error();
  program = std::move(*loaded);
  part.code.clear();
  for (const std::string &constant : plan().constants) {
    auto memory = device->allocate(static_cast<int64_t>(constant.size()));
    if (!memory)
      return memory.error();
    if (Error error = device->copyIn(memory->address, constant.data(), memory->bytes))
      return error;
    constants.push_back(std::move(*memory));
  }
  for (const PointerTable &table : plan().tables) {
    auto memory = device->allocate(static_cast<int64_t>(table.bytes.size()));
    if (!memory)
      return memory.error();
    tables.push_back(std::move(*memory));
  }
  if (!device->sharesHostMemory() && !deviceTensors) {
    if (Error error = allocateEach(plan().inputs, inputPlaces))
      return error;
    if (Error error = allocateEach(plan().outputs, outputPlaces))
      return error;
  }
  buffers.resize(plan().buffers.size());
  auto reserved = arena();
  return reserved ? Error::success() : withSizes(reserved.error());
}

Error Executable::Impl::separateArena() {
  SeparatePlan separated = separateValues(plan());
  part.plan = std::move(separated.plan);
  values = std::move(separated.values);
  for (const SeparatePlan::Range &value : values) {
    auto memory = device->allocateGuarded(value.bytes);
    if (!memory)
      return withSizes(memory.error());
    valueMemory.push_back(std::move(*memory));
  }
  return Error::success();
}

Expected<char *> Executable::Impl::arena() const {
  return separate ? Expected<char *>(nullptr) : device->arena(plan().arenaBytes, plan().alignment);
}

char *Executable::Impl::addressOf(const Buffer &buffer, char *base) const {
  if (buffer.space != Space::arena || !separate)
    return base ? base + buffer.offset : nullptr;
  if (buffer.bytes == 0)
    return nullptr;
  const auto next = std::upper_bound(values.begin(), values.end(), buffer.offset,
                                     [](int64_t offset, const auto &value) { return offset < value.offset; });
  const auto index = static_cast<size_t>(next - values.begin()) - 1;
  return valueMemory[index].address + (buffer.offset - values[index].offset);
}

void Executable::Impl::poisonValues() {
  for (const DeviceMemory &memory : valueMemory)
    if (memory.bytes > 0)
      std::memset(memory.address, 0xFF, static_cast<size_t>(memory.bytes));
}

Error Executable::Impl::allocateEach(const std::vector<TensorSpec> &specs, std::vector<DeviceMemory> &places) {
  for (const TensorSpec &spec : specs) {
    auto memory = device->allocate(spec.bytes());
    if (!memory)
      return withSizes(memory.error());
    places.push_back(std::move(*memory));
  }
  return Error::success();
}

// Checks that what is written overlaps nothing else. Looks again only when a tensor has moved.
Error Executable::Impl::checkOverlaps(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                                      std::span<const TensorRef> states) {
  std::vector<HandedRange> ranges;
  auto hand = [&](const void *data, bool written, const TensorSpec &spec) {
    const char *begin = static_cast<const char *>(data);
    if (spec.bytes() > 0 && data)
      ranges.push_back({begin, begin + spec.bytes(), written, &spec});
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    hand(inputs[i].data, false, plan().inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    hand(outputs[i].data, true, plan().outputs[i]);
  for (size_t i = 0; i < states.size(); ++i)
    hand(states[i].data, true, plan().states[i]);
  auto foreign = checkOverlap(std::move(ranges));
  if (!foreign)
    return foreign.error();
  handedBytes = *foreign;
  return Error::success();
}

// The arena of this run and the addresses of the tensors; true when the program knows them already.
bool Executable::Impl::isPlacedAt(char *arena, const Addresses &tensors) const {
  return isPlaced && arena == placedArena && tensors == placed;
}

// Every buffer's address, for the program and the tables.
Error Executable::Impl::place(char *arena, Addresses tensors) {
  isPlaced = false;
  std::vector<char *> constantPlaces = addressesOf(constants), tablePlaces = addressesOf(tables);
  const std::vector<char *> arenas{arena};
  const std::vector<char *> *bases[] = {&arenas,         &tensors.inputs, &tensors.outputs,
                                        &tensors.states, &constantPlaces, &tablePlaces};
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer &buffer = plan().buffers[i];
    buffers[i] = addressOf(buffer, (*bases[static_cast<size_t>(buffer.space)])[buffer.index]);
  }
  if (Error error = program->place({arena, buffers, tensors.inputs, tensors.outputs, tensors.states, constantPlaces}))
    return error;
  if (Error error = fillTables())
    return error;
  placedArena = arena;
  placed = std::move(tensors);
  isPlaced = true;
  return Error::success();
}

// The same for tensors that are handed, whose overlaps are checked first.
Error Executable::Impl::placeHanded(char *arena, Addresses tensors, std::span<const ConstTensorRef> inputs,
                                    std::span<const TensorRef> outputs, std::span<const TensorRef> states) {
  if (Error error = checkOverlaps(inputs, outputs, states))
    return error;
  return place(arena, std::move(tensors));
}

Error Executable::Impl::fillTables() {
  for (size_t i = 0; i < tables.size(); ++i) {
    std::string bytes = plan().tables[i].bytes;
    for (const PointerSlot &slot : plan().tables[i].slots)
      std::memcpy(bytes.data() + slot.offset, &buffers[slot.buffer], sizeof(char *));
    if (Error error = device->copyIn(tables[i].address, bytes.data(), tables[i].bytes))
      return error;
  }
  return Error::success();
}

Expected<bool> Executable::Impl::runInPlace(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                                            std::span<const TensorRef> states, PartialStep &step, size_t end,
                                            Profiler *profiler) {
  Addresses tensors{addressesOf(inputs), addressesOf(outputs), addressesOf(states)};
  if (step.done > 0 && device->lastTurn() != step.turn)
    return false;
  auto base = arena();
  if (!base)
    return withSizes(base.error());
  if (!isPlacedAt(*base, tensors)) {
    if (step.done > 0)
      return false;
    if (Error error = placeHanded(*base, std::move(tensors), inputs, outputs, states))
      return error;
  }
  if (checked && step.done == 0)
    poisonValues();
  PeakScope peak;
  const bool isWhole = step.done == 0 && end >= plan().instructions.size();
  Error result = isWhole ? program->run(profiler) : program->runPart(step.done, end, profiler);
  countedBytes = std::max(countedBytes, peak.bytes());
  step = {end, device->takeTurn()};
  if (result)
    return result;
  return true;
}

Expected<std::shared_ptr<StepOutputs>> Executable::Impl::start(std::span<const ConstTensorRef> inputs,
                                                               std::span<const TensorRef> states, PartialStep &step,
                                                               size_t end, size_t count, Profiler *profiler) {
  const std::shared_ptr<StepOutputs> none;
  Addresses tensors{addressesOf(inputPlaces), addressesOf(outputPlaces), addressesOf(states)};
  if (step.done > 0 && device->lastTurn() != step.turn)
    return none;
  auto base = arena();
  if (!base)
    return withSizes(base.error());
  if (!isPlacedAt(*base, tensors)) {
    if (step.done > 0)
      return none;
    if (Error error = placeHanded(*base, std::move(tensors), {}, {}, states))
      return error;
  }
  if (Error error = program->sendInputs(inputs))
    return withLosses(error);
  const size_t begin = step.done;
  step = {end, device->takeTurn()};
  if (Error error = program->runPart(begin, end, profiler))
    return withLosses(error);
  deviceBytes = std::max(deviceBytes, device->allocatedBytes());
  return program->receiveOutputs(count);
}

Error Executable::Impl::startOn(void *stream, std::span<const ConstTensorRef> inputs,
                                std::span<const TensorRef> outputs, std::span<const TensorRef> states) {
  if (Error error = device->waitFor(stream))
    return withLosses(error);
  PartialStep whole;
  auto done = runInPlace(inputs, outputs, states, whole, plan().instructions.size(), nullptr);
  deviceBytes = std::max(deviceBytes, device->allocatedBytes());
  // Also for a step that failed on the way: what it has started uses the tensors.
  const Error error = device->holdBack(stream);
  if (!done)
    return withLosses(done.error());
  return error ? withLosses(error) : Error::success();
}

Error Executable::Impl::checkCopies() const {
  if (!deviceTensors)
    return Error::success();
  return Error("a step is started over tensors of the host; it was loaded for those of " + device->name());
}

Error Executable::Impl::withLosses(const Error &error) const {
  if (!device->isClosed() || plan().states.empty())
    return error;
  constexpr size_t most = 8;
  std::string names;
  for (size_t i = 0; i < std::min(most, plan().states.size()); ++i)
    names += (i ? ", `" : "`") + plan().states[i].name + "`";
  if (plan().states.size() > most)
    names += " and " + std::to_string(plan().states.size() - most) + " more";
  return Error(error.message() + "; lost: the values of states " + names + " since they were last read");
}

// The device's copies of host tensors: there, one step, back.
Error Executable::Impl::runElsewhere(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                                     std::span<const TensorRef> states, Profiler *profiler) {
  if (statePlaces.empty())
    if (Error error = allocateEach(plan().states, statePlaces)) {
      statePlaces.clear();
      return error;
    }
  for (size_t i = 0; i < states.size(); ++i)
    if (Error error = device->copyIn(statePlaces[i].address, states[i].data, states[i].bytes))
      return error;
  std::vector<TensorRef> onDevice;
  for (const DeviceMemory &memory : statePlaces)
    onDevice.push_back({memory.address, memory.bytes});
  PartialStep whole;
  auto results = start(inputs, onDevice, whole, plan().instructions.size(), outputs.size(), profiler);
  if (!results)
    return results.error();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (Error error = (*results)->read(i, outputs[i].data, outputs[i].bytes))
      return error;
  for (size_t i = 0; i < states.size(); ++i)
    if (Error error = device->copyOut(states[i].data, statePlaces[i].address, states[i].bytes))
      return error;
  return Error::success();
}

Executable::Executable(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Executable::~Executable() {
  // What the program holds goes while nothing of the device runs.
  std::lock_guard lock(impl->device->mutex());
  if (impl->program)
    (void)impl->program->finish();
  impl->program.reset();
}

Expected<std::unique_ptr<Executable>> Executable::load(Artefact artefact, const ExecutableOptions &options) {
  auto impl = std::make_unique<Impl>();
  impl->device = options.device ? options.device : makeCpuDevice();
  impl->separate = options.separate;
  impl->checked = options.checked;
  impl->deviceTensors = options.deviceTensors;
  if (Error error = impl->choosePart(std::move(artefact)))
    return error;
  std::unique_ptr<Executable> executable(new Executable(std::move(impl)));
  Impl &made = *executable->impl;
  std::unique_lock lock(made.device->mutex());
  const Error error = made.prepare({.threads = options.threads,
                                    .checked = options.checked,
                                    .deviceTensors = options.deviceTensors,
                                    .ranks = options.ranks,
                                    .captures = options.captures});
  lock.unlock();
  if (error)
    return error;
  return executable;
}

Expected<std::unique_ptr<Executable>> Executable::load(std::string_view bytes, const ExecutableOptions &options) {
  auto artefact = parseArtefact(bytes);
  if (!artefact)
    return artefact.error();
  return load(std::move(*artefact), options);
}

/// What is wrong with the tensors of a run of the instructions from `begin` up to `end`. With `times`, inputs and
/// outputs may be null that these do not need.
static Error checkHanded(const Plan &plan, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                         std::span<const TensorRef> states, int64_t alignment = arenaAlignment,
                         const TensorTimes *times = nullptr, size_t begin = 0, size_t end = 0) {
  if (Error error = checkTensors("input", plan.inputs, inputs, alignment,
                                 [&](size_t i) { return !times || times->inputEnds[i] > begin; }))
    return error;
  if (Error error = checkTensors("output", plan.outputs, outputs, alignment,
                                 [&](size_t i) { return !times || times->outputBegins[i] < end; }))
    return error;
  return checkTensors("state", plan.states, states, alignment);
}

/// The lines of a step that is done.
static void printOutputs(const Plan &plan, std::span<const TensorRef> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (const TensorSpec &spec = plan.outputs[i]; const auto name = printedAs(spec))
      std::puts(printedLine(*name, spec.dtype, spec.shape, outputs[i].data).c_str());
}

Error Executable::run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                      std::span<const TensorRef> states, Profiler *profiler) {
  if (Error error = checkHanded(plan(), inputs, outputs, states))
    return error;
  std::lock_guard lock(impl->device->mutex());
  if (impl->device->sharesHostMemory()) {
    PartialStep whole;
    auto done = impl->runInPlace(inputs, outputs, states, whole, plan().instructions.size(), profiler);
    if (!done)
      return done.error();
  } else {
    if (Error error = impl->checkCopies())
      return error;
    if (Error error = impl->checkOverlaps(inputs, outputs, states))
      return error;
    if (Error error = impl->runElsewhere(inputs, outputs, states, profiler))
      return error;
  }
  printOutputs(plan(), outputs);
  return Error::success();
}

/// What is wrong with running a step that has come to `done` to `end`.
static Error checkOrder(size_t done, size_t end) {
  if (end >= done)
    return Error::success();
  return Error("a step that has come to instruction " + std::to_string(done) + " is run to " + std::to_string(end) +
               "; parts come in order");
}

Expected<bool> Executable::runPart(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                                   std::span<const TensorRef> states, PartialStep &step, size_t end,
                                   Profiler *profiler) {
  if (!impl->device->sharesHostMemory())
    return Error("a part of a step is run on " + impl->device->name() + ", which has memory of its own; start it");
  if (Error error = checkHanded(plan(), inputs, outputs, states))
    return error;
  end = std::min(end, plan().instructions.size());
  if (Error error = checkOrder(step.done, end))
    return error;
  std::lock_guard lock(impl->device->mutex());
  return impl->runInPlace(inputs, outputs, states, step, end, profiler);
}

Error Executable::run(const std::vector<ConstTensorRef> &inputs, const std::vector<TensorRef> &outputs,
                      std::span<const TensorRef> states, const Stops &stops) {
  if (!impl->device->sharesHostMemory())
    return Error("a step stops on " + impl->device->name() + ", which has memory of its own");
  if (!std::is_sorted(stops.at.begin(), stops.at.end()))
    return Error("a step's stops are not in order");
  if (!impl->times)
    impl->times = tensorTimes(plan());
  const size_t all = plan().instructions.size();
  std::lock_guard lock(impl->device->mutex());
  PartialStep step;
  int64_t handed = 0;
  for (size_t n = 0; n <= stops.at.size(); ++n) {
    const size_t end = n < stops.at.size() ? std::min(stops.at[n], all) : all;
    if (Error error = checkHanded(plan(), inputs, outputs, states, arenaAlignment, &*impl->times, step.done, end))
      return error;
    if (n > 0) // in the arena of the first part, which no other step can have taken
      if (Error error =
              impl->placeHanded(impl->placedArena, {addressesOf(inputs), addressesOf(outputs), addressesOf(states)},
                                inputs, outputs, states))
        return error;
    auto done = impl->runInPlace(inputs, outputs, states, step, end, nullptr);
    if (!done)
      return done.error();
    handed = std::max(handed, impl->handedBytes);
    if (n < stops.at.size())
      if (Error error = stops.change(n))
        return error;
  }
  impl->handedBytes = handed;
  printOutputs(plan(), outputs);
  return Error::success();
}

Expected<std::shared_ptr<StepOutputs>> Executable::start(std::span<const ConstTensorRef> inputs,
                                                         std::span<const TensorRef> states, Profiler *profiler) {
  PartialStep whole;
  return startPart(inputs, states, whole, plan().instructions.size(), plan().outputs.size(), profiler);
}

Expected<std::shared_ptr<StepOutputs>> Executable::startPart(std::span<const ConstTensorRef> inputs,
                                                             std::span<const TensorRef> states, PartialStep &step,
                                                             size_t end, size_t count, Profiler *profiler) {
  if (impl->device->sharesHostMemory())
    return Error("a step is started on " + impl->device->name() + ", which shares the host's memory; run() it");
  if (Error error = impl->checkCopies())
    return error;
  if (Error error = checkTensors("input", plan().inputs, inputs))
    return error;
  if (Error error = checkTensors("state", plan().states, states, plan().alignment))
    return error;
  end = std::min(end, plan().instructions.size());
  if (Error error = checkOrder(step.done, end))
    return error;
  std::lock_guard lock(impl->device->mutex());
  return impl->start(inputs, states, step, end, std::min(count, plan().outputs.size()), profiler);
}

Error Executable::startOn(void *stream, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                          std::span<const TensorRef> states) {
  if (!impl->deviceTensors)
    return Error("a step is started over tensors of " + impl->device->name() + "; it was not loaded for them");
  if (Error error = checkHanded(plan(), inputs, outputs, states, plan().alignment))
    return error;
  std::lock_guard lock(impl->device->mutex());
  return impl->startOn(stream, inputs, outputs, states);
}

Error Executable::finish() {
  std::lock_guard lock(impl->device->mutex());
  return impl->program->finish();
}

const Plan &Executable::plan() const {
  return impl->plan();
}
const std::string &Executable::target() const {
  return impl->part.target;
}
const std::map<std::string, std::string> &Executable::metadata() const {
  return impl->metadata;
}
const std::shared_ptr<Device> &Executable::device() const {
  return impl->device;
}
int Executable::threads() const {
  return impl->program->threads();
}
int64_t Executable::plannedBytes() const {
  return plan().plannedBytes();
}
int64_t Executable::peakBytes() const {
  return memory().peak();
}

MemoryReport Executable::memory() const {
  const int64_t arena = impl->program->arenaTouched();
  if (impl->device->sharesHostMemory())
    return {plannedBytes(), arena, impl->countedBytes, impl->handedBytes};
  return {plannedBytes(), arena, impl->deviceBytes - arena, 0};
}

int64_t Executable::ownBytes() const {
  int64_t bytes = impl->program->ownBytes();
  for (const auto *list :
       {&impl->constants, &impl->tables, &impl->inputPlaces, &impl->outputPlaces, &impl->statePlaces})
    for (const DeviceMemory &memory : *list)
      bytes += memory.bytes;
  return bytes;
}

} // namespace tcc::runtime
