// Executable: a loaded artefact. Its part for one device has become a program, with arena, constants and tables in
// place; run() does one step.
#pragma once
#include "runtime/artefact.h"
#include "runtime/device/device.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tcc::runtime {

class Profiler;
class Ranks;

struct ExecutableOptions {
  int threads = 0;      ///< 0: as many as CPUs may be used
  bool checked = false; ///< NaN-fill arena and outputs before every run; verify the float environment after it
  std::shared_ptr<Device> device = {}; ///< null: a CPU of its own
  /// For checks: each value of the arena in memory of its own (separate_values.h), which ends where nothing may be
  /// touched. Bits are the same.
  bool separate = false;
  std::shared_ptr<Ranks> ranks = {}; ///< of which this process is one; null: it is alone
};

/// How much memory a step used. `planned` is what the plan says; the others are counted without asking the plan.
struct MemoryReport {
  int64_t planned = 0;
  /// Bytes of the arena really used: resident pages, also those that larger steps of the same device have touched; in
  /// checked mode changed 64-byte lines.
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

/// Runs from one thread at a time. Executables of one device may run on different threads; they take turns.
class Executable {
public:
  /// Errors: an invalid artefact; no part of it that the device accepts, with the reason for each; code that cannot be
  /// loaded, a missing symbol, a product that cannot be built, no memory.
  static Expected<std::unique_ptr<Executable>> load(Artefact artefact, const ExecutableOptions &options = {});
  /// The same from serialised bytes, verified first.
  static Expected<std::unique_ptr<Executable>> load(std::string_view bytes, const ExecutableOptions &options = {});
  ~Executable();
  Executable(const Executable &) = delete;
  Executable &operator=(const Executable &) = delete;

  /// One step over host tensors, finished on return. They come in the plan's order, dense, 64-byte aligned, with
  /// exactly the plan's byte counts; states are updated in place; no output or state may overlap another tensor.
  /// `profiler`, if given, gets one event an instruction. A device with memory of its own gets everything copied there
  /// and back: for tools and tests, start() is for training. Errors: a wrong count, size, alignment or overlap (nothing
  /// has run then); an instruction that failed; in checked mode what the device found.
  Error run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
            std::span<const TensorRef> states, Profiler *profiler = nullptr);

  /// Runs a part of a step; between the parts the host looks at outputs that are ready (step_parts.h). It runs the
  /// instructions from number step.done up to and without number `end`, over the tensors of run(), which must be the
  /// same in every part; the content of an input may change before the first instruction that reads it. Gives false,
  /// and runs nothing, if another step has used the device meanwhile: what earlier parts left in the arena is gone, and
  /// the step must begin again. Errors as for run(), and on a device with memory of its own, which has startPart().
  Expected<bool> runPart(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
                         std::span<const TensorRef> states, PartialStep &step, size_t end,
                         Profiler *profiler = nullptr);

  /// Starts one step on a device with memory of its own: inputs are host memory, which may change on return, states
  /// memory of the device (Device::allocate), which is updated in place. Steps run in the order of their start, and the
  /// outputs of each can be read while later ones run. Errors as for run().
  Expected<std::shared_ptr<StepOutputs>> start(std::span<const ConstTensorRef> inputs,
                                               std::span<const TensorRef> states, Profiler *profiler = nullptr);
  /// The same for a step in parts (see runPart()): starts the instructions from number step.done up to and without
  /// number `end`, and gives the first `count` outputs as these leave them. Gives null, and starts nothing, if another
  /// step has used the device meanwhile.
  Expected<std::shared_ptr<StepOutputs>> startPart(std::span<const ConstTensorRef> inputs,
                                                   std::span<const TensorRef> states, PartialStep &step, size_t end,
                                                   size_t count, Profiler *profiler = nullptr);
  /// Waits for every step that was started.
  Error finish();

  const Plan &plan() const;
  const std::string &target() const; ///< of the part that was loaded
  const std::map<std::string, std::string> &metadata() const;
  const std::shared_ptr<Device> &device() const;
  int threads() const;

  /// Bytes by the plan: arena, states, inputs, outputs, constants, tables.
  int64_t plannedBytes() const;
  /// Counted independently of the plan, see MemoryReport; meaningful after a run. Equal to plannedBytes() when every
  /// planned byte was used and nothing else was allocated through the counted allocator, or by the device where it has
  /// memory of its own.
  int64_t peakBytes() const;
  MemoryReport memory() const;
  /// What keeping this executable costs, for a cache's byte cap: code, constants, and what the device holds for it
  /// alone. The arena is the device's and not counted.
  int64_t ownBytes() const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tcc::runtime
