// ValuePool: the function that a random graph becomes, and the values that it has so far, each with a bound on its
// magnitude. Bounds keep exp, sums and matmuls in range, so that differences are errors of the compiler and not of the
// arithmetic.
#pragma once
#include "ir/emit.h"
#include "tests/random_graphs/dice.h"
#include "tests/random_graphs/generate.h"

namespace tcc::test {

class ValuePool {
public:
  using Shape = llvm::SmallVector<int64_t>;
  struct Item {
    mlir::Value value;
    double bound; // about the largest magnitude
  };

protected:
  ValuePool(mlir::MLIRContext &context, uint64_t seed, const GenerateOptions &options)
      : dice(seed), options(options), builder(&context), emit(builder, builder.getUnknownLoc()) {}

  Dice dice;
  const GenerateOptions &options;
  mlir::OpBuilder builder;
  Emit emit;
  mlir::func::FuncOp function;
  mlir::Block *block = nullptr;
  std::vector<Item> pool;
  llvm::SmallVector<mlir::Value> floatArguments;
  llvm::SmallVector<mlir::BlockArgument> stateArguments;
  llvm::SmallVector<int64_t, 3> sizes; // the sizes that shapes of arguments are made of

  /// Adds an argument to the function; its name is the prefix and its number.
  mlir::Value argument(mlir::RankedTensorType type, llvm::StringRef prefix, bool state = false) {
    unsigned number = function.getNumArguments();
    mlir::NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr(prefix + std::to_string(number)));
    if (state)
      attributes.set(stateAttr, builder.getUnitAttr());
    (void)function.insertArgument(number, type, attributes.getDictionary(builder.getContext()), emit.loc);
    mlir::BlockArgument added = function.getArgument(number);
    if (state)
      stateArguments.push_back(added);
    if (llvm::isa<mlir::FloatType>(type.getElementType()))
      floatArguments.push_back(added);
    return added;
  }

  mlir::Value floatArgument(llvm::ArrayRef<int64_t> shape, bool state = false) {
    return argument(mlir::RankedTensorType::get(shape, emit.f32()), state ? "s" : "x", state);
  }

  mlir::Value indexArgument(llvm::ArrayRef<int64_t> shape, bool loose) {
    mlir::Type element = dice.chance(25) ? mlir::Type(builder.getI64Type()) : emit.i32();
    return argument(mlir::RankedTensorType::get(shape, element), loose ? "loose" : "i");
  }

  void addFirstArguments() {
    for (int i = 0; i < 3; ++i)
      sizes.push_back(dice.pick<int64_t>({1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33}));
    while (sizes[0] * sizes[1] * sizes[2] > options.elements)
      *llvm::max_element(sizes) /= 2;
    int count = static_cast<int>(dice.between(1, 4));
    for (int i = 0; i < count; ++i) {
      Shape shape;
      int64_t rank = i == 0 ? dice.between(1, 3) : dice.between(0, 3);
      for (int64_t d = 3 - rank; d < 3; ++d)
        shape.push_back(dice.chance(10) ? 1 : sizes[d]);
      pool.push_back({floatArgument(shape, options.states && dice.chance(30)), 1});
    }
  }

  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return tensorType(value).getShape(); }
  static int64_t sizeOf(mlir::Value value) { return tensorType(value).getNumElements(); }
  static mlir::Type elementOf(mlir::Value value) { return tensorType(value).getElementType(); }

  /// A value of the pool, often one of the last four.
  Item pick() {
    size_t window = dice.chance(60) ? std::min<size_t>(pool.size(), 4) : pool.size();
    return pool[pool.size() - 1 - dice.below(window)];
  }

  /// A value of at least this rank; an argument is added for it if few values have that rank.
  Item pickOfRank(int64_t rank) {
    for (int attempt = 0; attempt < 6; ++attempt)
      if (Item item = pick(); tensorType(item.value).getRank() >= rank)
        return item;
    Shape shape;
    for (int64_t d = 0; d < rank; ++d)
      shape.push_back(sizes[(3 - rank % 3 + d) % 3]);
    while (product(shape) > options.elements)
      *llvm::max_element(shape) /= 2;
    return {floatArgument(shape), 1};
  }

  static int64_t product(llvm::ArrayRef<int64_t> shape) {
    int64_t count = 1;
    for (int64_t size : shape)
      count *= size;
    return count;
  }

  void add(mlir::Value value, double bound) {
    // Tensors beyond the size limit are cut, and large numbers are made small again.
    if (sizeOf(value) > 4 * options.elements) {
      Shape starts(tensorType(value).getRank(), 0), limits(shapeOf(value));
      *llvm::max_element(limits) = std::max<int64_t>(1, *llvm::max_element(limits) / 8);
      value = emit.slice(value, starts, limits);
    }
    if (bound > 50) {
      value = dice.chance(50) ? emit.mul(value, 10 / bound) : emit.tanh(value);
      bound = 10;
    }
    pool.push_back({value, bound});
  }

  /// y in x's shape and element type, if it can be broadcast there.
  std::optional<Item> fit(Item y, mlir::Value x) {
    llvm::ArrayRef<int64_t> from = shapeOf(y.value), to = shapeOf(x);
    if (from.size() > to.size())
      return std::nullopt;
    for (size_t i = 1; i <= from.size(); ++i)
      if (from[from.size() - i] != to[to.size() - i] && from[from.size() - i] != 1)
        return std::nullopt;
    return Item{emit.broadcast(emit.cast(y.value, elementOf(x)), to), y.bound};
  }

  /// Another value in x's type: from the pool, a literal, a coordinate or a new argument.
  Item partner(Item x) {
    for (int attempt = 0; attempt < 5; ++attempt)
      if (Item y = pick(); y.value != x.value)
        if (std::optional<Item> fitted = fit(y, x.value))
          return *fitted;
    if (dice.chance(30))
      return {emit.constant(dice.pick<double>({-1.5, 0.25, 2}), tensorType(x.value)), 2};
    if (int64_t rank = tensorType(x.value).getRank(); rank > 0 && dice.chance(30)) {
      int64_t dim = dice.below(rank);
      mlir::Value coordinate = emit.iota(dim, shapeOf(x.value), elementOf(x.value));
      return {emit.mul(coordinate, 0.0625), 0.0625 * shapeOf(x.value)[dim]};
    }
    Shape shape(shapeOf(x.value));
    if (!shape.empty() && dice.chance(60))
      shape.erase(shape.begin(), shape.begin() + dice.below(shape.size() + 1));
    for (int64_t &size : shape)
      size = dice.chance(15) ? 1 : size;
    return *fit({floatArgument(shape), 1}, x.value);
  }
};

} // namespace tcc::test
