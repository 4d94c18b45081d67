// analyzeKernel, in these steps:
//   1. collect the region's ops between results and arguments;
//   2. choose the iteration space (kernel_space.h); without reductions it is the first where every access is affine;
//   3. from each result walk towards the arguments (kernel_nodes.h);
//   4. record where each result goes.
// It never reorders or changes the region; whatever it cannot express is refused with what was expected.
#include "ir/analyze_kernel.h"
#include "ir/kernel_nodes.h"
#include "ir/kernel_space.h"
#include "ir/kernel_stages.h"
#include "ir/known_traits.h"

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
      KernelNodes nodes(info, argumentNumber, refusal);
      if (!build(space, nodes))
        continue;
      bool isBest = candidates.size() == 1 || info.isAffineInColumns();
      if (!isBest && fallback)
        continue;
      if (origins)
        *origins = nodes.origins();
      if (isBest)
        return std::move(info);
      fallback = std::move(info);
    }
    return fallback;
  }

private:
  const KernelView &view;
  std::string &refusal;
  DenseMap<Value, unsigned> argumentNumber;
  SetVector<Operation *> ops;
  KernelInfo info;

  bool refuse(const Twine &why) {
    refusal = why.str();
    return false;
  }

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
      if (op && ops.contains(op))
        continue;
      if (!op || !knownTrait<KernelBodyOp>(op))
        return refuse("expected a computation of primitives, found " +
                      (op ? op->getName().getStringRef() : StringRef("a value from outside")));
      if (!tensorType(value).hasStaticShape())
        return refuse("expected static shapes");
      ops.insert(op);
      llvm::append_range(work, op->getOperands());
    }
    return true;
  }

  //===- step 4: stores ----------------------------------------------------------------------------------------===//

  bool build(const KernelSpace &space, KernelNodes &nodes) {
    info = KernelInfo();
    info.space = space;
    for (Value argument : view.arguments)
      info.arguments.push_back(tensorOf(argument));
    for (Value result : view.results)
      info.results.push_back(tensorOf(result));
    for (Value result : view.results)
      if (!addStore(result, nodes))
        return false;
    return true;
  }

  bool addStore(Value result, KernelNodes &nodes) {
    Value source = result; // below reshapes, which keep the linear order
    while (auto reshape = source.getDefiningOp<ReshapeOp>()) {
      if (argumentNumber.contains(source))
        break;
      source = reshape.getX();
    }
    Operation *op = argumentNumber.contains(source) ? nullptr : source.getDefiningOp();
    if (op && isColumnReduction(op))
      return addColumnStore(op, nodes);
    if (auto scatter = dyn_cast_or_null<ScatterAddOp>(op))
      return addScatterStore(scatter, nodes);
    int64_t count = tensorType(result).getNumElements();
    const KernelSpace &space = info.space;
    bool perColumn = count == space.elements() && count != space.outer * space.rows; // both are 0 where it is empty
    if (!hasPlaces(space, count))
      return refuse("expected every result to have one element for each row or each element of the iteration space");
    IndexExpr linear = perColumn ? nodes.row() * space.columns + nodes.column() : nodes.row();
    std::optional<SmallVector<IndexExpr>> coordinates = delinearize(linear, tensorType(result).getShape());
    if (!coordinates)
      return refuse("expected the result " + typeText(tensorType(result)) + " to divide the iteration space");
    std::optional<unsigned> node = nodes.need(result, *coordinates);
    if (!node)
      return false;
    if (!perColumn && info.nodes[*node].perColumn)
      return refuse("expected one value a row");
    KernelStore store;
    store.kind = KernelStore::Kind::element;
    store.node = *node;
    store.index = linear;
    store.perColumn = perColumn;
    info.stages = std::max(info.stages, readyStage(info, *node) + (perColumn ? 1 : 0));
    info.stores.push_back(store);
    return true;
  }

  bool addColumnStore(Operation *op, KernelNodes &nodes) {
    const KernelSpace &space = info.space;
    Value operand = op->getOperand(0);
    std::optional<SmallVector<IndexExpr>> coordinates =
        delinearize(nodes.row() * space.columns + nodes.column(), tensorType(operand).getShape());
    if (!coordinates)
      return refuse("expected the summed rows to divide the iteration space");
    std::optional<unsigned> node = nodes.need(operand, *coordinates);
    if (!node)
      return false;
    KernelStore store;
    store.kind = KernelStore::Kind::columnReduce;
    store.reduction = reductionOf(op);
    store.node = *node;
    store.index = IndexExpr::ofAxis(axis::outer, space.outer) * space.columns + nodes.column();
    store.perColumn = true;
    info.stages = std::max(info.stages, readyStage(info, *node) + 1);
    info.stores.push_back(store);
    return true;
  }

  bool addScatterStore(ScatterAddOp scatter, KernelNodes &nodes) {
    auto base = argumentNumber.find(scatter.getBase());
    if (base == argumentNumber.end())
      return refuse("expected the base of a scatter to be in memory");
    const KernelSpace &space = info.space;
    std::optional<SmallVector<IndexExpr>> rowCoordinates =
        delinearize(nodes.row(), tensorType(scatter.getIndex()).getShape());
    std::optional<SmallVector<IndexExpr>> coordinates =
        delinearize(nodes.row() * space.columns + nodes.column(), tensorType(scatter.getRows()).getShape());
    if (!coordinates || !rowCoordinates)
      return refuse("expected the scattered rows to divide the iteration space");
    std::optional<unsigned> index = nodes.need(scatter.getIndex(), *rowCoordinates);
    std::optional<unsigned> node = index ? nodes.need(scatter.getRows(), *coordinates) : std::nullopt;
    if (!node)
      return false;
    KernelStore store;
    store.kind = KernelStore::Kind::scatterAdd;
    store.node = *node;
    store.index = nodes.column();
    store.perColumn = true;
    store.scatterRow = *index;
    store.scatterBase = base->second;
    store.scatterRows = tensorType(scatter.getBase()).getDimSize(0);
    store.scatterStride = space.columns;
    info.stages = std::max(info.stages, readyStage(info, *node) + 1);
    info.stores.push_back(store);
    return true;
  }
};

} // namespace

std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal,
                                        std::vector<Operation *> *origins) {
  return Analyzer(view, refusal).run(origins);
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
