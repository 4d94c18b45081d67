// The names that people gave, which live in locations: NameLoc("h.3.mlp.gelu") around the place in the user's file. A
// name is a path of words joined by dots: C++ scopes or the name of a value, then the op; what a pass makes of an op
// keeps its name, and a gradient's ends in ".grad".
#pragma once
#include "mlir/IR/Block.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include <string>

namespace tcc {

/// The location's name, or "".
llvm::StringRef nameOf(mlir::Location loc);
/// What people call an op: its location's name, or its own without the dialect (of a custom op: what the user called
/// it).
llvm::StringRef nameOf(mlir::Operation *op);
/// The same place under another name.
mlir::Location named(mlir::Location loc, llvm::StringRef name);
/// The first place in a user's file; null where there is none.
mlir::FileLineColLoc sourceOf(mlir::Location loc);
/// "h.3.mlp" of "h.3.mlp.gelu"; "" of "gelu".
llvm::StringRef scopeOf(llvm::StringRef name);

/// The names of a kernel's ops, without those of scalars and of what is moved or converted unless there are no others:
/// the names of results first, then those of many ops. What is only computed again for a gradient is part of the
/// gradient.
llvm::SmallVector<llvm::StringRef> namesOf(mlir::Block &body);

/// The place of an op that has the first of these names: where people look for the kernel.
mlir::Location mainLocation(mlir::Block &body);

/// What a kernel of this region is called: its first name, then the others in few words: "h.3.mlp.gelu+bias".
std::string kernelLabel(mlir::Block &body);

} // namespace tcc
