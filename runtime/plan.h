// The plan of one compiled step: which tensors come in and go out, where everything lies, and what runs in which order.
// Plain structs; JSON text in and out; validatePlan() is the gate before anything is executed.
#pragma once
#include "runtime/dtype.h"
#include "runtime/error.h"
#include "runtime/gemm.h"
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tcc::runtime {

/// A dense row-major tensor outside the arena.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape; ///< empty for a scalar

  int64_t elements() const;
  int64_t bytes() const { return elements() * byteSize(dtype); }
  bool operator==(const TensorSpec &) const = default;
};

/// Where a buffer lies. State is updated in place by the step.
enum class Space : uint8_t { arena, input, output, state, constant, table };

/// A range of bytes. `index` selects the tensor, constant or table (0 for the arena). Allocations in the arena start at
/// multiples of the plan's `alignment`; slices of them may start anywhere.
struct Buffer {
  Space space = Space::arena;
  uint32_t index = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Buffer &) const = default;
};

using BufferId = uint32_t;
inline constexpr BufferId noBuffer = 0xffffffffu; ///< written as -1 in JSON
inline constexpr int64_t arenaAlignment = 64;     ///< bytes; also that of every host tensor handed to run()

/// A user's source position, for profiles and reports.
struct SourceLocation {
  std::string file;
  int32_t line = 0;
  int32_t column = 0;
  bool operator==(const SourceLocation &) const = default;
};

/// One emitted function: extern "C" void symbol(int64_t begin, int64_t end, void *const *args).
using KernelFunction = void (*)(int64_t begin, int64_t end, void *const *args);

/// `arguments` in all. Of a CPU kernel they are pointers and the last `results` of them are written, the others only
/// read; of a launched one they are the parameters that a launch passes, and what is written is said by its slots.
struct KernelCode {
  std::string symbol;
  uint32_t arguments = 0;
  uint32_t results = 0;
  std::string description; ///< the fused ops, for people
  uint32_t module = 0;     ///< which of the artefact's code objects has the symbol
  bool operator==(const KernelCode &) const = default;
};

/// Eight bytes at `offset` that hold the device address of a buffer.
struct PointerSlot {
  int64_t offset = 0;
  BufferId buffer = noBuffer;
  bool written = false; ///< whether the kernel writes through it
  bool read = true;     ///< false: a result, what was there before is not looked at
  bool operator==(const PointerSlot &) const = default;
};

/// Bytes in device memory that kernels read and that hold addresses: the segments of a launch over many tensors. Filled
/// whenever tensors are placed.
struct PointerTable {
  std::string bytes; ///< as the kernel reads it, zeros where addresses go
  std::vector<PointerSlot> slots;
  bool operator==(const PointerTable &) const = default;
};

/// [0, extent) of one set of tensors.
struct Segment {
  std::vector<BufferId> args;
  int64_t extent = 0;
  bool operator==(const Segment &) const = default;
};

/// Runs a kernel over all segments, cut at multiples of `granularity` over the threads. Results never depend on the
/// cut.
struct KernelCall {
  uint32_t kernel = 0;
  std::vector<Segment> segments;
  int64_t granularity = 1;
  bool operator==(const KernelCall &) const = default;
};

/// 128 bytes at `offset` that hold a tensor map (cuTensorMapEncodeTiled) over a buffer: what a bulk copy of tiles
/// needs. Zeros are read outside. Dimensions come innermost first; sizes and box in elements, strides in bytes and only
/// of the outer dimensions.
struct MapSlot {
  int64_t offset = 0; ///< a multiple of 64
  BufferId buffer = noBuffer;
  bool written = false;
  int32_t elementBytes = 2; ///< 1, 2, 4 or 8
  int32_t swizzleBytes = 0; ///< 0, 32, 64 or 128
  std::vector<int64_t> sizes, strides, box;
  bool operator==(const MapSlot &) const = default;
};

/// Launches a kernel of a GPU once. `parameters` is a block with the kernel's parameters, the first byte of each given
/// by `parameterOffsets` (as many as the kernel has arguments); slots are filled when tensors are placed.
struct LaunchCall {
  uint32_t kernel = 0;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::array<int64_t, 3> cluster{1, 1, 1}; ///< blocks of a cluster; {1, 1, 1} launches without clusters
  int64_t sharedBytes = 0;                 ///< dynamic shared memory of a block
  std::string parameters;
  std::vector<int64_t> parameterOffsets;
  std::vector<PointerSlot> pointerSlots;
  std::vector<MapSlot> mapSlots;
  bool operator==(const LaunchCall &) const = default;
};

/// Sets every byte of a buffer to `value`.
struct FillCall {
  BufferId target = noBuffer;
  uint8_t value = 0;
  bool operator==(const FillCall &) const = default;
};

struct MatmulCall {
  GemmDesc desc;
  BufferId a = noBuffer, b = noBuffer, c = noBuffer;
  BufferId bias = noBuffer;    ///< given exactly when desc.bias is
  BufferId scratch = noBuffer; ///< in the arena; noBuffer when the product needs none
  BufferId addend = noBuffer;  ///< laid out as c; what a product that accumulates adds to, where that is not c itself
  BufferId aux = noBuffer;     ///< laid out as c, given exactly when desc.geluGradient is: what GELU was taken of
  bool operator==(const MatmulCall &) const = default;
};

/// Copies source to target: as many bytes, not overlapping.
struct CopyCall {
  BufferId source = noBuffer;
  BufferId target = noBuffer;
  bool operator==(const CopyCall &) const = default;
};

/// A dense tensor that a custom op reads or writes: all of the buffer.
struct CustomTensor {
  BufferId buffer = noBuffer;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  bool operator==(const CustomTensor &) const = default;
};

/// Calls a function of the user's (custom_call.h), on a CPU and on one thread: a symbol of a shared object, or a
/// function of this process, by its number, which cannot be saved. It may fail.
struct CustomCall {
  std::string name; ///< the op's, for messages
  std::string library, symbol;
  int64_t host = 0; ///< 0: of the library, whose path is absolute
  std::vector<CustomTensor> inputs, outputs;
  bool operator==(const CustomCall &) const = default;
};

/// Chooses between two parts of the list: the `then` instructions behind it run where the byte of `predicate` is not 0,
/// otherwise the `otherwise` ones behind those. Parts nest. For devices that share the host's memory.
struct BranchCall {
  BufferId predicate = noBuffer; ///< one byte
  uint32_t then = 0, otherwise = 0;
  bool operator==(const BranchCall &) const = default;
};

/// Part i of `source`, which is as many equal parts as its loop has turns, in turn i.
struct LoopSlice {
  BufferId source = noBuffer;
  BufferId target = noBuffer;
  bool operator==(const LoopSlice &) const = default;
};

/// Runs the `body` instructions behind it `count` times, each time behind copies of the turn's slices. Parts nest.
struct LoopCall {
  int64_t count = 1;
  uint32_t body = 0;
  std::vector<LoopSlice> slices;
  bool operator==(const LoopCall &) const = default;
};

struct Instruction {
  std::variant<KernelCall, MatmulCall, CopyCall, LaunchCall, FillCall, CustomCall, BranchCall, LoopCall> call;
  std::string label; ///< what profiles and reports show
  std::vector<SourceLocation> sources;
  int64_t flops = 0;             ///< arithmetic
  int64_t bytes = 0;             ///< least traffic: each operand read once, each result written once
  DType arithmetic = DType::f32; ///< what a kernel multiplies; a product's description says it itself
  bool operator==(const Instruction &) const = default;
};

struct Plan {
  std::string name;
  std::vector<TensorSpec> inputs, outputs, states;
  std::vector<std::string> constants; ///< raw bytes, each stored 64-byte aligned; small
  std::vector<PointerTable> tables;
  int64_t arenaBytes = 0;
  int64_t alignment = arenaAlignment; ///< of the arena's first byte and of the tensors that a device allocates
  int32_t threads = 1;                ///< the thread count that scratch buffers are sized for
  std::vector<Buffer> buffers;
  std::vector<KernelCode> kernels;
  std::vector<Instruction> instructions;
  bool operator==(const Plan &) const = default;

  /// Arena, states, inputs, outputs, constants and tables: the step's memory as planned.
  int64_t plannedBytes() const;
};

/// Bounds that a reader checks before it allocates anything.
inline constexpr int64_t maxPlanBytes = int64_t{1} << 46;     ///< of the arena and of any tensor
inline constexpr int64_t maxPlanItems = int64_t{1} << 20;     ///< entries of any list
inline constexpr int64_t maxConstantBytes = int64_t{1} << 24; ///< all constants together
inline constexpr int64_t maxPlanTextBytes = int64_t{1} << 26; ///< JSON text
inline constexpr int64_t maxRank = 8;
inline constexpr int64_t maxParameterBytes = 32764; ///< of one launch, as CUDA has it since 12.1
inline constexpr int64_t maxMapRank = 5;
inline constexpr int64_t maxTurns = int64_t{1} << 31; ///< of a loop
inline constexpr size_t maxNesting = 64;              ///< of branches and loops

/// How many instructions behind it are parts of this one; 0 but for branches and loops.
size_t partsOf(const Instruction &instruction);
/// A branch or a loop.
inline bool isControl(const Instruction &instruction) {
  return std::holds_alternative<BranchCall>(instruction.call) || std::holds_alternative<LoopCall>(instruction.call);
}

/// Whether every id, range, size and operand of the plan holds; the error names the place ("instruction 12 `gelu`:
/// ...").
Error validatePlan(const Plan &plan);

/// "arena", "input", ...
std::string_view name(Space space);

/// The name of a custom op that calls a function of this process, which no file can hold; empty where there is none.
std::string unsavableCall(const Plan &plan);

/// The plan as JSON text (version 3); the plan must be valid.
std::string planToJson(const Plan &plan);

/// Reads and validates. Errors: not JSON, another version, a missing or misplaced member, anything of validatePlan.
Expected<Plan> planFromJson(std::string_view text);

} // namespace tcc::runtime
