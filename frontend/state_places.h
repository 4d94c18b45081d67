// StatePlaces: says which argument of a record a state is. It is asked at each use of a state, so it is a hash table
// with open addressing.
#pragma once
#include "runtime/mix_bits.h"
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tcc {

class StatePlaces {
public:
  /// Adds a state; `state` is the storage to which its handles point, and which the record keeps alive.
  void add(const void *state, uint32_t place) {
    if (2 * ++count > slots.size()) {
      std::vector<Slot> old(2 * slots.size());
      old.swap(slots);
      --shift;
      for (const Slot &slot : old)
        if (slot.state)
          *slotOf(slot.state) = slot;
    }
    *slotOf(state) = {state, place};
  }
  /// The argument that the state is; null if it is none.
  const uint32_t *find(const void *state) {
    const Slot *slot = slotOf(state);
    return slot->state ? &slot->place : nullptr;
  }
  void clear() { *this = {}; }

private:
  struct Slot {
    const void *state = nullptr;
    uint32_t place = 0;
  };
  /// The state's slot, or the free one where it belongs.
  Slot *slotOf(const void *state) {
    size_t index = reinterpret_cast<uintptr_t>(state) * runtime::splitMixStep >> shift;
    while (slots[index].state && slots[index].state != state)
      index = (index + 1) & (slots.size() - 1);
    return &slots[index];
  }

  std::vector<Slot> slots = std::vector<Slot>(size_t{1} << 4); // a power of two, at most half of them taken
  int shift = 64 - 4;
  size_t count = 0;
};

} // namespace tcc
