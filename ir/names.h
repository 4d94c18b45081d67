// The names that people gave. They are kept in locations: NameLoc("h.3.mlp.gelu") around the place in the user's file.
// A name is a path of words joined by dots: the C++ scopes or the name of a value, then the op. What a pass makes of an
// op keeps the op's name; the name of a gradient ends in ".grad".
#pragma once
#include "mlir/IR/Block.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include <string>

namespace tcc {

/// The location's name, or "".
llvm::StringRef nameOf(mlir::Location loc);
/// What people call an op: the name in its location, else the op's own name without the dialect. A custom op's own name
/// is the one that the user gave it.
llvm::StringRef nameOf(mlir::Operation *op);
/// The location of the same place with another name.
mlir::Location named(mlir::Location loc, llvm::StringRef name);
/// The first place in a user's file; null where there is none.
mlir::FileLineColLoc sourceOf(mlir::Location loc);
/// The name without its last word: "h.3.mlp" for "h.3.mlp.gelu", "" for "gelu".
llvm::StringRef scopeOf(llvm::StringRef name);

/// The names of a kernel's ops. The names of results come first, then the names that most ops have. Ops on scalars, and
/// ops that move or convert, are left out unless there are no others. An op that is recomputed for a gradient counts as
/// part of the gradient.
llvm::SmallVector<llvm::StringRef> namesOf(mlir::Block &body);

/// The place where people look for the kernel with these names: that of an op with the first of them.
mlir::Location mainLocation(mlir::Block &body, llvm::ArrayRef<llvm::StringRef> names);

/// The label of a kernel with these names: its first name, then the others shortened: "h.3.mlp.gelu+bias".
std::string kernelLabel(llvm::ArrayRef<llvm::StringRef> names);

/// What a kernel with this region computes, without names: each kind of op once, in order: "exp_mul", or "copy".
std::string workOf(mlir::Block &body);

} // namespace tcc
