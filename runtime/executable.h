// Executable: a loaded artefact. The part of it that is for one device has become a program, and arena, constants and
// tables are in place. run() does one step.
#pragma once
#include "runtime/artefact.h"
#include "runtime/device/device.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace tcc::runtime {

class Profiler;
class Ranks;

struct ExecutableOptions {
  int threads = 0; ///< 0: as many as CPUs may be used
  bool checked =
      false; ///< fills arena and outputs with NaN before every run, and checks the float environment after it
  std::shared_ptr<Device> device = {}; ///< null: a CPU device that no other executable uses
  /// For checks: gives each value of the arena memory of its own (separate_values.h), after whose end nothing may be
  /// touched. The results have the same bits.
  bool separate = false;
  std::shared_ptr<Ranks> ranks = {}; ///< the processes of which this is one; null: it is alone
  /// On a device with memory of its own: each step is started by startOn(), over tensors that are there. No memory is
  /// kept for inputs and outputs.
  bool deviceTensors = false;
  /// On a GPU: whether a step's launches are recorded as a CUDA graph, which later steps launch as a whole. If not, a
  /// step is launched call by call. The results have the same bits.
  bool captures = true;
};

/// How much memory a step used. `planned` is what the plan says; the others are counted without asking the plan.
struct MemoryReport {
  int64_t planned = 0;
  /// Bytes of the arena that were really used. They are counted by resident pages, which includes pages that larger
  /// steps of the same device have touched; in checked mode by changed 64-byte lines.
  int64_t arenaTouched = 0;
  int64_t counted = 0; ///< most bytes live in the counted allocator (memory.h) during a run
  int64_t handed = 0;  ///< bytes handed to run() that the counted allocator does not own
  int64_t peak() const { return arenaTouched + counted + handed; }
};

/// How far a step that runs in parts has come.
struct PartialStep {
  size_t done = 0;   ///< instructions
  uint64_t turn = 0; ///< the device's, when the last part ended
};

/// Where a step stops so that its host gives back inputs and brings outputs.
struct Stops {
  std::vector<size_t> at;              ///< numbers of instructions that are in no branch or loop, ascending
  std::function<Error(size_t)> change; ///< called before instruction at[n], with n, while the device is the step's
};

/// One thread at a time may use it. Executables of one device may be used on different threads; they take turns.
class Executable {
public:
  /// Errors: an invalid artefact; no part of it that the device accepts, with the reason for each part; code that
  /// cannot be loaded, a missing symbol, a matmul that cannot be built, no memory.
  static Expected<std::unique_ptr<Executable>> load(Artefact artefact, const ExecutableOptions &options = {});
  /// The same from serialised bytes, which are verified first.
  static Expected<std::unique_ptr<Executable>> load(std::string_view bytes, const ExecutableOptions &options = {});
  ~Executable();
  Executable(const Executable &) = delete;
  Executable &operator=(const Executable &) = delete;

  /// Runs one step over host tensors; it is finished on return. The tensors come in the plan's order, dense, 64-byte
  /// aligned, with exactly the plan's byte counts. States are updated in place. No output or state may overlap another
  /// tensor. If `profiler` is given, it gets one event for each instruction. On a device with memory of its own
  /// everything is copied there and back, which is meant for tools and tests; start() is meant for training. Errors: a
  /// wrong count, size, alignment or overlap (nothing has run then); an instruction that failed; in checked mode what
  /// the device found.
  Error run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
            std::span<const TensorRef> states, Profiler *profiler = nullptr);

  /// Runs a part of a step; between the parts the host looks at outputs that are ready (step_parts.h). It runs the
  /// instructions from number step.done up to and without number `end`, over the tensors of run(), which must be the
  /// same in every part; the content of an input may change before the first instruction that reads it. Gives false,
  /// and runs nothing, if another step has used the device meanwhile: what earlier parts left in the arena is gone, and
  /// the step must begin again. Errors as for run(); a device with memory of its own, for which startPart() is meant.
  Expected<bool> runPart(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                         std::span<const TensorRef> states, PartialStep &step, size_t end,
                         Profiler *profiler = nullptr);

  /// The same as run() on a device that shares the host's memory, over tensors that need not be there all the time:
  /// stops.change() may set the data of an input to null that no instruction reads any more, and must bring an output
  /// before an instruction writes it (tensorTimes() of step_parts.h says when). A tensor stays where it is meanwhile.
  /// Errors as for run(), and a tensor that is null when it must be there; what stops.change() gives.
  Error run(const std::vector<ConstTensorRef> &inputs, const std::vector<TensorRef> &outputs,
            std::span<const TensorRef> states, const Stops &stops);

  /// Starts one step on a device with memory of its own. Inputs are host memory, which may change on return. States are
  /// memory of the device (Device::allocate), which is updated in place. Steps run in the order in which they were
  /// started, and the outputs of each can be read while later ones run. Errors as for run().
  Expected<std::shared_ptr<StepOutputs>> start(std::span<const ConstTensorRef> inputs,
                                               std::span<const TensorRef> states, Profiler *profiler = nullptr);
  /// The same for a step in parts (see runPart()): starts the instructions from number step.done up to and without
  /// number `end`, and gives the first `count` outputs as these leave them. Gives null, and starts nothing, if another
  /// step has used the device meanwhile.
  Expected<std::shared_ptr<StepOutputs>> startPart(std::span<const ConstTensorRef> inputs,
                                                   std::span<const TensorRef> states, PartialStep &step, size_t end,
                                                   size_t count, Profiler *profiler = nullptr);
  /// Starts one step over tensors of the device, none of which is copied: outputs are written and states updated where
  /// they lie. The step begins after all that `stream` has now, and what `stream` gets later begins after the step; it
  /// is a stream of the device's driver, or null for its default one. The executable must have been loaded with
  /// ExecutableOptions::deviceTensors. A step whose tensors lie where those of the step before it did is captured, and
  /// from then on costs one launch. Errors as for run(); tensors start at multiples of the plan's alignment.
  Error startOn(void *stream, std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                std::span<const TensorRef> states);
  /// Waits for every step that was started.
  Error finish();

  const Plan &plan() const;
  const std::string &target() const; ///< TargetCode::target of the part that was loaded
  const std::map<std::string, std::string> &metadata() const;
  const std::shared_ptr<Device> &device() const;
  int threads() const;

  /// The bytes that the plan gives to arena, states, inputs, outputs, constants and tables.
  int64_t plannedBytes() const;
  /// The peak of a run in bytes, counted independently of the plan (see MemoryReport); it has a meaning after a run. It
  /// equals plannedBytes() if every planned byte was used and nothing else was allocated, neither through the counted
  /// allocator nor by a device with memory of its own.
  int64_t peakBytes() const;
  MemoryReport memory() const;
  /// The bytes that keeping this executable costs, for a cache's byte cap: code, constants, and what the device holds
  /// for it alone. The arena belongs to the device and is not counted.
  int64_t ownBytes() const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tcc::runtime
