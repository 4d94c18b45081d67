// Joined kernels are launched as one: neighbours in a block that carry the same number as tcc.joined. schedule writes
// the attribute; the planner and the lowering of plans read it. Joined kernels have equal forms, and none reads or
// overwrites what another writes, so they may run in any order or at the same time.
#pragma once
#include "ir/dialect.h"

namespace tcc {
struct TargetModel;

inline constexpr llvm::StringLiteral joinedAttr = "tcc.joined"; // on kernels: i64, the number of the group

/// The number of the kernel's group, or nothing where it runs alone.
std::optional<int64_t> joinedGroup(mlir::Operation *op);

/// Joins equal kernels of a scheduled block: moves those that may run together next to each other, and numbers them.
/// The bytes that are alive at the block's fullest point grow by at most the target's joinedBytes.
void joinKernels(mlir::Block &block, const TargetModel &target);

} // namespace tcc
