#include "ir/reference/host_reference.h"
#include <deque>
#include <mutex>

namespace tcc {
namespace {

std::mutex mutex;

std::deque<HostReference> &references() {
  static std::deque<HostReference> list; // whose elements stay in place
  return list;
}

} // namespace

int64_t addHostReference(HostReference reference) {
  const std::lock_guard lock(mutex);
  references().push_back(std::move(reference));
  return static_cast<int64_t>(references().size());
}

const HostReference *findHostReference(int64_t number) {
  const std::lock_guard lock(mutex);
  if (number < 1 || number > static_cast<int64_t>(references().size()))
    return nullptr;
  return &references()[static_cast<size_t>(number - 1)];
}

} // namespace tcc
