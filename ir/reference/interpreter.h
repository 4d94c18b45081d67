// The reference interpreter: the meaning of every tcc op as plain loops over doubles. Passes and emitters are checked
// against it, so it shares nothing with the lowering: no scalarBody, no decomposition, and it has its own Philox.
#pragma once
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/error.h"

namespace tcc {

/// A tensor of a static type, row-major. Every element is a double: floats as they are, i1 as 0 or 1, integers exactly
/// (i64 up to 2^53 in magnitude).
struct RefTensor {
  mlir::RankedTensorType type;
  std::vector<double> data;

  llvm::ArrayRef<int64_t> shape() const { return type.getShape(); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  mlir::Type element() const { return type.getElementType(); }
};

enum class RefMode : uint8_t {
  exact,    // fp64 throughout: casts between floats are the identity
  rounding, // each op's result is rounded to its element type; sums and products accumulate in f32, rounded once
};

/// The results of `function` for these arguments, whose element types and sizes must be the function's (a `?` takes any
/// size). Values are freed after their last use. Composites have their own loops; a tcc.kernel runs its region.
/// An error says what was refused and where: an argument that does not fit, tcc.gradient ("run autodiff first"), an op
/// of another dialect, or sizes of `?` dims that do not agree.
runtime::Expected<std::vector<RefTensor>> interpret(mlir::func::FuncOp function, llvm::ArrayRef<RefTensor> arguments,
                                                    RefMode mode);

/// The results of each rank of a run. functions[r] is what rank r runs on arguments[r]; the ranks come to their
/// collectives together.
runtime::Expected<std::vector<std::vector<RefTensor>>> interpretRanks(llvm::ArrayRef<mlir::func::FuncOp> functions,
                                                                      llvm::ArrayRef<std::vector<RefTensor>> arguments,
                                                                      RefMode mode);

/// True if the interpreter knows the op; tcc.kernel and tcc.yield count, tcc.gradient does not.
bool hasReference(mlir::OperationName name);

/// A tensor of `type` with every element `value`.
RefTensor splatTensor(mlir::RankedTensorType type, double value);

/// The most elements of a tensor that the interpreter computes, which take 2 GiB.
inline constexpr int64_t mostElements = int64_t(1) << 28;

/// Random numbers that are uniform in [low, high), and the same for the same seed on every machine. Floats are rounded
/// to the element type and integers are rounded down; an i1 says on which side of the middle the number lies.
RefTensor randomTensor(mlir::RankedTensorType type, uint64_t seed, double low = -1, double high = 1);

/// `value` rounded to nearest even in a float type (overflow: infinity, or NaN where the type has none); for an
/// integer type `value` itself.
double roundToElement(double value, mlir::Type element);

/// Rounds every element to the tensor's own element type.
void roundToElement(RefTensor &tensor);

/// The four words of Philox4x32-10 (Salmon et al. 2011).
std::array<uint32_t, 4> philoxWords(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The coordinates of an element of tcc.random_bits, modulo 2^32.
struct RandomPlace {
  uint32_t outer, row, column;
};
/// The random bits of the element at `place`. `seed` is the value of an i64 seed, or the 32 bits of an i32 seed.
uint32_t randomBitsAt(uint64_t seed, uint64_t stream, RandomPlace place);

} // namespace tcc
