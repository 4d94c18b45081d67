// Runs the interpreter, exactly and with rounding, and applies the tolerance rule to what the two runs give.
#include "codegen/graph_reference.h"
#include "codegen/messages.h"
#include "passes/bodies.h"
#include "passes/passes.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

/// Multiplies each computed float of a joint function by a new argument 1 + u·ulp, and adds to each sum and product a
/// new argument u·ulp/2 times the sum of its terms' magnitudes, which is what the order of adding may change.
void addNoise(func::FuncOp function) {
  Block &block = function.getBody().front();
  auto newArgument = [&](Value like, StringRef name) {
    Builder builder(function.getContext());
    NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr(name));
    (void)function.insertArgument(function.getNumArguments(), like.getType(),
                                  attributes.getDictionary(function.getContext()), like.getLoc());
    return block.getArguments().back();
  };
  auto operations = llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
  for (Operation *op : operations) {
    if (op->hasTrait<ViewOp>() || isa<ConstantOp, IotaOp>(op))
      continue;
    for (Value result : op->getResults()) {
      if (!isa<FloatType>(tensorType(result).getElementType()))
        continue;
      OpBuilder builder(op->getContext());
      builder.setInsertionPointAfter(op);
      Operation *first = MulOp::create(builder, op->getLoc(), result, newArgument(result, "factor"));
      Value noisy = first->getResult(0);
      if (isa<ReduceSumOp, MatmulOp>(op)) {
        Operation *magnitudes = builder.clone(*op);
        for (OpOperand &operand : magnitudes->getOpOperands()) {
          OpBuilder before(magnitudes);
          operand.set(AbsOp::create(before, op->getLoc(), operand.get()));
        }
        Value share = MulOp::create(builder, op->getLoc(), magnitudes->getResult(0), newArgument(result, "share"));
        noisy = AddOp::create(builder, op->getLoc(), noisy, share);
      }
      result.replaceAllUsesExcept(noisy, first);
    }
  }
}

/// Values for addNoise's arguments from number `first` on.
std::vector<RefTensor> noiseArguments(func::FuncOp function, unsigned first, uint64_t seed) {
  std::vector<RefTensor> values;
  for (unsigned i = first; i < function.getNumArguments(); ++i) {
    RankedTensorType type = tensorType(function.getArgument(i));
    auto wide = RankedTensorType::get(type.getShape(), Float32Type::get(type.getContext()));
    RefTensor noise{type, randomTensor(wide, seed * 100000 + i).data};
    bool isFactor = function.getArgAttrOfType<StringAttr>(i, nameAttr).getValue() == "factor";
    for (double &value : noise.data)
      value = isFactor ? 1 + value * ulpAt(1, type.getElementType()) : value * ulpAt(0.5, wide.getElementType());
    values.push_back(std::move(noise));
  }
  return values;
}

/// fp64 runs of the joint step in which each op is off by what it may be. Attention is written out for them, since what
/// cancels in it is off by its terms' roundings.
std::vector<std::vector<RefTensor>> noisyRuns(ModuleOp joint, ArrayRef<RefTensor> inputs) {
  OwningOpRef<ModuleOp> noisy(cast<ModuleOp>(joint->clone()));
  std::vector<std::vector<RefTensor>> runs;
  inlineBodies(functionOf(*noisy));
  if (failed(expandUnsupported(functionOf(*noisy), {})))
    return runs;
  addNoise(functionOf(*noisy));
  for (uint64_t run = 1; run <= 8; ++run) {
    std::vector<RefTensor> arguments(inputs);
    llvm::append_range(arguments, noiseArguments(functionOf(*noisy), inputs.size(), run));
    if (auto results = interpret(functionOf(*noisy), arguments, RefMode::exact))
      runs.push_back(std::move(*results));
  }
  return runs;
}

/// The joint step with its attention matched; null where there is none to match.
OwningOpRef<ModuleOp> matchedJoint(ModuleOp module, PipelineOptions pipeline) {
  OwningOpRef<ModuleOp> matched(cast<ModuleOp>(module->clone()));
  pipeline.passes["match-attention"] = true;
  PipelineReport report;
  bool any =
      succeeded(runPipeline(*matched, pipeline, report)) && !functionOf(*matched).getOps<FlashAttentionOp>().empty();
  return any ? std::move(matched) : nullptr;
}

} // namespace

RefTensor nudged(const RefTensor &tensor, uint64_t seed) {
  RefTensor moved = tensor;
  if (isa<FloatType>(tensor.element())) {
    auto wide = RankedTensorType::get(tensor.shape(), Float32Type::get(tensor.type.getContext()));
    for (auto [value, way] : llvm::zip_equal(moved.data, randomTensor(wide, seed, -2, 2).data))
      if (std::isfinite(value))
        value = roundToElement(value + way * ulpAt(std::fabs(value), tensor.element()), tensor.element());
  }
  return moved;
}

runtime::Expected<Reference> Reference::make(ModuleOp module, std::vector<RefTensor> arguments,
                                             const PipelineOptions &options) {
  Reference reference;
  reference.captured = cast<ModuleOp>(module->clone());
  reference.joint = cast<ModuleOp>(module->clone());
  reference.inputs = std::move(arguments);
  Messages messages(module.getContext());
  PipelineOptions pipeline;
  pipeline.level = 0;
  pipeline.shapes = options.shapes;
  pipeline.stopAfter = Phase::joint;
  PipelineReport report;
  if (failed(runPipeline(*reference.joint, pipeline, report)))
    return runtime::Error("does not reach phase joint: " + messages.text);
  if (auto matching = options.passes.find("match-attention"); matching != options.passes.end() && matching->second)
    reference.matched = matchedJoint(module, pipeline);
  reference.rounding = cast<ModuleOp>((reference.matched ? reference.matched : reference.joint)->clone());
  pipeline.shapes.clear();
  pipeline.products = options.products;
  pipeline.target = options.target; // says with `passes` what is stored in 16 bits
  if (auto narrow = options.passes.find("narrow-activations"); narrow != options.passes.end())
    pipeline.passes.insert(*narrow);
  pipeline.stopAfter = Phase::shaped;
  if (options.products != ProductType::asWritten && failed(runPipeline(*reference.rounding, pipeline, report)))
    return runtime::Error("does not reach phase shaped: " + messages.text);
  const bool hasGradient = // in a body, too
      functionOf(module).walk([](GradientOp) { return WalkResult::interrupt(); }).wasInterrupted();
  reference.meansJoint = !options.shapes.empty() || hasGradient;
  func::FuncOp meaning = functionOf(reference.meansJoint ? *reference.joint : *reference.captured);
  auto exact = interpret(meaning, reference.inputs, RefMode::exact);
  if (!exact)
    return exact.error();
  auto rounded = interpret(functionOf(*reference.rounding), reference.inputs, RefMode::rounding);
  if (!rounded)
    return rounded.error();
  reference.exactResults = std::move(*exact);
  reference.roundedResults = std::move(*rounded);
  return reference;
}

void Reference::findJumpsOnce() {
  if (!jumps.empty())
    return;
  OwningOpRef<ModuleOp> meaning(cast<ModuleOp>((meansJoint ? *joint : *captured)->clone()));
  inlineBodies(functionOf(*meaning));
  if (auto found = findJumps(functionOf(*meaning), inputs, exactResults))
    jumps = std::move(*found);
}

void Reference::widenOnce() {
  if (!widened.empty())
    return;
  widened = roundedResults;
  auto take = [&](ArrayRef<RefTensor> run, ArrayRef<RefTensor> truth) {
    for (auto [i, wide] : llvm::enumerate(widened))
      for (auto [k, value] : llvm::enumerate(wide.data)) {
        double error = std::fabs(run[i].data[k] - truth[i].data[k]);
        if (isa<FloatType>(wide.element()) && error > std::fabs(value - exactResults[i].data[k]))
          value = exactResults[i].data[k] + error;
      }
  };
  func::FuncOp function = functionOf(*joint);
  for (uint64_t neighbour = 1; neighbour <= 4; ++neighbour) {
    std::vector<RefTensor> moved;
    for (auto [i, input] : llvm::enumerate(inputs))
      moved.push_back(nudged(input, neighbour * 1000 + i));
    auto exact = interpret(function, moved, RefMode::exact);
    for (ModuleOp rounds : {*rounding, *joint}) { // as it is written, attention may round more
      auto rounded = interpret(functionOf(rounds), moved, RefMode::rounding);
      if (exact && rounded)
        take(*rounded, *exact);
      if (!matched)
        break;
    }
  }
  for (ModuleOp noisy : {*joint, matched ? *matched : ModuleOp()})
    for (const std::vector<RefTensor> &results :
         noisy ? noisyRuns(noisy, inputs) : std::vector<std::vector<RefTensor>>())
      take(results, exactResults);
}

std::string Reference::checkAgainst(ArrayRef<RefTensor> actual, ArrayRef<RefTensor> unfused, Tolerance tolerance) {
  if (actual.size() != exactResults.size())
    return "there are " + std::to_string(actual.size()) + " results instead of " + std::to_string(exactResults.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    Comparison first = compare(actual[i], exactResults[i], unfused[i], {}, tolerance);
    if (first.ok)
      continue;
    findJumpsOnce();
    Comparison second = jumps.empty() ? first : compare(actual[i], exactResults[i], unfused[i], jumps[i], tolerance);
    excludedElements += second.excluded;
    if (!second.ok)
      return "result " + std::to_string(i) + " (" + typeText(actual[i].type) + "): " + second.message;
  }
  return {};
}

std::string Reference::check(ArrayRef<RefTensor> actual, Tolerance tolerance) {
  return checkAgainst(actual, roundedResults, tolerance);
}

std::string Reference::checkChain(ArrayRef<RefTensor> actual, Tolerance tolerance) {
  if (checkAgainst(actual, roundedResults, tolerance).empty())
    return {};
  widenOnce();
  return checkAgainst(actual, widened, tolerance);
}

std::string Reference::checkRounding(ArrayRef<RefTensor> actual, ArrayRef<RefTensor> unfusedRun) {
  constexpr double farAbove = 256; // ulps of f32 at the tensor's scale
  auto median = [](std::vector<double> values) {
    auto middle = values.begin() + values.size() / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  auto f32 = Float32Type::get(functionOf(*joint).getContext());
  bool hasNarrow = false;
  joint->walk([&](CastOp op) {
    Type element = tensorType(op.getResult()).getElementType();
    hasNarrow |= isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  });
  if (!hasNarrow)
    return {};
  for (auto [i, result] : llvm::enumerate(actual)) {
    if (!isa<FloatType>(result.element()))
      continue;
    std::vector<double> ofRounding, ofActual, ofUnfused;
    double scale = 0;
    ArrayRef<double> other = unfusedRun.empty() ? ArrayRef(roundedResults[i].data) : ArrayRef(unfusedRun[i].data);
    for (auto [value, exact, rounded, unfused] :
         llvm::zip_equal(result.data, exactResults[i].data, roundedResults[i].data, other)) {
      if (!std::isfinite(value) || !std::isfinite(exact) || !std::isfinite(rounded) || !std::isfinite(unfused))
        continue;
      ofUnfused.push_back(std::fabs(unfused - rounded));
      scale = std::max(scale, std::fabs(exact));
      ofRounding.push_back(std::fabs(rounded - exact));
      ofActual.push_back(std::fabs(value - rounded));
    }
    if (ofRounding.size() < 8 || median(ofRounding) < farAbove * ulpAt(scale, f32))
      continue;
    // A rounding is missing if the result's distance from the rounded run is more than half of the distance by which
    // rounding moves the exact result. But a single early value that rounds the other way can move everything after it
    // just as far. In that case the unfused run is as far from the rounded run too, and the distance proves nothing.
    double expected = median(ofRounding), seen = median(ofActual);
    if (seen > expected / 2 && seen > 2 * median(ofUnfused))
      return llvm::formatv("result {0} ({1}): rounding to 16 bits is missing: its median error is {2:e2}, and the "
                           "median distance from the rounded run {3:e2}",
                           i, typeText(result.type), expected, seen)
          .str();
  }
  return {};
}

} // namespace tcc
