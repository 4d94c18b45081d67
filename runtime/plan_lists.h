// What the instructions of a plan refer to by number: tensors, buffers, kernels, tables. Each struct lists its members
// once, in visitFields, from which its JSON is written and read (plan_json.cpp).
#pragma once
#include "runtime/dtype.h"
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::runtime {

/// Bounds that a reader checks before it allocates anything.
inline constexpr int64_t maxPlanBytes = int64_t{1} << 46;     ///< for the arena and for any tensor
inline constexpr int64_t maxPlanItems = int64_t{1} << 20;     ///< for the entries of any list
inline constexpr int64_t maxConstantBytes = int64_t{1} << 24; ///< for all constants together
inline constexpr int64_t maxRank = 8;

/// A dense row-major tensor outside the arena.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<int64_t> shape; ///< empty for a scalar

  int64_t elements() const;
  int64_t bytes() const { return elements() * byteSize(dtype); }
  bool operator==(const TensorSpec &) const = default;

  static void visitFields(auto &spec, auto &fields) {
    fields.text("name", spec.name);
    fields.dtype("dtype", spec.dtype);
    fields.integers("shape", spec.shape, maxRank, 0, maxPlanBytes);
  }
};

/// The bytes of all these tensors together.
int64_t totalBytes(const std::vector<TensorSpec> &specs);

/// The number of elements; -1 if a dim is negative or the bytes are more than maxPlanBytes.
int64_t checkedElements(const TensorSpec &spec);

/// The kind of memory in which a buffer lies. A step updates states in place.
enum class Space : uint8_t { arena, input, output, state, constant, table };

/// "arena", "input", ...
std::string_view name(Space space);

/// A range of bytes. `index` selects the tensor, constant or table (0 for the arena). Allocations in the arena start at
/// multiples of the plan's `alignment`; slices of them may start anywhere.
struct Buffer {
  Space space = Space::arena;
  uint32_t index = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool operator==(const Buffer &) const = default;

  static void visitFields(auto &buffer, auto &fields) {
    fields.space("space", buffer.space);
    fields.integer("index", buffer.index, 0, maxPlanItems);
    fields.integer("offset", buffer.offset, 0, maxPlanBytes);
    fields.integer("bytes", buffer.bytes, 0, maxPlanBytes);
  }
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

  static void visitFields(auto &source, auto &fields) {
    fields.text("file", source.file);
    fields.integer("line", source.line, 0, INT32_MAX);
    fields.integer("column", source.column, 0, INT32_MAX);
  }
};

/// Where an instruction comes from, as data for programs. People are shown the instruction's label instead.
struct Origin {
  std::string op;    ///< the graph's op without its dialect: "kernel", "flash_attention"; "return": the function's end
  std::string scope; ///< what the user's code calls it: "h.3.mlp.gelu"; empty if it has no name
  uint32_t number = 0; ///< its position in the plan before the target replaced instructions by its own
  bool operator==(const Origin &) const = default;

  static void visitFields(auto &origin, auto &fields) {
    fields.text("from", origin.op);
    fields.text("scope", origin.scope);
    fields.integer("number", origin.number, 0, maxPlanItems);
  }
};

/// One emitted function: extern "C" void symbol(int64_t begin, int64_t end, void *const *args).
using KernelFunction = void (*)(int64_t begin, int64_t end, void *const *args);

/// A kernel of a plan. A CPU kernel takes `arguments` pointers; the last `results` of them are written, the others only
/// read. A GPU kernel takes `arguments` parameters, and the slots of each launch say what is written.
struct KernelCode {
  std::string symbol;
  uint32_t arguments = 0;
  uint32_t results = 0;
  std::string description; ///< the fused ops, for people
  uint32_t module = 0;     ///< which of the artefact's code objects has the symbol
  bool operator==(const KernelCode &) const = default;

  static void visitFields(auto &kernel, auto &fields) {
    fields.text("symbol", kernel.symbol);
    fields.integer("arguments", kernel.arguments, 0, maxPlanItems);
    fields.integer("results", kernel.results, 0, maxPlanItems);
    fields.text("description", kernel.description);
    fields.integer("module", kernel.module, 0, maxPlanItems);
  }
};

/// Eight bytes at `offset` of a block that hold a buffer's device address.
struct PointerSlot {
  int64_t offset = 0;
  BufferId buffer = noBuffer;
  bool written = false; ///< whether the kernel writes through it
  bool read = true;     ///< whether the kernel reads through it; false for a result that is only written
  bool operator==(const PointerSlot &) const = default;

  static void visitFields(auto &slot, auto &fields) {
    fields.integer("offset", slot.offset, 0, maxConstantBytes);
    fields.buffer("buffer", slot.buffer);
    fields.boolean("written", slot.written);
    fields.boolean("read", slot.read);
  }
};

/// A table of addresses in device memory that kernels read, such as the segments of a launch over many tensors. It is
/// filled whenever tensors are placed.
struct PointerTable {
  std::string bytes; ///< what the kernel reads; zeros where addresses are filled in
  std::vector<PointerSlot> slots;
  bool operator==(const PointerTable &) const = default;

  static void visitFields(auto &table, auto &fields) {
    fields.hex("bytes", table.bytes);
    fields.list("pointers", table.slots, maxPlanItems);
  }
};

/// The lists of a plan that its instructions refer to.
struct PlanLists {
  std::span<const Buffer> buffers;
  std::span<const KernelCode> kernels;
  std::span<const PointerTable> tables;

  /// Whether two buffers have bytes in common; noBuffer has none.
  bool overlap(BufferId left, BufferId right) const;
};

/// How a call uses a buffer.
struct BufferUse {
  bool read = false;
  bool written = false;
  bool scratch = false; ///< written, and read by nobody after the call
  uint32_t set = 0;     ///< in a call over several sets of tensors, the set; no set may read what another one writes
};

/// What is wrong with the offsets of slots in a block of `bytes` bytes, or an empty text. Slots must lie inside the
/// block, at multiples of eight, one after another. Their buffers are not checked.
std::string problemOf(std::span<const PointerSlot> slots, int64_t bytes);

} // namespace tcc::runtime
