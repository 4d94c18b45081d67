// The reference interpreter: the meaning of every tcc op as plain loops over doubles. It is the oracle for passes and
// emitters, so nothing of it is shared with the lowering: no scalarBody, no decomposition, its own Philox.
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

/// Elements of the largest tensor that the interpreter computes: 2 GiB of them.
inline constexpr int64_t mostElements = int64_t(1) << 28;

/// Uniform in [low, high), the same for the same seed everywhere: floats rounded to the element type, integers
/// truncated towards -inf, i1 by comparison with the middle.
RefTensor randomTensor(mlir::RankedTensorType type, uint64_t seed, double low = -1, double high = 1);

/// `value` rounded to nearest even in a float type (overflow: infinity, or NaN where the type has none); for an
/// integer type `value` itself.
double roundToElement(double value, mlir::Type element);

/// Rounds every element to the tensor's own element type.
void roundToElement(RefTensor &tensor);

/// The four words of Philox4x32-10 (Salmon et al. 2011).
std::array<uint32_t, 4> philoxWords(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// Where an element of tcc.random_bits stands: modulo 2^32.
struct RandomPlace {
  uint32_t outer, row, column;
};
/// Its bits. `seed` is what an i64 seed holds, or the 32 bits of an i32 one.
uint32_t randomBitsAt(uint64_t seed, uint64_t stream, RandomPlace place);

} // namespace tcc
