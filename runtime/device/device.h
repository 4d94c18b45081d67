// Device: allocates memory, copies, and makes programs from a plan and its code. Program: one step on a device, ready
// to run. Executable (executable.h) is their caller: it checks what it is handed and says where everything lies. A CPU
// and a GPU implement both classes. Neither holds anything global: two devices can run two steps in one process.
#pragma once
#include "runtime/artefact.h"
#include "runtime/error.h"
#include "runtime/memory.h"
#include "runtime/plan.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace tcc::runtime {

class Profiler;
class Ranks;

/// Memory of a device; released with the last copy of the handle. The address is the device's: the host may not follow
/// it unless Device::sharesHostMemory().
struct DeviceMemory {
  char *address = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<void> owner;
};

/// Where a program finds its tensors, as addresses of the device. `buffers` has one entry for each buffer of the plan,
/// the other lists one for each tensor.
struct Placement {
  char *arena = nullptr;
  std::span<char *const> buffers, inputs, outputs, states, constants;
};

struct ProgramOptions {
  int threads = 0;      ///< on a CPU; 0: as many as may be used
  bool checked = false; ///< fills arena and outputs with NaN before every run, and checks what else the device can
  /// On a device with memory of its own: all tensors of every step are there already. Nothing is sent or received.
  bool deviceTensors = false;
  std::span<const LinkedKernel> linked = {}; ///< on a CPU: TargetCode::linked
  std::shared_ptr<Ranks> ranks = {};         ///< the processes of which this is one; null: it is alone
  /// On a device that can record a step's launches: whether later steps are one launch of that record.
  bool captures = true;
};

/// The outputs of one step on their way to the host.
class StepOutputs {
public:
  virtual ~StepOutputs() = default;
  /// Copies output `index` to `to`. Waits until its step has written it, and for no later step. Errors: the step or the
  /// device failed.
  virtual Error read(size_t index, void *to, int64_t bytes) = 0;
};

/// Used from one thread at a time, under its device's mutex.
class Program {
public:
  virtual ~Program() = default;

  /// Sets the addresses. It must be called before the first run and whenever one of them has changed. Steps that were
  /// started keep the old ones.
  virtual Error place(const Placement &placement) = 0;
  /// Starts one step; a CPU has done it on return. If `profiler` is given, it gets one event for each instruction, and
  /// the step is waited for. Errors name the instruction that failed, by number and label.
  virtual Error run(Profiler *profiler) = 0;
  /// Waits for all that was started.
  virtual Error finish() = 0;
  /// Starts instructions [begin, end) of one step, as run() does for all of them. The parts of a step come in order,
  /// and the first begins at 0.
  virtual Error runPart(size_t begin, size_t end, Profiler *profiler) = 0;

  /// For devices with memory of their own: starts the copies of the inputs to their places. The next run() or runPart()
  /// sees them. The host may change its bytes on return.
  virtual Error sendInputs(std::span<const ConstTensorRef> inputs);
  /// The first `count` outputs as the step, or the part, that was started last leaves them.
  virtual Expected<std::shared_ptr<StepOutputs>> receiveOutputs(size_t count);

  /// Bytes that keeping the program costs: its code and what it allocated for itself, without arena and constants.
  virtual int64_t ownBytes() const = 0;
  /// Bytes of the arena that steps have used, counted without asking the plan where the device can.
  virtual int64_t arenaTouched() const = 0;
  virtual int threads() const { return 1; }
};

/// May be used from several threads, which hold mutex() meanwhile.
class Device {
public:
  virtual ~Device() = default;

  virtual std::string_view kind() const = 0;               ///< "cpu", "cuda"
  virtual const std::string &name() const = 0;             ///< "cpu", "cuda:0 (NVIDIA H200)": for guards and messages
  virtual bool sharesHostMemory() const = 0;               ///< whether its addresses are the host's
  virtual int64_t memoryBytes() const = 0;                 ///< all the memory that it has
  virtual int64_t allocatedBytes() const = 0;              ///< live now: what allocate() and arena() have given
  virtual bool isClosed() const { return false; }          ///< whether an error has ended it; its memory is then lost
  virtual Error accepts(const TargetCode &code) const = 0; ///< the error says why the device cannot run the code
  /// The target for which code must be compiled to run here: "cpu", or with an architecture "cuda:sm_90a".
  virtual std::string codeTarget() const { return "cpu"; }

  /// Uninitialised memory. It begins at a multiple of 256 bytes where the device has memory of its own, otherwise
  /// of 64.
  virtual Expected<DeviceMemory> allocate(int64_t bytes) = 0;
  /// The same for checks. If the device can do that, an access after the memory's end is found.
  virtual Expected<DeviceMemory> allocateGuarded(int64_t bytes) { return allocate(bytes); }
  /// Both copies begin after all that was started, and are done on return.
  virtual Error copyIn(char *to, const void *from, int64_t bytes) = 0;
  virtual Error copyOut(void *to, const char *from, int64_t bytes) = 0;
  /// For devices whose work stands in streams of a driver, which other libraries of the process use too (null: the
  /// driver's default stream). waitFor: what is started from now on begins after all that `stream` has now. holdBack:
  /// what `stream` gets from now on begins after all that was started here.
  virtual Error waitFor(void *stream);
  virtual Error holdBack(void *stream);
  /// The memory for what lives inside a step, at least `bytes`. All programs of the device share it, since they run one
  /// after another. It moves when it grows; programs must then be placed again.
  virtual Expected<char *> arena(int64_t bytes, int64_t alignment) = 0;

  /// Makes a program. `plan` must be valid, and must stay where it is as long as the program exists.
  virtual Expected<std::unique_ptr<Program>> load(const Plan &plan, std::span<const std::string> code,
                                                  const ProgramOptions &options) = 0;

  std::mutex &mutex() { return lock; }
  /// Takes a number, which grows with every step or part of a step; the caller holds the mutex. What a step has left in
  /// the arena is there as long as nobody has taken a later turn.
  uint64_t takeTurn() { return ++turns; }
  uint64_t lastTurn() const { return turns; }
  /// Bytes that all caches together hold on the device. Their cap bounds this sum.
  const std::shared_ptr<std::atomic<int64_t>> &cachedBytes() const { return cached; }

private:
  std::mutex lock;
  uint64_t turns = 0;
  std::shared_ptr<std::atomic<int64_t>> cached = std::make_shared<std::atomic<int64_t>>(0);
};

/// The host's CPU. Each call gives a device of its own, with its own arena.
std::shared_ptr<Device> makeCpuDevice();

/// The first of an instruction's sources, "file:line", or empty.
std::string firstSource(const Instruction &instruction);
/// Adds the event that the instruction ran, from `start` for `duration` nanoseconds.
void recordInstruction(Profiler &profiler, const Instruction &instruction, int64_t start, int64_t duration);
/// "instruction 12 `gelu`: problem".
Error instructionError(size_t index, const Instruction &instruction, const std::string &problem);

} // namespace tcc::runtime
