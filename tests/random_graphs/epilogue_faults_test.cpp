// Planted faults in matmuls that add something (fuse-epilogues): a step with biases, a residual, a sum of two matmuls
// and the gradients of all of it, as the CPU has it and for a model that adds tensors which lie elsewhere. Random
// graphs have such matmuls too.
#include "codegen/cpu/target.h"
#include "codegen/lower_plan.h"
#include "ir/emit.h"
#include "passes/passes.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include <gtest/gtest.h>

using namespace mlir;

namespace tcc::test {
namespace {

constexpr llvm::StringLiteral step = R"(
func.func @main(%x: tensor<17x16xf32> {tcc.name = "x"}, %w1: tensor<16x24xf32> {tcc.name = "w1"},
                %b1: tensor<24xf32> {tcc.name = "b1"}, %b3: tensor<24xf32> {tcc.name = "b3"},
                %w2: tensor<24x16xf32> {tcc.name = "w2"}, %b2: tensor<16xf32> {tcc.name = "b2"},
                %w3: tensor<16x16xf32> {tcc.name = "w3"}, %w4: tensor<24x16xf32> {tcc.name = "w4"},
                %w5: tensor<16x24xf32> {tcc.name = "w5"}, %w6: tensor<24x16xf32> {tcc.name = "w6"})
    -> (tensor<17x24xf32>, tensor<17x24xf32>, tensor<17x16xf32>, tensor<17x16xf32>, tensor<17x16xf32>,
        tensor<16x24xf32>, tensor<24xf32>, tensor<24x16xf32>) {
  %h = tcc.linear %x, %w1, %b1 : tensor<17x16xf32>, tensor<16x24xf32>, tensor<24xf32> -> tensor<17x24xf32>
  %k = tcc.linear %x, %w5, %b3 : tensor<17x16xf32>, tensor<16x24xf32>, tensor<24xf32> -> tensor<17x24xf32>
  %g = tcc.tanh %h : tensor<17x24xf32>
  %o = tcc.linear %g, %w2, %b2 : tensor<17x24xf32>, tensor<24x16xf32>, tensor<16xf32> -> tensor<17x16xf32>
  %y = tcc.add %x, %o : tensor<17x16xf32>
  %p = tcc.matmul %x, %w3 : tensor<17x16xf32>, tensor<16x16xf32> -> tensor<17x16xf32>
  %q = tcc.matmul %k, %w4 : tensor<17x24xf32>, tensor<24x16xf32> -> tensor<17x16xf32>
  %pq = tcc.add %p, %q : tensor<17x16xf32>
  %u = tcc.matmul %g, %w6 : tensor<17x24xf32>, tensor<24x16xf32> -> tensor<17x16xf32>
  %s = tcc.add %pq, %u : tensor<17x16xf32>
  %m = tcc.mul %y, %s : tensor<17x16xf32>
  %t = tcc.reduce_sum %m axes [0, 1] : tensor<17x16xf32> -> tensor<1x1xf32>
  %loss = tcc.reshape %t : tensor<1x1xf32> -> tensor<f32>
  %gx, %g1, %gb, %g2 = tcc.gradient %loss wrt %x, %w1, %b1, %w2 : tensor<f32>, tensor<17x16xf32>, tensor<16x24xf32>,
      tensor<24xf32>, tensor<24x16xf32>
  return %h, %k, %y, %s, %gx, %g1, %gb, %g2 : tensor<17x24xf32>, tensor<17x24xf32>, tensor<17x16xf32>,
      tensor<17x16xf32>, tensor<17x16xf32>, tensor<16x24xf32>, tensor<24xf32>, tensor<24x16xf32>
})";

/// The CPU, told that matmuls may add tensors from elsewhere, at no more than a kernel's price.
class ElsewhereTarget : public cpu::CpuTarget {
public:
  ElsewhereTarget() : CpuTarget({}, 1) {
    changed.epilogues.inPlace = false;
    changed.epilogues.addendPrice = 1;
  }
  const TargetModel &model() const override { return changed; }

private:
  TargetModel changed;
};

using ChangeIr = std::function<bool(func::FuncOp)>;      // true if the fault was planted
using ChangePlan = std::function<bool(runtime::Plan &)>; // likewise

template <typename Test>
SmallVector<MatmulOp> products(func::FuncOp function, Test test) {
  SmallVector<MatmulOp> list;
  function.walk([&](MatmulOp op) {
    if (test(op))
      list.push_back(op);
  });
  return list;
}

//===- faults ----------------------------------------------------------------------------------------------------===//

/// A matmul adds the bias of another.
bool biasOfAnother(func::FuncOp function) {
  auto list = products(function, [](MatmulOp op) { return bool(op.getBias()); });
  for (MatmulOp op : list)
    for (MatmulOp other : list)
      if (op.getBias() != other.getBias() && op.getBias().getType() == other.getBias().getType()) {
        op.getBiasMutable().assign(other.getBias());
        return true;
      }
  return false;
}

/// The kernel's addition stays where the matmul has one already.
bool biasTwice(func::FuncOp function) {
  for (MatmulOp op : products(function, [](MatmulOp op) { return bool(op.getBias()); })) {
    OpBuilder builder(op->getBlock(), std::next(op->getIterator()));
    Emit e(builder, op.getLoc());
    Value again = e.add(op.getResult(), e.broadcast(op.getBias(), tensorType(op.getResult()).getShape()));
    op.getResult().replaceAllUsesExcept(again, again.getDefiningOp());
    return true;
  }
  return false;
}

/// A matmul adds an operand of its own instead of the residual.
bool addendOfAnother(func::FuncOp function) {
  for (MatmulOp op : products(function, [](MatmulOp op) { return bool(op.getAddend()); }))
    for (BlockArgument argument : function.getArguments())
      if (argument != op.getAddend() && argument.getType() == op.getAddend().getType()) {
        op.getAddendMutable().assign(argument);
        return true;
      }
  return false;
}

runtime::MatmulCall *adding(runtime::Plan &plan, bool elsewhere) {
  for (runtime::Instruction &instruction : plan.instructions)
    if (auto *call = std::get_if<runtime::MatmulCall>(&instruction.call))
      if (call->desc.accumulate && (call->addend != runtime::noBuffer) == elsewhere)
        return call;
  return nullptr;
}

/// The sum is not added to what was there.
bool accumulationDropped(runtime::Plan &plan) {
  runtime::MatmulCall *call = adding(plan, false);
  if (call)
    call->desc.accumulate = false;
  return call;
}

/// The sum is added a second time.
bool accumulatedTwice(runtime::Plan &plan) {
  for (size_t i = 0; i < plan.instructions.size(); ++i)
    if (auto *call = std::get_if<runtime::MatmulCall>(&plan.instructions[i].call); call && call->desc.accumulate) {
      plan.instructions.insert(plan.instructions.begin() + static_cast<ptrdiff_t>(i) + 1, plan.instructions[i]);
      return call->addend == runtime::noBuffer;
    }
  return false;
}

/// What is added elsewhere is taken from the result's own place: whatever lay there.
bool staleAddend(runtime::Plan &plan) {
  runtime::MatmulCall *call = adding(plan, true);
  if (call)
    call->addend = runtime::noBuffer;
  return call;
}

/// The matmul runs before what it adds to is there.
bool addedTooEarly(runtime::Plan &plan) {
  for (size_t i = 1; i < plan.instructions.size(); ++i) {
    auto *call = std::get_if<runtime::MatmulCall>(&plan.instructions[i].call);
    for (size_t made = 0; call && call->desc.accumulate && made < i; ++made)
      if (auto *other = std::get_if<runtime::MatmulCall>(&plan.instructions[made].call);
          other && other->c == (call->addend == runtime::noBuffer ? call->c : call->addend)) {
        std::swap(plan.instructions[made], plan.instructions[i]);
        return true;
      }
  }
  return false;
}

struct Fault {
  const char *name;
  bool elsewhere; // for which model
  ChangeIr ir;
  ChangePlan plan;
};
const Fault faults[] = {{"bias of another product", false, biasOfAnother, {}},
                        {"bias added twice", false, biasTwice, {}},
                        {"addend of another product", true, addendOfAnother, {}},
                        {"accumulation dropped", false, {}, accumulationDropped},
                        {"accumulated twice", false, {}, accumulatedTwice},
                        {"stale addend", true, {}, staleAddend},
                        {"added too early", false, {}, addedTooEarly}};

//===- the step with a fault in it -------------------------------------------------------------------------------===//

class EpilogueFaults : public testing::Test {
protected:
  std::unique_ptr<MLIRContext> context = makeContext();
  const cpu::CpuTarget inPlace{{}, 1};
  const ElsewhereTarget elsewhere;

  /// Compiles a copy with the fault; nothing and in `error` why not. `count` gets the matmuls that add something.
  std::optional<runtime::Artefact> compile(ModuleOp module, const Fault &fault, size_t &count, std::string &error) {
    const cpu::CpuTarget &target = fault.elsewhere ? elsewhere : inPlace;
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
    func::FuncOp function = onlyFunction(*copy);
    PipelineOptions options;
    options.target = target.model();
    options.queries = &target;
    options.stopAfter = Phase::shaped;
    PipelineReport report;
    if (failed(runPipeline(*copy, options, report)))
      return std::nullopt;
    count = products(function, [](MatmulOp op) { return op.hasEpilogue(); }).size();
    if (fault.ir && !fault.ir(function)) {
      error = "no place for the fault";
      return std::nullopt;
    }
    if (failed(fuseKernels(function, options)) || failed(schedule(function, options)) ||
        failed(planMemory(function, options)))
      return std::nullopt;
    KernelTable kernels;
    std::optional<runtime::Plan> plan = take(lowerPlan(function, target, 1, kernels), error);
    if (plan && fault.plan && !fault.plan(*plan)) {
      error = "no place for the fault";
      return std::nullopt;
    }
    std::optional<std::string> code =
        plan ? take(cpu::emitKernels(kernels.sources(), {}, cpu::Artefact::sharedObject), error) : std::nullopt;
    if (!code)
      return std::nullopt;
    return runtime::cpuArtefact(std::move(*plan), std::move(*code));
  }

  /// Empty where every result is right.
  std::string verdict(ModuleOp module, Reference &reference, const Fault &fault, size_t &count) {
    std::string error;
    std::optional<runtime::Artefact> artefact = compile(module, fault, count, error);
    if (!artefact) {
      ADD_FAILURE() << fault.name << ": " << error;
      return {};
    }
    std::unique_ptr<CompiledGraph> graph = CompiledGraph::load(std::move(*artefact), onlyFunction(module), {}, error);
    std::optional<std::vector<RefTensor>> results = graph ? graph->run(reference.arguments(), error) : std::nullopt;
    return results ? reference.checkChain(*results) : error;
  }
};

TEST_F(EpilogueFaults, areCaughtAndTheUntouchedStepPasses) {
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, step, messages);
  ASSERT_TRUE(module) << messages;
  auto reference = Reference::make(*module, generateInputs(onlyFunction(*module), 5));
  ASSERT_TRUE(reference) << reference.error().message();
  size_t here = 0, there = 0;
  EXPECT_EQ(verdict(*module, *reference, {"none", false, {}, {}}, here), "");
  EXPECT_EQ(verdict(*module, *reference, {"none", true, {}, {}}, there), "");
  EXPECT_GE(here, 3u);
  EXPECT_GT(there, here) << "the residual";
  for (const Fault &fault : faults)
    EXPECT_NE(verdict(*module, *reference, fault, here), "") << fault.name << " went unseen";
}

// As in random_graphs_test, where the CPU's own model runs.
TEST_F(EpilogueFaults, randomGraphsAddTensorsThatLieElsewhere) {
  constexpr uint64_t graphs = 40;
  size_t adding = 0, biases = 0;
  for (uint64_t seed = 1; seed <= graphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OwningOpRef<ModuleOp> module = generateGraph(*context, seed, {.sums = true});
    std::string messages;
    auto reference = Reference::make(*module, generateInputs(onlyFunction(*module), seed));
    ASSERT_TRUE(reference) << reference.error().message();
    size_t count = 0;
    EXPECT_EQ(verdict(*module, *reference, {"none", true, {}, {}}, count), "");
    adding += count > 0;
    size_t own = 0;
    std::string error;
    ASSERT_TRUE(compile(*module, {"none", false, {}, {}}, own, error)) << error;
    biases += own > 0;
  }
  EXPECT_GE(adding, graphs / 20) << "graphs of " << graphs << " in which a product adds something";
  EXPECT_GE(biases, graphs / 20) << "the same by the CPU's own model";
}

} // namespace
} // namespace tcc::test
