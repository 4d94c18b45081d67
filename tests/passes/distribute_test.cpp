// What ranks compute of lanes, by the interpreter over all ranks at once: the same bits as one rank, for any number of
// ranks and any size of buckets, before and after the collectives are scheduled; and that wrong programs are found.
#include "ir/emit.h"
#include "ir/lanes.h"
#include "ir/reference/interpreter.h"
#include "mlir/Parser/Parser.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include <bit>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tcc;

namespace {

class Distribute : public ::testing::Test {
protected:
  Distribute() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Sums of products whose terms differ widely in size, so that each order of adding has bits of its own.
  static std::string text(int64_t lanes) {
    const std::string n = std::to_string(lanes);
    return "func.func @main(%x: tensor<" + n +
           "x40x7xf32>, %w: tensor<7x3xf32>) -> (tensor<40x3xf32>, tensor<f32>) {\n" + "  %r:2 = tcc.lanes " + n +
           " slices (%s = %x : tensor<" + n +
           "x40x7xf32>) uses (%m = %w : tensor<7x3xf32>) -> (tensor<40x3xf32>, tensor<f32>) {\n" + R"(
    %h = tcc.matmul %s, %m : tensor<40x7xf32>, tensor<7x3xf32> -> tensor<40x3xf32>
    %e = tcc.exp %h : tensor<40x3xf32>
    %t = tcc.reduce_sum %e axes [0, 1] : tensor<40x3xf32> -> tensor<1x1xf32>
    %l = tcc.reshape %t : tensor<1x1xf32> -> tensor<f32>
    tcc.yield %e, %l : tensor<40x3xf32>, tensor<f32>
  }
  return %r#0, %r#1 : tensor<40x3xf32>, tensor<f32>
})";
  }

  OwningOpRef<ModuleOp> parse(int64_t lanes) { return parseSourceString<ModuleOp>(text(lanes), &context); }
  static func::FuncOp mainOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

  static std::vector<RefTensor> arguments(func::FuncOp function) {
    std::vector<RefTensor> values;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      values.push_back(randomTensor(cast<RankedTensorType>(type), 7 + i, -3, 3));
    return values;
  }

  /// The programs of all ranks.
  std::vector<OwningOpRef<ModuleOp>> programs(int64_t lanes, int64_t ranks, bool isFast = false,
                                              int64_t bucketBytes = 1) {
    std::vector<OwningOpRef<ModuleOp>> made;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      PipelineOptions options;
      options.ranks = {ranks, firstAlike(lanes, ranks, rank), isFast};
      options.bucketBytes = bucketBytes;
      made.push_back(parse(lanes));
      EXPECT_TRUE(succeeded(distribute(mainOf(*made.back()), options)));
    }
    return made;
  }
  /// Fuses and schedules a program up to what plan-memory gets.
  static void schedule(ModuleOp module, Remarks *remarks = nullptr) {
    PipelineOptions options;
    options.firstPass = "autocast";
    options.endPass = "plan-memory";
    options.remarks = remarks;
    PipelineReport report;
    EXPECT_TRUE(succeeded(runPipeline(module, options, report)));
  }

  static runtime::Expected<std::vector<std::vector<RefTensor>>> run(ArrayRef<OwningOpRef<ModuleOp>> modules) {
    std::vector<func::FuncOp> functions;
    for (const OwningOpRef<ModuleOp> &module : modules)
      functions.push_back(mainOf(*module));
    const std::vector<std::vector<RefTensor>> given(functions.size(), arguments(functions.front()));
    return interpretRanks(functions, given, RefMode::rounding);
  }

  static bool areEqual(ArrayRef<RefTensor> left, ArrayRef<RefTensor> right) {
    for (auto [a, b] : llvm::zip_equal(left, right))
      for (auto [x, y] : llvm::zip_equal(a.data, b.data))
        if (std::bit_cast<uint64_t>(x) != std::bit_cast<uint64_t>(y))
          return false;
    return true;
  }

  /// What the op itself means.
  std::vector<RefTensor> whole(int64_t lanes) {
    OwningOpRef<ModuleOp> module = parse(lanes);
    auto results = interpret(mainOf(*module), arguments(mainOf(*module)), RefMode::rounding);
    EXPECT_TRUE(bool(results)) << results.error().message();
    return *results;
  }

  /// Whether a change of one rank's program is seen in a result or is refused.
  template <typename Change>
  bool isFound(Change change) {
    std::vector<OwningOpRef<ModuleOp>> modules = programs(8, 4);
    change(mainOf(*modules[1]));
    const auto results = run(modules);
    return !results || llvm::any_of(*results, [&](ArrayRef<RefTensor> rank) { return !areEqual(rank, whole(8)); });
  }

  MLIRContext context;
};

/// The first op of this kind, in loops too.
template <typename Op>
Op first(func::FuncOp function) {
  Op found;
  function.walk<WalkOrder::PreOrder>([&](Op op) {
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

TEST_F(Distribute, RanksShareTheLanesOut) {
  for (int64_t lanes = 1; lanes <= 40; ++lanes)
    for (int64_t ranks = 1; ranks <= lanes; ++ranks) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank)
        for (const LaneNode &node : laneNodesOf(lanes, ranks, rank)) {
          EXPECT_EQ(node.first, next) << lanes << " lanes, rank " << rank << " of " << ranks;
          next += node.count;
        }
      EXPECT_EQ(next, lanes);
    }
}

TEST_F(Distribute, AnyNumberOfRanksGivesTheBitsOfOne) {
  for (int64_t lanes : {1, 2, 5, 8, 24}) {
    const std::vector<RefTensor> expected = whole(lanes);
    for (int64_t ranks : {1, 2, 3, 4, 5, 8}) {
      if (ranks > lanes)
        continue;
      for (const int64_t bucket : {1, 400, 1 << 20}) {
        const auto results = run(programs(lanes, ranks, false, bucket));
        ASSERT_TRUE(bool(results)) << results.error().message();
        for (const std::vector<RefTensor> &rank : *results)
          EXPECT_TRUE(areEqual(rank, expected)) << lanes << " lanes on " << ranks << " ranks, buckets of " << bucket;
      }
    }
  }
}

TEST_F(Distribute, TheFastOrderIsNearAndHasOtherBits) {
  const std::vector<RefTensor> expected = whole(8);
  bool differs = false;
  for (int64_t ranks : {3, 4, 5}) {
    const auto results = run(programs(8, ranks, true));
    ASSERT_TRUE(bool(results)) << results.error().message();
    differs |= !areEqual(results->front(), expected);
    for (auto [sum, exact] : llvm::zip_equal(results->front()[0].data, expected[0].data))
      EXPECT_NEAR(sum, exact, 1e-5 * std::abs(exact));
  }
  EXPECT_TRUE(differs); // or the test above would see nothing
}

TEST_F(Distribute, FindsAWrongShard) {
  EXPECT_TRUE(isFound([](func::FuncOp function) {
    auto shard = first<ShardOp>(function);
    OpBuilder builder(shard);
    Emit emit(builder, shard.getLoc());
    shard.getResult().replaceAllUsesWith(emit.slice(shard.getX(), {0, 0, 0}, {2, 40, 7}));
  }));
}

TEST_F(Distribute, FindsAMissingLane) {
  EXPECT_TRUE(isFound([](func::FuncOp function) {
    auto loop = first<RepeatOp>(function);
    Operation *yield = loop.getBody().front().getTerminator();
    yield->setOperand(0, loop.getBody().front().getArgument(0));
  }));
}

TEST_F(Distribute, FindsSwappedPieces) {
  EXPECT_TRUE(isFound([](func::FuncOp function) {
    Value rows = first<AllToAllOp>(function).getResult();
    SmallVector<SliceOp> slices;
    for (Operation *user : rows.getUsers())
      slices.push_back(cast<SliceOp>(user));
    ASSERT_EQ(slices.size(), 4u);
    if (!slices[1]->isBeforeInBlock(slices[0]))
      std::swap(slices[0], slices[1]);
    slices[0].getResult().replaceAllUsesWith(slices[1].getResult()); // a piece twice, and one is lost
  }));
}

TEST_F(Distribute, FindsSwappedBuckets) {
  EXPECT_TRUE(isFound([](func::FuncOp function) {
    SmallVector<AllToAllOp> starts;
    function.walk([&](AllToAllOp op) { starts.push_back(op); });
    ASSERT_EQ(starts.size(), 2u);
    starts[0]->moveAfter(starts[1]); // and what reads its rows with it
    SmallVector<Operation *> readers(starts[0]->getUsers());
    for (Operation *reader : readers)
      if (reader->isBeforeInBlock(starts[0]))
        reader->moveAfter(starts[0]);
  }));
}

/// Collectives in flight of a scheduled program, and the ops that wait for them.
TEST_F(Distribute, StartsExchangesEarlyInTheSameOrderOnEveryRank) {
  for (const auto &[lanes, ranks] : {std::pair<int64_t, int64_t>{8, 2}, {8, 3}, {4, 4}}) {
    std::vector<OwningOpRef<ModuleOp>> modules = programs(lanes, ranks);
    std::vector<std::vector<std::string>> orders;
    for (OwningOpRef<ModuleOp> &module : modules) {
      Remarks remarks;
      schedule(*module, &remarks);
      std::vector<std::string> order;
      int64_t flying = 0, waits = 0, said = 0;
      mainOf(*module).walk([&](Operation *op) {
        if (isa<CollectiveOpInterface>(op) && !isa<ShardOp>(op))
          order.push_back(op->getName().getStringRef().str());
        if (auto flight = dyn_cast<InFlightOpInterface>(op))
          flying += flight.stream() != 0;
        waits += isa<WaitOp>(op);
      });
      for (const Remark &remark : remarks)
        said += remark.pass == "schedule-collectives" && remark.kind == Remark::Kind::passed;
      EXPECT_GE(flying, 2);
      EXPECT_EQ(waits, flying);
      EXPECT_EQ(said, flying);
      orders.push_back(order);
    }
    for (const auto &order : orders) // the second bucket starts before the first one's sums go out
      EXPECT_EQ(order,
                (std::vector<std::string>{"tcc.all_to_all", "tcc.all_to_all", "tcc.all_gather", "tcc.all_gather"}));
    const auto results = run(modules);
    ASSERT_TRUE(bool(results)) << results.error().message();
    for (const std::vector<RefTensor> &rank : *results)
      EXPECT_EQ(rank.size(), 2u);
  }
}

TEST_F(Distribute, FindsADroppedWait) {
  std::vector<OwningOpRef<ModuleOp>> modules = programs(8, 4);
  schedule(*modules[1]);
  const auto wait = first<WaitOp>(mainOf(*modules[1]));
  ASSERT_TRUE(wait);
  wait->erase();
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
  PipelineOptions options;
  options.firstPass = "plan-memory";
  PipelineReport report;
  EXPECT_TRUE(failed(runPipeline(*modules[1], options, report)));
  EXPECT_NE(said.find("in_flight_c1"), std::string::npos) << said;
}

TEST_F(Distribute, FindsAnExchangeToWhichNotAllCome) {
  EXPECT_TRUE(isFound([](func::FuncOp function) {
    auto gather = first<AllGatherOp>(function);
    OpBuilder builder(gather);
    Emit emit(builder, gather.getLoc());
    gather.getResult().replaceAllUsesWith(emit.zeros(cast<RankedTensorType>(gather.getResult().getType())));
    gather.erase();
  }));
}

/// A step that trains `count` vectors.
std::string stepOfVectors(int count) {
  std::string arguments, updates, uses, types, body, yields, after, results;
  const auto add = [](std::string &list, const std::string &text) { list += (list.empty() ? "" : ", ") + text; };
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i), vector = "tensor<8xf32>";
    arguments += ", %w" + n + ": " + vector + " {tcc.name = \"w" + n + "\", tcc.state}, %m" + n + ": " + vector +
                 " {tcc.name = \"m" + n + "\", tcc.state}";
    add(updates, vector + " {tcc.updates = \"w" + n + "\"}, " + vector + " {tcc.updates = \"m" + n + "\"}");
    add(uses, "%a" + n + " = %w" + n + " : " + vector);
    body += "%g" + n + " = tcc.mul %s, %a" + n + " : " + vector + "\n";
    add(yields, "%g" + n);
    add(types, vector);
    after += "%p" + n + " = tcc.add %m" + n + ", %r#" + n + " : " + vector + "\n%q" + n + " = tcc.sub %w" + n + ", %p" +
             n + " : " + vector + "\n";
    add(results, "%q" + n + ", %p" + n);
  }
  std::string all = types;
  add(all, types);
  return "func.func @main(%x: tensor<4x8xf32>" + arguments + ") -> (" + updates + ") {\n%r:" + std::to_string(count) +
         " = tcc.lanes 4 slices (%s = %x : tensor<4x8xf32>) uses (" + uses + ") -> (" + types + ") {\n" + body +
         "tcc.yield " + yields + " : " + types + "\n}\n" + after + "func.return " + results + " : " + all + "\n}";
}

/// Kernels take few operands, however many values go into one exchange.
TEST_F(Distribute, OneExchangeMayHaveManyValues) {
  for (const int zero : {1, 2, 3}) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(stepOfVectors(100), &context);
    ASSERT_TRUE(module);
    PipelineOptions options;
    options.ranks = {4, 1, false, zero};
    PipelineReport report;
    EXPECT_TRUE(succeeded(runPipeline(*module, options, report))) << "--zero=" << zero;
  }
}

} // namespace
