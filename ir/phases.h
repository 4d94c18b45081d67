// Phases: stated sets of what may still be in the IR. The pipeline checks the phase it has reached after each pass.
#pragma once
#include "ir/dialect.h"
#include "ir/fingerprint.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

enum class Phase : uint8_t { captured, joint, shaped, fused, planned };

/// "captured", "joint", … as -emit= and dumps spell them.
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef name);

/// Checks that a function keeps the rules of its phase, again after each pass. A kernel that was found legal is
/// analysed again only if it has changed.
class PhaseVerifier {
public:
  /// Checks that `function` holds only what `phase` allows; emits an error at the first op that does not belong.
  mlir::LogicalResult verify(mlir::func::FuncOp function, Phase phase);

private:
  llvm::DenseSet<Fingerprint> legalKernels; // fingerprints of their regions
};

} // namespace tcc
