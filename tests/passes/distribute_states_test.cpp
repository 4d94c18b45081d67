// What ranks keep and compute of states with --zero, by the interpreter over all ranks at once: the bits of one rank
// for any number of them, and wrong programs are found.
#include "ir/emit.h"
#include "ir/lanes.h"
#include "ir/reference/interpreter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "passes/collective_order.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include <bit>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tcc;

namespace {

/// One step of momentum for a matrix and a vector, their gradients scaled by a norm that is added up by rows; then an
/// update that is not elementwise.
constexpr const char *text = R"(
func.func @main(%x: tensor<8x9x4xf32>,
    %w: tensor<9x4xf32> {tcc.name = "w", tcc.state}, %m: tensor<9x4xf32> {tcc.name = "w.m", tcc.state},
    %v: tensor<9xf32> {tcc.name = "v", tcc.state}, %n: tensor<9xf32> {tcc.name = "v.m", tcc.state},
    %u: tensor<9x4xf32> {tcc.name = "u", tcc.state}, %k: tensor<9x4xf32> {tcc.name = "u.m", tcc.state})
    -> (tensor<f32>, tensor<9x4xf32> {tcc.updates = "w"}, tensor<9x4xf32> {tcc.updates = "w.m"},
        tensor<9xf32> {tcc.updates = "v"}, tensor<9xf32> {tcc.updates = "v.m"},
        tensor<9x4xf32> {tcc.updates = "u"}, tensor<9x4xf32> {tcc.updates = "u.m"}) {
  %g:3 = tcc.lanes 8 slices (%s = %x : tensor<8x9x4xf32>)
      uses (%a = %w : tensor<9x4xf32>, %b = %v : tensor<9xf32>, %c = %u : tensor<9x4xf32>)
      -> (tensor<9x4xf32>, tensor<9xf32>, tensor<9x4xf32>) {
    %p = tcc.mul %s, %a : tensor<9x4xf32>
    %e = tcc.exp %p : tensor<9x4xf32>
    %q = tcc.mul %e, %c : tensor<9x4xf32>
    %t = tcc.reduce_sum %q axes [1] : tensor<9x4xf32> -> tensor<9x1xf32>
    %r = tcc.reshape %t : tensor<9x1xf32> -> tensor<9xf32>
    %z = tcc.mul %r, %b : tensor<9xf32>
    %d = tcc.transpose %q [1, 0] : tensor<9x4xf32> -> tensor<4x9xf32>
    %h = tcc.matmul %d, %q : tensor<4x9xf32>, tensor<9x4xf32> -> tensor<4x4xf32>
    %again = tcc.matmul %a, %h : tensor<9x4xf32>, tensor<4x4xf32> -> tensor<9x4xf32>
    tcc.yield %e, %z, %again : tensor<9x4xf32>, tensor<9xf32>, tensor<9x4xf32>
  }
  %square = tcc.mul %g#0, %g#0 : tensor<9x4xf32>
  %rows = tcc.reduce_sum %square axes [1] : tensor<9x4xf32> -> tensor<9x1xf32>
  %all = tcc.reduce_sum %rows axes [0, 1] : tensor<9x1xf32> -> tensor<1x1xf32>
  %norm = tcc.reshape %all : tensor<1x1xf32> -> tensor<f32>
  %scale = tcc.rsqrt %norm : tensor<f32>
  %wide = tcc.broadcast %scale : tensor<f32> -> tensor<9x4xf32>
  %scaled = tcc.mul %g#0, %wide : tensor<9x4xf32>
  %m1 = tcc.add %m, %scaled : tensor<9x4xf32>
  %w1 = tcc.sub %w, %m1 : tensor<9x4xf32>
  %n1 = tcc.add %n, %g#1 : tensor<9xf32>
  %v1 = tcc.sub %v, %n1 : tensor<9xf32>
  %k1 = tcc.add %k, %g#2 : tensor<9x4xf32>
  %flip = tcc.transpose %k1 [1, 0] : tensor<9x4xf32> -> tensor<4x9xf32>
  %product = tcc.matmul %k1, %flip : tensor<9x4xf32>, tensor<4x9xf32> -> tensor<9x9xf32>
  %mixed = tcc.matmul %product, %u : tensor<9x9xf32>, tensor<9x4xf32> -> tensor<9x4xf32>
  %u1 = tcc.sub %u, %mixed : tensor<9x4xf32>
  func.return %norm, %w1, %m1, %v1, %n1, %u1, %k1
      : tensor<f32>, tensor<9x4xf32>, tensor<9x4xf32>, tensor<9xf32>, tensor<9xf32>, tensor<9x4xf32>, tensor<9x4xf32>
})";

class DistributeStates : public ::testing::Test {
protected:
  DistributeStates() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  static func::FuncOp mainOf(ModuleOp module) { return *module.getOps<func::FuncOp>().begin(); }

  int64_t lanes = 8;

  OwningOpRef<ModuleOp> parsed() {
    std::string own = text;
    for (const auto &[from, to] : {std::pair{"tensor<8x", "tensor<" + std::to_string(lanes) + "x"},
                                   std::pair{"lanes 8 ", "lanes " + std::to_string(lanes) + " "}})
      for (size_t at = own.find(from); at != std::string::npos; at = own.find(from, at + to.size()))
        own.replace(at, std::strlen(from), to);
    return parseSourceString<ModuleOp>(own, &context);
  }

  using Programs = std::vector<OwningOpRef<ModuleOp>>;
  Programs programs(int64_t ranks, int zero, int64_t bucketBytes = 1) {
    Programs made;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      PipelineOptions options;
      options.ranks = {ranks, rank, false, zero};
      options.bucketBytes = bucketBytes;
      made.push_back(parsed());
      EXPECT_TRUE(succeeded(distribute(mainOf(*made.back()), options)));
      EXPECT_TRUE(succeeded(verify(*made.back())));
    }
    return made;
  }

  static std::vector<RefTensor> wholeArguments(func::FuncOp function) {
    std::vector<RefTensor> values;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      values.push_back(randomTensor(cast<RankedTensorType>(type), 7 + i, -1, 1));
    return values;
  }

  /// The results, those of parts one after the other; `error` where the ranks refuse to run.
  std::vector<std::vector<double>> run(const Programs &modules, std::string *error = nullptr) {
    OwningOpRef<ModuleOp> original = parsed();
    const std::vector<RefTensor> whole = wholeArguments(mainOf(*original));
    std::vector<func::FuncOp> functions;
    std::vector<std::vector<RefTensor>> given;
    std::vector<int64_t> taken(whole.size());
    for (const OwningOpRef<ModuleOp> &module : modules) {
      functions.push_back(mainOf(*module));
      given.push_back(whole);
      for (auto [i, type] : llvm::enumerate(functions.back().getArgumentTypes())) {
        RefTensor &argument = given.back()[i];
        const auto own = cast<RankedTensorType>(type);
        if (own == argument.type)
          continue;
        const auto begin = argument.data.begin() + taken[i];
        argument.data = std::vector<double>(begin, begin + own.getNumElements());
        argument.type = own;
        taken[i] += own.getNumElements();
      }
    }
    auto results = interpretRanks(functions, given, RefMode::rounding);
    if (!results) {
      if (error)
        *error = results.error().message();
      else
        ADD_FAILURE() << results.error().message();
      return {};
    }
    std::vector<std::vector<double>> values;
    for (size_t i = 0; i < results->front().size(); ++i) {
      const RankedTensorType type = cast<RankedTensorType>(mainOf(*original).getResultTypes()[i]);
      std::vector<double> all;
      bool isWhole = true;
      for (const std::vector<RefTensor> &rank : *results)
        isWhole &= rank[i].type == type;
      for (const std::vector<RefTensor> &rank : *results) {
        if (isWhole && !all.empty() && !areEqual(all, rank[i].data))
          return {}; // replicas have parted
        if (!isWhole || all.empty())
          llvm::append_range(all, rank[i].data);
      }
      values.push_back(all);
    }
    return values;
  }

  static bool areEqual(ArrayRef<double> left, ArrayRef<double> right) {
    return left.size() == right.size() && llvm::all_of(llvm::zip(left, right), [](const auto &pair) {
             return std::bit_cast<uint64_t>(std::get<0>(pair)) == std::bit_cast<uint64_t>(std::get<1>(pair));
           });
  }

  /// Where the results differ from those of one rank; empty: nowhere.
  std::string difference(const std::vector<std::vector<double>> &values) {
    const std::vector<std::vector<double>> one = run(programs(1, 0));
    if (values.size() != one.size())
      return "replicas have parted";
    for (size_t i = 0; i < one.size(); ++i) {
      if (values[i].size() != one[i].size())
        return "result " + std::to_string(i) + " has " + std::to_string(values[i].size()) + " elements";
      for (size_t k = 0; k < one[i].size(); ++k)
        if (!areEqual(values[i][k], one[i][k]))
          return "element " + std::to_string(k) + " of result " + std::to_string(i) + " is " +
                 std::to_string(values[i][k]) + ", not " + std::to_string(one[i][k]);
    }
    return "";
  }
  bool isLikeOne(const std::vector<std::vector<double>> &values) { return difference(values).empty(); }

  /// Whether a change of one rank's program is seen in a result or is refused.
  template <typename Change>
  bool isFound(int zero, Change change) {
    Programs modules = programs(4, zero);
    change(mainOf(*modules[1]));
    std::string error;
    return !isLikeOne(run(modules, &error));
  }

  MLIRContext context;
};

TEST_F(DistributeStates, AnyNumberOfRanksAndAnyStageGivesTheBitsOfOne) {
  for (const int64_t ranks : {1, 2, 3, 4, 5, 8})
    for (const int zero : {0, 1, 2})
      for (const int64_t bucket : {1, 1 << 20})
        EXPECT_EQ(difference(run(programs(ranks, zero, bucket))), "") << ranks << " ranks, --zero=" << zero;
}

/// Parameters in parts: each rank has 1, 2, 4 or 8 lanes.
TEST_F(DistributeStates, ParametersInPartsGiveTheBitsOfOne) {
  const std::pair<int64_t, std::vector<int64_t>> cases[] = {{8, {1, 2, 4, 8}}, {12, {3, 6, 12}}, {5, {5}}};
  for (const auto &[count, all] : cases)
    for (const int64_t ranks : all)
      for (const int64_t bucket : {1, 1 << 20}) {
        lanes = count;
        EXPECT_EQ(difference(run(programs(ranks, 3, bucket))), "") << ranks << " ranks, " << lanes << " lanes";
      }
}

TEST_F(DistributeStates, ParametersAreRows) {
  int64_t rows = 0, small = 0;
  for (const OwningOpRef<ModuleOp> &module : programs(4, 3)) {
    func::FuncOp function = mainOf(*module);
    const auto types = function.getArgumentTypes();
    rows += cast<RankedTensorType>(types[1]).getNumElements();
    small += cast<RankedTensorType>(types[3]).getNumElements();
    EXPECT_EQ(types[1], types[2]) << "a parameter has the rows of its moment";
    EXPECT_EQ(types[1], function.getResultTypes()[1]);
    EXPECT_EQ(types[5], types[1]) << "a parameter that an owner updates, too";
    EXPECT_EQ(int64_t(llvm::range_size(function.getBody().front().getOps<AllGatherOp>())), 4)
        << "rows of the norm, u's gradient for its owner, and u before and after its update";
  }
  EXPECT_EQ(rows, 36);
  EXPECT_EQ(small, 9);
}

/// In each lane a parameter is gathered, and again where others were read meanwhile.
TEST_F(DistributeStates, LanesGatherWhatTheyRead) {
  const auto gathersOf = [&](int64_t bucket) {
    Programs modules = programs(4, 3, bucket); // two lanes on each rank
    int64_t gathers = 0;
    mainOf(*modules[0]).walk([&](AllGatherOp op) { gathers += op->hasAttr(parameterAttr); });
    return gathers;
  };
  EXPECT_EQ(gathersOf(1), 2 * 4 + 1) << "w, u, v, w again; u for its owner";
  lanes = 4;
  EXPECT_EQ(gathersOf(1), 4 + 1);
}

bool computes(Operation *op) {
  return op->hasTrait<OpTrait::IsTerminator>() ||
         (isa<StructuredOpInterface>(op) && !isa<WaitOp, CollectiveOpInterface>(op));
}

bool comesOfAGather(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    Operation *producer = operand.getDefiningOp();
    return producer && (isa<AllGatherOp>(producer) || comesOfAGather(producer));
  });
}

/// The first op after the gather that computes something from gathered values.
Operation *firstComputed(Operation *op) {
  do
    op = op->getNextNode();
  while (!computes(op) || !comesOfAGather(op));
  return op;
}

/// The first op that computes something from what the op gives.
Operation *firstReader(Operation *op) {
  Operation *first = nullptr;
  for (Operation *user : op->getUsers()) {
    Operation *reader = computes(user) ? user : firstReader(user);
    if (reader && (!first || reader->isBeforeInBlock(first)))
      first = reader;
  }
  return first;
}

/// A gather starts before the parameters of the one before it are read, and no earlier: two windows are in memory.
TEST_F(DistributeStates, ParametersAreGatheredOneWindowAhead) {
  using Counts = std::pair<int64_t, int64_t>;
  for (const auto &[count, ranks] : {Counts{8, 4}, Counts{12, 3}, Counts{8, 8}}) {
    lanes = count;
    Programs modules = programs(ranks, 3);
    for (OwningOpRef<ModuleOp> &module : modules) {
      PipelineOptions options;
      options.firstPass = "autocast";
      options.endPass = "plan-memory";
      PipelineReport report;
      EXPECT_TRUE(succeeded(runPipeline(*module, options, report)));
      int64_t blocks = 0, inFlight = 0;
      mainOf(*module).walk([&](Block *block) {
        SmallVector<AllGatherOp> gathers;
        for (AllGatherOp gather : block->getOps<AllGatherOp>())
          if (gather->hasAttr(parameterAttr))
            gathers.push_back(gather);
        blocks += gathers.size() == 4;
        for (AllGatherOp gather : gathers)
          inFlight += gather.getFlight().has_value();
        for (size_t i = 1; i < gathers.size(); ++i)
          EXPECT_FALSE(firstComputed(gathers[i])->isBeforeInBlock(firstReader(gathers[i - 1])))
              << "gather " << i << " starts too early";
      });
      EXPECT_EQ(blocks, count / ranks) << "up to eight lanes of a node are written out";
      EXPECT_GT(inFlight, 0);
    }
    EXPECT_EQ(difference(run(modules)), "") << ranks << " ranks";
  }
}

TEST_F(DistributeStates, FindsADroppedWaitForAParameter) {
  Programs modules = programs(8, 3);
  PipelineOptions options;
  options.firstPass = "autocast";
  options.endPass = "plan-memory";
  PipelineReport report;
  ASSERT_TRUE(succeeded(runPipeline(*modules[1], options, report)));
  WaitOp dropped;
  mainOf(*modules[1]).walk([&](WaitOp wait) {
    dropped = wait.getOperand(0).getDefiningOp()->hasAttr(parameterAttr) ? wait : dropped;
  });
  ASSERT_TRUE(dropped);
  dropped->erase();
  std::string said;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
  options.firstPass = "plan-memory";
  options.endPass = {};
  EXPECT_TRUE(failed(runPipeline(*modules[1], options, report)));
  EXPECT_NE(said.find("in_flight_c1"), std::string::npos) << said;
}

TEST_F(DistributeStates, RanksWithOtherLanesAreRefused) {
  struct Refused {
    int64_t lanes, ranks;
    const char *said;
  };
  for (const Refused &each : {Refused{8, 3, "12 lanes"}, Refused{12, 4, "16 lanes"}, Refused{4, 8, "one or more"}}) {
    lanes = each.lanes;
    OwningOpRef<ModuleOp> module = parsed();
    PipelineOptions options;
    options.ranks = {each.ranks, 0, false, 3};
    std::string said;
    ScopedDiagnosticHandler listens(&context, [&](Diagnostic &diagnostic) { said += diagnostic.str(); });
    EXPECT_TRUE(failed(distribute(mainOf(*module), options)));
    EXPECT_NE(said.find(each.said), std::string::npos) << said;
  }
}

TEST_F(DistributeStates, FindsAWrongGatherOfAParameter) {
  const auto lastGather = [](func::FuncOp function) {
    AllGatherOp last;
    function.walk([&](AllGatherOp op) { last = op->hasAttr(parameterAttr) ? op : last; });
    return last;
  };
  EXPECT_TRUE(isFound(3, [&](func::FuncOp function) { // zeros in place of a rank's rows
    AllGatherOp gather = lastGather(function);
    OpBuilder builder(gather);
    Emit emit(builder, gather.getLoc());
    gather->setOperand(0, emit.zeros(tensorType(gather.getX())));
  }));
  EXPECT_TRUE(isFound(3, [&](func::FuncOp function) { // one that a rank does not come to
    AllGatherOp gather = lastGather(function);
    OpBuilder builder(gather);
    Emit emit(builder, gather.getLoc());
    gather.getResult().replaceAllUsesWith(emit.zeros(tensorType(gather.getResult())));
    gather.erase();
  }));
}

TEST_F(DistributeStates, SharesOutStates) {
  for (const int zero : {1, 2}) {
    int64_t parts = 0, owned = 0;
    for (const OwningOpRef<ModuleOp> &module : programs(4, zero)) {
      const auto types = mainOf(*module).getArgumentTypes();
      EXPECT_EQ(cast<RankedTensorType>(types[1]).getNumElements(), 36); // parameters are whole
      parts += cast<RankedTensorType>(types[2]).getNumElements();
      owned += cast<RankedTensorType>(types[6]).getNumElements();
      EXPECT_LE(cast<RankedTensorType>(types[2]).getNumElements(), 3 * 4);
    }
    EXPECT_EQ(parts, 36);
    EXPECT_EQ(owned, 36); // one rank has all of it
  }
}

/// With --zero=2 a gradient that an elementwise update alone reads is nowhere whole.
TEST_F(DistributeStates, SumsDieAtTheScatter) {
  Programs modules = programs(3, 2);
  mainOf(*modules[0]).walk([&](AllGatherOp op) {
    if (op->getParentOfType<RepeatOp>())
      ADD_FAILURE() << "a sum over lanes is gathered in the last lane's loop";
  });
  int64_t gathers = 0;
  mainOf(*modules[0]).walk([&](AllGatherOp) { ++gathers; });
  EXPECT_EQ(gathers, 5); // rows of the norm, u's gradient for its owner, and w, v, u themselves
}

TEST_F(DistributeStates, FindsAWrongPart) {
  for (const int zero : {1, 2})
    EXPECT_TRUE(isFound(zero, [](func::FuncOp function) {
      for (SliceOp slice : function.getBody().front().getOps<SliceOp>())
        if (slice.getX() == function.getArgument(1)) {
          OpBuilder builder(slice);
          Emit emit(builder, slice.getLoc());
          const int64_t rows = tensorType(slice.getResult()).getDimSize(0);
          slice.getResult().replaceAllUsesWith(emit.slice(slice.getX(), {0, 0}, {rows, 4}));
          return;
        }
      FAIL() << "no part of w";
    }));
}

TEST_F(DistributeStates, FindsAMissingGather) {
  for (const int zero : {1, 2}) {
    EXPECT_TRUE(isFound(zero, [](func::FuncOp function) { // of the parameter, on one rank
      function.getBody().front().getTerminator()->setOperand(1, function.getArgument(1));
    }));
    EXPECT_TRUE(isFound(zero, [](func::FuncOp function) { // to which the other ranks come
      auto gather = *function.getBody().front().getOps<AllGatherOp>().begin();
      OpBuilder builder(gather);
      Emit emit(builder, gather.getLoc());
      gather.getResult().replaceAllUsesWith(emit.zeros(tensorType(gather.getResult())));
      gather.erase();
    }));
  }
}

TEST_F(DistributeStates, FindsAMissingUpdateOfAnOwner) {
  Programs modules = programs(4, 1);
  for (OwningOpRef<ModuleOp> &module : modules) {
    func::FuncOp function = mainOf(*module);
    if (tensorType(function.getArgument(6)).getNumElements() == 0)
      continue;
    Operation *end = function.getBody().front().getTerminator();
    end->setOperand(6, function.getArgument(6));
  }
  EXPECT_FALSE(isLikeOne(run(modules)));
}

/// The op names of a block after orderCollectives(), with the places of collectives.
std::string ordered(MLIRContext &context, const std::string &body) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(
      "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {" + body + "}",
      &context);
  Block &block = (*module->getOps<func::FuncOp>().begin()).getBody().front();
  orderCollectives(block);
  EXPECT_TRUE(succeeded(verify(*module))); // operands come first
  std::string text;
  for (Operation &op : block.without_terminator())
    text += op.getName().stripDialect().str() + std::to_string(placeInOrder(&op).value_or(0)) + " ";
  return text;
}

TEST_F(DistributeStates, CollectivesComeInOneOrderWhereverTheyStood) {
  constexpr const char *end = "\nfunc.return %p, %q : tensor<8xf32>, tensor<8xf32>";
  const std::string late = R"(
    %q = tcc.all_gather %b of 2 {tcc.order = 2 : i64} : tensor<4xf32> -> tensor<8xf32>
    %r = tcc.exp %q : tensor<8xf32>
    %k = tcc.exp %a : tensor<4xf32>
    %p = tcc.all_gather %k of 2 {tcc.order = 1 : i64} : tensor<4xf32> -> tensor<8xf32>)";
  EXPECT_EQ(ordered(context, late + end), "exp0 all_gather1 all_gather2 exp0 ");
  const std::string three = R"(
    %q = tcc.all_gather %b of 2 {tcc.order = 3 : i64} : tensor<4xf32> -> tensor<8xf32>
    %k = tcc.exp %a : tensor<4xf32>
    %s = tcc.all_gather %k of 2 {tcc.order = 2 : i64} : tensor<4xf32> -> tensor<8xf32>
    %p = tcc.all_gather %a of 2 {tcc.order = 1 : i64} : tensor<4xf32> -> tensor<8xf32>)";
  EXPECT_EQ(ordered(context, three + end), "exp0 all_gather1 all_gather2 all_gather3 ");
}

/// Programs of ranks differ; the places of their collectives do not.
TEST_F(DistributeStates, AllRanksHaveTheSameCollectivesInTheSameOrder) {
  lanes = 12;
  for (const int zero : {0, 1, 2, 3}) {
    std::vector<std::string> all;
    for (const OwningOpRef<ModuleOp> &module : programs(3, zero)) {
      std::string &text = all.emplace_back();
      mainOf(*module).walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (isExchange(op))
          text += op->getName().stripDialect().str() + std::to_string(placeInOrder(op).value_or(0)) + " ";
      });
    }
    EXPECT_NE(all[0].find("1 "), std::string::npos);
    EXPECT_EQ(all[1], all[0]) << zero;
    EXPECT_EQ(all[2], all[0]) << zero;
  }
}

} // namespace
