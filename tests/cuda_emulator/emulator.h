// Runs CUDA kernel text, written with the primitives of codegen/cuda/device, on the CPU: compiles it with the host's
// compiler and executes a launch thread by thread under a chosen schedule. Reports races, divergence, bad accesses and
// leftovers with the line of the kernel text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tcc::emulator {

/// The order in which blocks, warps and lanes run. One warp runs to its barrier before the next begins.
enum class Order { Forward, Reverse, Random };
/// When asynchronous copies and products happen: as late as the text allows, at once, or either by chance.
enum class Async { Late, Early, Random };

struct Schedule {
  Order order = Order::Forward;
  Async async = Async::Late;
  std::uint64_t seed = 1;
  /// Checks every access of the kernel for races, uninitialised shared memory and bounds.
  bool checkAccesses = false;
  /// Amplitude in ulp of the error put on fast_* functions; a function of the argument's bits.
  int approximationNoise = 0;
  /// Counts what accesses ask of memory, in LaunchResult::traffic; a mode of its own, since it takes its time.
  bool countAccesses = false;
  /// One lane of each warp (the last in order) falls behind, above all before it waits for an mbarrier: it runs only
  /// when no other lane of the block can, and then the first such warp's alone.
  bool lanesLag = false;
};

/// The schedules that a kernel's test runs: forward with checks, reverse, random, then forward and reverse with early
/// copies.
std::vector<Schedule> testSchedules();

enum class FindingKind {
  Race,          ///< two accesses of shared memory, or of global memory by two blocks, without an order
  Uninitialized, ///< shared memory read before it was written
  OutOfBounds,   ///< an address outside every buffer and the block's shared memory
  Misaligned,    ///< an address that the primitive refuses
  Divergence,    ///< threads of a warp or block that wait at different collectives, or for ever
  Leftover,      ///< copies, transactions or products unfinished at a thread's end
  WrittenTwice,  ///< an element of a write-once buffer written again
  NotWritten,    ///< an element of a write-once buffer never written
  Protocol,      ///< a rule of a primitive broken: counts, phases, fences, descriptors, register sums
  Launch         ///< arguments of the launch that a device would refuse
};
const char *name(FindingKind kind);

struct Finding {
  FindingKind kind;
  /// What was seen, then the rule.
  std::string text;
  /// "kernel.cu:12", or empty where no line is to blame.
  std::string where;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
};

/// What plain loads and stores and cp.async asked of memory; the lanes of a warp that execute one instruction count
/// together. TMA and wgmma have ways of their own and are not counted, ldmatrix is in LaunchResult::bankConflicts.
struct Traffic {
  /// Passes through shared memory's 32 banks of 4 bytes, and those beyond one for each 128 bytes asked for.
  std::uint64_t sharedPasses = 0, sharedConflicts = 0;
  /// Bytes of global memory asked for, once a warp, and sectors of 32 bytes that they lie in.
  std::uint64_t globalBytes = 0, globalSectors = 0;
  /// How much of the sectors is used; 1 of none.
  double sectorUse() const {
    return globalSectors ? static_cast<double>(globalBytes) / (32.0 * static_cast<double>(globalSectors)) : 1.0;
  }
};

struct LaunchResult {
  std::vector<Finding> findings;
  /// Processor time.
  double seconds = 0;
  /// Shared-memory passes of ldmatrix beyond one a matrix.
  std::uint64_t bankConflicts = 0;
  /// The accesses of a launch with Schedule::countAccesses.
  Traffic traffic;
  bool ok() const { return findings.empty(); }
  bool has(FindingKind kind) const;
  /// One finding a line.
  std::string text() const;
};

/// Global memory of the emulated device: filled with NaN, a page without access after its last byte and before its
/// first page. Kernels may touch such buffers only.
class DeviceBuffer {
public:
  explicit DeviceBuffer(std::size_t bytes, std::string name = "buffer");
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer &) = delete;
  DeviceBuffer &operator=(const DeviceBuffer &) = delete;

  void *data() const { return base; }
  template <class T>
  T *as() const {
    return static_cast<T *>(data());
  }
  std::size_t bytes() const { return size; }
  const std::string &name() const { return label; }
  /// Each element of so many bytes must be written exactly once by a checked launch.
  void writeOnce(int elementBytes) { onceBytes = elementBytes; }
  /// Fills it with NaN again.
  void poison();
  /// Whether anybody can touch the bytes; accessible at first. An access to a closed buffer is out of bounds.
  void setAccessible(bool accessible);
  /// Gives the bytes back but keeps their addresses, closed for ever: a later access is told by the buffer's name.
  void retire();

private:
  friend class Machine;
  std::string label;
  char *mapping = nullptr, *base = nullptr;
  std::size_t mappedBytes = 0, size = 0;
  int onceBytes = 0;
  bool retired = false;
  std::unique_ptr<class GlobalShadow> shadow;
};

struct CompileOptions {
  /// Where shared objects are kept, by hash; "" is TCC_EMULATOR_CACHE, else a folder of the build.
  std::string cache;
  /// The host's compiler; "" is TCC_EMULATOR_CXX, else the compiler that built the emulator.
  std::string compiler;
  /// Instruments accesses; without it Schedule::checkAccesses is refused.
  bool checks = true;
  /// Instruments accesses for Schedule::countAccesses instead.
  bool counts = false;
};

/// What a kernel's declaration says.
struct KernelFacts {
  int maxThreads = 0, minBlocks = 0;
  std::vector<std::size_t> parameterBytes;
};

/// The names that stand in `KERNEL(name` at the beginning of the text's lines.
std::vector<std::string> kernelNames(const std::string &text);

/// Compiled kernel text.
class Module {
public:
  /// Throws std::runtime_error with the compiler's message.
  static Module compile(const std::string &text, const CompileOptions &options = {});
  /// Compiles into the cache, from any thread, without loading. Throws like compile().
  static void prepare(const std::string &text, const CompileOptions &options = {});
  /// All texts, two compilers at a time.
  static std::vector<Module> compileAll(const std::vector<std::string> &texts, const CompileOptions &options = {});

  /// Like cuLaunchKernel: `args[i]` points to the i-th argument. Throws std::invalid_argument for an unknown kernel.
  LaunchResult launch(const std::string &kernel, Dim3 grid, Dim3 block, std::size_t dynamicShared, void **args,
                      const Schedule &schedule = {}) const;
  /// Why a device would not take the launch; empty when it would. Throws std::invalid_argument for an unknown kernel.
  std::string refusal(const std::string &kernel, Dim3 grid, Dim3 block, std::size_t dynamicShared) const;
  /// Throws std::invalid_argument for an unknown kernel.
  KernelFacts facts(const std::string &kernel) const;

  struct Implementation;

private:
  std::shared_ptr<Implementation> implementation;
};

/// The same with arguments given as values.
template <class... Arguments>
LaunchResult launch(const Module &module, const std::string &kernel, Dim3 grid, Dim3 block, std::size_t dynamicShared,
                    const Schedule &schedule, Arguments... arguments) {
  void *args[] = {static_cast<void *>(&arguments)..., nullptr};
  return module.launch(kernel, grid, block, dynamicShared, args, schedule);
}

/// Element types of tensor maps.
enum class MapElement { Bf16, F16, F32 };
struct TensorMapRequest {
  MapElement element = MapElement::Bf16;
  void *address = nullptr;
  /// Innermost first; strides in bytes, for every dimension but the innermost.
  std::vector<std::uint64_t> sizes, strides;
  std::vector<std::uint32_t> box;
  /// Bytes of the swizzle: 0, 32, 64 or 128.
  int swizzle = 128;
};
/// 128 bytes, opaque to kernels, as cuTensorMapEncodeTiled makes them.
struct alignas(64) EncodedMap {
  std::uint64_t word[16];
};
/// Follows the driver's rules and throws std::invalid_argument where it would return an error.
EncodedMap makeTensorMap(const TensorMapRequest &request);

} // namespace tcc::emulator
