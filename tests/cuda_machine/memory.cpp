// Memory of the emulated devices and pinned memory of the host: guarded buffers of the emulator, found by address.
#include "tests/cuda_machine/state.h"

#include <algorithm>
#include <iterator>
#include <new>

namespace tcc::machine {
namespace {

/// What the stand-in takes of the host, however much a device would have.
constexpr std::size_t mostBytes = std::size_t{12} << 30;
/// Freed allocations whose addresses stay closed; each costs the process a mapping.
constexpr std::size_t mostRetired = 4096;

} // namespace

std::shared_ptr<Memory> State::allocate(const std::shared_ptr<Context> &context, std::size_t bytes, bool pinned) {
  if (bytes == 0)
    fail(invalidValue, "zero bytes are allocated");
  std::size_t used = 0, all = 0;
  for (auto &[address, held] : memory) {
    all += held->buffer.bytes();
    if (!held->pinned && held->context == context->handle)
      used += held->buffer.bytes();
  }
  if (!pinned && bytes > deviceMemory() - std::min(used, deviceMemory()))
    fail(outOfMemory, std::to_string(bytes) + " bytes beside " + std::to_string(used) + " in use; the device has " +
                          std::to_string(deviceMemory()));
  if (bytes > mostBytes - std::min(all, mostBytes))
    fail(outOfMemory, std::to_string(bytes) + " bytes; the stand-in takes at most 12 GiB of the host");
  auto held = std::make_shared<Memory>(bytes, (pinned ? "pinned allocation " : "allocation ") +
                                                  std::to_string(++allocationNumber) + " of device " +
                                                  std::to_string(context->ordinal));
  held->context = context->handle;
  held->pinned = pinned;
  if (pinned) {
    ++counters().pinned;
    ++counters().livePinned;
  } else {
    held->buffer.setAccessible(false);
    ++counters().allocations;
    ++counters().liveBuffers;
    counters().liveBytes += bytes;
    counters().peakBytes = std::max(counters().peakBytes, counters().liveBytes);
  }
  memory.emplace(held->address(), held);
  return held;
}

void State::free(std::uintptr_t address, bool pinned) {
  auto found = memory.find(address);
  if (found == memory.end() || found->second->pinned != pinned) {
    ++counters().invalidReleases;
    fail(invalidValue, "no live allocation begins at this address");
  }
  std::shared_ptr<Memory> held = found->second;
  held->freed = true;
  held->buffer.retire();
  if (pinned)
    --counters().livePinned;
  else {
    --counters().liveBuffers;
    counters().liveBytes -= held->buffer.bytes();
  }
  memory.erase(found);
  retired.push_back(std::move(held));
  if (retired.size() > mostRetired)
    retired.pop_front();
}

std::shared_ptr<Memory> State::memoryAt(std::uintptr_t address, std::size_t bytes) {
  auto after = memory.upper_bound(address);
  if (after == memory.begin())
    return nullptr;
  const std::shared_ptr<Memory> &held = std::prev(after)->second;
  return held->covers(address, bytes) ? held : nullptr;
}

} // namespace tcc::machine
