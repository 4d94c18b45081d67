// Places: where the planner has put each value. The ops of a planned function have them as attributes, which codegen
// reads.
#pragma once
#include "ir/dialect.h"
#include "ir/tensor_bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tcc {

enum class PlaceSpace : int64_t { arena, input, output, state, constant };

/// `index` is the number of the input, output, state or constant, in the function's order (0 for the arena).
struct Place {
  PlaceSpace space = PlaceSpace::arena;
  int64_t index = 0;
  int64_t offset = 0; // bytes
  bool operator==(const Place &) const = default;
};

inline constexpr llvm::StringLiteral placesAttr = "tcc.places";   // for each result [space, index, offset]
inline constexpr llvm::StringLiteral scratchAttr = "tcc.scratch"; // [offset, bytes] in the arena, if it has scratch
inline constexpr llvm::StringLiteral keptPackingAttr =
    "tcc.kept_packing"; // on a matmul, a unit attribute: its right operand may be packed once for it and others
inline constexpr llvm::StringLiteral arenaAttr = "tcc.arena";     // on the function: the bytes of the arena
inline constexpr llvm::StringLiteral stagingAttr = "tcc.staging"; // on the return: for each operand an offset or -1

/// The place that the planner has written for an op's result; views have none.
Place placeOf(mlir::OpResult result);
void setPlaces(mlir::Operation *op, llvm::ArrayRef<Place> places);

/// The places that a function's signature gives to its arguments and results, read once.
class SignaturePlaces {
public:
  explicit SignaturePlaces(mlir::func::FuncOp function);

  Place argument(unsigned i) const { return arguments[i]; }
  /// Where operand `i` of the function's return must end up.
  Place returned(unsigned i) const { return results[i]; }
  /// The state argument that result `i` updates. Null if it updates none, or if it names a state that does not exist
  /// (result_c2).
  mlir::BlockArgument updated(unsigned i) const { return states[i]; }
  /// The place of any stored value of a planned function.
  Place of(mlir::Value value) const;

private:
  llvm::SmallVector<Place, 0> arguments, results;
  llvm::SmallVector<mlir::BlockArgument, 0> states;
};

} // namespace tcc
