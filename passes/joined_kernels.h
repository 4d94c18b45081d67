// Kernels that run as one: neighbours of a block with one number under this attribute. schedule writes it; the planner
// and the lowering of plans read it. Their forms are equal, and none reads or overwrites what another writes, so they
// run in any order or at the same time.
#pragma once
#include "ir/dialect.h"

namespace tcc {

inline constexpr llvm::StringLiteral joinedAttr = "tcc.joined"; // on kernels: i64, the number of the group

/// The number of the kernel's group, or nothing where it runs alone.
std::optional<int64_t> joinedGroup(mlir::Operation *op);

/// Joins equal kernels of a scheduled block: moves those that may stand together, and numbers them. Live bytes at the
/// block's fullest point grow by at most `slack`; `alignment` is that of a stored value.
void joinKernels(mlir::Block &block, int64_t slack, int64_t alignment);

} // namespace tcc
