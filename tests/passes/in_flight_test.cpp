// The planner's places for ops in flight. In a step only collectives are in flight; here matmuls are, and their
// attributes say on which stream they run and which op waits for them.
#include "mlir/Parser/Parser.h"
#include "passes/memory_places.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stream_order.h"
#include "tests/dialects.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace tcc;

namespace {

/// A matmul with `test.stream = 1, test.wait = 7` runs on stream 1 until the matmul with `test.number = 7` waits for
/// it.
struct FlyingMatmul : InFlightOpInterface::ExternalModel<FlyingMatmul, MatmulOp> {
  static std::optional<int64_t> attribute(Operation *op, StringRef name) {
    auto number = op->getAttrOfType<IntegerAttr>(name);
    return number ? std::optional(number.getInt()) : std::nullopt;
  }
  unsigned stream(Operation *op) const { return static_cast<unsigned>(attribute(op, "test.stream").value_or(0)); }
  Operation *waitingOp(Operation *op) const {
    for (Operation &other : *op->getBlock())
      if (attribute(op, "test.wait") && attribute(&other, "test.number") == attribute(op, "test.wait"))
        return &other;
    return nullptr;
  }
};

class InFlight : public ::testing::Test {
protected:
  InFlight() {
    test::loadDialects(context);
    MatmulOp::attachInterface<FlyingMatmul>(context);
  }

  /// Parses the text and plans its function. Gives "refused: " and the messages where that fails, else nothing.
  std::string plan(const std::string &text) {
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });
    module = parseSourceString<ModuleOp>(text, &context);
    if (!module || failed(planMemory(*module->getOps<func::FuncOp>().begin(), options)))
      return "refused: " + messages;
    return {};
  }
  Block &block() { return (*module->getOps<func::FuncOp>().begin()).getBody().front(); }
  Operation *op(unsigned index) { return &*std::next(block().begin(), index); }

  struct Range {
    int64_t begin, end;
    bool meets(const Range &other) const { return begin < other.end && other.begin < end; }
  };
  /// The bytes of the op's result in the arena; nothing if it lies elsewhere, as outputs do.
  static std::optional<Range> rangeOf(Operation *op) {
    const Place place = placeOf(op->getResult(0));
    if (place.space != PlaceSpace::arena)
      return std::nullopt;
    return Range{place.offset, place.offset + byteSize(tensorType(op->getResult(0)))};
  }
  static Range scratchOf(Operation *op) {
    auto scratch = op->getAttrOfType<DenseI64ArrayAttr>(scratchAttr);
    return {scratch[0], scratch[0] + scratch[1]};
  }

  MLIRContext context;
  PipelineOptions options;
  OwningOpRef<ModuleOp> module;
};

/// A target on which each matmul needs 320 bytes of scratch.
struct MatmulsNeedScratch : TargetQueries {
  int64_t scratchBytes(Operation *op) const override { return isa<MatmulOp>(op) ? 320 : 0; }
};

std::string matmul(const std::string &name, const std::string &a, const std::string &b, const std::string &attributes) {
  return "  " + name + " = tcc.matmul " + a + ", " + b + (attributes.empty() ? "" : " {" + attributes + "}") +
         " : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n";
}

std::string function(const std::string &body, const std::string &result) {
  return "func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n" + body + "  return " + result +
         " : tensor<8x8xf32>\n}\n";
}

/// A chain in which %c is the last to read %b. %d and %e come after %c, and %f, the first to read %c, comes after them.
std::string chain(const std::string &attributesOfC) {
  return function(matmul("%a", "%x", "%x", "") + matmul("%b", "%a", "%x", "") +
                      matmul("%c", "%b", "%x", attributesOfC) + matmul("%d", "%x", "%a", "") +
                      matmul("%e", "%d", "%d", "test.number = 7 : i64") + matmul("%f", "%c", "%e", "") +
                      matmul("%g", "%f", "%f", ""),
                  "%g");
}

TEST_F(InFlight, AnOperandIsLiveUntilTheOpThatWaits) {
  ASSERT_EQ(plan(chain("")), "");
  EXPECT_TRUE(rangeOf(op(3))->meets(*rangeOf(op(1)))) << "%b's bytes are free after %c";
  const int64_t before = (*module->getOps<func::FuncOp>().begin())->getAttrOfType<IntegerAttr>(arenaAttr).getInt();
  ASSERT_EQ(plan(chain("test.stream = 1 : i64, test.wait = 7 : i64")), "");
  for (unsigned beside : {3u, 4u})
    for (unsigned flying : {1u, 2u})
      EXPECT_FALSE(rangeOf(op(beside))->meets(*rangeOf(op(flying)))) << beside << " beside " << flying;
  EXPECT_TRUE(rangeOf(op(5))->meets(*rangeOf(op(1))) || rangeOf(op(5))->meets(*rangeOf(op(0))))
      << "after the wait they are free";
  EXPECT_GT((*module->getOps<func::FuncOp>().begin())->getAttrOfType<IntegerAttr>(arenaAttr).getInt(), before);
}

/// %a and %b in flight at the same time on the streams `first` and `second`, beside %c on stream 0; %d waits for both.
std::string two(int first, int second) {
  const auto on = [](int stream) { return "test.stream = " + std::to_string(stream) + " : i64, test.wait = 7 : i64"; };
  return function(matmul("%a", "%x", "%x", on(first)) + matmul("%b", "%x", "%x", on(second)) +
                      matmul("%c", "%x", "%x", "") + matmul("%d", "%c", "%c", "test.number = 7 : i64") +
                      matmul("%e", "%a", "%b", "") + matmul("%f", "%e", "%d", ""),
                  "%f");
}

TEST_F(InFlight, ScratchIsSharedWithinAStreamAndNotBetweenThem) {
  MatmulsNeedScratch queries;
  options.queries = &queries;
  ASSERT_EQ(plan(two(1, 1)), "");
  EXPECT_TRUE(scratchOf(op(0)).meets(scratchOf(op(1)))) << "ops of one stream run one after the other";
  EXPECT_FALSE(scratchOf(op(0)).meets(scratchOf(op(2)))) << "an op of stream 0 runs beside them";
  ASSERT_EQ(plan(two(1, 2)), "");
  EXPECT_FALSE(scratchOf(op(0)).meets(scratchOf(op(1))));
  EXPECT_TRUE(scratchOf(op(4)).meets(scratchOf(op(0)))) << "after the wait";
}

TEST_F(InFlight, AStateIsNotWrittenOverWhileItIsRead) {
  const auto step = [](const std::string &attributes) {
    return "func.func @main(%x: tensor<8x8xf32>, %w: tensor<8x8xf32> {tcc.name = \"w\", tcc.state})"
           " -> (tensor<8x8xf32>, tensor<8x8xf32> {tcc.updates = \"w\"}) {\n" +
           matmul("%a", "%w", "%x", attributes) + matmul("%new", "%x", "%x", "") +
           matmul("%b", "%x", "%x", "test.number = 7 : i64") + matmul("%c", "%a", "%b", "") +
           "  return %c, %new : tensor<8x8xf32>, tensor<8x8xf32>\n}\n";
  };
  ASSERT_EQ(plan(step("")), "");
  EXPECT_EQ(placeOf(op(1)->getResult(0)).space, PlaceSpace::state);
  ASSERT_EQ(plan(step("test.stream = 1 : i64, test.wait = 7 : i64")), "");
  EXPECT_EQ(placeOf(op(1)->getResult(0)).space, PlaceSpace::arena);
}

TEST_F(InFlight, WhatNobodyWaitsForOrUsesTooEarlyIsRefused) {
  EXPECT_NE(plan(chain("test.stream = 1 : i64")).find("in_flight_c1"), std::string::npos);
  EXPECT_NE(plan(chain("test.stream = 1 : i64, test.wait = 7 : i64, test.number = 7 : i64")).find("in_flight_c1"),
            std::string::npos)
      << "itself";
  const std::string early =
      function(matmul("%a", "%x", "%x", "test.stream = 3 : i64, test.wait = 7 : i64") + matmul("%b", "%a", "%x", "") +
                   matmul("%c", "%b", "%b", "test.number = 7 : i64") + matmul("%d", "%c", "%c", ""),
               "%d");
  EXPECT_EQ(plan(early), "refused: 'tcc.matmul' op uses a value of stream 3 before the op that waits for it "
                         "(in_flight_c2)\n");
}

/// Whether `before` is done when `after` starts: an oracle that knows nothing of the planner. The start and the end of
/// each op are nodes of a graph. Its edges say: an op ends after it starts; ops of one stream follow each other; an op
/// starts after the earlier ops of stream 0 have ended; and what waits for an op starts after that op has ended.
class HappensBefore {
public:
  explicit HappensBefore(Block &block) {
    for (Operation &op : block)
      ops.push_back(&op);
    const size_t count = ops.size();
    reach.assign(2 * count, std::vector<bool>(2 * count)); // node 2i is op i's start, 2i + 1 its end
    for (size_t i = 0; i < count; ++i) {
      number[ops[i]] = i;
      reach[2 * i][2 * i + 1] = true;
    }
    for (size_t i = 0; i < count; ++i)
      for (size_t j = i + 1; j < count; ++j)
        if (streamOf(ops[i]) == streamOf(ops[j]) || streamOf(ops[i]) == 0)
          reach[2 * i + 1][2 * j] = true;
    for (size_t i = 0; i < count; ++i)
      if (streamOf(ops[i]))
        reach[2 * i + 1][2 * number[cast<InFlightOpInterface>(ops[i]).waitingOp()]] = true;
    for (size_t middle = 0; middle < 2 * count; ++middle)
      for (size_t i = 0; i < 2 * count; ++i)
        for (size_t j = 0; reach[i][middle] && j < 2 * count; ++j)
          reach[i][j] = reach[i][j] || reach[middle][j];
  }
  bool operator()(Operation *before, Operation *after) const {
    return reach[2 * number.lookup(before) + 1][2 * number.lookup(after)];
  }

private:
  std::vector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> number;
  std::vector<std::vector<bool>> reach;
};

/// A function of `count` matmuls that multiply random earlier values. About a third of them are in flight, on one of
/// three streams.
std::string randomSteps(unsigned seed, int count) {
  std::mt19937 random(seed);
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  std::string body;
  std::vector<int> stream(static_cast<size_t>(count)), wait(static_cast<size_t>(count));
  std::string last = "%x";
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (i + 2 < count && below(3) == 0) {
      stream[at] = 1 + below(3);
      wait[at] = i + 1 + below(std::min(6, count - i - 2));
    }
    std::vector<std::string> known{"%x"};
    for (int j = std::max(0, i - 8); j < i; ++j) {
      const auto other = static_cast<size_t>(j);
      if (!stream[other] || wait[other] <= i || stream[other] == stream[at])
        known.push_back("%v" + std::to_string(j));
    }
    const auto any = [&] { return known[static_cast<size_t>(below(static_cast<int>(known.size())))]; };
    std::string attributes = "test.number = " + std::to_string(i) + " : i64";
    if (stream[at])
      attributes += ", test.stream = " + std::to_string(stream[at]) + " : i64, test.wait = W" + std::to_string(i) + "W";
    body += matmul("%v" + std::to_string(i), any(), any(), attributes);
  }
  // Only an op of stream 0 can wait, so the wait moves to the next one of those.
  for (int i = 0; i < count; ++i)
    if (const auto at = static_cast<size_t>(i); stream[at]) {
      int target = wait[at];
      while (target + 1 < count && stream[static_cast<size_t>(target)])
        ++target;
      const std::string mark = "W" + std::to_string(i) + "W";
      body.replace(body.find(mark), mark.size(), std::to_string(target) + " : i64");
    }
  return function(body, "%v" + std::to_string(count - 1));
}

TEST_F(InFlight, RandomStepsNeverShareBytesOfOpsWithoutAnOrder) {
  MatmulsNeedScratch queries;
  options.queries = &queries;
  int flying = 0, reused = 0, planned = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    if (std::string problem = plan(randomSteps(seed, 24)); !problem.empty()) {
      ASSERT_NE(problem.find("in_flight_c2"), std::string::npos) << problem; // the wait moved past an op that uses it
      continue;
    }
    ++planned;
    const HappensBefore isOver(block());
    struct Use {
      Range range;
      Operation *maker;
      std::vector<Operation *> users; // the maker among them
    };
    std::vector<Use> list;
    for (Operation &each : block().without_terminator()) {
      flying += streamOf(&each) != 0;
      list.push_back({scratchOf(&each), &each, {&each}});
      if (std::optional<Range> range = rangeOf(&each)) {
        list.push_back({*range, &each, {&each}});
        llvm::append_range(list.back().users, each.getUsers());
      }
    }
    for (const Use &first : list)
      for (const Use &second : list) {
        if (&first >= &second || !first.range.meets(second.range))
          continue;
        const auto allOver = [&](const Use &before, const Use &after) {
          return llvm::all_of(before.users, [&](Operation *user) { return isOver(user, after.maker); });
        };
        EXPECT_TRUE(allOver(first, second) || allOver(second, first)) << "seed " << seed;
        ++reused;
      }
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(flying, 500);
  EXPECT_GT(reused, 5000);
}

} // namespace
