#include "ir/reference/host_reference.h"
#include "ir/provided.h"
#include <deque>
#include <map>
#include <mutex>

namespace tcc {
namespace {

std::mutex mutex;

std::deque<HostReference> &references() {
  static std::deque<HostReference> list; // whose elements stay in place
  return list;
}

std::map<std::string, ReferenceProvider> &providers() {
  static std::map<std::string, ReferenceProvider> list; // by library
  return list;
}

/// Null for another number than addHostReference() gave.
const HostReference *findHostReference(int64_t number) {
  const std::lock_guard lock(mutex);
  if (number < 1 || number > static_cast<int64_t>(references().size()))
    return nullptr;
  return &references()[static_cast<size_t>(number - 1)];
}

} // namespace

int64_t addHostReference(HostReference reference) {
  const std::lock_guard lock(mutex);
  references().push_back(std::move(reference));
  return static_cast<int64_t>(references().size());
}

void addReferenceProvider(const std::string &name, ReferenceProvider provider) {
  const std::lock_guard lock(mutex);
  providers().insert_or_assign("<" + name + ">", std::move(provider));
}

HostReference referenceOf(CustomOp op) {
  if (const HostReference *numbered = findHostReference(op.getHostReference().value_or(0)))
    return *numbered;
  if (!isProvided(op))
    return {};
  ReferenceProvider provider;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = providers().find(op.getLibrary()->str()); found != providers().end())
      provider = found->second;
  }
  return provider ? provider(op.getSymbol()->str()) : HostReference();
}

} // namespace tcc
