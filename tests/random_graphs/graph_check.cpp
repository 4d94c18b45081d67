// Compile, run in checked mode, compare.
#include "tests/random_graphs/graph_check.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/IRMapping.h"
#include "runtime/dtype.h"
#include "llvm/Support/FormatVariadic.h"
#include <cstring>

using namespace mlir;

namespace tcc::test {
namespace {

//===- tensors as bytes ----------------------------------------------------------------------------------------===//

int64_t elementBytes(Type element) {
  return std::max(1u, element.getIntOrFloatBitWidth() / 8);
}

uint64_t bitsOf(double value, Type element) {
  if (auto type = dyn_cast<FloatType>(element)) {
    llvm::APFloat number(value);
    bool lossy;
    number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return number.bitcastToAPInt().getZExtValue();
  }
  return element.isInteger(1) ? value != 0 : static_cast<uint64_t>(static_cast<int64_t>(value));
}

double valueOf(uint64_t bits, Type element) {
  if (auto type = dyn_cast<FloatType>(element)) {
    llvm::APFloat number(type.getFloatSemantics(), llvm::APInt(type.getWidth(), bits));
    bool lossy;
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return number.convertToDouble();
  }
  return element.isInteger(32) ? static_cast<double>(static_cast<int32_t>(bits))
                               : static_cast<double>(static_cast<int64_t>(bits));
}

void write(const RefTensor &tensor, void *memory) {
  int64_t width = elementBytes(tensor.element());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = bitsOf(tensor.data[i], tensor.element());
    std::memcpy(static_cast<char *>(memory) + i * width, &bits, width);
  }
}

RefTensor read(RankedTensorType type, const void *memory) {
  RefTensor tensor{type, std::vector<double>(type.getNumElements())};
  int64_t width = elementBytes(type.getElementType());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char *>(memory) + i * width, width);
    tensor.data[i] = valueOf(bits, type.getElementType());
  }
  return tensor;
}

std::optional<runtime::TensorStorage> allocate(RankedTensorType type, std::string &error) {
  auto storage = runtime::TensorStorage::allocate(type.getNumElements() * elementBytes(type.getElementType()));
  if (!storage) {
    error = storage.error().message();
    return std::nullopt;
  }
  if (storage->bytes() > 0)
    std::memset(storage->data(), 0xff, storage->bytes());
  return std::move(*storage);
}

/// Each float of a tensor moved up or down by up to two ulps, at random.
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

/// Collects the diagnostics of a context while it lives.
struct Messages {
  std::string text;
  ScopedDiagnosticHandler handler;
  explicit Messages(MLIRContext *context)
      : handler(context, [this](Diagnostic &diagnostic) {
          text += diagnostic.str() + "\n";
          return success();
        }) {}
};

} // namespace

func::FuncOp onlyFunction(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  for (Operation &op : module.getBody()->getOperations())
    op.print(stream, OpPrintingFlags().enableDebugInfo(false));
  return text + "\n";
}

OwningOpRef<ModuleOp> joinModules(ArrayRef<ModuleOp> modules) {
  MLIRContext *context = ModuleOp(modules.front()).getContext();
  OpBuilder builder(context);
  Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> joined(ModuleOp::create(loc));
  SmallVector<Type> argumentTypes, resultTypes;
  for (ModuleOp module : modules) {
    llvm::append_range(argumentTypes, onlyFunction(module).getArgumentTypes());
    llvm::append_range(resultTypes, onlyFunction(module).getResultTypes());
  }
  builder.setInsertionPointToEnd(joined->getBody());
  auto function = func::FuncOp::create(builder, loc, "main", builder.getFunctionType(argumentTypes, resultTypes));
  Block *block = function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  SmallVector<Value> results;
  unsigned next = 0;
  for (ModuleOp module : modules) {
    IRMapping map;
    Block &body = onlyFunction(module).getBody().front();
    for (BlockArgument argument : body.getArguments())
      map.map(argument, block->getArgument(next++));
    for (Operation &op : body.without_terminator())
      builder.clone(op, map);
    for (Value value : body.getTerminator()->getOperands())
      results.push_back(map.lookupOrDefault(value));
  }
  func::ReturnOp::create(builder, loc, results);
  return joined;
}

//===- compiling -----------------------------------------------------------------------------------------------===//

std::optional<runtime::Artefact> compileGraph(ModuleOp module, const CheckOptions &options, std::string &error) {
  Messages messages(module.getContext());
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  CompileOptions compile;
  compile.pipeline.level = options.level;
  compile.pipeline.verifyEach = options.verifyEach;
  compile.cpu.target = options.target;
  compile.threads = options.threads;
  CompileReport report;
  std::string reason;
  std::optional<runtime::Artefact> artefact = compileModule(*copy, compile, report, reason);
  if (!artefact)
    error = "-O" + std::to_string(options.level) + " does not compile: " + messages.text + reason;
  return artefact;
}

std::unique_ptr<CompiledGraph> CompiledGraph::load(runtime::Artefact artefact, func::FuncOp function,
                                                   const CheckOptions &options, std::string &error) {
  auto executable = runtime::Executable::load(
      std::move(artefact), {.threads = options.threads, .checked = options.checked, .separate = options.separate});
  if (!executable) {
    error = "does not load: " + executable.error().message();
    return nullptr;
  }
  auto graph = std::make_unique<CompiledGraph>();
  graph->function = function;
  graph->executable = std::move(*executable);
  return graph;
}

std::unique_ptr<CompiledGraph> CompiledGraph::compile(ModuleOp module, const CheckOptions &options,
                                                      std::string &error) {
  std::optional<runtime::Artefact> artefact = compileGraph(module, options, error);
  return artefact ? load(std::move(*artefact), onlyFunction(module), options, error) : nullptr;
}

std::optional<std::vector<RefTensor>> CompiledGraph::run(ArrayRef<RefTensor> arguments, std::string &error) {
  std::vector<runtime::TensorStorage> storage; // of arguments, then of outputs
  std::vector<runtime::ConstTensorRef> inputs;
  std::vector<runtime::TensorRef> states, outputs;
  llvm::StringMap<unsigned> stateArgument;
  storage.reserve(arguments.size() + function.getNumResults());
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    std::optional<runtime::TensorStorage> memory = allocate(argument.type, error);
    if (!memory)
      return std::nullopt;
    write(argument, memory->data());
    storage.push_back(std::move(*memory));
    if (function.getArgAttr(i, stateAttr)) {
      states.push_back(storage.back().ref());
      stateArgument[function.getArgAttrOfType<StringAttr>(i, nameAttr)] = i;
    } else {
      inputs.push_back(storage.back().ref());
    }
  }
  std::vector<const void *> whereResultIs;
  llvm::DenseSet<unsigned> updated;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes())) {
    if (auto name = function.getResultAttrOfType<StringAttr>(i, updatesAttr)) {
      updated.insert(stateArgument.lookup(name));
      whereResultIs.push_back(storage[stateArgument.lookup(name)].data());
      continue;
    }
    std::optional<runtime::TensorStorage> memory = allocate(cast<RankedTensorType>(type), error);
    if (!memory)
      return std::nullopt;
    storage.push_back(std::move(*memory));
    outputs.push_back(storage.back().ref());
    whereResultIs.push_back(storage.back().data());
  }
  if (runtime::Error failed = executable->run(inputs, outputs, states)) {
    error = "does not run: " + failed.message();
    return std::nullopt;
  }
  for (auto [i, argument] : llvm::enumerate(arguments))
    if (!updated.contains(i) && !sameBits(argument, read(argument.type, storage[i].data()))) {
      error = "argument " + std::to_string(i) + " was written, and no result updates it";
      return std::nullopt;
    }
  std::vector<RefTensor> results;
  for (auto [type, memory] : llvm::zip_equal(function.getResultTypes(), whereResultIs))
    results.push_back(read(cast<RankedTensorType>(type), memory));
  return results;
}

//===- the reference -------------------------------------------------------------------------------------------===//

std::unique_ptr<Reference> Reference::make(ModuleOp module, std::vector<RefTensor> arguments, std::string &error) {
  auto reference = std::make_unique<Reference>();
  reference->captured = cast<ModuleOp>(module->clone());
  reference->joint = cast<ModuleOp>(module->clone());
  reference->inputs = std::move(arguments);
  Messages messages(module.getContext());
  PipelineOptions pipeline;
  pipeline.level = 0;
  pipeline.stopAfter = Phase::joint;
  PipelineReport report;
  if (failed(runPipeline(*reference->joint, pipeline, report))) {
    error = "does not reach phase joint: " + messages.text;
    return nullptr;
  }
  reference->hasGradient = !onlyFunction(module).getOps<GradientOp>().empty();
  func::FuncOp joint = onlyFunction(*reference->joint);
  func::FuncOp meaning = reference->hasGradient ? joint : onlyFunction(*reference->captured);
  auto exact = interpret(meaning, reference->inputs, RefMode::exact, error);
  auto rounded = interpret(joint, reference->inputs, RefMode::rounding, error);
  if (failed(exact) || failed(rounded))
    return nullptr;
  reference->exactResults = std::move(*exact);
  reference->roundedResults = std::move(*rounded);
  return reference;
}

void Reference::findJumpsOnce() {
  if (!jumps.empty())
    return;
  std::string error;
  func::FuncOp meaning = onlyFunction(hasGradient ? *joint : *captured);
  if (auto found = findJumps(meaning, inputs, exactResults, error); succeeded(found))
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
  std::string error;
  func::FuncOp function = onlyFunction(*joint);
  for (uint64_t neighbour = 1; neighbour <= 4; ++neighbour) {
    std::vector<RefTensor> moved;
    for (auto [i, input] : llvm::enumerate(inputs))
      moved.push_back(nudged(input, neighbour * 1000 + i));
    auto exact = interpret(function, moved, RefMode::exact, error);
    auto rounded = interpret(function, moved, RefMode::rounding, error);
    if (succeeded(exact) && succeeded(rounded))
      take(*rounded, *exact);
  }
  OwningOpRef<ModuleOp> noisy(cast<ModuleOp>((*joint)->clone()));
  addNoise(onlyFunction(*noisy));
  for (uint64_t run = 1; run <= 8; ++run) {
    std::vector<RefTensor> arguments = inputs;
    llvm::append_range(arguments, noiseArguments(onlyFunction(*noisy), inputs.size(), run));
    if (auto results = interpret(onlyFunction(*noisy), arguments, RefMode::exact, error); succeeded(results))
      take(*results, exactResults);
  }
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
  auto f32 = Float32Type::get(onlyFunction(*joint).getContext());
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
    // Where a rounding that went the other way early on moved the unfused run as far, distance proves nothing.
    double expected = median(ofRounding), seen = median(ofActual);
    if (seen > expected / 2 && seen > 2 * median(ofUnfused))
      return llvm::formatv("result {0} ({1}): rounding to 16 bits is missing: its median error is {2:e2}, and the "
                           "median distance from the rounded run {3:e2}",
                           i, typeText(result.type), expected, seen)
          .str();
  }
  return {};
}

} // namespace tcc::test
