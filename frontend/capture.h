// From records to MLIR. This header knows no MLIR but by name, so that the tracer does not pay for it.
#pragma once
#include "frontend/trace.h"

namespace mlir {
class MLIRContext;
class ModuleOp;
class RankedTensorType;
template <typename OpTy>
class OwningOpRef;
} // namespace mlir

namespace tcc {

/// This thread's context, with the dialects of a tcc module loaded.
mlir::MLIRContext &threadContext();

/// "'tcc.matmul' op contraction ..." as users read it: "`matmul` contraction ...".
std::string userMessage(std::string message);

/// Result types of an op, inferred and verified by the dialect. Throws Error at `loc` with the constraint's label.
std::vector<ValueType> inferTypes(OpKind kind, std::span<const ValueType> operands, std::span<const uint64_t> words,
                                  Loc loc);

/// Element type and static shape of a tensor type of the dialect, at most rank 8.
ValueType valueType(mlir::RankedTensorType type);

/// The module of a recorded function: @name(inputs, states) -> (outputs, updates), locations as the user's lines.
/// `showsReads`: what the host asked for on the way stands there as tcc.item and tcc.print, as far as it was one
/// element or was printed.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(const Record &record, const std::string &name,
                                              std::span<const std::string> outputNames, mlir::MLIRContext &context,
                                              bool showsReads = false);

} // namespace tcc
