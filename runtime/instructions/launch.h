// The launch of a kernel on a GPU.
#pragma once
#include "runtime/instructions/kind.h"
#include <array>

namespace tcc::runtime {

inline constexpr int64_t maxParameterBytes = 32764; ///< the most that one launch may have (CUDA 12.1 and later)
inline constexpr int64_t maxMapRank = 5;            ///< the most dimensions of a tensor map

/// A tensor map over a buffer (cuTensorMapEncodeTiled), which kernels need for bulk copies of tiles. It fills 128 bytes
/// of the launch's parameters, from byte `offset` on. A copy that reads outside the tensor gets zeros. Lists have the
/// innermost dimension first. `sizes` (of the tensor) and `box` (of one tile) count elements; `strides` count bytes and
/// leave the innermost dimension out.
struct MapSlot {
  int64_t offset = 0; ///< a multiple of 64
  BufferId buffer = noBuffer;
  bool written = false;     ///< whether the kernel writes through the map
  int32_t elementBytes = 2; ///< 1, 2, 4 or 8
  int32_t swizzleBytes = 0; ///< 0, 32, 64 or 128
  std::vector<int64_t> sizes, strides, box;
  bool operator==(const MapSlot &) const = default;

  static void visitFields(auto &slot, auto &fields) {
    fields.integer("offset", slot.offset, 0, maxParameterBytes);
    fields.buffer("buffer", slot.buffer);
    fields.boolean("written", slot.written);
    fields.integer("element_bytes", slot.elementBytes, 1, 8);
    fields.integer("swizzle_bytes", slot.swizzleBytes, 0, 128);
    fields.integers("sizes", slot.sizes, maxMapRank);
    fields.integers("strides", slot.strides, maxMapRank);
    fields.integers("box", slot.box, maxMapRank);
  }
};

/// Launches a kernel of a GPU once. `parameters` is one block with the bytes of all of the kernel's parameters;
/// parameterOffsets[i] says where parameter i begins in it. The device writes addresses into `pointerSlots` and tensor
/// maps into `mapSlots` when tensors are placed.
struct LaunchCall {
  static constexpr KindWords words{"launch", "kernel"};

  uint32_t kernel = 0;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::array<int64_t, 3> cluster{1, 1, 1}; ///< blocks of a cluster; {1, 1, 1} launches without clusters
  int64_t sharedBytes = 0;                 ///< dynamic shared memory of a block
  bool loops = false;                      ///< blocks loop: one a multiprocessor at most, of those of grid[0]
  std::string parameters;
  std::vector<int64_t> parameterOffsets;
  std::vector<PointerSlot> pointerSlots;
  std::vector<MapSlot> mapSlots;
  bool operator==(const LaunchCall &) const = default;

  static void visitFields(auto &call, auto &fields) {
    fields.kernel("kernel", call.kernel);
    fields.integers("grid", call.grid);
    fields.integers("block", call.block);
    fields.integers("cluster", call.cluster);
    fields.integer("shared_bytes", call.sharedBytes, 0, maxPlanBytes);
    fields.boolean("loops", call.loops);
    fields.hex("parameters", call.parameters);
    fields.integers("parameter_offsets", call.parameterOffsets, maxParameterBytes);
    fields.list("pointers", call.pointerSlots, maxPlanItems);
    fields.list("maps", call.mapSlots, maxPlanItems);
  }
  static void visitBuffers(auto &call, const PlanLists &, auto &&visit) {
    for (auto &slot : call.pointerSlots)
      visit(slot.buffer, BufferUse{.read = slot.read, .written = slot.written});
    for (auto &slot : call.mapSlots)
      visit(slot.buffer, BufferUse{.read = true, .written = slot.written});
  }
  static void visitParts(auto &, auto &&) {}
  std::string validate(const PlanLists &plan) const;
};

} // namespace tcc::runtime
