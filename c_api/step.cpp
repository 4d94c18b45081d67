#include "c_api/step.h"
#include "frontend/tensor_files.h"
#include "runtime/device/cuda/step_device.h"
#include "runtime/handed_tensors.h"
#include <algorithm>
#include <charconv>
#include <cstring>

namespace tcc::c {
namespace {

using runtime::ConstTensorRef;
using runtime::TensorRef;
using runtime::TensorSpec;

bool isAligned(const void *data) {
  return reinterpret_cast<uintptr_t>(data) % runtime::arenaAlignment == 0;
}

/// "cpu", "cuda" or "cuda:1"; by default the kind that the artefact's first part is for.
Expected<std::shared_ptr<runtime::Device>> openDevice(const char *named, const runtime::Artefact &artefact) {
  const std::string wanted = named ? named : artefact.targets.front().target;
  const std::string kind = wanted.substr(0, wanted.find(':'));
  if (kind == "cpu" && (!named || wanted == kind))
    return runtime::makeCpuDevice();
  runtime::cuda::StepDeviceOptions options;
  if (named && wanted.size() > kind.size()) {
    const char *begin = wanted.data() + kind.size() + 1, *end = wanted.data() + wanted.size();
    if (auto [stop, code] = std::from_chars(begin, end, options.ordinal); code != std::errc() || stop != end)
      return Error("unknown device `" + wanted + "`; cpu, cuda or cuda:NUMBER is expected");
  }
  if (kind != "cuda")
    return Error("unknown device `" + wanted + "`; cpu, cuda or cuda:NUMBER is expected");
  return runtime::cuda::openStepDevice(options);
}

/// What the frontend's files throw.
template <typename Action>
Error caught(const Action &action) {
  try {
    action();
    return Error::success();
  } catch (const std::exception &problem) {
    return Error(problem.what());
  }
}

} // namespace

Expected<std::unique_ptr<Step>> Step::create(runtime::Artefact artefact, const tcc_options &options) {
  auto device = openDevice(options.device, artefact);
  if (!device)
    return device.error();
  auto executable = runtime::Executable::load(
      std::move(artefact), {.threads = options.threads, .checked = options.checked != 0, .device = *device});
  if (!executable)
    return executable.error();
  std::unique_ptr<Step> step(new Step(std::move(*executable)));
  if (Error error = step->allocate())
    return error;
  return step;
}

Error Step::allocate() {
  runtime::Device &device = *loaded->device();
  std::lock_guard lock(device.mutex());
  for (const TensorSpec &spec : loaded->plan().states) {
    // Pages of zeros cost nothing until they are touched.
    auto zeros = runtime::TensorStorage::zeros(spec);
    if (!zeros)
      return zeros.error();
    if (device.sharesHostMemory()) {
      auto owner = std::make_shared<runtime::TensorStorage>(std::move(*zeros));
      states.push_back({static_cast<char *>(owner->data()), owner->bytes(), owner});
      continue;
    }
    auto memory = device.allocate(spec.bytes());
    if (!memory)
      return memory.error();
    if (Error error = device.copyIn(memory->address, zeros->data(), spec.bytes()))
      return error;
    states.push_back(std::move(*memory));
  }
  stagedInputs.resize(loaded->plan().inputs.size());
  stagedOutputs.resize(loaded->plan().outputs.size());
  return Error::success();
}

const std::vector<TensorSpec> &Step::tensors(int kind) const {
  const runtime::Plan &plan = loaded->plan();
  return kind == TCC_INPUT ? plan.inputs : kind == TCC_OUTPUT ? plan.outputs : plan.states;
}

/// Memory of the step's own for a tensor.
Expected<void *> Step::staged(std::vector<runtime::TensorStorage> &list, size_t index, int64_t bytes) {
  if (!list[index].data()) {
    auto storage = runtime::TensorStorage::allocate(bytes);
    if (!storage)
      return storage.error();
    list[index] = std::move(*storage);
  }
  return list[index].data();
}

/// What is copied must not overlap either: the executable sees the copies alone.
Error Step::checkStaged(std::span<const void *const> inputs, std::span<void *const> outputs) const {
  const auto isCopied = [](const void *data) { return data && !isAligned(data); };
  if (std::ranges::none_of(inputs, isCopied) && std::ranges::none_of(outputs, isCopied))
    return Error::success();
  const runtime::Plan &plan = loaded->plan();
  std::vector<runtime::HandedRange> ranges;
  const auto hand = [&](const void *data, bool written, const TensorSpec &spec) {
    const char *begin = static_cast<const char *>(data);
    if (begin && spec.bytes() > 0)
      ranges.push_back({begin, begin + spec.bytes(), written, &spec});
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    hand(inputs[i], false, plan.inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    hand(outputs[i], true, plan.outputs[i]);
  for (size_t i = 0; i < states.size() && loaded->device()->sharesHostMemory(); ++i)
    hand(states[i].address, true, plan.states[i]);
  return runtime::checkOverlap(std::move(ranges)).error();
}

Error Step::run(std::span<const void *const> inputs, std::span<void *const> outputs) {
  const runtime::Plan &plan = loaded->plan();
  if (Error error = checkStaged(inputs, outputs))
    return error;
  std::vector<ConstTensorRef> in;
  std::vector<TensorRef> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const void *data = inputs[i];
    const int64_t bytes = plan.inputs[i].bytes();
    if (!isAligned(data)) {
      auto copy = staged(stagedInputs, i, bytes);
      if (!copy)
        return copy.error();
      std::memcpy(*copy, data, static_cast<size_t>(bytes));
      data = *copy;
    }
    in.emplace_back(data, bytes);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    void *data = outputs[i];
    if (!data || !isAligned(data)) {
      auto place = staged(stagedOutputs, i, plan.outputs[i].bytes());
      if (!place)
        return place.error();
      data = *place;
    }
    out.push_back({data, plan.outputs[i].bytes()});
  }
  std::vector<TensorRef> memory;
  for (const runtime::DeviceMemory &state : states)
    memory.push_back({state.address, state.bytes});
  const bool isHere = loaded->device()->sharesHostMemory();
  if (Error error = isHere ? loaded->run(in, out, memory) : runElsewhere(in, out, memory))
    return error;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && outputs[i] != out[i].data)
      std::memcpy(outputs[i], out[i].data, static_cast<size_t>(out[i].bytes));
  return Error::success();
}

/// A step on a device with memory of its own.
Error Step::runElsewhere(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                         std::span<const TensorRef> memory) {
  auto results = loaded->start(inputs, memory);
  if (!results)
    return results.error();
  for (size_t i = 0; i < outputs.size(); ++i)
    if (Error error = (*results)->read(i, outputs[i].data, outputs[i].bytes))
      return error;
  return loaded->finish();
}

Error Step::readState(size_t index, void *to) {
  std::lock_guard lock(loaded->device()->mutex());
  return loaded->device()->copyOut(to, states[index].address, states[index].bytes);
}

Error Step::writeState(size_t index, const void *from) {
  std::lock_guard lock(loaded->device()->mutex());
  return loaded->device()->copyIn(states[index].address, from, states[index].bytes);
}

void *Step::stateData(size_t index) {
  return loaded->device()->sharesHostMemory() ? states[index].address : nullptr;
}

Error Step::save(const std::string &path) {
  const std::vector<TensorSpec> &specs = loaded->plan().states;
  std::vector<std::vector<std::byte>> copies;
  std::vector<TensorToWrite> tensors;
  for (size_t i = 0; i < specs.size(); ++i) {
    std::span<const std::byte> bytes(static_cast<const std::byte *>(stateData(i)),
                                     stateData(i) ? static_cast<size_t>(specs[i].bytes()) : 0);
    if (!stateData(i)) {
      copies.emplace_back(static_cast<size_t>(specs[i].bytes()));
      if (Error error = readState(i, copies.back().data()))
        return error;
      bytes = copies.back();
    }
    tensors.push_back({specs[i].name, fileDtype(specs[i].dtype), specs[i].shape, bytes});
  }
  return caught([&] { writeSafetensors(path, tensors); });
}

Error Step::load(const std::string &path) {
  Error problem;
  const Error thrown = caught([&] {
    const SafetensorsFile file(path);
    const auto values = valuesOf(file, loaded->plan().states, Others::refused);
    for (size_t i = 0; i < values.size() && !problem; ++i)
      problem = writeState(i, values[i].data());
  });
  return thrown ? thrown : problem;
}

} // namespace tcc::c
