// A fingerprint of IR as it stands in memory: what a pass left as it was keeps its fingerprint.
#pragma once
#include "mlir/IR/Operation.h"
#include <utility>

namespace tcc {

/// 128 bits.
using Fingerprint = std::pair<uint64_t, uint64_t>;

/// Of `op` and all that is nested in it: operations with their names, attributes, locations, operands, result types and
/// order. Addresses are part of it, so that equal fingerprints are of the same IR, not of IR that looks alike.
Fingerprint fingerprintOf(mlir::Operation *op);
/// Of what is nested in `region`.
Fingerprint fingerprintOf(mlir::Region &region);

} // namespace tcc
