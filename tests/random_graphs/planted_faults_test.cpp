// Planted faults: one compiler error each, made from the outside by changing the IR between two passes or the finished
// plan. The checkers that pass the untouched graph must catch every one.
#include "codegen/cpu/target.h"
#include "codegen/lower_plan.h"
#include "codegen/messages.h"
#include "codegen/verify_artefact.h"
#include "ir/analyze_kernel.h"
#include "ir/emit.h"
#include "ir/kernel_space.h"
#include "passes/memory_places.h"
#include "passes/passes.h"
#include "tests/random_graphs/step_under_test.h"

using namespace mlir;

namespace tcc::test {
namespace {

/// A small training step with everything that the faults need: embedding with repeated tokens, layer norm, causal
/// softmax, a 16-bit round trip, padding, slices, transposes, a tied gradient and states updated in place.
constexpr llvm::StringLiteral step = R"(
func.func @main(%table: tensor<11x16xf32> {tcc.name = "table", tcc.state}, %tokens: tensor<17xi32> {tcc.name = "i_tokens"},
                %targets: tensor<17xi32> {tcc.name = "i_targets"}, %wq: tensor<16x16xf32> {tcc.name = "wq"},
                %wn: tensor<16xf32> {tcc.name = "wn"}, %bn: tensor<16xf32> {tcc.name = "bn"},
                %wo: tensor<16x16xf32> {tcc.name = "wo"}, %mean: tensor<17x16xf32> {tcc.name = "mean", tcc.state})
    -> (tensor<f32> {tcc.name = "loss"}, tensor<17x16xf32> {tcc.name = "rounded"}, tensor<16x16xf32> {tcc.name = "gq"},
        tensor<16xf32> {tcc.name = "gn"}, tensor<16xf32> {tcc.name = "gb"}, tensor<16x16xf32> {tcc.name = "go"},
        tensor<17x16xf32> {tcc.name = "old"}, tensor<11x16xf32> {tcc.updates = "table"},
        tensor<17x16xf32> {tcc.updates = "mean"}) {
  %x = tcc.gather %table at %tokens : tensor<11x16xf32>, tensor<17xi32> -> tensor<17x16xf32>
  %n = tcc.layer_norm %x, %wn, %bn : tensor<17x16xf32>, tensor<16xf32>, tensor<16xf32>
  %q = tcc.linear %n, %wq : tensor<17x16xf32>, tensor<16x16xf32> -> tensor<17x16xf32>
  %scores = tcc.matmul %q, %n transposed : tensor<17x16xf32>, tensor<17x16xf32> -> tensor<17x17xf32>
  %row = tcc.iota dim 0 -> tensor<17x17xi32>
  %column = tcc.iota dim 1 -> tensor<17x17xi32>
  %seen = tcc.compare ge %row, %column : tensor<17x17xi32> -> tensor<17x17xi1>
  %far = tcc.constant dense<-30.0> : tensor<17x17xf32>
  %masked = tcc.select %seen, %scores, %far : tensor<17x17xi1>, tensor<17x17xf32>
  %p = tcc.softmax %masked : tensor<17x17xf32>
  %a = tcc.matmul %p, %n : tensor<17x17xf32>, tensor<17x16xf32> -> tensor<17x16xf32>
  %short = tcc.cast %a : tensor<17x16xf32> -> tensor<17x16xbf16>
  %d = tcc.cast %short : tensor<17x16xbf16> -> tensor<17x16xf32>
  %g = tcc.gelu %a : tensor<17x16xf32>
  %padded = tcc.pad %g [1, 0], [0, 3] : tensor<17x16xf32> -> tensor<18x19xf32>
  %shifted = tcc.slice %padded [0, 1] to [17, 17] : tensor<18x19xf32> -> tensor<17x16xf32>
  %turned = tcc.transpose %shifted [1, 0] : tensor<17x16xf32> -> tensor<16x17xf32>
  %y = tcc.tanh %turned : tensor<16x17xf32>
  %o = tcc.matmul %wo, %y : tensor<16x16xf32>, tensor<16x17xf32> -> tensor<16x17xf32>
  %logits = tcc.transpose %o [1, 0] : tensor<16x17xf32> -> tensor<17x16xf32>
  %loss = tcc.cross_entropy %logits, %targets : tensor<17x16xf32>, tensor<17xi32> -> tensor<f32>
  %gt, %gq, %gn, %gb, %go = tcc.gradient %loss wrt %table, %wq, %wn, %bn, %wo : tensor<f32>, tensor<11x16xf32>,
      tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>
  %rate = tcc.constant dense<0.1> : tensor<11x16xf32>
  %change = tcc.mul %gt, %rate : tensor<11x16xf32>
  %next = tcc.sub %table, %change : tensor<11x16xf32>
  %scale = tcc.broadcast %loss : tensor<f32> -> tensor<17x16xf32>
  %old = tcc.mul %mean, %scale : tensor<17x16xf32>
  %keep = tcc.constant dense<0.9> : tensor<17x16xf32>
  %kept = tcc.mul %mean, %keep : tensor<17x16xf32>
  %moved = tcc.add %kept, %a : tensor<17x16xf32>
  return %loss, %d, %gq, %gn, %gb, %go, %old, %next, %moved : tensor<f32>, tensor<17x16xf32>, tensor<16x16xf32>,
      tensor<16xf32>, tensor<16xf32>, tensor<16x16xf32>, tensor<17x16xf32>, tensor<11x16xf32>, tensor<17x16xf32>
})";

//===- the pipeline with a fault in it ---------------------------------------------------------------------------===//

using ChangeIr = std::function<bool(func::FuncOp)>;      // true if the fault was planted
using ChangePlan = std::function<bool(runtime::Plan &)>; // likewise

std::optional<runtime::Artefact> toArtefact(ModuleOp planned, std::string &error) {
  KernelTable kernels;
  std::optional<runtime::Plan> plan = take(lowerPlan(onlyFunction(planned), cpu::CpuTarget({}, 1), 1, kernels), error);
  if (!plan)
    return std::nullopt;
  std::optional<std::string> code = take(cpu::emitKernels(kernels.sources(), {}, cpu::Artefact::sharedObject), error);
  if (!code)
    return std::nullopt;
  return runtime::cpuArtefact(std::move(*plan), std::move(*code));
}

/// The artefact of the step with a change after `phase`; nothing where the change found no place or made bad IR.
std::optional<runtime::Artefact> plantInIr(ModuleOp module, Phase phase, const ChangeIr &change, std::string &error) {
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  PipelineOptions options;
  options.stopAfter = phase;
  const cpu::CpuTarget target({}, 1);
  options.queries = &target;
  PipelineReport report;
  func::FuncOp function = onlyFunction(*copy);
  if (failed(runPipeline(*copy, options, report)) || !change(function)) {
    error = "no place for the fault";
    return std::nullopt;
  }
  if (phase == Phase::joint)
    return compileGraph(*copy, {}, error);
  if (phase == Phase::fused && failed(planMemory(function, options)))
    return std::nullopt;
  return toArtefact(*copy, error);
}

std::optional<runtime::Artefact> plantInPlan(ModuleOp module, const ChangePlan &change, std::string &error) {
  std::optional<runtime::Artefact> artefact = compileGraph(module, {}, error);
  if (artefact && !change(artefact->targets[0].plan)) {
    error = "no place for the fault";
    return std::nullopt;
  }
  return artefact;
}

//===- what plans say --------------------------------------------------------------------------------------------===//

struct Uses {
  SmallVector<runtime::BufferId> reads, writes;
};

Uses usesOf(const runtime::Plan &plan, const runtime::Instruction &instruction) {
  Uses uses;
  if (auto *kernel = std::get_if<runtime::KernelCall>(&instruction.call)) {
    for (const runtime::Segment &segment : kernel->segments) {
      size_t inputs = segment.args.size() - plan.kernels[kernel->kernel].results;
      uses.reads.append(segment.args.begin(), segment.args.begin() + inputs);
      uses.writes.append(segment.args.begin() + inputs, segment.args.end());
    }
  } else if (auto *product = std::get_if<runtime::MatmulCall>(&instruction.call)) {
    uses.reads = {product->a, product->b};
    uses.writes = {product->c};
  } else {
    const auto &copy = std::get<runtime::CopyCall>(instruction.call);
    uses.reads = {copy.source};
    uses.writes = {copy.target};
  }
  return uses;
}

/// True if a write to `a` changes what `b` holds.
bool touches(const runtime::Plan &plan, runtime::BufferId a, runtime::BufferId b) {
  const runtime::Buffer &x = plan.buffers[a], &y = plan.buffers[b];
  return x.space == y.space && x.index == y.index && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
}

bool anyTouches(const runtime::Plan &plan, ArrayRef<runtime::BufferId> written, ArrayRef<runtime::BufferId> read) {
  return llvm::any_of(written, [&](auto a) { return llvm::any_of(read, [&](auto b) { return touches(plan, a, b); }); });
}

//===- faults in the plan ----------------------------------------------------------------------------------------===//

/// A value is put over another one that will still be read.
bool reuseTooEarly(runtime::Plan &plan) {
  auto inArena = [&](runtime::BufferId id) { return plan.buffers[id].space == runtime::Space::arena; };
  for (size_t made = 0; made < plan.instructions.size(); ++made)
    for (runtime::BufferId victim : usesOf(plan, plan.instructions[made]).writes)
      for (size_t between = made + 1; inArena(victim) && between < plan.instructions.size(); ++between)
        for (runtime::BufferId mover : usesOf(plan, plan.instructions[between]).writes) {
          // A matmul may leave its scratch as it is.
          if (!std::holds_alternative<runtime::KernelCall>(plan.instructions[between].call) || !inArena(mover) ||
              plan.buffers[mover].bytes != plan.buffers[victim].bytes || plan.buffers[mover].bytes < 256 ||
              touches(plan, mover, victim))
            continue;
          for (size_t read = between + 1; read < plan.instructions.size(); ++read)
            if (llvm::is_contained(usesOf(plan, plan.instructions[read]).reads, victim)) {
              plan.buffers[mover].offset = plan.buffers[victim].offset;
              return true;
            }
        }
  return false;
}

/// Two kernels that must follow each other change places: the barrier between them is gone.
bool dropBarrier(runtime::Plan &plan) {
  for (size_t i = plan.instructions.size() - 1; i > 0; --i) {
    runtime::Instruction &first = plan.instructions[i - 1], &second = plan.instructions[i];
    if (anyTouches(plan, usesOf(plan, first).writes, usesOf(plan, second).reads)) {
      std::swap(first, second);
      return true;
    }
  }
  return false;
}

/// The new value of a state is written before the old one was read for the last time.
bool updateTooEarly(runtime::Plan &plan) {
  for (size_t writer = 0; writer < plan.instructions.size(); ++writer)
    for (runtime::BufferId state : usesOf(plan, plan.instructions[writer]).writes)
      for (size_t reader = 0; plan.buffers[state].space == runtime::Space::state && reader < writer; ++reader)
        if (anyTouches(plan, state, usesOf(plan, plan.instructions[reader]).reads)) {
          std::rotate(plan.instructions.begin() + reader, plan.instructions.begin() + writer,
                      plan.instructions.begin() + writer + 1);
          return true;
        }
  return false;
}

/// An operand of a matmul is read across instead of along.
bool wrongStride(runtime::Plan &plan) {
  for (runtime::Instruction &instruction : plan.instructions)
    if (auto *product = std::get_if<runtime::MatmulCall>(&instruction.call);
        product && product->desc.k == product->desc.n && product->desc.k > 1) {
      std::swap(product->desc.b.rowStride, product->desc.b.columnStride);
      return true;
    }
  return false;
}

/// A result is never written.
bool dropStore(runtime::Plan &plan) {
  for (size_t i = plan.instructions.size(); i-- > 0;)
    if (llvm::any_of(usesOf(plan, plan.instructions[i]).writes,
                     [&](auto id) { return plan.buffers[id].space == runtime::Space::output; })) {
      plan.instructions.erase(plan.instructions.begin() + i);
      return true;
    }
  return false;
}

//===- faults in the joint graph ---------------------------------------------------------------------------------===//

template <typename Op>
SmallVector<Op> all(func::FuncOp function) {
  SmallVector<Op> ops;
  function.walk([&](Op op) { ops.push_back(op); });
  return ops;
}

/// Backward: the last product of two computed values that a result needs loses one of them.
bool loseFactor(func::FuncOp function) {
  auto operations =
      llvm::map_to_vector(function.getBody().front().without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : llvm::reverse(operations))
    if (op->use_empty())
      op->erase();
  auto products = all<MulOp>(function);
  for (MulOp op : llvm::reverse(products)) {
    auto computed = [](Value value) { return value.getDefiningOp() && !isa<ConstantOp>(value.getDefiningOp()); };
    if (!computed(op.getLhs()) || !computed(op.getRhs()) || tensorType(op).getRank() != 2)
      continue;
    op.getResult().replaceAllUsesWith(op.getLhs());
    return true;
  }
  return false;
}

/// Each position sees its successors instead of its predecessors and itself but for the diagonal.
bool wrongMask(func::FuncOp function) {
  for (CompareOp op : all<CompareOp>(function))
    if (op.getPredicate() == Predicate::ge) {
      op.setPredicate(Predicate::gt);
      return true;
    }
  return false;
}

/// The rounding of a 16-bit round trip is optimised away.
bool dropCast(func::FuncOp function) {
  for (CastOp op : all<CastOp>(function))
    if (auto inner = op.getX().getDefiningOp<CastOp>();
        inner && inner.getX().getType() == op.getType() && tensorType(inner).getElementType().isBF16()) {
      op.getResult().replaceAllUsesWith(inner.getX());
      return true;
    }
  return false;
}

/// The last row of zeros is let through: what lies beside it in memory is seen.
bool wrongPadding(func::FuncOp function) {
  for (PadOp op : all<PadOp>(function)) {
    if (op.getLow()[0] == 0 || tensorType(op).getRank() != 2)
      continue;
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    ArrayRef<int64_t> shape = tensorType(op.getX()).getShape();
    Value stale = emit.slice(op.getX(), {shape[0] - 1, 0}, shape);
    Value longer = emit.create<ConcatOp>(ValueRange{stale, op.getX()}, int64_t(0));
    op.getResult().replaceAllUsesWith(emit.pad(longer, {op.getLow()[0] - 1, op.getLow()[1]}, op.getHigh()));
    return true;
  }
  return false;
}

/// A slice starts one row too late.
bool wrongIndexMap(func::FuncOp function) {
  for (SliceOp op : all<SliceOp>(function)) {
    SmallVector<int64_t> starts(op.getStarts()), limits(op.getLimits());
    if (starts.empty() || limits[0] >= tensorType(op.getX()).getDimSize(0))
      continue;
    ++starts[0];
    ++limits[0];
    op.setStarts(starts);
    op.setLimits(limits);
    return true;
  }
  return false;
}

/// Adds only the last of several rows for one index.
bool loseDuplicates(func::FuncOp function) {
  for (ScatterAddOp op : all<ScatterAddOp>(function)) {
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    Value index = op.getIndex();
    int64_t count = tensorType(index).getNumElements();
    SmallVector<int64_t> square = {count, count};
    Value mine = emit.broadcast(emit.reshape(index, {count, 1}), square);
    Value other = emit.broadcast(emit.reshape(index, {1, count}), square);
    Value later = emit.compare(Predicate::lt, emit.iota(0, square, emit.i32()), emit.iota(1, square, emit.i32()));
    Value replaced = emit.logicalAnd(emit.compare(Predicate::eq, mine, other), later);
    Value any = emit.reduceMax(emit.cast(replaced, emit.i32()), {1});
    Value lost =
        emit.compare(Predicate::gt, emit.reshape(any, {count}), emit.zeros(RankedTensorType::get({count}, emit.i32())));
    Value none = emit.constant(-1, tensorType(index));
    op.getIndexMutable().assign(emit.select(lost, none, index));
    return true;
  }
  return false;
}

//===- faults in kernels -----------------------------------------------------------------------------------------===//

/// A row's sum is read before the last elements were added: the barrier between two stages is gone.
bool readStatisticEarly(func::FuncOp function) {
  for (KernelOp kernel : all<KernelOp>(function)) {
    std::string refusal;
    std::optional<KernelInfo> info = analyzeKernel(kernel, refusal);
    if (!info || !info->hasRowReduction() || info->space.columns < 4)
      continue;
    for (ReduceSumOp sum : kernel.getBody().front().getOps<ReduceSumOp>()) {
      if (!reductionShape(sum).isTrailing() || reductionShape(sum).isIdentity())
        continue;
      OpBuilder builder(sum);
      Emit emit(builder, sum.getLoc());
      RankedTensorType type = tensorType(sum.getX());
      Value column = emit.iota(type.getRank() - 1, type.getShape(), emit.i32());
      Value done = emit.compare(Predicate::lt, column, emit.constant(type.getShape().back() - 2, tensorType(column)));
      sum.getXMutable().assign(emit.select(done, sum.getX(), emit.zeros(type)));
      return bool(analyzeKernel(kernel, refusal));
    }
  }
  return false;
}

/// A result takes over the buffer of an operand of which other rows or later stages are still to be read.
bool shareWrongly(func::FuncOp function) {
  for (KernelOp kernel : all<KernelOp>(function)) {
    std::string refusal;
    std::optional<KernelInfo> info = analyzeKernel(kernel, refusal);
    for (auto [i, input] : llvm::enumerate(kernel.getInputs()))
      for (auto [r, result] : llvm::enumerate(kernel->getOpResults())) {
        auto source = dyn_cast<OpResult>(input);
        if (!source || placeOf(source).space != PlaceSpace::arena || placeOf(result).space != PlaceSpace::arena ||
            placeOf(source) == placeOf(result) || byteSize(tensorType(input)) < byteSize(tensorType(result)) ||
            byteSize(tensorType(result)) < 256 || mayShareBuffer(*info, r, i))
          continue;
        SmallVector<Place> places;
        for (OpResult other : kernel->getOpResults())
          places.push_back(placeOf(other == result ? source : other));
        setPlaces(kernel, places);
        return true;
      }
  }
  return false;
}

//===- the tests -------------------------------------------------------------------------------------------------===//

struct Fault {
  const char *name;
  std::function<std::optional<runtime::Artefact>(ModuleOp, std::string &)> plant;
};

std::vector<Fault> faults() {
  auto plan = [](ChangePlan change) {
    return [change](ModuleOp module, std::string &error) { return plantInPlan(module, change, error); };
  };
  auto ir = [](Phase phase, ChangeIr change) {
    return [phase, change](ModuleOp module, std::string &error) { return plantInIr(module, phase, change, error); };
  };
  return {{"bufferReusedTooEarly", plan(reuseTooEarly)},
          {"barrierDropped", plan(dropBarrier)},
          {"stateUpdatedTooEarly", plan(updateTooEarly)},
          {"productStrideWrong", plan(wrongStride)},
          {"resultNeverWritten", plan(dropStore)},
          {"gradientFactorLost", ir(Phase::joint, loseFactor)},
          {"maskWrong", ir(Phase::joint, wrongMask)},
          {"castDropped", ir(Phase::joint, dropCast)},
          {"paddingGuardWrong", ir(Phase::joint, wrongPadding)},
          {"indexMapWrong", ir(Phase::joint, wrongIndexMap)},
          {"duplicateIndexLost", ir(Phase::joint, loseDuplicates)},
          {"rowStatisticReadEarly", ir(Phase::fused, readStatisticEarly)},
          {"bufferSharedWrongly", ir(Phase::planned, shareWrongly)}};
}

class PlantedFaults : public StepUnderTest {
protected:
  PlantedFaults() : StepUnderTest(step.str()) {}

  /// Empty where every checker is content.
  std::string verdict(std::optional<runtime::Artefact> artefact) {
    std::string error;
    std::unique_ptr<CompiledGraph> graph = CompiledGraph::load(std::move(*artefact), onlyFunction(*module), {}, error);
    if (!graph)
      return error;
    std::optional<std::vector<RefTensor>> results = graph->run(reference->arguments(), error);
    if (!results)
      return error;
    std::string mismatch = reference->checkChain(*results);
    return mismatch.empty() ? reference->checkRounding(*results) : mismatch;
  }
};

TEST_F(PlantedFaults, theUntouchedStepPasses) {
  std::string error;
  for (Phase phase : {Phase::joint, Phase::fused, Phase::planned}) {
    std::optional<runtime::Artefact> artefact = plantInIr(*module, phase, [](func::FuncOp) { return true; }, error);
    ASSERT_TRUE(artefact) << error;
    EXPECT_EQ(verdict(std::move(artefact)), "") << "through phase " << phaseName(phase).str();
  }
}

TEST_F(PlantedFaults, areAllCaught) {
  int caught = 0;
  std::vector<Fault> list = faults();
  for (const Fault &fault : list) {
    std::string error;
    std::optional<runtime::Artefact> artefact = fault.plant(*module, error);
    if (!artefact) {
      ADD_FAILURE() << fault.name << " was not planted: " << error;
      continue;
    }
    std::string why = verdict(std::move(artefact));
    EXPECT_NE(why, "") << fault.name << " went unseen";
    std::cout << fault.name << ": " << (why.empty() ? "UNSEEN" : why) << "\n";
    caught += !why.empty();
  }
  EXPECT_GE(list.size(), 10u);
  EXPECT_EQ(caught, static_cast<int>(list.size()));
}

/// Gives two kernels each other's code: nothing that the IR, the plan or their verifiers show.
class WrongCode : public cpu::CpuTarget {
public:
  WrongCode() : CpuTarget({}, 1) {}
  runtime::Expected<std::vector<std::string>> emit(ArrayRef<KernelSource> kernels) const override {
    std::vector<KernelSource> exchanged(kernels.begin(), kernels.end());
    if (exchanged.size() == 2)
      std::swap(std::get<FormKernel>(exchanged[0]).symbol, std::get<FormKernel>(exchanged[1]).symbol);
    return CpuTarget::emit(exchanged);
  }
};

TEST(VerifyArtefact, CatchesWrongCode) {
  auto context = makeContext();
  std::string messages;
  OwningOpRef<ModuleOp> module = parseText(*context, R"(func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %e = tcc.tanh %x : tensor<8x8xf32>
  %p = tcc.matmul %e, %e : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %n = tcc.neg %p : tensor<8x8xf32>
  return %n : tensor<8x8xf32>
})",
                                           messages);
  ASSERT_TRUE(module) << messages;
  const WrongCode target;
  for (bool wrong : {false, true}) {
    CompileOptions options;
    options.threads = 1;
    options.pipeline.verifyEach = true;
    if (wrong)
      options.target = &target;
    const auto artefact = compileArtefact(module->clone(), options);
    const std::string error = artefact.error().message();
    EXPECT_EQ(bool(artefact), !wrong) << error;
    EXPECT_EQ(StringRef(error).starts_with("the artefact computes something else than the graph on random inputs: "),
              wrong)
        << error;
  }
}

TEST(VerifyArtefact, TakesSmallerSizesAndSaysSo) {
  for (bool fixed : {false, true}) {
    auto context = makeContext();
    std::string messages, text = R"(func.func @main(%x: tensor<SIZEx64xf32> {tcc.name = "x"}) -> tensor<SIZEx64xf32> {
  %e = tcc.tanh %x : tensor<SIZEx64xf32>
  return %e : tensor<SIZEx64xf32>
})";
    for (size_t at = text.find("SIZE"); at != std::string::npos; at = text.find("SIZE"))
      text.replace(at, 4, fixed ? "512" : "?");
    OwningOpRef<ModuleOp> module = parseText(*context, text, messages);
    ASSERT_TRUE(module) << messages;
    Messages said(context.get());
    CompileOptions options;
    options.threads = 1;
    if (!fixed)
      options.pipeline.shapes["x"] = {512, 64};
    const auto artefact = compileArtefact(module->clone(), options);
    ASSERT_TRUE(artefact) << artefact.error().message() << said.text;
    EXPECT_EQ(verifyArtefact(*module, *artefact, options, 1e-3).message(), "");
    EXPECT_EQ(said.text, fixed ? "-fverify-each: the artefact is not run; interpreting the graph would take about 1 "
                                 "minutes, and its sizes are fixed\n"
                               : "-fverify-each: the artefact is compiled and run with x:64x64; with the sizes given "
                                 "the interpreter would take about 1 minutes\n");
  }
}

} // namespace
} // namespace tcc::test
