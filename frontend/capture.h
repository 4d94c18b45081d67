// Capture: makes an MLIR module from a record. This header only forward-declares what it needs of MLIR, so that the
// tracer compiles without its headers.
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

/// The result types of an op, which the dialect infers and verifies. Throws Error at `loc` with the label of the
/// violated constraint.
std::vector<ValueType> inferTypes(OpKind kind, std::span<const ValueType> operands, std::span<const uint64_t> words,
                                  Loc loc);

/// The element type and static shape of a tensor type of the dialect; its rank is at most 8.
ValueType valueType(mlir::RankedTensorType type);

/// The module of a recorded function: @name(inputs, states) -> (outputs, updates). Locations are the user's lines. If
/// `showsReads` is set, the module also shows the graph breaks: a tcc.item for each single number that the host asked
/// for in the middle of the step, and a tcc.print for each value that it printed.
mlir::OwningOpRef<mlir::ModuleOp> buildModule(const Record &record, const std::string &name,
                                              std::span<const std::string> outputNames, mlir::MLIRContext &context,
                                              bool showsReads = false);

} // namespace tcc
