// The names are kept for good: a model has few, and records point to them.
#include "frontend/scope.h"
#include <mutex>
#include <set>

namespace tcc {
namespace {

thread_local const std::string *innermost = nullptr;

const std::string *kept(std::string name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return &*names.insert(std::move(name)).first;
}

} // namespace

Scope::Scope(std::string_view name) : outer(innermost) {
  while (name.ends_with('.'))
    name.remove_suffix(1);
  const bool goesOn = outer && name.starts_with(*outer) && (name.size() == outer->size() || name[outer->size()] == '.');
  if (!name.empty())
    innermost = kept(outer && !goesOn ? *outer + '.' + std::string(name) : std::string(name));
}

Scope::~Scope() {
  innermost = outer;
}

const std::string *Scope::current() {
  return innermost;
}

} // namespace tcc
