#include "runtime/instructions/launch.h"

namespace tcc::runtime {
namespace {

std::string number(int64_t value) {
  return std::to_string(value);
}

std::string problemOf(const MapSlot &slot, int64_t parameterBytes, const PlanLists &plan) {
  constexpr int64_t mapBytes = 128;
  if (slot.offset < 0 || slot.offset % 64 || slot.offset > parameterBytes - mapBytes)
    return "a map slot is at byte " + number(slot.offset) + " of " + number(parameterBytes) +
           "; slots are 128 bytes, inside, at multiples of 64";
  const size_t rank = slot.sizes.size();
  if (rank < 1 || rank > static_cast<size_t>(maxMapRank) || slot.box.size() != rank || slot.strides.size() != rank - 1)
    return "a tensor map has " + std::to_string(rank) + " sizes, " + std::to_string(slot.strides.size()) +
           " strides and " + std::to_string(slot.box.size()) + " box sizes; n, n - 1 and n, n from 1 to 5";
  if (slot.elementBytes < 1 || slot.elementBytes > 8 || (slot.elementBytes & (slot.elementBytes - 1)))
    return "a tensor map has elements of " + number(slot.elementBytes) + " bytes; 1, 2, 4 or 8 are possible";
  if (slot.swizzleBytes != 0 && slot.swizzleBytes != 32 && slot.swizzleBytes != 64 && slot.swizzleBytes != 128)
    return "a tensor map swizzles " + number(slot.swizzleBytes) + " bytes; 0, 32, 64 or 128 are possible";
  __int128 last = 0;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t stride = i == 0 ? slot.elementBytes : slot.strides[i - 1];
    if (slot.sizes[i] < 1 || slot.sizes[i] > int64_t{1} << 32 || slot.box[i] < 1 || slot.box[i] > 256 || stride < 1 ||
        stride >= int64_t{1} << 40 || (i > 0 && stride % 16))
      return "dimension " + std::to_string(i) + " of a tensor map has size " + number(slot.sizes[i]) + ", stride " +
             number(stride) + " and box " + number(slot.box[i]) +
             "; sizes to 2^32, outer strides multiples of 16 below 2^40, boxes to 256";
    last += static_cast<__int128>(slot.sizes[i] - 1) * stride;
  }
  const int64_t bytes = plan.buffers[slot.buffer].bytes;
  if (last + slot.elementBytes > bytes)
    return "a tensor map reaches beyond the " + number(bytes) + " bytes of buffer " + number(slot.buffer);
  return {};
}

// Grid, block, cluster and shared memory within CUDA's own limits; a device may have narrower ones.
std::string problemOfShape(const LaunchCall &call) {
  constexpr std::array<int64_t, 3> mostBlocks{INT32_MAX, 65535, 65535}, mostThreads{1024, 1024, 64};
  int64_t threads = 1, clusterBlocks = 1;
  for (size_t i = 0; i < 3; ++i) {
    if (call.grid[i] < 0 || call.grid[i] > mostBlocks[i])
      return "the grid has " + number(call.grid[i]) + " blocks along an axis; 2^31 - 1, 65535, 65535 at most";
    if (call.block[i] < 1 || call.block[i] > mostThreads[i] || (threads *= call.block[i]) > 1024)
      return "a block has " + number(call.block[i]) + " threads along an axis; 1024, 1024, 64 and 1024 in all at most";
    if (call.cluster[i] < 1 || call.cluster[i] > 16 || (clusterBlocks *= call.cluster[i]) > 16 ||
        call.grid[i] % call.cluster[i])
      return "a cluster has " + number(call.cluster[i]) + " blocks along an axis; it divides the grid and has 16 " +
             "blocks at most";
  }
  if (call.sharedBytes < 0 || call.sharedBytes > int64_t{1} << 20)
    return number(call.sharedBytes) + " bytes of shared memory are asked for; 0 to 2^20 are possible";
  return {};
}

} // namespace

std::string LaunchCall::validate(const PlanLists &plan) const {
  if (std::string problem = problemOfShape(*this); !problem.empty())
    return problem;
  const KernelCode &code = plan.kernels[kernel];
  const auto bytes = static_cast<int64_t>(parameters.size());
  if (bytes > maxParameterBytes)
    return number(bytes) + " bytes of parameters; " + number(maxParameterBytes) + " at most";
  if (parameterOffsets.size() != code.arguments)
    return std::to_string(parameterOffsets.size()) + " parameters are passed; kernel `" + code.symbol + "` takes " +
           number(code.arguments);
  int64_t last = -1;
  for (int64_t offset : parameterOffsets) {
    if (offset <= last || offset >= bytes)
      return "a parameter starts at byte " + number(offset) + " of " + number(bytes) +
             "; parameters are in order and inside";
    last = offset;
  }
  if (std::string problem = runtime::problemOf(pointerSlots, bytes); !problem.empty())
    return problem;
  if (mapSlots.size() > 64)
    return std::to_string(mapSlots.size()) + " tensor maps; 64 at most";
  for (const MapSlot &slot : mapSlots)
    if (std::string problem = problemOf(slot, bytes, plan); !problem.empty())
      return problem;
  return {};
}

} // namespace tcc::runtime
