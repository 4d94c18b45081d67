// A loaded artefact: machine code mapped and resolved, products built, arena allocated; run() does one step.
#pragma once
#include "runtime/artefact.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tcc::runtime {

class Profiler;

struct ExecutableOptions {
  int threads = 0;      ///< 0: as many as CPUs may be used
  bool checked = false; ///< NaN-fill arena and outputs before every run; verify the float environment after it
};

/// Where the step's memory went. planned is what the plan says; the others are counted without asking it.
struct MemoryReport {
  int64_t planned = 0;
  int64_t arenaTouched = 0; ///< bytes of the arena really used: resident pages; in checked mode changed 64-byte lines
  int64_t counted = 0;      ///< most bytes live in the counted allocator (memory.h) during a run
  int64_t handed = 0;       ///< bytes handed to run() that the counted allocator does not own
  int64_t peak() const { return arenaTouched + counted + handed; }
};

/// Runs from one thread at a time.
class Executable {
public:
  /// Errors: an invalid plan, a CPU without what metadata["cpu_features"] lists (cpu.h), code that cannot be loaded, a
  /// missing symbol, a product that cannot be built, no memory.
  static Expected<std::unique_ptr<Executable>> load(Artefact artefact, const ExecutableOptions &options = {});
  /// The same from serialised bytes, verified first.
  static Expected<std::unique_ptr<Executable>> load(std::string_view bytes, const ExecutableOptions &options = {});
  ~Executable();
  Executable(const Executable &) = delete;
  Executable &operator=(const Executable &) = delete;

  /// One step. Tensors come in the plan's order, dense, 64-byte aligned, with exactly the plan's byte counts; states
  /// are updated in place; no output or state may overlap another tensor. `profiler`, if given, gets one event an
  /// instruction. Errors: a wrong count, size, alignment or overlap (nothing has run then); a product that failed; in
  /// checked mode a changed float environment.
  Error run(std::span<const ConstTensorRef> inputs, std::span<const TensorRef> outputs,
            std::span<const TensorRef> states, Profiler *profiler = nullptr);

  const Plan &plan() const;
  const std::map<std::string, std::string> &metadata() const;
  int threads() const;

  /// Bytes by the plan: arena, states, inputs, outputs, constants.
  int64_t plannedBytes() const;
  /// Counted independently of the plan, see MemoryReport; meaningful after a run. Equal to plannedBytes() when every
  /// planned byte was used and nothing else was allocated through the counted allocator.
  int64_t peakBytes() const;
  MemoryReport memory() const;
  /// What keeping this executable costs: arena, constants and code; for a cache's byte cap.
  int64_t ownBytes() const;

private:
  struct Impl;
  explicit Executable(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace tcc::runtime
