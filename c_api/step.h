// tcc_step: a loaded step with the memory of its states. It also has memory for copies of tensors whose memory the
// runtime cannot use directly.
#pragma once
#include "c_api/tcc_runtime.h"
#include "runtime/executable.h"
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc::c {

using runtime::Error;
using runtime::Expected;

class Step {
public:
  static Expected<std::unique_ptr<Step>> create(runtime::Artefact artefact, const tcc_options &options);

  const runtime::Executable &executable() const { return *loaded; }
  const std::vector<runtime::TensorSpec> &tensors(int kind) const;

  /// Runs a step. There is one pointer for each tensor; an output whose pointer is null is not given. Errors leave the
  /// states as they were, or say what was lost.
  Error run(std::span<const void *const> inputs, std::span<void *const> outputs);

  Error readState(size_t index, void *to);
  Error writeState(size_t index, const void *from);
  /// The address of a state; null if the host cannot reach it.
  void *stateData(size_t index);
  /// The memory of a state of the host, kept by whoever has a copy.
  std::shared_ptr<void> stateOwner(size_t index) const { return states[index].owner; }

  Error save(const std::string &path);
  Error load(const std::string &path);

private:
  explicit Step(std::unique_ptr<runtime::Executable> executable) : loaded(std::move(executable)) {}
  Error allocate();
  Error checkStaged(std::span<const void *const> inputs, std::span<void *const> outputs) const;
  Expected<void *> staged(std::vector<runtime::TensorStorage> &list, size_t index, int64_t bytes);
  Error runElsewhere(std::span<const runtime::ConstTensorRef> inputs, std::span<const runtime::TensorRef> outputs,
                     std::span<const runtime::TensorRef> memory);

  std::unique_ptr<runtime::Executable> loaded;
  std::vector<runtime::DeviceMemory> states;
  std::vector<runtime::TensorStorage> stagedInputs, stagedOutputs; // empty until one is needed
};

} // namespace tcc::c

struct tcc_step {
  std::unique_ptr<tcc::c::Step> step;
};
