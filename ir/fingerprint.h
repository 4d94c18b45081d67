// fingerprintOf: a fingerprint of IR as it stands in memory, to find out whether a pass has changed it.
#pragma once
#include "mlir/IR/Operation.h"
#include <utility>

namespace tcc {

/// 128 bits.
using Fingerprint = std::pair<uint64_t, uint64_t>;

/// The fingerprint of `op` and all that is nested in it: operations with their names, attributes, locations, operands,
/// result types and order. Addresses in memory are part of it, so equal fingerprints mean the very same IR; IR that
/// only looks alike has another one.
Fingerprint fingerprintOf(mlir::Operation *op);
/// The fingerprint of all that is nested in `region`.
Fingerprint fingerprintOf(mlir::Region &region);

} // namespace tcc
