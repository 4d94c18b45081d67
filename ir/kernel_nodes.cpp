// Nodes, from a value towards the arguments. A view is no node: its coordinates become its operand's. What can leave
// its range (pad, concat) is guarded by a derived axis. What an elementwise op does becomes scalar steps
// (scalar_form.h).
#include "ir/kernel_nodes.h"
#include "ir/emit.h"
#include "ir/kernel_space.h"
#include "ir/kernel_stages.h"

using namespace mlir;

namespace tcc {

std::nullopt_t KernelNodes::refuse(const Twine &why) {
  refusal = why.str();
  return std::nullopt;
}

IndexExpr KernelNodes::row() const {
  return IndexExpr::ofAxis(axis::outer, info.space.outer) * info.space.rows +
         IndexExpr::ofAxis(axis::row, info.space.rows);
}

IndexExpr KernelNodes::column() const {
  return IndexExpr::ofAxis(axis::column, info.space.columns);
}

IndexExpr KernelNodes::resolve(IndexExpr expr) const {
  for (unsigned i = info.derived.size(); i-- > 0;)
    if (std::optional<IndexExpr> resolved = expr.substitute(i + axis::firstDerived, info.derived[i].value))
      expr = *resolved;
  return expr;
}

IndexExpr KernelNodes::guardedCoordinate(const IndexExpr &value, int64_t extent, SmallVectorImpl<unsigned> &guards) {
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

unsigned KernelNodes::addNode(KernelNode node, Operation *op) {
  for (unsigned operand : node.operands) {
    node.perColumn |= node.kind != KernelNode::Kind::rowReduce && info.nodes[operand].perColumn;
    node.stage = std::max(node.stage, readyStage(info, operand));
  }
  for (unsigned guard : node.guards)
    node.perColumn |= info.axisDependsOnColumn(guard);
  node.perColumn |= info.dependsOnColumn(node.index);
  info.stages = std::max(info.stages, node.stage + 1);
  info.nodes.push_back(std::move(node));
  nodeOps.push_back(op);
  return info.nodes.size() - 1;
}

std::optional<unsigned> KernelNodes::need(Value value, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
  for (const Memo &known : memo[value])
    if (ArrayRef<unsigned>(known.guards) == guards && ArrayRef<IndexExpr>(known.coordinates) == coordinates)
      return known.node;
  std::optional<unsigned> node = makeNode(value, coordinates, guards);
  if (node)
    memo[value].push_back({SmallVector<IndexExpr>(coordinates), SmallVector<unsigned, 2>(guards), *node});
  return node;
}

unsigned KernelNodes::loadAt(Value argument, const IndexExpr &element, ArrayRef<unsigned> guards) {
  KernelNode node;
  node.kind = KernelNode::Kind::load;
  node.type = elementOf(argument);
  node.argument = arguments.lookup(argument);
  node.index = resolve(element);
  node.guards.assign(guards.begin(), guards.end());
  return addNode(std::move(node));
}

std::optional<unsigned> KernelNodes::makeNode(Value value, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
  RankedTensorType type = tensorType(value);
  KernelNode node;
  node.type = elementOf(value);
  if (arguments.contains(value))
    return loadAt(value, linearize(coordinates, type.getShape()), guards);
  Operation *op = value.getDefiningOp();
  if (auto literal = dyn_cast<ConstantOp>(op)) {
    if (!literal.getValue().isSplat())
      return refuse("expected literals inside a kernel to be splats");
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
  if (auto view = dyn_cast<ViewOpInterface>(op))
    return needView(view, coordinates, guards);
  auto elementwise = dyn_cast<ElementwiseOpInterface>(op);
  if (!elementwise)
    return refuse("expected " + op->getName().getStringRef() + " to be a result of its own");
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

unsigned KernelNodes::numberNode(const IndexExpr &index, Operation *op) {
  KernelNode node;
  node.kind = KernelNode::Kind::index;
  node.type = ElementType::i32;
  node.index = resolve(index);
  for (auto [i, known] : llvm::enumerate(info.nodes))
    if (known.kind == node.kind && known.type == node.type && known.index == node.index)
      return i;
  return addNode(std::move(node), op);
}

unsigned KernelNodes::shiftedNode(unsigned number, unsigned first, int64_t stride, Operation *op) {
  KernelNode node;
  node.kind = KernelNode::Kind::compute;
  node.type = ElementType::i32;
  node.operands = {number, first};
  ScalarStep size{Opcode::constant, node.type, {}, ScalarLiteral::ofInteger(static_cast<int32_t>(stride))};
  node.steps = {{size, {Opcode::mulI, node.type, {1, 2}, {}}, {Opcode::addI, node.type, {0, 3}, {}}}, 4};
  return addNode(std::move(node), op);
}

std::optional<unsigned> KernelNodes::needRandom(RandomBitsOp random, ArrayRef<IndexExpr> coordinates) {
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

std::optional<unsigned> KernelNodes::needView(ViewOpInterface op, ArrayRef<IndexExpr> coordinates,
                                              ArrayRef<unsigned> guards) {
  Value operand = op->getOperand(0), result = op->getResult(0);
  ArrayRef<int64_t> from = tensorType(operand).getShape();
  if (std::optional<SmallVector<ViewedDim>> dims = op.viewedDims()) {
    SmallVector<IndexExpr> inner;
    for (const ViewedDim &viewed : *dims) {
      IndexExpr at(viewed.offset);
      if (viewed.dim)
        at = coordinates[*viewed.dim] * viewed.stride + at;
      if (viewed.inner)
        at = at + coordinates[*viewed.inner] * viewed.innerStride;
      inner.push_back(at);
    }
    return need(operand, inner, guards);
  }
  std::optional<SmallVector<IndexExpr>> inner =
      delinearize(linearize(coordinates, tensorType(result).getShape()), from);
  if (inner)
    return need(operand, *inner, guards);
  StridedView memory = stridedView(result); // of what is in memory there are strides
  if (!arguments.contains(memory.root))
    return refuse("expected the sizes of " + typeText(tensorType(result)) + " and " + typeText(tensorType(operand)) +
                  " to divide each other");
  IndexExpr element(memory.offset);
  for (auto [coordinate, stride] : llvm::zip_equal(coordinates, memory.strides))
    element = element + coordinate * stride;
  return loadAt(memory.root, element, guards);
}

std::optional<unsigned> KernelNodes::needPad(PadOp pad, ArrayRef<IndexExpr> coordinates, ArrayRef<unsigned> guards) {
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
  if (!pad.isOfZeros() && !own.empty()) {
    KernelNode value;
    value.kind = KernelNode::Kind::literal;
    value.type = node.type;
    RankedTensorType one = RankedTensorType::get({}, tensorType(pad.getResult()).getElementType());
    value.value = literalOf(splatOf(one, pad.getValue().convertToDouble()).getSplatValue<Attribute>());
    node.operands.push_back(addNode(std::move(value), pad)); // without a guard: where the part is not
    node.guardCounts.push_back(0);
  }
  return addNode(std::move(node), pad);
}

std::optional<unsigned> KernelNodes::needConcat(ConcatOp concat, ArrayRef<IndexExpr> coordinates,
                                                ArrayRef<unsigned> guards) {
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

std::optional<unsigned> KernelNodes::needReduction(Operation *op, ArrayRef<IndexExpr> coordinates,
                                                   ArrayRef<unsigned> guards) {
  Value operand = op->getOperand(0);
  ReductionShape shape = reductionShape(op);
  if (shape.isIdentity())
    return need(operand, coordinates, guards);
  if (shape.reduced != info.space.columns || !shape.isTrailing())
    return refuse("expected the column reduction to be a result, summed before it is used");
  if (!guards.empty())
    return refuse("expected no row reduction below a pad or concat");
  ArrayRef<int64_t> axes = reducedAxes(op), sizes = tensorType(operand).getShape();
  SmallVector<int64_t> reduced;
  for (int64_t dim : axes)
    reduced.push_back(sizes[dim]);
  std::optional<SmallVector<IndexExpr>> digits = delinearize(column(), reduced);
  if (!digits)
    return refuse("expected the reduced sizes to divide the row");
  SmallVector<IndexExpr> inner(coordinates);
  for (auto [i, dim] : llvm::enumerate(axes))
    inner[dim] = (*digits)[i];
  for (const IndexExpr &coordinate : coordinates)
    if (info.dependsOnColumn(coordinate))
      return refuse("expected a row's statistics to be used in that row alone");
  std::optional<unsigned> id = need(operand, inner, guards);
  if (!id)
    return std::nullopt;
  KernelNode node;
  node.kind = KernelNode::Kind::rowReduce;
  node.reduction = reductionOf(op);
  node.type = elementOf(op->getResult(0));
  node.operands = {*id};
  unsigned made = addNode(std::move(node), op);
  auto [known, inserted] = reductionNode.try_emplace(op, made);
  if (!inserted)
    return refuse("expected a row's statistics to be used in that row alone");
  return made;
}

std::optional<unsigned> KernelNodes::needGather(GatherOp gather, ArrayRef<IndexExpr> coordinates,
                                                ArrayRef<unsigned> guards) {
  auto table = arguments.find(gather.getTable());
  if (table == arguments.end())
    return refuse("expected the table of a gather to be in memory");
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

} // namespace tcc
