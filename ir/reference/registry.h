// Call, what a reference function is given, and Registry, the table of functions that the families fill. Private to
// ir/reference.
#pragma once
#include "ir/reference/interpreter.h"
#include "llvm/ADT/StringMap.h"

namespace tcc::reference {

using Shape = llvm::SmallVector<int64_t, 4>;

/// One execution of an op. The function adds its results in order; floats are rounded by the interpreter afterwards.
struct Call {
  mlir::Operation *op;
  llvm::ArrayRef<const RefTensor *> operands;
  RefMode mode;
  std::vector<RefTensor> results;
  std::string error; // set by `refuse`

  const RefTensor &in(unsigned i) const { return *operands[i]; }
  /// The next result, of this shape and filled with zeros.
  RefTensor &addResult(llvm::ArrayRef<int64_t> shape);
  /// The shape of result 0, with the sizes of `like` in place of its `?`.
  Shape resultShape(const RefTensor *like) const;
  void refuse(const llvm::Twine &message) { error = message.str(); }
};

using Function = std::function<void(Call &)>;
using Registry = llvm::StringMap<Function>;

void addElementwise(Registry &registry);
void addViews(Registry &registry);
void addReductions(Registry &registry);
void addWindows(Registry &registry);
void addIndexing(Registry &registry);
void addMatmul(Registry &registry);
void addAttention(Registry &registry);
void addActivations(Registry &registry);
void addComposites(Registry &registry);
void addHostOps(Registry &registry);
void addCollectives(Registry &registry);

/// What a collective gives rank `rank`, from the op and its operands on each rank.
RefTensor runCollective(llvm::ArrayRef<mlir::Operation *> ops, llvm::ArrayRef<std::vector<const RefTensor *>> operands,
                        size_t rank, unsigned result);

/// Registers a function that takes the call and the op in its own class.
template <typename Op, typename F>
void add(Registry &registry, F function) {
  registry[Op::getOperationName()] = [function](Call &call) { function(call, mlir::cast<Op>(call.op)); };
}

/// A running sum: fp64 in exact mode, f32 after every step in rounding mode.
class Sum {
public:
  explicit Sum(RefMode mode, double start = 0) : value(start), narrow(mode == RefMode::rounding) {}
  void add(double x) {
    value += x;
    if (narrow)
      value = static_cast<float>(value);
  }
  double get() const { return value; }

private:
  double value;
  bool narrow;
};

/// The random bits of the elements of one shape, for the operands of an op that uses random bits.
class RandomElements {
public:
  /// `first` may be null.
  RandomElements(const RefTensor &seed, uint64_t stream, const RefTensor *first);
  uint32_t at(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> index) const;
  /// Whether a dropout of this rate keeps the element.
  bool keeps(double rate, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> index) const;

private:
  uint64_t seed, stream;
  int64_t first;
};

int64_t elementCount(llvm::ArrayRef<int64_t> shape);

/// Calls body(index) for every index of `shape`, last dim fastest.
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body);

/// The place of `index` in row-major data of `shape`.
int64_t offsetOf(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> index);

/// `bits` cut to the integer type, read as signed (i1: 0 or 1).
double wrapInteger(uint64_t bits, mlir::Type element);

/// The larger of two numbers: NaN if either is NaN, and 0 above -0.
double largerOf(double a, double b);

/// x as an f32, rounded to bf16 as cast_by_bits says. It is rounded in exact mode too, since `bits` decides the value.
double roundedByBits(double x, int64_t bits);

} // namespace tcc::reference
