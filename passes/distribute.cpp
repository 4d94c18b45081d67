// distribute: writes each tcc.lanes as what one rank computes of it.
//   1. the rank takes its lanes' parts of the scanned values (tcc.shard);
//   2. it adds up the nodes of the tree that its lanes make, each in loops of two turns, one inside of the other (one
//      turn where the halves differ in size): a node of 2^k lanes needs the memory of k sums beside that of one lane;
//   3. every rank gets its part of all ranks' nodes (tcc.all_to_all) and adds them in the order of the tree;
//   4. the parts' sums go to all ranks (tcc.all_gather). With --reduce=fast the ranks' sums are one tcc.all_reduce.
//   5. results come out of a loop of one turn, as those of one rank come out of a loop: dense, in memory. So what reads
//      them is compiled to the same sums, whatever the number of ranks.
// A lane is the body of a loop of one turn: what it is compiled to depends on nothing outside, so its bits are the same
// wherever it runs. A sum never is -0 (each begins with 0), whoever adds it. The bodies keep their ops.
#include "ir/emit.h"
#include "ir/lanes.h"
#include "ir/names.h"
#include "mlir/IR/IRMapping.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

using Values = SmallVector<Value>;

class LaneSums {
public:
  LaneSums(LanesOp op, const RankShare &ranks) : op(op), ranks(ranks) {}

  Values run() {
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    const auto lanes = static_cast<int64_t>(op.getCount());
    const std::vector<LaneNode> nodes = laneNodesOf(lanes, ranks.count, ranks.rank);
    const int64_t first = nodes.front().first, count = nodes.back().first + nodes.back().count - first;
    Values parts(op.getScanned());
    if (ranks.count > 1)
      for (Value &part : parts) {
        const RankedTensorType type = tensorType(part);
        SmallVector<int64_t> shape(type.getShape());
        shape[0] = count;
        part = emit.create<ShardOp>(withShape(type, shape), part, builder.getI64IntegerAttr(ranks.count));
      }
    std::vector<Values> pieces;
    for (const LaneNode &node : nodes)
      pieces.push_back(
          sumOf(emit, node.count, firstIndices(emit, parts, node.first - first, node.count), op.getInputs()));
    if (ranks.count == 1)
      return pieces.front();
    return ranks.isFast ? fastSums(emit, pieces) : treeSums(emit, pieces);
  }

private:
  LanesOp op;
  const RankShare &ranks;

  static Values firstIndices(Emit &b, ValueRange values, int64_t first, int64_t count) {
    return llvm::map_to_vector(values, [&](Value value) {
      SmallVector<int64_t> limits(tensorType(value).getShape()), starts(limits.size(), 0);
      starts[0] = first;
      limits[0] = first + count;
      return b.slice(value, starts, limits);
    });
  }

  Values zeros(Emit &b) {
    return llvm::map_to_vector(op.getResults(), [&](Value result) { return b.zeros(tensorType(result)); });
  }

  static Values added(Emit &b, ValueRange left, ValueRange right) {
    Values sums;
    for (auto [x, y] : llvm::zip_equal(left, right))
      sums.push_back(b.add(x, y));
    return sums;
  }

  /// A loop over the first indices of `parts`, whose body is empty, and the body's arguments after the carried ones.
  RepeatOp loop(Emit &b, int64_t count, ValueRange parts, ValueRange inputs) {
    const Values start = zeros(b);
    auto made = RepeatOp::create(b.builder, b.loc, TypeRange(ValueRange(start)), b.builder.getI64IntegerAttr(count),
                                 start, parts, inputs);
    Block &body = made.getBody().emplaceBlock();
    for (Type type : made.argumentTypes())
      body.addArgument(type, b.loc);
    return made;
  }

  /// What so many lanes add up to: `parts` are [count, ...].
  Values sumOf(Emit &b, int64_t count, ValueRange parts, ValueRange inputs) {
    if (count == 1)
      return lane(b, parts, inputs);
    if (const LaneNode node{0, count}; node.leftCount() * 2 != count)
      return unequalHalves(b, node, parts, inputs);
    const Values halves = llvm::map_to_vector(parts, [&](Value part) {
      SmallVector<int64_t> shape{2, count / 2};
      llvm::append_range(shape, tensorType(part).getShape().drop_front());
      return b.reshape(part, shape);
    });
    RepeatOp turns = loop(b, 2, halves, inputs);
    Block &body = turns.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    Emit inside(builder, b.loc);
    const ValueRange arguments(body.getArguments());
    const ValueRange carried = arguments.take_front(op.getNumResults());
    const Values sum =
        sumOf(inside, count / 2, arguments.slice(op.getNumResults(), parts.size()), arguments.take_back(inputs.size()));
    YieldOp::create(builder, b.loc, added(inside, carried, sum));
    return Values(turns.getResults());
  }

  /// A node whose halves have different numbers of lanes, in a loop of one turn.
  Values unequalHalves(Emit &b, const LaneNode &node, ValueRange parts, ValueRange inputs) {
    Values uses(parts);
    llvm::append_range(uses, inputs);
    RepeatOp once = loop(b, 1, {}, uses);
    Block &body = once.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    Emit inside(builder, b.loc);
    const ValueRange arguments = ValueRange(body.getArguments()).drop_front(op.getNumResults());
    const ValueRange own = arguments.take_front(parts.size()), shared = arguments.drop_front(parts.size());
    const auto sumOfNode = [&](const LaneNode &half) {
      return sumOf(inside, half.count, firstIndices(inside, own, half.first, half.count), shared);
    };
    const Values left = sumOfNode(node.left()), right = sumOfNode(node.right());
    YieldOp::create(builder, b.loc, added(inside, left, right));
    return Values(once.getResults());
  }

  /// One lane, of `parts` [1, ...].
  Values lane(Emit &b, ValueRange parts, ValueRange inputs) {
    Values uses = llvm::map_to_vector(
        parts, [&](Value part) { return b.reshape(part, tensorType(part).getShape().drop_front()); });
    llvm::append_range(uses, inputs);
    RepeatOp once = loop(b, 1, {}, uses);
    Block &body = once.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    IRMapping map;
    map.map(op.getBody().front().getArguments(), body.getArguments().take_back(uses.size()));
    for (Operation &each : op.getBody().front())
      builder.clone(each, map);
    return Values(once.getResults());
  }

  /// Each result's value in what a rank gets as one row: `row` is [elements].
  Values resultsIn(Emit &b, Value row) {
    RepeatOp once = loop(b, 1, {}, row);
    OpBuilder builder = OpBuilder::atBlockEnd(&once.getBody().front());
    Emit inside(builder, b.loc);
    YieldOp::create(builder, b.loc, partsOf(inside, once.getBody().front().getArguments().back()));
    return Values(once.getResults());
  }

  Values partsOf(Emit &b, Value row) {
    Values results;
    int64_t first = 0;
    for (Value result : op.getResults()) {
      const RankedTensorType type = tensorType(result);
      results.push_back(b.reshape(b.slice(row, {first}, {first + type.getNumElements()}), type.getShape()));
      first += type.getNumElements();
    }
    return results;
  }

  Values treeSums(Emit &b, ArrayRef<Values> pieces) {
    constexpr int64_t aligned = 16; // elements: parts begin at multiples of 64 bytes
    std::vector<LaneNode> nodes;    // of all ranks
    SmallVector<int64_t> counts;
    for (int64_t rank = 0; rank < ranks.count; ++rank) {
      const std::vector<LaneNode> own = laneNodesOf(static_cast<int64_t>(op.getCount()), ranks.count, rank);
      counts.push_back(static_cast<int64_t>(own.size()));
      llvm::append_range(nodes, own);
    }
    int64_t elements = 0;
    for (Value result : op.getResults())
      elements += tensorType(result).getNumElements();
    const int64_t size = llvm::alignTo(llvm::divideCeil(elements, ranks.count), aligned);
    Values all;
    for (const Values &piece : pieces)
      llvm::append_range(all, piece);
    const auto rows = static_cast<int64_t>(nodes.size());
    Value received =
        b.create<AllToAllOp>(RankedTensorType::get({rows, size}, b.f32()), b.builder.getDenseI64ArrayAttr(counts),
                             b.builder.getI64IntegerAttr(static_cast<int64_t>(pieces.size())), all);
    Value sum = treeSum(b, {0, static_cast<int64_t>(op.getCount())}, nodes, received);
    return resultsIn(b, b.create<AllGatherOp>(RankedTensorType::get({size * ranks.count}, b.f32()), sum,
                                              b.builder.getI64IntegerAttr(ranks.count)));
  }

  /// The sum over a node of the tree, from the rows of the nodes that ranks have added up.
  Value treeSum(Emit &b, const LaneNode &node, ArrayRef<LaneNode> known, Value rows) {
    if (const auto *found = llvm::find(known, node); found != known.end()) {
      const int64_t row = found - known.begin(), size = tensorType(rows).getDimSize(1);
      Value value = b.reshape(b.slice(rows, {row, 0}, {row + 1, size}), {size});
      return node.count == 1 && node.first == 0 ? b.add(value, 0.0) : value; // the first lane's zeros may be -0
    }
    Value left = treeSum(b, node.left(), known, rows);
    return b.add(left, treeSum(b, node.right(), known, rows));
  }

  Values fastSums(Emit &b, ArrayRef<Values> pieces) {
    Values sums = pieces.front();
    for (const Values &piece : pieces.drop_front())
      sums = added(b, sums, piece);
    auto all = AllReduceOp::create(b.builder, b.loc, TypeRange(ValueRange(sums)),
                                   b.builder.getI64IntegerAttr(ranks.count), sums);
    return Values(all.getResults());
  }
};

} // namespace

LogicalResult distribute(func::FuncOp function, const PipelineOptions &options) {
  for (LanesOp op : llvm::make_early_inc_range(function.getBody().getOps<LanesOp>())) {
    const auto lanes = static_cast<int64_t>(op.getCount());
    if (lanes < options.ranks.count)
      return op.emitOpError() << "has " << lanes << " lanes for " << options.ranks.count
                              << " ranks; each rank needs one or more";
    op->replaceAllUsesWith(LaneSums(op, options.ranks).run());
    op->erase();
  }
  return success();
}

} // namespace tcc
