// Where the planner has put a value: attributes on the ops of a planned function, read by codegen.
#pragma once
#include "ir/dialect.h"

namespace tcc {

enum class PlaceSpace : int64_t { arena, input, output, state, constant };

/// `index` is the number of the input, output, state or constant, in the function's order (0 for the arena).
struct Place {
  PlaceSpace space = PlaceSpace::arena;
  int64_t index = 0;
  int64_t offset = 0; // bytes
  bool operator==(const Place &) const = default;
};

inline constexpr llvm::StringLiteral placesAttr = "tcc.places";   // array of [space, index, offset], one a result
inline constexpr llvm::StringLiteral scratchAttr = "tcc.scratch"; // [offset, bytes] in the arena, products only
inline constexpr llvm::StringLiteral arenaAttr = "tcc.arena";     // on the function: bytes
inline constexpr llvm::StringLiteral stagingAttr = "tcc.staging"; // on the return: per operand an arena offset or -1

/// The place of a value of a planned function: an argument's own, or what the planner wrote; views have none.
Place placeOf(mlir::Value value);
void setPlaces(mlir::Operation *op, llvm::ArrayRef<Place> places);

/// Where the operand `i` of the function's return must end up.
Place returnPlace(mlir::Operation *terminator, unsigned i);

/// Bytes of a dense tensor in memory; i1 takes one byte an element.
int64_t byteSize(mlir::RankedTensorType type);

} // namespace tcc
