// The generator. Each step picks values from the pool, recent ones more often than others, and adds an op or a small
// family of ops of them to the pool.
#include "tests/random_graphs/generate.h"
#include "mlir/IR/Verifier.h"
#include "tests/random_graphs/generate_attention.h"
#include "tests/random_graphs/value_pool.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace tcc::test {
namespace {

class Generator : ValuePool {
public:
  Generator(MLIRContext &context, uint64_t seed, const GenerateOptions &options) : ValuePool(context, seed, options) {}

  OwningOpRef<ModuleOp> run() {
    OwningOpRef<ModuleOp> module(ModuleOp::create(emit.loc));
    builder.setInsertionPointToEnd(module->getBody());
    function = func::FuncOp::create(builder, emit.loc, "main", builder.getFunctionType({}, {}));
    block = function.addEntryBlock();
    builder.setInsertionPointToEnd(block);
    addFirstArguments();
    if (options.attention)
      addHeads();
    for (int step = 0; step < options.ops; ++step)
      addStep();
    finish();
    return module;
  }

private:
  //===- steps -------------------------------------------------------------------------------------------------===//

  struct Step {
    int weight;
    void (Generator::*add)();
  };
  void addStep() {
    static constexpr Step steps[] = {
        {3, &Generator::addUnary},          {4, &Generator::addBinary},       {1, &Generator::addChoice},
        {2, &Generator::addReduction},      {1, &Generator::addReshape},      {1, &Generator::addTranspose},
        {1, &Generator::addSlice},          {1, &Generator::addPad},          {1, &Generator::addConcat},
        {1, &Generator::addBroadcast},      {2, &Generator::addMatmul},       {2, &Generator::addRowComposite},
        {1, &Generator::addUnaryComposite}, {1, &Generator::addCrossEntropy}, {1, &Generator::addGather},
        {1, &Generator::addScatter},        {1, &Generator::addCast},         {1, &Generator::addDropoutOrAttention},
        {1, &Generator::addEqualSlices},    {1, &Generator::addWindow},
    };
    const auto weightOf = [&](const Step &step) {
      return options.sums && step.add == &Generator::addMatmul ? 3 * step.weight : step.weight;
    };
    int total = 0;
    for (const Step &step : steps)
      total += weightOf(step);
    int64_t roll = dice.below(total);
    const Step *step = steps;
    while ((roll -= weightOf(*step)) >= 0)
      ++step;
    (this->*step->add)();
  }

  Value plusSquare(Value x) { return emit.add(emit.mul(x, x), 1.0); }

  void addUnary() {
    auto [x, bound] = pick();
    switch (dice.below(12)) {
    case 0:
      return add(emit.neg(x), bound);
    case 1:
      return add(emit.create<AbsOp>(x), bound);
    case 2:
      return add(emit.tanh(x), 1);
    case 3:
      return add(emit.sin(x), 1);
    case 4:
      return add(emit.cos(x), 1);
    case 5:
      return add(emit.create<ErfOp>(x), 1);
    case 6:
      return add(emit.exp(bound > 3 ? emit.tanh(x) : x), std::exp(std::min(bound, 3.0)));
    case 7:
      return add(emit.log(plusSquare(x)), std::log(1 + bound * bound));
    case 8:
      return add(emit.sqrt(plusSquare(x)), 1 + bound);
    case 9:
      return add(emit.rsqrt(plusSquare(x)), 1);
    case 10:
      return add(emit.mul(x, 0.5), bound / 2);
    default:
      return add(emit.mul(x, emit.detach(x)), bound * bound);
    }
  }

  void addBinary() {
    Item x = pick(), y = partner(x);
    switch (dice.below(6)) {
    case 0:
    case 1:
      return add(emit.add(x.value, y.value), x.bound + y.bound);
    case 2:
      return add(emit.sub(y.value, x.value), x.bound + y.bound);
    case 3:
    case 4:
      return add(emit.mul(x.value, y.value), x.bound * y.bound);
    default:
      return add(emit.div(x.value, plusSquare(y.value)), x.bound);
    }
  }

  void addChoice() {
    Item x = pick(), y = partner(x);
    double bound = std::max(x.bound, y.bound);
    int64_t rank = tensorType(x.value).getRank();
    switch (dice.below(4)) {
    case 0:
      return add(emit.maximum(x.value, y.value), bound);
    case 1:
      return add(emit.create<MinimumOp>(x.value, y.value), bound);
    case 2:
      return add(emit.select(emit.compare(dice.pick({Predicate::lt, Predicate::ge}), x.value, y.value), x.value,
                             emit.mul(y.value, 0.5)),
                 bound);
    default: // a causal mask
      if (rank < 2)
        return addUnary();
      Value row = emit.iota(rank - 2, shapeOf(x.value), emit.i32());
      Value column = emit.iota(rank - 1, shapeOf(x.value), emit.i32());
      Predicate predicate = dice.pick({Predicate::ge, Predicate::lt, Predicate::eq, Predicate::ne});
      return add(emit.select(emit.compare(predicate, row, column), x.value,
                             emit.constant(dice.chance(50) ? 0 : -3, tensorType(x.value))),
                 std::max(x.bound, 3.0));
    }
  }

  void addReduction() {
    auto [x, bound] = pickOfRank(1);
    SmallVector<int64_t> axes;
    int64_t count = 1;
    for (int64_t d = 0; d < tensorType(x).getRank(); ++d)
      if (dice.chance(50) || (axes.empty() && d + 1 == tensorType(x).getRank())) {
        axes.push_back(d);
        count *= shapeOf(x)[d];
      }
    switch (dice.below(5)) {
    case 0:
    case 1:
      return add(emit.reduceSum(x, axes), bound * count);
    case 2:
      return add(emit.reduceMax(x, axes), bound);
    case 3:
      return add(emit.create<ReduceMeanOp>(x, axes), bound);
    default: { // a statistic and its use on the same elements
      Value mean = emit.create<ReduceMeanOp>(x, axes);
      return add(emit.sub(x, emit.broadcast(mean, shapeOf(x))), 2 * bound);
    }
    }
  }

  void addReshape() {
    auto [x, bound] = pickOfRank(1);
    Shape shape(shapeOf(x));
    if (shape.size() >= 2 && dice.chance(60)) {
      size_t at = dice.below(shape.size() - 1);
      shape[at] *= shape[at + 1];
      shape.erase(shape.begin() + at + 1);
    } else if (shape.size() < 4) {
      size_t at = dice.below(shape.size());
      SmallVector<int64_t> divisors;
      for (int64_t d = 1; d <= shape[at]; ++d)
        if (shape[at] % d == 0)
          divisors.push_back(d);
      int64_t divisor = divisors[dice.below(divisors.size())];
      shape[at] /= divisor;
      shape.insert(shape.begin() + at, divisor);
    }
    add(emit.reshape(x, shape), bound);
  }

  void addTranspose() {
    auto [x, bound] = pickOfRank(2);
    SmallVector<int64_t> permutation;
    for (int64_t d = 0; d < tensorType(x).getRank(); ++d)
      permutation.insert(permutation.begin() + dice.below(permutation.size() + 1), d);
    add(emit.transpose(x, permutation), bound);
  }

  void addSlice() {
    auto [x, bound] = pickOfRank(1);
    SmallVector<int64_t> starts, limits;
    for (int64_t size : shapeOf(x)) {
      int64_t start = dice.chance(50) ? 0 : dice.below(size);
      starts.push_back(start);
      limits.push_back(dice.chance(50) ? size : dice.between(start + 1, size));
    }
    SmallVector<int64_t> steps;
    if (dice.chance(30))
      for (size_t d = 0; d < starts.size(); ++d)
        steps.push_back(dice.between(1, 3));
    add(emit.create<SliceOp>(x, starts, limits, steps), bound);
  }

  void addWindow() {
    auto [x, bound] = pickOfRank(1);
    SmallVector<int64_t> dims, sizes, steps, dilations;
    for (auto [dim, size] : llvm::enumerate(shapeOf(x))) {
      if (size == 0 || dims.size() == 2 || dice.chance(40))
        continue;
      dims.push_back(static_cast<int64_t>(dim));
      sizes.push_back(dice.between(1, std::min<int64_t>(size, 4)));
      steps.push_back(dice.between(1, 3));
      dilations.push_back(sizes.back() == 1 ? dice.between(1, 3)
                                            : dice.between(1, std::min<int64_t>(3, (size - 1) / (sizes.back() - 1))));
    }
    if (shapeOf(x).size() + dims.size() <= 5)
      add(emit.create<WindowOp>(x, dims, sizes, steps, dilations), bound);
  }

  /// One slice of two tensors of different widths, each added to a large one and returned: kernels that differ in an
  /// offset alone.
  void addEqualSlices() {
    int64_t row = dice.below(4), column = dice.below(4), count = dice.chance(70) ? 1 : 2;
    for (int i = 0; i < 2; ++i) {
      Value table = floatArgument({row + 1 + dice.below(4), column + count + dice.below(9)});
      Value part = emit.slice(table, {row, column}, {row + 1, column + count});
      Shape shape = {64 * dice.between(1, 3), count};
      Value sum = emit.add(floatArgument(shape), emit.broadcast(part, shape));
      addResult(sum, nameAttr, "sliced" + std::to_string(results.size()));
      if (dice.chance(50))
        add(sum, 2);
    }
  }

  void addPad() {
    auto [x, bound] = pickOfRank(1);
    SmallVector<int64_t> low, high;
    for (int64_t d = 0; d < tensorType(x).getRank(); ++d) {
      low.push_back(dice.chance(50) ? 0 : dice.below(4));
      high.push_back(dice.chance(50) ? 0 : dice.below(4));
    }
    const double value = dice.chance(30) ? dice.pick({-1.5, 0.25}) : 0;
    add(emit.pad(x, low, high, value), std::max(bound, std::abs(value)));
  }

  void addConcat() {
    auto [x, bound] = pickOfRank(1);
    int64_t axis = dice.below(tensorType(x).getRank());
    SmallVector<Value> parts = {x};
    int64_t more = dice.between(1, 2);
    for (int64_t i = 0; i < more; ++i) {
      Item y = partner({x, bound});
      Shape starts(shapeOf(x).size(), 0), limits(shapeOf(x));
      starts[axis] = dice.below(limits[axis]);
      parts.insert(parts.begin() + dice.below(parts.size() + 1), emit.slice(y.value, starts, limits));
      bound = std::max(bound, y.bound);
    }
    add(emit.create<ConcatOp>(parts, axis), bound);
  }

  void addBroadcast() {
    auto [x, bound] = pick();
    Shape shape(shapeOf(x));
    for (int64_t &size : shape)
      if (size == 1)
        size = sizes[dice.below(3)];
    if (shape.size() < 4 && dice.chance(60))
      shape.insert(shape.begin(), sizes[dice.below(3)]);
    if (product(shape) <= 2 * options.elements)
      add(emit.broadcast(x, shape), bound);
  }

  /// A matmul with ops around it that could become part of it: a bias, a residual or another matmul, roundings, an
  /// activation. Whether they do depends on what reads the sum.
  void addSumOfMatmuls() {
    auto [x, bound] = pickOfRank(2);
    const int64_t contraction = shapeOf(x).back(), columns = dice.pick<int64_t>({1, 5, 16, 33});
    Value sum = emit.matmul(x, emit.cast(floatArgument({contraction, columns}), elementOf(x)), false, false,
                            dice.chance(20) ? Type(emit.f32()) : Type());
    const Type element = elementOf(sum);
    bound = bound * contraction + 1;
    auto addRow = [&] {
      Value row = emit.cast(floatArgument({columns}), element);
      sum = emit.add(emit.broadcast(row, shapeOf(sum)), sum);
    };
    const bool rowFirst = dice.chance(50);
    if (rowFirst)
      addRow();
    if (dice.chance(60)) {
      Item other = partner({sum, bound});
      if (dice.chance(50)) {
        Value weight = emit.cast(floatArgument({contraction, columns}), elementOf(x));
        other = {emit.cast(emit.matmul(x, weight), element), bound};
      }
      sum = dice.chance(50) ? emit.add(sum, other.value) : emit.add(other.value, sum);
      bound += other.bound;
    }
    if (!rowFirst && dice.chance(60))
      addRow();
    if (options.bf16 && dice.chance(20))
      sum = emit.cast(emit.cast(sum, builder.getBF16Type()), emit.f32());
    if (dice.chance(50)) // read twice: by the activation, and from the pool
      add(sum, bound + 1);
    if (dice.chance(40))
      return add(emit.tanh(sum), 1);
    add(sum, bound + 1);
  }

  void addMatmul() {
    if (options.sums && dice.chance(50))
      return addSumOfMatmuls();
    auto [x, bound] = pickOfRank(2);
    ArrayRef<int64_t> shape = shapeOf(x);
    int64_t rank = shape.size();
    Value result;
    int64_t contraction = shape[rank - 1];
    if (dice.chance(25)) { // with itself, over rows or columns
      bool overRows = dice.chance(50);
      contraction = overRows ? shape[rank - 2] : shape[rank - 1];
      result = emit.matmul(x, x, overRows, !overRows);
      bound *= bound;
    } else if (rank == 2 && dice.chance(30)) { // transposed on the left
      contraction = shape[0];
      result = emit.matmul(x, emit.cast(floatArgument({contraction, sizes[dice.below(3)]}), elementOf(x)), true);
    } else if (rank >= 3 && dice.chance(40)) { // batched on both sides
      Shape other(shape);
      other[rank - 2] = dice.pick<int64_t>({1, 3, 8, 17});
      result = emit.matmul(x, emit.cast(floatArgument(other), elementOf(x)), false, true);
    } else if (dice.chance(50)) {
      result = emit.create<LinearOp>(x, floatArgument({contraction, sizes[dice.below(3)]}), Value());
    } else {
      int64_t columns = dice.pick<int64_t>({1, 5, 16, 33});
      Value weight = floatArgument({contraction, columns}), bias = floatArgument({columns});
      result = emit.create<LinearOp>(x, weight, bias);
    }
    add(result, bound * contraction + 1);
  }

  void addRowComposite() {
    auto [x, bound] = pickOfRank(1);
    int64_t columns = shapeOf(x).back();
    switch (dice.below(3)) {
    case 0:
      return add(emit.create<SoftmaxOp>(x), 1);
    case 1:
      return add(emit.create<LayerNormOp>(x, floatArgument({columns}), floatArgument({columns}), llvm::APFloat(1e-2)),
                 6);
    default:
      return add(emit.create<RmsNormOp>(x, floatArgument({columns}), llvm::APFloat(1e-2)), 6);
    }
  }

  void addUnaryComposite() {
    auto [x, bound] = pick();
    switch (dice.below(4)) {
    case 0:
      return add(emit.create<GeluOp>(x), bound);
    case 1:
      return add(emit.create<SiluOp>(x), bound);
    case 2:
      return add(emit.create<SigmoidOp>(x), 1);
    default:
      return add(emit.create<ReluOp>(x), bound);
    }
  }

  void addCrossEntropy() {
    auto [x, bound] = pickOfRank(1);
    add(emit.create<CrossEntropyOp>(x, indexArgument(shapeOf(x).drop_back(), false)), bound + 4);
  }

  void addGather() {
    auto [x, bound] = pickOfRank(1);
    if (shapeOf(x)[0] < 4)
      return addBinary();
    Shape index = {dice.pick<int64_t>({1, 3, 7, 17})};
    if (dice.chance(30))
      index.push_back(2);
    add(emit.create<GatherOp>(x, indexArgument(index, false)), bound);
  }

  void addScatter() {
    auto [x, bound] = pickOfRank(1);
    Shape rows = {dice.pick<int64_t>({1, 3, 7, 17})};
    Value index = indexArgument(rows, dice.chance(40));
    rows.append(shapeOf(x).begin() + 1, shapeOf(x).end());
    Value added = emit.cast(floatArgument(rows), elementOf(x));
    if (dice.chance(50))
      added = emit.tanh(added);
    add(emit.create<ScatterAddOp>(x, index, added), bound + rows[0]);
  }

  void addCast() {
    if (!options.bf16)
      return addUnary();
    auto [x, bound] = pick();
    bool isWide = elementOf(x).isF32();
    add(emit.cast(x, isWide ? Type(builder.getBF16Type()) : emit.f32()), bound);
  }

  void addDropoutOrAttention() { dice.chance(50) ? addDropout() : addAttention(); }

  void addDropout() {
    auto [x, bound] = pick();
    Value seed = argument(RankedTensorType::get({}, emit.i32()), "seed");
    double rate = dice.pick({0.1, 0.5});
    add(emit.create<DropoutOp>(x, seed, llvm::APFloat(rate), static_cast<uint64_t>(dice.below(5)), Value()), bound * 2);
  }

  void addAttention() {
    auto [x, bound] = pickOfRank(2);
    Shape shape(shapeOf(x));
    if (shape.size() > 3 || sizeOf(x) > 1200)
      return addUnary();
    Value k = emit.cast(floatArgument(shape), elementOf(x));
    Value v = dice.chance(50) ? x : emit.tanh(k);
    Value attention =
        AttentionOp::create(builder, emit.loc, x.getType(), x, k, v, Value(), dice.chance(60), llvm::APFloat(0.25));
    add(attention, std::max(bound, 1.0));
  }

  /// Attention that is spelled out in smaller ops, over operands of its own with up to 73 keys.
  void addHeads() {
    const int64_t batch = dice.between(1, 2), heads = dice.between(1, 3), width = dice.pick<int64_t>({1, 4, 8, 24});
    const int64_t queries = dice.pick<int64_t>({1, 5, 9, 17, 33, 70}), keys = dice.chance(70) ? queries : queries + 3;
    const bool isNarrow = options.bf16 && dice.chance(50);
    auto rows = [&](int64_t count) {
      Value x = floatArgument({batch, heads, count, width});
      return isNarrow ? emit.cast(x, builder.getBF16Type()) : x;
    };
    Value q = rows(queries), k = rows(keys), v = rows(keys);
    Value seed = argument(RankedTensorType::get({}, emit.i32()), "seed");
    HandwrittenAttention written = writeAttention(emit, dice, q, k, v, seed);
    add(written.result, 1);
    if (written.probabilities)
      add(written.probabilities, 1);
  }

  //===- results -----------------------------------------------------------------------------------------------===//

  SmallVector<Value> results;
  SmallVector<NamedAttrList> resultAttributes;

  void addResult(Value value, StringRef key, StringRef name) {
    results.push_back(value);
    NamedAttrList attributes;
    attributes.set(key, builder.getStringAttr(name));
    resultAttributes.push_back(attributes);
  }

  /// mean(tanh(x · w)), summed over a few values; w depends on the coordinate, so that no gradient cancels.
  Value loss() {
    Value sum;
    int64_t terms = dice.between(1, 3);
    for (int64_t i = 0; i < terms; ++i) {
      Value x = emit.cast(i == 0 ? pool.back().value : pick().value, emit.f32());
      Value flat = emit.reshape(x, {sizeOf(x)});
      Value weight = emit.sin(emit.add(emit.iota(0, shapeOf(flat), emit.f32()), 0.5 + static_cast<double>(i)));
      Value term = emit.reduceSum(emit.tanh(emit.mul(flat, weight)), {0});
      term = emit.reshape(emit.mul(term, 1.0 / static_cast<double>(sizeOf(x))), {});
      sum = sum ? emit.add(sum, term) : term;
    }
    return sum;
  }

  /// A state's next value, made from a value of its shape in the pool, from another state's old value, or from itself.
  Value nextState(unsigned number) {
    BlockArgument state = stateArguments[number];
    BlockArgument other = stateArguments[(number + 1) % stateArguments.size()];
    if (other.getType() == state.getType() && dice.chance(30))
      return other; // an exchange
    for (int attempt = 0; attempt < 8; ++attempt)
      if (Item item = pick(); item.value.getType() == state.getType())
        return dice.chance(50) ? item.value : emit.add(emit.mul(state, 0.9), item.value);
    if (shapeOf(state).size() == 2 && shapeOf(state)[0] == shapeOf(state)[1])
      return emit.transpose(state, {1, 0});
    Item y = partner({state, 1});
    return emit.sub(state, emit.mul(y.value, 0.1));
  }

  void finish() {
    int64_t outputs = dice.between(1, 3);
    for (int64_t i = 0; i < outputs; ++i)
      addResult(i == 0 ? pool.back().value : pick().value, nameAttr, "out" + std::to_string(i));
    if (options.gradients) {
      Value scalar = loss();
      addResult(scalar, nameAttr, "loss");
      SmallVector<Value> wrt(floatArguments);
      auto gradient = GradientOp::create(builder, emit.loc, scalar, wrt);
      for (auto [i, value] : llvm::enumerate(gradient.getResults())) {
        auto source = cast<BlockArgument>(wrt[i]);
        auto name = function.getArgAttrOfType<StringAttr>(source.getArgNumber(), nameAttr);
        addResult(value, nameAttr, "grad_" + name.str());
        if (function.getArgAttr(source.getArgNumber(), stateAttr))
          pool.push_back({value, 1}); // states may be updated by their gradients
      }
    }
    for (unsigned i = 0; i < stateArguments.size(); ++i)
      if (dice.chance(85))
        addResult(nextState(i), updatesAttr,
                  function.getArgAttrOfType<StringAttr>(stateArguments[i].getArgNumber(), nameAttr));
    func::ReturnOp::create(builder, emit.loc, results);
    SmallVector<Type> types = llvm::map_to_vector(results, [](Value value) { return value.getType(); });
    function.setType(builder.getFunctionType(block->getArgumentTypes(), types));
    for (auto [i, attributes] : llvm::enumerate(resultAttributes))
      function.setResultAttrs(i, attributes.getDictionary(builder.getContext()));
  }
};

} // namespace

OwningOpRef<ModuleOp> generateGraph(MLIRContext &context, uint64_t seed, const GenerateOptions &options) {
  OwningOpRef<ModuleOp> module = Generator(context, seed, options).run();
  return succeeded(verify(*module)) ? std::move(module) : nullptr;
}

std::vector<RefTensor> generateInputs(func::FuncOp function, uint64_t seed) {
  std::vector<RefTensor> inputs;
  for (BlockArgument argument : function.getArguments()) {
    unsigned number = argument.getArgNumber();
    RankedTensorType type = tensorType(argument);
    auto name = function.getArgAttrOfType<StringAttr>(number, nameAttr);
    // By name: a reduced function keeps the values of the arguments that it keeps.
    uint64_t stream = seed * 1000 + (name ? llvm::xxh3_64bits(name.getValue()) : number);
    bool isScalar = type.getRank() == 0;
    if (isa<FloatType>(type.getElementType()))
      inputs.push_back(randomTensor(type, stream, isScalar ? 0.1 : -1, 1));
    else if (isScalar && name && name.getValue().starts_with("seed"))
      inputs.push_back(randomTensor(type, stream, 0, 1e6));
    else if (name && name.getValue().starts_with("loose"))
      inputs.push_back(randomTensor(type, stream, -1, 6));
    else
      inputs.push_back(randomTensor(type, stream, 0, 4));
  }
  return inputs;
}

} // namespace tcc::test
