// distribute: writes each tcc.lanes as what one rank computes of it.
//   1. the rank takes its lanes' parts of the scanned values (tcc.shard);
//   2. it adds up the nodes of the tree that its lanes make. Two to eight lanes are written out one after the other, so
//      that one pass over memory adds up several sums and none begins with zeros; larger nodes are loops of two turns,
//      one inside of the other (one turn where the halves differ in size). A node of 2^k lanes needs the memory of k
//      sums beside that of one lane. The last lane of the last node is left for step 3;
//   3. that lane's loop of one turn also exchanges the sums, in buckets (-fbucket=) by when the lane has its gradients,
//      so that schedule-collectives can start a bucket while the lane goes on. In a bucket the left halves are added to
//      what the lane gives, in a loop of their own; every rank gets its part of all ranks' nodes (tcc.all_to_all) and
//      adds them in the order of the tree; the parts' sums go to all ranks (tcc.all_gather). A bucket's sums come after
//      the next one's all_to_all. A bucket leaves the loop as it is, and tcc.unpack takes the sums out, which copies
//      nothing. With --reduce=fast the ranks' sums are one tcc.all_reduce a bucket.
//   4. with --zero=2, a rank keeps its part of a sum (rank_parts.h) in place of the all_gather: pieces are put together
//      by rank, and values that have fewer rows than there are ranks go to all;
//   5. with --zero, states and their updates are shared out (state_parts.cpp), with --zero=3 parameters too, which each
//      lane then gathers (parameter_parts.cpp);
//   6. collectives are numbered in their order, which is the same on every rank (collective_order.h);
//   7. results come out of a loop of one turn, as those of one rank come out of a loop: dense, in memory, and what
//      reads them is compiled to the same sums, whatever the number of ranks.
// A lane is the body of a loop of one turn: what it is compiled to depends on nothing outside, so its bits are the same
// wherever it runs. A sum never is -0 (each begins with 0), whoever adds it. The bodies keep their ops.
#include "ir/emit.h"
#include "ir/lanes.h"
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/IRMapping.h"
#include "passes/collective_order.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/state_updates.h"
#include "passes/zero_stages.h"
#include <numeric>

using namespace mlir;

namespace tcc {
namespace {

using Values = SmallVector<Value>;

constexpr int64_t alignedElements = 16; // parts begin at multiples of 64 bytes
constexpr int64_t mostWrittenOut = 8;   // lanes of a node that are no loop

class LaneSums {
public:
  LaneSums(LanesOp op, const PipelineOptions &options)
      : op(op), ranks(options.ranks), parts(options.ranks), bucketBytes(options.bucketBytes) {}

  /// Whether run() gives this rank's part of a result.
  bool isInParts(unsigned result) {
    return ranks.zero >= 2 && ranks.count > 1 && !ranks.isFast && parts.areOf(tensorType(op.getResult(result)));
  }

  Values run() {
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    const std::vector<LaneNode> nodes = laneNodesOf(lanes(), ranks.count, ranks.rank);
    const int64_t first = nodes.front().first, count = nodes.back().first + nodes.back().count - first;
    Values scanned(op.getScanned());
    if (ranks.count == 1)
      return sumOf(emit, count, scanned, op.getInputs());
    for (Value &part : scanned) {
      const RankedTensorType type = tensorType(part);
      SmallVector<int64_t> shape(type.getShape());
      shape[0] = count;
      part = emit.create<ShardOp>(withShape(type, shape), part, builder.getI64IntegerAttr(ranks.count));
    }
    const auto sumOfNode = [&](const LaneNode &node) {
      return sumOf(emit, node.count, firstIndices(emit, scanned, node.first - first, node.count), op.getInputs());
    };
    std::vector<Values> pieces;
    for (const LaneNode &node : ArrayRef(nodes).drop_back())
      pieces.push_back(sumOfNode(node));
    LaneNode last = nodes.back();
    std::vector<Values> lefts;
    for (; last.count > 1; last = last.right()) {
      lefts.push_back(sumOfNode(last.left()));
      hasLaneOnTheLeft |= last.left().count == 1;
    }
    return lastLane(emit, firstIndices(emit, scanned, last.first - first, 1), pieces, lefts);
  }

private:
  LanesOp op;
  const RankShare &ranks;
  const RankParts parts;
  const int64_t bucketBytes;
  bool hasLaneOnTheLeft = false; // the smallest left half of the rank's last node is one lane

  /// Whether the last lane's loop gives a bucket's sums as one value.
  bool isPacked() const { return !ranks.isFast && ranks.zero < 2; }

  int64_t lanes() { return static_cast<int64_t>(op.getCount()); }

  static Values firstIndices(Emit &b, ValueRange values, int64_t first, int64_t count) {
    return llvm::map_to_vector(values, [&](Value value) {
      SmallVector<int64_t> limits(tensorType(value).getShape()), starts(limits.size(), 0);
      starts[0] = first;
      limits[0] = first + count;
      return b.slice(value, starts, limits);
    });
  }

  static Values added(Emit &b, ValueRange left, ValueRange right) {
    Values sums;
    for (auto [x, y] : llvm::zip_equal(left, right))
      sums.push_back(b.add(x, y));
    return sums;
  }

  /// A loop over the first indices of `parts`, whose body is empty but for its arguments. The carried ones have the
  /// types of `results` and begin with zeros.
  static RepeatOp loop(Emit &b, int64_t count, TypeRange results, ValueRange parts, ValueRange inputs) {
    return loop(b, count,
                llvm::map_to_vector(results, [&](Type result) { return b.zeros(cast<RankedTensorType>(result)); }),
                parts, inputs);
  }

  /// The same, whose carried values begin with `start`.
  static RepeatOp loop(Emit &b, int64_t count, const Values &start, ValueRange parts, ValueRange inputs) {
    auto made = RepeatOp::create(b.builder, b.loc, TypeRange(ValueRange(start)), b.builder.getI64IntegerAttr(count),
                                 start, parts, inputs);
    Block &body = made.getBody().emplaceBlock();
    for (Type type : made.argumentTypes())
      body.addArgument(type, b.loc);
    return made;
  }

  /// Values of the types `results` that `make` computes from `inputs` where nothing else is compiled with it.
  static Values alone(Emit &b, TypeRange results, ValueRange inputs,
                      llvm::function_ref<Values(Emit &, ValueRange)> make) {
    return yielding(b, loop(b, 1, results, {}, inputs), [&](Emit &inside, ValueRange arguments) {
      return make(inside, arguments.take_back(inputs.size()));
    });
  }

  /// The results of a loop whose body yields what `make` computes from all of its arguments.
  static Values yielding(Emit &b, RepeatOp loop, llvm::function_ref<Values(Emit &, ValueRange)> make) {
    Block &body = loop.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    Emit inside(builder, b.loc);
    YieldOp::create(builder, b.loc, make(inside, ValueRange(body.getArguments())));
    return Values(loop.getResults());
  }

  /// What so many lanes add up to: `parts` are [count, ...].
  Values sumOf(Emit &b, int64_t count, ValueRange parts, ValueRange inputs) {
    if (count == 1)
      return lane(b, parts, inputs);
    if (const LaneNode node{0, count}; node.leftCount() * 2 != count)
      return unequalHalves(b, node, parts, inputs);
    if (count <= mostWrittenOut)
      return overFirst(b, summands(b, count, parts, inputs));
    const Values halves = llvm::map_to_vector(parts, [&](Value part) {
      SmallVector<int64_t> shape{2, count / 2};
      llvm::append_range(shape, tensorType(part).getShape().drop_front());
      return b.reshape(part, shape);
    });
    return yielding(b, loop(b, 2, op.getResultTypes(), halves, inputs), [&](Emit &inside, ValueRange arguments) {
      const ValueRange carried = arguments.take_front(op.getNumResults());
      const ValueRange half = arguments.slice(op.getNumResults(), parts.size()),
                       shared = arguments.take_back(inputs.size());
      // What is written out is added to the carried sums in the same pass over memory.
      const Values sum = count / 2 <= mostWrittenOut ? sumOfSummands(inside, summands(inside, count / 2, half, shared))
                                                     : sumOf(inside, count / 2, half, shared);
      return added(inside, carried, sum);
    });
  }

  /// What adds up to a node of 2^k lanes: the sum of its first half, of the half of what is left, and so on, at last
  /// two lanes.
  Values summands(Emit &b, int64_t count, ValueRange parts, ValueRange inputs) {
    Values given;
    int64_t first = 0;
    for (int64_t left = count / 2; left > 0; first += left, left /= 2)
      llvm::append_range(given, sumOf(b, left, firstIndices(b, parts, first, left), inputs));
    llvm::append_range(given, lane(b, firstIndices(b, parts, first, 1), inputs));
    return given;
  }

  /// The sum of summands(), added where nothing else is compiled with it, in the memory of the first of them.
  Values overFirst(Emit &b, const Values &given) {
    const size_t width = op.getNumResults();
    RepeatOp once = loop(b, 1, Values(ArrayRef(given).take_front(width)), {}, ArrayRef(given).drop_front(width));
    return yielding(b, once, [&](Emit &inside, ValueRange arguments) { return sumOfSummands(inside, arguments); });
  }

  /// The sum of summands(), from the last lane on. The zeros of a lane may be -0, and no sum's are.
  Values sumOfSummands(Emit &b, ValueRange given) {
    const size_t width = op.getNumResults();
    const ValueRange lanes = given.take_back(2 * width);
    Values left(lanes.take_front(width));
    for (Value &value : left)
      value = b.add(value, 0.0);
    Values sum = added(b, left, lanes.drop_front(width));
    for (given = given.drop_back(2 * width); !given.empty(); given = given.drop_back(width))
      sum = added(b, given.take_back(width), sum);
    return sum;
  }

  /// A node whose halves have different numbers of lanes, in a loop of one turn.
  Values unequalHalves(Emit &b, const LaneNode &node, ValueRange parts, ValueRange inputs) {
    Values uses(parts);
    llvm::append_range(uses, inputs);
    return alone(b, op.getResultTypes(), uses, [&](Emit &inside, ValueRange arguments) {
      const ValueRange own = arguments.take_front(parts.size()), shared = arguments.drop_front(parts.size());
      const auto sumOfNode = [&](const LaneNode &half) {
        return sumOf(inside, half.count, firstIndices(inside, own, half.first, half.count), shared);
      };
      const Values left = sumOfNode(node.left());
      return added(inside, left, sumOfNode(node.right()));
    });
  }

  /// What the lane's body yields, of `values`, written where `b` is.
  Values bodyOf(Emit &b, ValueRange values) {
    Block &body = op.getBody().front();
    IRMapping map;
    map.map(body.getArguments(), values);
    for (Operation &each : body.without_terminator())
      b.builder.clone(each, map);
    return llvm::map_to_vector(body.getTerminator()->getOperands(),
                               [&](Value value) { return map.lookupOrDefault(value); });
  }

  /// A lane's values of `parts` [1, ...], and the inputs.
  static Values laneValues(Emit &b, ValueRange parts, ValueRange inputs) {
    Values values = llvm::map_to_vector(
        parts, [&](Value part) { return b.reshape(part, tensorType(part).getShape().drop_front()); });
    llvm::append_range(values, inputs);
    return values;
  }

  /// One lane, of `parts` [1, ...].
  Values lane(Emit &b, ValueRange parts, ValueRange inputs) {
    return alone(b, op.getResultTypes(), laneValues(b, parts, inputs),
                 [&](Emit &inside, ValueRange values) { return bodyOf(inside, values); });
  }

  /// The rank's last lane and the exchange of all sums: `pieces` are other nodes, and `lefts` the left halves of the
  /// node that ends with the lane, the largest first.
  Values lastLane(Emit &b, ValueRange parts, ArrayRef<Values> pieces, ArrayRef<Values> lefts) {
    Values uses = laneValues(b, parts, op.getInputs());
    const size_t own = uses.size(), width = op.getNumResults();
    for (const Values &sums : pieces)
      llvm::append_range(uses, sums);
    for (const Values &sums : lefts)
      llvm::append_range(uses, sums);
    const std::vector<SmallVector<unsigned>> buckets = bucketsOf(op.getBody().front().getTerminator()->getOperands());
    const SmallVector<Type> types = isPacked() ? packedTypes(b, buckets) : resultTypes();
    const Values given = alone(b, types, uses, [&](Emit &inside, ValueRange arguments) {
      const Values lane = bodyOf(inside, arguments.take_front(own));
      Values results(types.size());
      std::optional<Started> before;
      const OpBuilder::InsertionGuard guard(inside.builder);
      for (auto [number, bucket] : llvm::enumerate(buckets)) {
        if (ranks.zero >= 3)
          standAfter(inside, bucket, lane, !before);
        const auto chosen = [&](ValueRange values) {
          return Values(llvm::map_to_vector(bucket, [&](unsigned i) { return values[i]; }));
        };
        std::vector<Values> earlier; // pieces, then left halves
        for (size_t i = own; i < arguments.size(); i += width)
          earlier.push_back(chosen(arguments.slice(i, width)));
        std::vector<Values> sums(earlier.begin(), earlier.begin() + pieces.size());
        sums.push_back(withLefts(inside, ArrayRef(earlier).drop_front(pieces.size()), chosen(lane)));
        Started started{number, bucket,
                        ranks.isFast      ? fastSums(inside, sums)
                        : ranks.zero >= 2 ? exchanged(inside, byRank(inside, bucket, sums))
                                          : exchanged(inside, sums)};
        if (before)
          finish(inside, *before, results);
        before = std::move(started);
      }
      finish(inside, *before, results);
      return results;
    });
    return isPacked() ? unpacked(b, buckets, given) : given;
  }

  /// How many elements of a packed bucket each rank adds up.
  int64_t partOf(TypeRange bucket) const {
    return llvm::alignTo(llvm::divideCeil(packedPlaces(bucket).back(), ranks.count), alignedElements);
  }

  SmallVector<Type> typesOf(ArrayRef<unsigned> bucket) {
    return llvm::map_to_vector(bucket, [&](unsigned i) { return op.getResult(i).getType(); });
  }

  SmallVector<Type> packedTypes(Emit &b, ArrayRef<SmallVector<unsigned>> buckets) {
    return llvm::map_to_vector(buckets, [&](const SmallVector<unsigned> &bucket) {
      return Type(RankedTensorType::get({partOf(typesOf(bucket)) * ranks.count}, b.f32()));
    });
  }

  /// The sums that lie in `packed`, which has a value for each bucket.
  Values unpacked(Emit &b, ArrayRef<SmallVector<unsigned>> buckets, const Values &packed) {
    Values results(op.getNumResults());
    for (auto [bucket, value] : llvm::zip_equal(buckets, packed))
      for (auto [i, sum] :
           llvm::zip_equal(bucket, UnpackOp::create(b.builder, b.loc, typesOf(bucket), value).getResults()))
        results[i] = sum;
    return results;
  }

  /// With --zero=3 a bucket's exchange has its place in the order of collectives right after its values, between the
  /// gathers of parameters that the lane comes to.
  static void standAfter(Emit &b, ArrayRef<unsigned> bucket, const Values &lane, bool isFirst) {
    Block *block = b.builder.getInsertionBlock();
    Operation *last = nullptr; // of what gives the values, and of what stands after them for the buckets before
    if (!isFirst)
      last = &*std::prev(b.builder.getInsertionPoint());
    for (unsigned i : bucket)
      if (Operation *producer = lane[i].getDefiningOp();
          producer && producer->getBlock() == block && (!last || last->isBeforeInBlock(producer)))
        last = producer;
    if (last)
      b.builder.setInsertionPointAfter(last);
  }

  SmallVector<Type> resultTypes() {
    SmallVector<Type> types(op.getResultTypes());
    for (unsigned i = 0; i < types.size(); ++i)
      if (isInParts(i))
        types[i] = parts.typeOf(cast<RankedTensorType>(types[i]));
    return types;
  }

  /// The left halves of a node added to its last lane, from the smallest on.
  Values withLefts(Emit &b, ArrayRef<Values> lefts, const Values &lane) {
    if (lefts.empty())
      return lane;
    Values uses(lane);
    for (const Values &left : lefts)
      llvm::append_range(uses, left);
    return alone(b, TypeRange(ValueRange(lane)), uses, [&](Emit &inside, ValueRange own) {
      Values sums(own.take_front(lane.size()));
      for (size_t i = own.size(); i > lane.size(); i -= lane.size()) {
        Values left(own.slice(i - lane.size(), lane.size()));
        if (i == own.size() && hasLaneOnTheLeft) // its zeros may be -0, and no sum's are
          for (Value &value : left)
            value = inside.add(value, 0.0);
        sums = added(inside, left, sums);
      }
      return sums;
    });
  }

  /// The numbers of the lane's values in buckets, in the order in which the lane computes them. The last bucket, which
  /// no computation is left to hide, is a quarter of the others.
  std::vector<SmallVector<unsigned>> bucketsOf(ValueRange lane) {
    llvm::DenseMap<Operation *, unsigned> position;
    Operation *last = nullptr;
    for (Value value : lane)
      if (Operation *producer = value.getDefiningOp())
        last = producer;
    if (last)
      for (Operation &each : *last->getBlock())
        position[&each] = position.size();
    SmallVector<unsigned> order = llvm::to_vector(llvm::seq<unsigned>(0, lane.size()));
    llvm::stable_sort(order, [&](unsigned i, unsigned j) {
      return position.lookup(lane[i].getDefiningOp()) < position.lookup(lane[j].getDefiningOp());
    });
    const auto bytesOf = [&](unsigned i) { return byteSize(tensorType(lane[i])); };
    size_t end = order.size(); // of what stands before the last bucket
    for (int64_t bytes = 0; end > 0; --end)
      if ((bytes += bytesOf(order[end - 1])) > bucketBytes / 4 && end < order.size())
        break;
    std::vector<SmallVector<unsigned>> buckets;
    int64_t bytes = bucketBytes;
    for (unsigned i : ArrayRef(order).take_front(end)) {
      if (bytes >= bucketBytes) {
        buckets.emplace_back();
        bytes = 0;
      }
      buckets.back().push_back(i);
      bytes += bytesOf(i);
    }
    if (end < order.size())
      buckets.emplace_back(ArrayRef(order).drop_front(end));
    return buckets;
  }

  /// A bucket's exchange that has begun: the rows of an all_to_all, or the sums themselves.
  struct Started {
    size_t number;
    SmallVector<unsigned> bucket;
    Values values;
  };

  void finish(Emit &b, const Started &started, Values &results) {
    if (isPacked()) {
      results[started.number] = wholeSums(b, started.values.front());
      return;
    }
    const Values sums = ranks.isFast ? started.values : partSums(b, started.bucket, started.values.front());
    for (auto [i, sum] : llvm::zip_equal(started.bucket, sums))
      results[i] = sum;
  }

  /// Each rank gets its part of every node that a rank has added up, as a row. This is what this rank gets; `pieces`
  /// are the nodes that it has added up itself.
  Values exchanged(Emit &b, ArrayRef<Values> pieces) {
    SmallVector<int64_t> counts;
    for (int64_t rank = 0; rank < ranks.count; ++rank)
      counts.push_back(static_cast<int64_t>(laneNodesOf(lanes(), ranks.count, rank).size()));
    const int64_t size = partOf(TypeRange(ValueRange(pieces.front())));
    Values all;
    for (const Values &piece : pieces)
      llvm::append_range(all, piece);
    const int64_t rows = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    return {b.create<AllToAllOp>(RankedTensorType::get({rows, size}, b.f32()), b.builder.getDenseI64ArrayAttr(counts),
                                 b.builder.getI64IntegerAttr(static_cast<int64_t>(pieces.size())), all, IntegerAttr())};
  }

  /// The values of each piece as one, in which the rows of dim 0 are what the ranks get.
  std::vector<Values> byRank(Emit &b, ArrayRef<unsigned> bucket, ArrayRef<Values> pieces) {
    std::vector<Values> all;
    for (const Values &piece : pieces) {
      Values columns;
      for (auto [i, value] : llvm::zip_equal(bucket, piece)) {
        const int64_t elements = tensorType(value).getNumElements();
        columns.push_back(isInParts(i) ? parts.cutForAll(b, value)
                                       : b.broadcast(b.reshape(value, {1, elements}), {ranks.count, elements}));
      }
      Value rows = RankParts::joinedOf(b, columns, 1);
      const int64_t size = tensorType(rows).getDimSize(1);
      all.push_back({b.pad(rows, {0, 0}, {0, static_cast<int64_t>(llvm::alignTo(size, alignedElements)) - size})});
    }
    return all;
  }

  /// What this rank has of each value's sum over all lanes, from the rows that it got of byRank().
  Values partSums(Emit &b, ArrayRef<unsigned> bucket, Value rows) {
    Value sum = treeSum(b, {0, lanes()}, nodesOfAll(), rows);
    Values results;
    int64_t first = 0;
    for (unsigned i : bucket) {
      const RankedTensorType type = tensorType(op.getResult(i)), own = isInParts(i) ? parts.largest(type) : type;
      Value value = b.slice(sum, {first}, {first + own.getNumElements()});
      first += own.getNumElements();
      if (isInParts(i)) // without the zeros
        value = b.slice(value, {0}, {parts.typeOf(type).getNumElements()});
      results.push_back(b.reshape(value, isInParts(i) ? parts.typeOf(type).getShape() : type.getShape()));
    }
    return results;
  }

  std::vector<LaneNode> nodesOfAll() {
    std::vector<LaneNode> nodes;
    for (int64_t rank = 0; rank < ranks.count; ++rank)
      llvm::append_range(nodes, laneNodesOf(lanes(), ranks.count, rank));
    return nodes;
  }

  /// A bucket's sums over all lanes, packed, from the rows that this rank got.
  Value wholeSums(Emit &b, Value rows) {
    Value sum = treeSum(b, {0, lanes()}, nodesOfAll(), rows);
    const int64_t size = tensorType(sum).getNumElements();
    return b.create<AllGatherOp>(RankedTensorType::get({size * ranks.count}, b.f32()), sum,
                                 b.builder.getI64IntegerAttr(ranks.count), IntegerAttr());
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
                                   b.builder.getI64IntegerAttr(ranks.count), sums, IntegerAttr());
    return Values(all.getResults());
  }
};

} // namespace

LogicalResult distribute(func::FuncOp function, const PipelineOptions &options) {
  KnownParts known;
  ParameterParts parameters;
  SmallVector<LanesOp> lanes;
  for (LanesOp op : function.getBody().getOps<LanesOp>())
    if (std::string why = lanesRefusal(options.ranks.zero, static_cast<int64_t>(op.getCount()), options.ranks.count);
        !why.empty())
      return op.emitOpError() << "has " << why;
  if (options.ranks.count > 1 && options.ranks.zero >= 3)
    parameters = shareOutParameters(function, options);
  for (LanesOp op : llvm::make_early_inc_range(function.getBody().getOps<LanesOp>())) {
    LaneSums sums(op, options);
    for (auto [result, sum] : llvm::zip_equal(op.getResults(), sums.run()))
      if (sums.isInParts(result.getResultNumber()))
        known[result] = sum;
      else
        result.replaceAllUsesWith(sum);
    lanes.push_back(op);
  }
  if (options.ranks.count > 1 && options.ranks.zero > 0 && !lanes.empty())
    shareOutStates(function, options, known, parameters);
  for (LanesOp op : lanes)
    op->erase();
  if (options.ranks.count > 1)
    numberCollectives(function);
  return success();
}

} // namespace tcc
