// Memory plans hold no two live values in one place, and values lie where ops can take them without a copy.
#include "tests/passes/live_values.h"
#include "tests/passes/pipeline_fixture.h"
#include "tests/passes/training_steps.h"

using namespace mlir;

namespace tcc::test {
namespace {

using MemoryPlans = PipelineTest;

/// A target on which each matmul needs 320 bytes of scratch, and an exchange the piece that it sends.
struct OpsNeedScratch : TargetQueries {
  int64_t scratchBytes(Operation *op) const override {
    auto exchange = dyn_cast<AllToAllOp>(op);
    return exchange ? exchange.rankCount() * tensorType(exchange.getResult()).getDimSize(1) * 4
                    : 320 * isa<MatmulOp>(op);
  }
};

/// Kernels that run at the same time, each over an operand that dies in it.
constexpr const char *joinedStep = R"(func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %a = tcc.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = tcc.matmul %y, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c = tcc.matmul %x, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %ea = tcc.exp %a : tensor<8x8xf32>
  %eb = tcc.exp %b : tensor<8x8xf32>
  %ec = tcc.exp %c : tensor<8x8xf32>
  %p = tcc.matmul %ea, %eb : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %q = tcc.matmul %eb, %ec : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %p, %q : tensor<8x8xf32>, tensor<8x8xf32>
})";

/// Values that lie in one value and are read long after it was made, one of them a part of a state.
constexpr const char *unpackedStep = R"(func.func @main(%x: tensor<8x8xf32>, %v: tensor<192xf32>,
    %s: tensor<128xf32> {tcc.name = "s", tcc.state})
    -> (tensor<8x8xf32>, tensor<8x8xf32>, tensor<128xf32> {tcc.updates = "s"}) {
  %e = tcc.exp %v : tensor<192xf32>
  %p:3 = tcc.unpack %e : tensor<192xf32> -> tensor<8x8xf32>, tensor<8x8xf32>, tensor<f32>
  %q:2 = tcc.unpack %s : tensor<128xf32> -> tensor<f32>, tensor<8x8xf32>
  %n = tcc.neg %s : tensor<128xf32>
  %a = tcc.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = tcc.matmul %a, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %c = tcc.matmul %b, %p#1 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %d = tcc.matmul %c, %q#1 : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %d, %p#0, %n : tensor<8x8xf32>, tensor<8x8xf32>, tensor<128xf32>
})";

/// What a rank sends as one piece: a matmul's result; a kernel's, over a value that dies there; an argument; a value
/// that is read later, too; and the first one again.
constexpr const char *pieceStep = R"(func.func @main(%x: tensor<8x8xf32>, %v: tensor<70xf32>)
    -> (tensor<2x224xf32>, tensor<8x8xf32>) {
  %a = tcc.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %b = tcc.matmul %x, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %f = tcc.exp %b : tensor<8x8xf32>
  %k = tcc.matmul %a, %a : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %r = tcc.all_to_all [1, 1] own 1 of %a, %f, %v, %k, %a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<70xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<2x224xf32>
  %c = tcc.tanh %x : tensor<8x8xf32>
  %n = tcc.neg %r : tensor<2x224xf32>
  %d = tcc.matmul %c, %k : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %e = tcc.matmul %d, %d : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %n, %e : tensor<2x224xf32>, tensor<8x8xf32>
})";

/// The larger part of what is sent is made last: %t may lie where it will be.
constexpr const char *latePieceStep =
    R"(func.func @main(%x: tensor<8x8xf32>, %y: tensor<64x64xf32>) -> tensor<2x2080xf32> {
  %s = tcc.matmul %x, %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %t = tcc.matmul %y, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %u = tcc.matmul %t, %t : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %w = tcc.matmul %u, %u : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  %r = tcc.all_to_all [1, 1] own 1 of %s, %w : (tensor<8x8xf32>, tensor<64x64xf32>) -> tensor<2x2080xf32>
  return %r : tensor<2x2080xf32>
})";

/// Two exchanges of `count` values each, which are too many to compare each with each.
std::string manySentStep(int count) {
  std::string text, sent[2], types;
  for (int i = 0; i < 2 * count; ++i) {
    const std::string name = "%m" + std::to_string(i);
    text += "  " + name + " = tcc.matmul " + (i < 2 ? "%x" : "%m" + std::to_string(i - 2)) +
            ", %x : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>\n";
    sent[i % 2] += (i < 2 ? "" : ", ") + name;
  }
  for (int i = 0; i < count; ++i)
    types += i ? ", tensor<8x8xf32>" : "tensor<8x8xf32>";
  const std::string type = "tensor<2x" + std::to_string(count * 32) + "xf32>";
  for (int i : {0, 1})
    text += "  %r" + std::to_string(i) + " = tcc.all_to_all [1, 1] own 1 of " + sent[i] + " : (" + types + ") -> " +
            type + "\n";
  return "func.func @main(%x: tensor<8x8xf32>) -> (" + type + ", " + type + ") {\n" + text +
         "  return %r0, %r1 : " + type + ", " + type + "\n}\n";
}

TEST_F(MemoryPlans, noTwoLiveValuesShareBytes) {
  OpsNeedScratch queries;
  int joined = 0;
  std::vector<TrainingStep> steps = trainingSteps();
  steps.push_back({"joined", joinedStep});
  steps.push_back({"unpacked", unpackedStep});
  steps.push_back({"piece", pieceStep});
  steps.push_back({"late piece", latePieceStep});
  for (const TrainingStep &step : steps)
    for (int level : {0, 2}) {
      OwningOpRef<ModuleOp> module = parse(step.text);
      PipelineOptions options = atLevel(level);
      options.queries = &queries;
      ASSERT_TRUE(run(*module, options)) << messages;
      const LiveValues values(mainOf(*module));
      EXPECT_EQ(values.problems(), "") << step.name << " at -O" << level;
      const int64_t arena = mainOf(*module)->getAttrOfType<IntegerAttr>(arenaAttr).getInt();
      EXPECT_EQ(arena, (values.end() + 63) / 64 * 64) << step.name;
      EXPECT_EQ(report.arenaBytes, arena);
      joined += values.joinedKernels();
    }
  EXPECT_GT(joined, 0);
}

TEST_F(MemoryPlans, whatIsSentLiesInThePiece) {
  OpsNeedScratch queries;
  OwningOpRef<ModuleOp> module = parse(pieceStep);
  PipelineOptions options;
  options.queries = &queries;
  ASSERT_TRUE(run(*module, options)) << messages;
  AllToAllOp exchange = *mainOf(*module).getBody().front().getOps<AllToAllOp>().begin();
  const int64_t piece = exchange->getAttrOfType<DenseI64ArrayAttr>(scratchAttr)[0];
  const auto inArena = [](int64_t offset) { return Place{PlaceSpace::arena, 0, offset}; };
  ValueRange sent = exchange.getValues();
  EXPECT_EQ(placeOf(cast<OpResult>(sent[0])), inArena(piece));
  EXPECT_EQ(placeOf(cast<OpResult>(sent[1])), inArena(piece + 256));
  auto kernel = sent[1].getDefiningOp<KernelOp>();
  ASSERT_TRUE(kernel);
  EXPECT_EQ(placeOf(cast<OpResult>(kernel.getInputs()[0])), inArena(piece + 256)); // until the kernel writes over it
  const int64_t kept = placeOf(cast<OpResult>(sent[3])).offset;
  EXPECT_TRUE(kept >= piece + 448 * 4 || kept + 256 <= piece) << kept; // what is read later does not keep the piece
}

TEST_F(MemoryPlans, aPieceTakesNoBytesBeforeItsValuesAreMade) {
  OpsNeedScratch queries;
  OwningOpRef<ModuleOp> module = parse(latePieceStep);
  PipelineOptions options;
  options.queries = &queries;
  ASSERT_TRUE(run(*module, options)) << messages;
  constexpr int64_t large = 64 * 64 * 4, piece = 2 * 2080 * 4;
  EXPECT_LT(report.arenaBytes, piece + 2 * large);
}

TEST_F(MemoryPlans, manySentValuesLieInTheirPieces) {
  OpsNeedScratch queries;
  OwningOpRef<ModuleOp> module = parse(manySentStep(1100));
  PipelineOptions options = atLevel(0);
  options.queries = &queries;
  ASSERT_TRUE(run(*module, options)) << messages;
  EXPECT_EQ(LiveValues(mainOf(*module)).problems(), "");
  for (AllToAllOp exchange : mainOf(*module).getBody().front().getOps<AllToAllOp>()) {
    const int64_t piece = exchange->getAttrOfType<DenseI64ArrayAttr>(scratchAttr)[0];
    for (auto [i, value] : llvm::enumerate(exchange.getValues()))
      ASSERT_EQ(placeOf(cast<OpResult>(value)).offset, piece + static_cast<int64_t>(i) * 256);
  }
}

TEST_F(MemoryPlans, unpackedValuesLieInTheirOperand) {
  OwningOpRef<ModuleOp> module = parse(unpackedStep);
  ASSERT_TRUE(run(*module, PipelineOptions())) << messages;
  func::FuncOp function = mainOf(*module);
  SignaturePlaces places(function);
  int unpacked = 0;
  for (UnpackOp unpack : function.getBody().front().getOps<UnpackOp>()) {
    const Place whole = places.of(unpack.getX());
    for (auto [i, part] : llvm::enumerate(unpack.getResults()))
      EXPECT_EQ(places.of(part), (Place{whole.space, whole.index, whole.offset + static_cast<int64_t>(i) * 256}));
    EXPECT_EQ(whole.space, unpacked == 0 ? PlaceSpace::arena : PlaceSpace::state);
    ++unpacked;
  }
  EXPECT_EQ(unpacked, 2);
  auto update = placeOf(*llvm::to_vector(function.getBody().front().getOps<KernelOp>()).back()->result_begin());
  EXPECT_EQ(update.space, PlaceSpace::state); // after the matmul that reads a part of it
}

TEST_F(MemoryPlans, statesAreUpdatedInPlace) {
  OwningOpRef<ModuleOp> module = parse(trainingStep("gpt").text);
  ASSERT_TRUE(run(*module, PipelineOptions())) << messages;
  func::FuncOp function = mainOf(*module);
  SignaturePlaces places(function);
  Operation *exit = function.getBody().front().getTerminator();
  int updates = 0;
  for (auto [i, value] : llvm::enumerate(exit->getOperands())) {
    if (!function.getResultAttr(i, updatesAttr))
      continue;
    ++updates;
    Place place = places.of(stridedView(value).root);
    EXPECT_EQ(place.space, PlaceSpace::state) << "result " << i;
    EXPECT_EQ(place, places.returned(i)) << "result " << i;
  }
  EXPECT_EQ(updates, 8);
}

} // namespace
} // namespace tcc::test
