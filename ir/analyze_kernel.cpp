// analyzeKernel, in these steps:
//   1. collect the region's ops between results and arguments;
//   2. choose the iteration space (kernel_space.h); without reductions it is the first where every access is affine;
//   3. from each result walk towards the arguments, turning views into index expressions (a value read at two places
//      becomes two nodes), and give each node its stage;
//   4. record where each result goes.
// What an elementwise op does becomes scalar steps here (scalar_form.h); an op without them has no kernel.
// It never reorders or changes the region; whatever it cannot express is refused with what was expected.
#include "ir/analyze_kernel.h"
#include "ir/kernel_space.h"
#include "ir/kernel_stages.h"
#include "ir/scalar_form.h"

using namespace mlir;

namespace tcc {
namespace {

class Analyzer {
public:
  Analyzer(const KernelView &view, std::string &refusal) : view(view), refusal(refusal) {
    for (auto [i, argument] : llvm::enumerate(view.arguments))
      argumentNumber.try_emplace(argument, i);
  }

  /// `origins` (where given) takes for each node the op that it stands for, null for an argument's load.
  std::optional<KernelInfo> run(std::vector<Operation *> *origins) {
    if (!collect())
      return std::nullopt;
    SmallVector<KernelSpace> candidates;
    if (!chooseSpaces(ops.getArrayRef(), view.results, candidates, refusal))
      return std::nullopt;
    std::optional<KernelInfo> fallback;
    for (const KernelSpace &space : candidates) {
      if (!build(space))
        continue;
      bool isBest = candidates.size() == 1 || info.isAffineInColumns();
      if (!isBest && fallback)
        continue;
      if (origins)
        *origins = nodeOps;
      if (isBest)
        return std::move(info);
      fallback = std::move(info);
    }
    return fallback;
  }

private:
  struct Memo {
    SmallVector<IndexExpr> coordinates;
    SmallVector<unsigned, 2> guards;
    unsigned node;
  };

  const KernelView &view;
  std::string &refusal;
  DenseMap<Value, unsigned> argumentNumber;
  SetVector<Operation *> ops;
  KernelInfo info;
  std::vector<Operation *> nodeOps; // one a node
  DenseMap<Value, SmallVector<Memo, 1>> memo;
  DenseMap<Operation *, unsigned> reductionNode;

  bool refuse(const Twine &why) {
    refusal = why.str();
    return false;
  }

  static ElementType elementOf(Value value) { return *elementTypeOf(tensorType(value).getElementType()); }

  static KernelTensor tensorOf(Value value) {
    return {elementOf(value), tensorType(value).hasStaticShape() ? tensorType(value).getNumElements() : 0};
  }

  //===- step 1: ops -------------------------------------------------------------------------------------------===//

  bool collect() {
    SmallVector<Value> work(view.results);
    while (!work.empty()) {
      Value value = work.pop_back_val();
      if (argumentNumber.contains(value))
        continue;
      Operation *op = value.getDefiningOp();
      if (!op || !op->hasTrait<KernelBodyOp>())
        return refuse("expected a computation of primitives, found " +
                      (op ? op->getName().getStringRef() : StringRef("a value from outside")));
      if (!tensorType(value).hasStaticShape())
        return refuse("expected static shapes");
      if (ops.insert(op))
        llvm::append_range(work, op->getOperands());
    }
    return true;
  }

  //===- step 3: nodes -----------------------------------------------------------------------------------------===//

  IndexExpr row() const { // o·rows + r
    return IndexExpr::ofAxis(axis::outer, info.space.outer) * info.space.rows +
           IndexExpr::ofAxis(axis::row, info.space.rows);
  }
  IndexExpr column() const { return IndexExpr::ofAxis(axis::column, info.space.columns); }

  /// The expression with derived axes replaced by their values where they stand plain.
  IndexExpr resolve(IndexExpr expr) const {
    for (unsigned i = info.derived.size(); i-- > 0;)
      if (std::optional<IndexExpr> resolved = expr.substitute(i + axis::firstDerived, info.derived[i].value))
        expr = *resolved;
    return expr;
  }

  /// `value` as a coordinate in [0, extent), guarded by a new derived axis where it can leave that range.
  IndexExpr guardedCoordinate(const IndexExpr &value, int64_t extent, SmallVectorImpl<unsigned> &guards) {
    if (value.minimum() >= 0 && value.maximum() < extent)
      return value;
    unsigned id = 0;
    while (id < info.derived.size() && !(info.derived[id].value == value && info.derived[id].extent == extent))
      ++id;
    if (id == info.derived.size())
      info.derived.push_back({value, extent});
    id += axis::firstDerived;
    if (!llvm::is_contained(guards, id))
      guards.push_back(id);
    return IndexExpr::ofAxis(id, extent);
  }

  unsigned readyStage(unsigned node) const { return tcc::readyStage(info, node); }

  unsigned addNode(KernelNode node, Operation *op = nullptr) {
    for (unsigned operand : node.operands) {
      node.perColumn |= node.kind != KernelNode::Kind::rowReduce && info.nodes[operand].perColumn;
      node.stage = std::max(node.stage, readyStage(operand));
    }
    for (unsigned guard : node.guards)
      node.perColumn |= info.axisDependsOnColumn(guard);
    node.perColumn |= info.dependsOnColumn(node.index);
    info.stages = std::max(info.stages, node.stage + 1);
    info.nodes.push_back(std::move(node));
    nodeOps.push_back(op);
    return info.nodes.size() - 1;
  }

  std::optional<unsigned> need(Value value, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    for (const Memo &known : memo[value])
      if (ArrayRef<unsigned>(known.guards) == guards && ArrayRef<IndexExpr>(known.coordinates) == coordinates)
        return known.node;
    std::optional<unsigned> node = makeNode(value, coordinates, guards);
    if (node)
      memo[value].push_back({SmallVector<IndexExpr>(coordinates), SmallVector<unsigned, 2>(guards), *node});
    return node;
  }

  unsigned loadAt(Value argument, const IndexExpr &element, ArrayRef<unsigned> guards) {
    KernelNode node;
    node.kind = KernelNode::Kind::load;
    node.type = elementOf(argument);
    node.argument = argumentNumber.lookup(argument);
    node.index = resolve(element);
    node.guards.assign(guards.begin(), guards.end());
    return addNode(std::move(node));
  }

  std::optional<unsigned> makeNode(Value value, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    RankedTensorType type = tensorType(value);
    KernelNode node;
    node.type = elementOf(value);
    if (argumentNumber.contains(value))
      return loadAt(value, linearize(coordinates, type.getShape()), guards);
    Operation *op = value.getDefiningOp();
    if (auto literal = dyn_cast<ConstantOp>(op)) {
      if (!literal.getValue().isSplat()) {
        refuse("expected literals inside a kernel to be splats");
        return std::nullopt;
      }
      node.kind = KernelNode::Kind::literal;
      node.value = literalOf(literal.getValue().getSplatValue<Attribute>());
      return addNode(std::move(node), op);
    }
    if (auto iota = dyn_cast<IotaOp>(op)) {
      node.kind = KernelNode::Kind::index;
      node.index = resolve(coordinates[iota.getDim()]);
      return addNode(std::move(node), op);
    }
    if (auto random = dyn_cast<RandomBitsOp>(op))
      return needRandom(random, coordinates);
    if (isReduction(op))
      return needReduction(op, coordinates, guards);
    if (auto gather = dyn_cast<GatherOp>(op))
      return needGather(gather, coordinates, guards);
    if (auto concat = dyn_cast<ConcatOp>(op))
      return needConcat(concat, coordinates, guards);
    if (auto pad = dyn_cast<PadOp>(op))
      return needPad(pad, coordinates, guards);
    if (op->hasTrait<ViewOp>())
      return needView(op, coordinates, guards);
    auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
    if (!elementwise) {
      refuse("expected " + op->getName().getStringRef() + " to be a result of its own");
      return std::nullopt;
    }
    const ScalarSteps *steps = ScalarForms::of(elementwise, refusal);
    if (!steps)
      return std::nullopt;
    node.kind = KernelNode::Kind::compute;
    node.steps = *steps;
    for (Value operand : op->getOperands()) {
      std::optional<unsigned> id = need(operand, coordinates, guards);
      if (!id)
        return std::nullopt;
      node.operands.push_back(*id);
    }
    return addNode(std::move(node), op);
  }

  /// The i32 number `index` as a node of its own, for `op`.
  unsigned numberNode(const IndexExpr &index, Operation *op) {
    KernelNode node;
    node.kind = KernelNode::Kind::index;
    node.type = ElementType::i32;
    node.index = resolve(index);
    for (auto [i, known] : llvm::enumerate(info.nodes))
      if (known.kind == node.kind && known.type == node.type && known.index == node.index)
        return i;
    return addNode(std::move(node), op);
  }

  /// number + first · stride, wrapping, for `op`.
  unsigned shiftedNode(unsigned number, unsigned first, int64_t stride, Operation *op) {
    KernelNode node;
    node.kind = KernelNode::Kind::compute;
    node.type = ElementType::i32;
    node.operands = {number, first};
    ScalarStep size{Opcode::constant, node.type, {}, ScalarLiteral::ofInteger(static_cast<int32_t>(stride))};
    node.steps = {{size, {Opcode::mulI, node.type, {1, 2}, {}}, {Opcode::addI, node.type, {0, 3}, {}}}, 4};
    return addNode(std::move(node), op);
  }

  std::optional<unsigned> needRandom(RandomBitsOp random, ArrayRef<IndexExpr> coordinates) {
    ArrayRef<int64_t> shape = tensorType(random.getResult()).getShape();
    std::optional<unsigned> seed = need(random.getSeed(), {}, {});
    if (!seed)
      return std::nullopt;
    size_t leading = shape.size() < 2 ? 0 : shape.size() - 2;
    // Outer index, row and column: those that a smaller rank lacks are 0.
    SmallVector<IndexExpr, 3> place{linearize(coordinates.take_front(leading), shape.take_front(leading))};
    place.append(2 - (shape.size() - leading), IndexExpr());
    llvm::append_range(place, coordinates.drop_front(leading));
    KernelNode node;
    node.kind = KernelNode::Kind::random;
    node.type = ElementType::i32;
    node.operands = {*seed};
    node.stream = random.getStream();
    for (const IndexExpr &number : place)
      node.operands.push_back(numberNode(number, random));
    if (Value first = random.getFirst()) { // counts along dim 0
      std::optional<unsigned> id = need(first, {}, {});
      if (!id)
        return std::nullopt;
      int64_t stride = 1;
      for (int64_t size : shape.take_front(leading).drop_front(leading > 0 ? 1 : 0))
        stride *= size;
      unsigned &shifted = node.operands[leading > 0 ? 1 : 4 - shape.size()];
      shifted = shiftedNode(shifted, *id, stride, random);
    }
    return addNode(std::move(node), random);
  }

  std::optional<unsigned> needView(Operation *op, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    Value operand = op->getOperand(0);
    ArrayRef<int64_t> from = tensorType(operand).getShape();
    SmallVector<IndexExpr> inner(from.size());
    if (isa<BroadcastOp>(op)) {
      size_t leading = coordinates.size() - from.size();
      for (size_t i = 0; i < from.size(); ++i)
        if (from[i] != 1)
          inner[i] = coordinates[i + leading];
    } else if (isa<ReshapeOp>(op)) {
      std::optional<SmallVector<IndexExpr>> split =
          delinearize(linearize(coordinates, tensorType(op->getResult(0)).getShape()), from);
      if (!split) { // of what is in memory there are strides
        StridedView memory = stridedView(op->getResult(0));
        if (argumentNumber.contains(memory.root)) {
          IndexExpr element(memory.offset);
          for (auto [coordinate, stride] : llvm::zip_equal(coordinates, memory.strides))
            element = element + coordinate * stride;
          return loadAt(memory.root, element, guards);
        }
        refuse("expected the sizes of " + typeText(tensorType(op->getResult(0))) + " and " +
               typeText(tensorType(operand)) + " to divide each other");
        return std::nullopt;
      }
      inner = *split;
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      for (auto [i, dim] : llvm::enumerate(transpose.getPermutation()))
        inner[dim] = coordinates[i];
    } else {
      auto slice = cast<SliceOp>(op);
      for (auto [i, start] : llvm::enumerate(slice.getStarts()))
        inner[i] = coordinates[i] + IndexExpr(start);
    }
    return need(operand, inner, guards);
  }

  std::optional<unsigned> needPad(PadOp pad, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    KernelNode node;
    node.kind = KernelNode::Kind::choose;
    node.type = elementOf(pad.getResult());
    ArrayRef<int64_t> shape = tensorType(pad.getX()).getShape();
    SmallVector<unsigned> inside(guards), own;
    SmallVector<IndexExpr> inner;
    for (auto [i, low] : llvm::enumerate(pad.getLow()))
      inner.push_back(guardedCoordinate(coordinates[i] + IndexExpr(-low), shape[i], own));
    for (unsigned guard : own)
      if (!llvm::is_contained(inside, guard))
        inside.push_back(guard);
    std::optional<unsigned> part = need(pad.getX(), inner, inside);
    if (!part)
      return std::nullopt;
    node.operands = {*part};
    node.guards.assign(own.begin(), own.end());
    node.guardCounts = {static_cast<unsigned>(own.size())};
    return addNode(std::move(node), pad);
  }

  std::optional<unsigned> needConcat(ConcatOp concat, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    KernelNode node;
    node.kind = KernelNode::Kind::choose;
    node.type = elementOf(concat.getResult());
    int64_t start = 0, dim = concat.getAxis();
    for (Value part : concat.getParts()) {
      int64_t size = tensorType(part).getDimSize(dim);
      SmallVector<unsigned> inside(guards), own;
      SmallVector<IndexExpr> inner(coordinates);
      if (size > 0) {
        inner[dim] = guardedCoordinate(coordinates[dim] + IndexExpr(-start), size, own);
        for (unsigned guard : own)
          if (!llvm::is_contained(inside, guard))
            inside.push_back(guard);
        std::optional<unsigned> id = need(part, inner, inside);
        if (!id)
          return std::nullopt;
        node.operands.push_back(*id);
        llvm::append_range(node.guards, own);
        node.guardCounts.push_back(own.size());
      }
      start += size;
    }
    return addNode(std::move(node), concat);
  }

  std::optional<unsigned> needReduction(Operation *op, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    Value operand = op->getOperand(0);
    ReductionShape shape = reductionShape(op);
    if (shape.isIdentity())
      return need(operand, coordinates, guards);
    if (shape.reduced != info.space.columns || !shape.isTrailing()) {
      refuse("expected the column reduction to be a result, summed before it is used");
      return std::nullopt;
    }
    if (!guards.empty()) {
      refuse("expected no row reduction below a pad or concat");
      return std::nullopt;
    }
    ArrayRef<int64_t> axes = reducedAxes(op), sizes = tensorType(operand).getShape();
    SmallVector<int64_t> reduced;
    for (int64_t dim : axes)
      reduced.push_back(sizes[dim]);
    std::optional<SmallVector<IndexExpr>> digits = delinearize(column(), reduced);
    if (!digits) {
      refuse("expected the reduced sizes to divide the row");
      return std::nullopt;
    }
    SmallVector<IndexExpr> inner(coordinates);
    for (auto [i, dim] : llvm::enumerate(axes))
      inner[dim] = (*digits)[i];
    for (const IndexExpr &coordinate : coordinates)
      if (info.dependsOnColumn(coordinate)) {
        refuse("expected a row's statistics to be used in that row alone");
        return std::nullopt;
      }
    std::optional<unsigned> id = need(operand, inner, guards);
    if (!id)
      return std::nullopt;
    KernelNode node;
    node.kind = KernelNode::Kind::rowReduce;
    node.isMax = isa<ReduceMaxOp>(op);
    node.type = elementOf(op->getResult(0));
    node.operands = {*id};
    unsigned made = addNode(std::move(node), op);
    auto [known, inserted] = reductionNode.try_emplace(op, made);
    if (!inserted) {
      refuse("expected a row's statistics to be used in that row alone");
      return std::nullopt;
    }
    return made;
  }

  std::optional<unsigned> needGather(GatherOp gather, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
    auto table = argumentNumber.find(gather.getTable());
    if (table == argumentNumber.end()) {
      refuse("expected the table of a gather to be in memory");
      return std::nullopt;
    }
    size_t indexRank = tensorType(gather.getIndex()).getRank();
    std::optional<unsigned> index = need(gather.getIndex(), coordinates.take_front(indexRank), guards);
    if (!index)
      return std::nullopt;
    RankedTensorType type = tensorType(gather.getTable());
    KernelNode node;
    node.kind = KernelNode::Kind::load;
    node.type = elementOf(gather.getResult());
    node.argument = table->second;
    node.operands = {*index};
    node.index = resolve(linearize(coordinates.drop_front(indexRank), type.getShape().drop_front()));
    node.gatherRows = type.getDimSize(0);
    node.gatherStride = node.gatherRows == 0 ? 0 : type.getNumElements() / node.gatherRows;
    node.guards.assign(guards.begin(), guards.end());
    return addNode(std::move(node), gather);
  }

  //===- step 4: stores ----------------------------------------------------------------------------------------===//

  bool build(const KernelSpace &space) {
    info = KernelInfo();
    info.space = space;
    for (Value argument : view.arguments)
      info.arguments.push_back(tensorOf(argument));
    for (Value result : view.results)
      info.results.push_back(tensorOf(result));
    nodeOps.clear();
    memo.clear();
    reductionNode.clear();
    for (Value result : view.results)
      if (!addStore(result))
        return false;
    return true;
  }

  bool addStore(Value result) {
    Value source = result; // below reshapes, which keep the linear order
    while (auto reshape = source.getDefiningOp<ReshapeOp>()) {
      if (argumentNumber.contains(source))
        break;
      source = reshape.getX();
    }
    Operation *op = argumentNumber.contains(source) ? nullptr : source.getDefiningOp();
    if (op && isReduction(op) && !reductionShape(op).isIdentity() && !reductionShape(op).isTrailing())
      return addColumnStore(op);
    if (auto scatter = dyn_cast_or_null<ScatterAddOp>(op))
      return addScatterStore(scatter);
    int64_t count = tensorType(result).getNumElements();
    const KernelSpace &space = info.space;
    bool perColumn = count == space.elements() && count != space.outer * space.rows; // both are 0 where it is empty
    if (!perColumn && count != space.outer * space.rows)
      return refuse("expected every result to have one element for each row or each element of the iteration space");
    IndexExpr linear = perColumn ? row() * space.columns + column() : row();
    std::optional<SmallVector<IndexExpr>> coordinates = delinearize(linear, tensorType(result).getShape());
    if (!coordinates)
      return refuse("expected the result " + typeText(tensorType(result)) + " to divide the iteration space");
    std::optional<unsigned> node = need(result, *coordinates, {});
    if (!node)
      return false;
    if (!perColumn && info.nodes[*node].perColumn)
      return refuse("expected one value a row");
    KernelStore store;
    store.kind = KernelStore::Kind::element;
    store.node = *node;
    store.index = linear;
    store.perColumn = perColumn;
    info.stages = std::max(info.stages, readyStage(*node) + (perColumn ? 1 : 0));
    info.stores.push_back(store);
    return true;
  }

  bool addColumnStore(Operation *op) {
    const KernelSpace &space = info.space;
    Value operand = op->getOperand(0);
    std::optional<SmallVector<IndexExpr>> coordinates =
        delinearize(row() * space.columns + column(), tensorType(operand).getShape());
    if (!coordinates)
      return refuse("expected the summed rows to divide the iteration space");
    std::optional<unsigned> node = need(operand, *coordinates, {});
    if (!node)
      return false;
    KernelStore store;
    store.kind = isa<ReduceSumOp>(op) ? KernelStore::Kind::columnSum : KernelStore::Kind::columnMax;
    store.node = *node;
    store.index = IndexExpr::ofAxis(axis::outer, space.outer) * space.columns + column();
    store.perColumn = true;
    info.stages = std::max(info.stages, readyStage(*node) + 1);
    info.stores.push_back(store);
    return true;
  }

  bool addScatterStore(ScatterAddOp scatter) {
    auto base = argumentNumber.find(scatter.getBase());
    if (base == argumentNumber.end())
      return refuse("expected the base of a scatter to be in memory");
    const KernelSpace &space = info.space;
    std::optional<SmallVector<IndexExpr>> rowCoordinates =
        delinearize(row(), tensorType(scatter.getIndex()).getShape());
    std::optional<SmallVector<IndexExpr>> coordinates =
        delinearize(row() * space.columns + column(), tensorType(scatter.getRows()).getShape());
    if (!coordinates || !rowCoordinates)
      return refuse("expected the scattered rows to divide the iteration space");
    std::optional<unsigned> index = need(scatter.getIndex(), *rowCoordinates, {});
    std::optional<unsigned> node = index ? need(scatter.getRows(), *coordinates, {}) : std::nullopt;
    if (!node)
      return false;
    KernelStore store;
    store.kind = KernelStore::Kind::scatterAdd;
    store.node = *node;
    store.index = column();
    store.perColumn = true;
    store.scatterRow = *index;
    store.scatterBase = base->second;
    store.scatterRows = tensorType(scatter.getBase()).getDimSize(0);
    store.scatterStride = space.columns;
    info.stages = std::max(info.stages, readyStage(*node) + 1);
    info.stores.push_back(store);
    return true;
  }
};

} // namespace

std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal) {
  return Analyzer(view, refusal).run(nullptr);
}

std::optional<KernelInfo> analyzeKernel(KernelOp kernel, std::string &refusal, KernelNames *names) {
  Block &block = kernel.getBody().front();
  SmallVector<Value> results(block.getTerminator()->getOperands()), arguments(block.getArguments());
  std::vector<Operation *> origins;
  std::optional<KernelInfo> info = Analyzer(KernelView{results, arguments}, refusal).run(&origins);
  if (names)
    *names = kernelNames(kernel, origins);
  return info;
}

} // namespace tcc
