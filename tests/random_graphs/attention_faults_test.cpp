// Faults planted in attention that the compiler matches: the checkers that pass the untouched graph, whose reference is
// the graph as it is written, must catch each one.
#include "ir/emit.h"
#include "passes/passes.h"
#include "tests/random_graphs/step_under_test.h"

using namespace mlir;

namespace tcc::test {
namespace {

/// Causal attention with dropout, whose result a softcapped one mixes again; queries and keys end within a block.
constexpr llvm::StringLiteral step = R"(
func.func @main(%q: tensor<2x2x19x8xf32> {tcc.name = "q"}, %k: tensor<2x2x19x8xf32> {tcc.name = "k"},
                %v: tensor<2x2x19x8xf32> {tcc.name = "v"}, %w: tensor<2x2x19x8xf32> {tcc.name = "w"},
                %seed: tensor<i32> {tcc.name = "seed"})
    -> (tensor<2x2x19x8xf32> {tcc.name = "out"}, tensor<2x2x19x8xf32> {tcc.name = "gq"},
        tensor<2x2x19x8xf32> {tcc.name = "gk"}, tensor<2x2x19x8xf32> {tcc.name = "gv"}) {
  %product = tcc.matmul %q, %k transposed : tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32> -> tensor<2x2x19x19xf32>
  %scale = tcc.constant dense<0.75> : tensor<2x2x19x19xf32>
  %scores = tcc.mul %product, %scale : tensor<2x2x19x19xf32>
  %row = tcc.iota dim 2 -> tensor<2x2x19x19xi32>
  %column = tcc.iota dim 3 -> tensor<2x2x19x19xi32>
  %seen = tcc.compare ge %row, %column : tensor<2x2x19x19xi32> -> tensor<2x2x19x19xi1>
  %far = tcc.constant dense<0xFF800000> : tensor<2x2x19x19xf32>
  %masked = tcc.select %seen, %scores, %far : tensor<2x2x19x19xi1>, tensor<2x2x19x19xf32>
  %p = tcc.softmax %masked : tensor<2x2x19x19xf32>
  %left = tcc.dropout %p, %seed rate 0.25 stream 3 : tensor<2x2x19x19xf32>, tensor<i32>
  %a = tcc.matmul %left, %v : tensor<2x2x19x19xf32>, tensor<2x2x19x8xf32> -> tensor<2x2x19x8xf32>
  %second = tcc.matmul %k, %q transposed : tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32> -> tensor<2x2x19x19xf32>
  %capped = tcc.tanh %second : tensor<2x2x19x19xf32>
  %s = tcc.softmax %capped : tensor<2x2x19x19xf32>
  %out = tcc.matmul %s, %a : tensor<2x2x19x19xf32>, tensor<2x2x19x8xf32> -> tensor<2x2x19x8xf32>
  %weighted = tcc.mul %out, %w : tensor<2x2x19x8xf32>
  %sum = tcc.reduce_sum %weighted axes [0, 1, 2, 3] : tensor<2x2x19x8xf32> -> tensor<1x1x1x1xf32>
  %loss = tcc.reshape %sum : tensor<1x1x1x1xf32> -> tensor<f32>
  %gq, %gk, %gv = tcc.gradient %loss wrt %q, %k, %v : tensor<f32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>,
      tensor<2x2x19x8xf32>
  return %out, %gq, %gk, %gv : tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>, tensor<2x2x19x8xf32>
})";

/// A change of the captured function, or of the joint one, to each attention and its gradient alike.
struct Fault {
  const char *name;
  std::function<void(func::FuncOp)> captured;
  std::function<void(Operation *)> joint;
};

void plusOne(Operation *op, StringRef attribute) {
  auto number = op->getAttrOfType<IntegerAttr>(attribute);
  op->setAttr(attribute, IntegerAttr::get(number.getType(), number.getValue() + 1));
}

/// The random bits of the next row of a batch.
template <typename Op>
void shiftBits(Op op) {
  OpBuilder builder(op);
  Emit emit(builder, op.getLoc());
  op.getFirstMutable().assign(emit.constant(1, RankedTensorType::get({}, emit.i32())));
}

void scaleWrong(Operation *op) {
  auto scale = op->getAttrOfType<FloatAttr>("scale");
  op->setAttr("scale", FloatAttr::get(scale.getType(), scale.getValueAsDouble() * 1.002));
}

void bitsElsewhere(Operation *op) {
  if (auto forward = dyn_cast<FlashAttentionOp>(op))
    shiftBits(forward);
  else
    shiftBits(cast<FlashAttentionBackwardOp>(op));
}

/// The matcher takes scores that are pressed together for scores.
void softcapUnseen(func::FuncOp function) {
  function.walk([](TanhOp op) {
    op.getResult().replaceAllUsesWith(op.getX());
    op.erase();
  });
}

const Fault faults[] = {{"scale wrong", {}, scaleWrong},
                        {"mask off by one", {}, [](Operation *op) { plusOne(op, "diagonal"); }},
                        {"dropout's bits at other coordinates", {}, bitsElsewhere},
                        {"bits of another op", {}, [](Operation *op) { plusOne(op, "stream"); }},
                        {"a match that is none", softcapUnseen, {}}};

PipelineOptions withMatching() {
  PipelineOptions options;
  options.passes["match-attention"] = true;
  return options;
}

class AttentionFaults : public StepUnderTest {
protected:
  AttentionFaults() : StepUnderTest(step.str(), withMatching()) {}

  /// What the checker says of the step with a fault, of which so many attentions are matched.
  std::string verdict(const Fault &fault, size_t matches) {
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>((*module)->clone()));
    func::FuncOp function = onlyFunction(*copy);
    if (fault.captured)
      fault.captured(function);
    PipelineOptions options = withMatching();
    options.stopAfter = Phase::joint;
    PipelineReport report;
    EXPECT_TRUE(succeeded(runPipeline(*copy, options, report)));
    SmallVector<Operation *> attention;
    function.walk([&](Operation *op) {
      if (isa<FlashAttentionOp, FlashAttentionBackwardOp>(op))
        attention.push_back(op);
    });
    EXPECT_EQ(attention.size(), 2 * matches); // each with its gradient
    for (Operation *op : attention)
      if (fault.joint)
        fault.joint(op);
    std::string error;
    std::unique_ptr<CompiledGraph> graph = CompiledGraph::compile(*copy, {}, error);
    std::optional<std::vector<RefTensor>> results = graph ? graph->run(reference->arguments(), error) : std::nullopt;
    EXPECT_TRUE(results) << error;
    return results ? reference->checkChain(*results) : "";
  }
};

TEST_F(AttentionFaults, areCaughtAndTheUntouchedStepPasses) {
  EXPECT_EQ(verdict({"none", {}, {}}, 1), "");
  for (const Fault &fault : faults)
    EXPECT_NE(verdict(fault, fault.captured ? 2 : 1), "") << fault.name << " went unseen";
}

} // namespace
} // namespace tcc::test
