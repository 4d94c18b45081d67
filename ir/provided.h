// Custom ops whose code is a provider's: functions of this process that have names (runtime/custom_call.h).
#pragma once
#include "ir/dialect.h"
#include "runtime/instructions/custom.h"

namespace tcc {

/// Whether the op's library is no file but `<name>`. Such an op may be without a body: what its symbol says is what it
/// means.
inline bool isProvided(CustomOp op) {
  return runtime::isProvided(op.getLibrary().value_or(""));
}

} // namespace tcc
