#include "runtime/plan_lists.h"
#include <array>

namespace tcc::runtime {

int64_t TensorSpec::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

int64_t totalBytes(const std::vector<TensorSpec> &specs) {
  int64_t bytes = 0;
  for (const TensorSpec &spec : specs)
    bytes += spec.bytes();
  return bytes;
}

int64_t checkedElements(const TensorSpec &spec) {
  __int128 elements = 1;
  for (int64_t dim : spec.shape) {
    if (dim < 0 || dim > maxPlanBytes)
      return -1;
    elements *= dim;
    if (elements > maxPlanBytes)
      return -1;
  }
  return elements * byteSize(spec.dtype) > maxPlanBytes ? -1 : static_cast<int64_t>(elements);
}

std::string_view name(Space space) {
  static constexpr std::array<std::string_view, 6> names{"arena", "input", "output", "state", "constant", "table"};
  return names[static_cast<size_t>(space)];
}

bool PlanLists::overlap(BufferId left, BufferId right) const {
  if (left == noBuffer || right == noBuffer)
    return false;
  const Buffer &a = buffers[left], &b = buffers[right];
  return a.space == b.space && a.index == b.index && a.bytes > 0 && b.bytes > 0 && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

std::string problemOf(std::span<const PointerSlot> slots, int64_t bytes) {
  int64_t end = 0;
  for (const PointerSlot &slot : slots) {
    if (slot.offset < end || slot.offset % 8 || slot.offset > bytes - 8)
      return "a pointer slot is at byte " + std::to_string(slot.offset) + " of " + std::to_string(bytes) +
             "; slots are eight bytes, in order, inside, at multiples of eight";
    end = slot.offset + 8;
    if (!slot.read && !slot.written)
      return "the pointer slot at byte " + std::to_string(slot.offset) + " is neither read nor written";
  }
  return {};
}

} // namespace tcc::runtime
