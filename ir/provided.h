// Custom ops whose code is a provider's: functions of this process that have names (runtime/custom_call.h).
#pragma once
#include "ir/dialect.h"

namespace tcc {

/// Whether the op's library is no file but `<name>`. Such an op may be without a body: what its symbol says is what it
/// means.
inline bool isProvided(CustomOp op) {
  const llvm::StringRef library = op.getLibrary().value_or("");
  return library.starts_with("<") && library.ends_with(">");
}

} // namespace tcc
