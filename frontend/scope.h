// Names for parts of a model: what is traced inside a Scope is called by it in dumps, profiles, remarks and generated
// code.
#pragma once
#include "frontend/loc.h"
#include <string>
#include <string_view>

namespace tcc {

/// While it lives, the ops that this thread records have its name: under `Scope block("h.3"); Scope mlp("mlp");` a gelu
/// is "h.3.mlp.gelu". A name that begins with that of the enclosing scope, as a parameter's often does, goes on from
/// there: Scope("h.3.mlp") within "h.3" is "h.3.mlp". Scopes end in the opposite order. They cost a look-up, and are no
/// part of what makes a call a known one.
class Scope {
public:
  explicit Scope(std::string_view name);
  ~Scope();
  Scope(const Scope &) = delete;
  Scope &operator=(const Scope &) = delete;

  /// The whole name, which lives as long as the process; null outside of any scope.
  static const std::string *current();
  /// That of what is recorded at a place, which may say it itself.
  static const std::string *at(const Loc &loc) { return loc.scope() ? loc.scope() : current(); }

private:
  const std::string *outer;
};

} // namespace tcc
