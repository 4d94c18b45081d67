// Scope: a name for a part of a model. Dumps, profiles, remarks and generated code use it for what is traced inside.
#pragma once
#include "frontend/loc.h"
#include <string>
#include <string_view>

namespace tcc {

/// While a Scope exists, the ops that its thread records carry its name: under `Scope block("h.3"); Scope mlp("mlp");`
/// a gelu is "h.3.mlp.gelu". A name that begins with the enclosing scope's name, as a parameter's often does, is not
/// doubled: Scope("h.3.mlp") within "h.3" is "h.3.mlp". Scopes must end in the opposite order of their beginning. A
/// scope costs one look-up; changing a name alone causes no new compilation.
class Scope {
public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /// The whole name, which lives as long as the process; null outside of any scope.
  static const std::string *current();
  /// The name for what is recorded at `loc`: the scope that the place itself has, else the current one.
  static const std::string *at(const Loc &loc) { return loc.scope() ? loc.scope() : current(); }

private:
  const std::string *outer;
};

} // namespace tcc
