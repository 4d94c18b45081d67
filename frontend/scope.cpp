// The names are kept for good: a model has few, and records point to them.
#include "frontend/scope.h"
#include "frontend/kept_text.h"

namespace tcc {
namespace {

thread_local const std::string *innermost = nullptr;

} // namespace

Scope::Scope(std::string_view name) : outer(innermost) {
  while (name.ends_with('.'))
    name.remove_suffix(1);
  const bool goesOn = outer && name.starts_with(*outer) && (name.size() == outer->size() || name[outer->size()] == '.');
  if (!name.empty())
    innermost = outer && !goesOn ? keptText(*outer + '.' + std::string(name)) : keptText(name);
}

Scope::~Scope() {
  innermost = outer;
}

const std::string *Scope::current() {
  return innermost;
}

} // namespace tcc
