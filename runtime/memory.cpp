// The counted allocator: aligned memory, a live and a peak byte count, and a table of what is live.
#include "runtime/memory.h"
#include "runtime/huge_pages.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace tcc::runtime {
namespace {

struct Counter {
  std::mutex mutex;
  std::map<uintptr_t, int64_t> live; // start -> bytes
  int64_t liveBytes = 0;
  int64_t peakBytes = 0;
  std::set<int64_t *> scopes; // the peaks of the PeakScopes that are open
  bool poison = false;
};

// Never destroyed: tensors of static storage may be freed after it otherwise.
Counter &counter() {
  static Counter *instance = new Counter;
  return *instance;
}

} // namespace

int64_t countedLiveBytes() {
  std::lock_guard lock(counter().mutex);
  return counter().liveBytes;
}

int64_t countedPeakBytes() {
  std::lock_guard lock(counter().mutex);
  return counter().peakBytes;
}

PeakScope::PeakScope() {
  std::lock_guard lock(counter().mutex);
  peak = counter().liveBytes;
  counter().scopes.insert(&peak);
}

PeakScope::~PeakScope() {
  std::lock_guard lock(counter().mutex);
  counter().scopes.erase(&peak);
}

int64_t PeakScope::bytes() const {
  std::lock_guard lock(counter().mutex);
  return peak;
}

bool isCounted(const void *data) {
  std::lock_guard lock(counter().mutex);
  const auto &live = counter().live;
  const auto address = reinterpret_cast<uintptr_t>(data);
  auto next = live.upper_bound(address);
  if (next == live.begin())
    return false;
  const auto &[start, bytes] = *std::prev(next);
  return address - start < static_cast<uintptr_t>(bytes);
}

void poisonAllocations(bool enabled) {
  std::lock_guard lock(counter().mutex);
  counter().poison = enabled;
}

Expected<TensorStorage> TensorStorage::allocate(int64_t bytes) {
  if (bytes < 0 || bytes > maxPlanBytes)
    return Error("a tensor of " + std::to_string(bytes) + " bytes was asked for; 0 to 2^46 are possible");
  TensorStorage storage;
  if (bytes == 0)
    return storage;
  const size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
  storage.memory = std::aligned_alloc(64, rounded);
  if (!storage.memory)
    return Error("no memory for a tensor of " + std::to_string(bytes) + " bytes");
  askForHugePages(storage.memory, rounded);
  storage.size = bytes;
  storage.counted = true;
  Counter &count = counter();
  std::lock_guard lock(count.mutex);
  count.live.emplace(reinterpret_cast<uintptr_t>(storage.memory), bytes);
  count.liveBytes += bytes;
  count.peakBytes = std::max(count.peakBytes, count.liveBytes);
  for (int64_t *peak : count.scopes)
    *peak = std::max(*peak, count.liveBytes);
  if (count.poison)
    std::memset(storage.memory, 0xFF, rounded);
  return storage;
}

// Whole pages are given back and come again as zeros where they are first used, so that what is never used costs
// nothing.
Expected<TensorStorage> TensorStorage::zeros(int64_t bytes) {
  auto storage = allocate(bytes);
  if (!storage || bytes == 0)
    return storage;
  const auto begin = reinterpret_cast<uintptr_t>(storage->memory), end = begin + static_cast<uintptr_t>(bytes);
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (begin + page - 1) / page * page, last = end / page * page;
  auto *start = static_cast<char *>(storage->memory);
  constexpr uintptr_t fewBytes = 1 << 20; // for which a system call does not pay
  if (first + fewBytes > last || ::madvise(start + (first - begin), last - first, MADV_DONTNEED) != 0) {
    std::memset(start, 0, static_cast<size_t>(bytes));
    return storage;
  }
  std::memset(start, 0, first - begin);
  std::memset(start + (last - begin), 0, end - last);
  return storage;
}

TensorStorage TensorStorage::borrow(void *data, int64_t bytes, std::shared_ptr<void> owner) {
  TensorStorage storage;
  storage.memory = data;
  storage.size = bytes;
  storage.owner = std::move(owner);
  return storage;
}

TensorStorage::TensorStorage(TensorStorage &&other) noexcept
    : memory(std::exchange(other.memory, nullptr)), size(std::exchange(other.size, 0)),
      counted(std::exchange(other.counted, false)), owner(std::move(other.owner)) {}

TensorStorage &TensorStorage::operator=(TensorStorage &&other) noexcept {
  std::swap(memory, other.memory);
  std::swap(size, other.size);
  std::swap(counted, other.counted);
  owner.swap(other.owner);
  return *this;
}

TensorStorage::~TensorStorage() {
  if (!counted)
    return;
  Counter &count = counter();
  {
    std::lock_guard lock(count.mutex);
    count.live.erase(reinterpret_cast<uintptr_t>(memory));
    count.liveBytes -= size;
    if (count.poison)
      std::memset(memory, 0xFF, static_cast<size_t>(size));
  }
  std::free(memory);
}

} // namespace tcc::runtime
