// Does what --run, --bench, --input and --output ask for.
#include "frontend/driver/execution.h"
#include "codegen/targets.h"
#include "frontend/capture.h"
#include "frontend/diagnostics.h"
#include "frontend/driver/bench.h"
#include "frontend/driver/driver.h"
#include "frontend/driver/stage.h"
#include "frontend/npy.h"
#include "ir/reference/interpreter.h"
#include "passes/memory_places.h"
#include "runtime/executable_limits.h"
#include "runtime/memory_parts.h"
#include "runtime/printed.h"
#include "runtime/profile_report.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include <algorithm>

using namespace mlir;

namespace tcc::driver {
namespace {

/// A result shadows a state of its name, since results stand first.
void writeOutputs(const Options &options, const std::vector<NamedArray> &results) {
  for (const auto &[name, path] : options.outputFiles) {
    const auto found = llvm::find_if(results, [&](const NamedArray &result) { return result.name == name; });
    if (found == results.end())
      throw Error("--output " + name + ": the graph has no such result or state");
    writeNpy(path, found->array);
  }
}

/// A tensor of the interpreter as the array that a compiled run would give.
Array arrayOf(const std::string &name, const RefTensor &tensor) {
  const ValueType type = valueType(tensor.type);
  Array array = Array(type.shape, type.dtype);
  for (int64_t i = 0; i < tensor.size(); ++i)
    if (double value = tensor.data[static_cast<size_t>(i)]; !array.setItem(i, value))
      throw Error("element " + std::to_string(i) + " of " + name + " is " + std::to_string(value) + ", which is no " +
                  std::string(runtime::name(type.dtype)));
  return array;
}

std::string sizesText(ArrayRef<int64_t> sizes) {
  return llvm::join(
      llvm::map_range(
          sizes, [](int64_t size) { return ShapedType::isDynamic(size) ? std::string("?") : std::to_string(size); }),
      "x");
}

/// Reads `path` for `argument`; `shape` is what --shape says of it, or null.
Array readInput(const runtime::TensorSpec &argument, const std::string &path, const std::vector<int64_t> *shape) {
  Array array = readNpy(path, argument.dtype);
  const ArrayRef<int64_t> sizes = shape ? *shape : argument.shape;
  bool fits = array.shape().rank() == static_cast<int64_t>(sizes.size());
  for (size_t i = 0; fits && i < sizes.size(); ++i)
    fits = ShapedType::isDynamic(sizes[i]) || sizes[i] == array.shape()[i];
  if (!fits)
    throw Error(path + " has shape " + array.shape().text() + "; '" + argument.name + "' is " +
                (sizes.empty() ? std::string("a scalar") : sizesText(sizes)) + (shape ? " by --shape" : ""));
  return array;
}

} // namespace

std::shared_ptr<runtime::Device> deviceFor(StringRef target, const std::string &tuning) {
  const TargetKind *kind = targetKindOf(target);
  return kind ? orThrow(kind->openDevice({.tuningFile = tuning})) : nullptr;
}

Array RunValues::of(const runtime::TensorSpec &spec, uint64_t seed, int64_t run) const {
  if (auto found = given.find(spec.name); found != given.end()) {
    // A copy, since a run updates states in place.
    Array array = Array::uninitialized(found->second.shape(), found->second.dtype());
    std::memcpy(array.raw(), found->second.rawForReading(), static_cast<size_t>(array.bytes()));
    return array;
  }
  auto hint = hints.find(spec.name);
  return randomArray(spec, hint == hints.end() ? ValueHint() : hint->second, seed, run);
}

std::vector<runtime::TensorSpec> argumentsOf(func::FuncOp function) {
  std::vector<runtime::TensorSpec> list;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    const RankedTensorType type = tensorType(function.getArgument(i));
    list.push_back({argumentName(function, i), valueType(type).dtype, type.getShape().vec()});
  }
  return list;
}

std::vector<runtime::TensorSpec> argumentsOf(const runtime::Plan &plan) {
  std::vector<runtime::TensorSpec> list = plan.inputs;
  list.insert(list.end(), plan.states.begin(), plan.states.end());
  return list;
}

std::vector<std::string> writableNames(const runtime::Plan &plan) {
  std::vector<std::string> names;
  for (const auto *list : {&plan.outputs, &plan.states})
    for (const runtime::TensorSpec &spec : *list)
      names.push_back(spec.name);
  return names;
}

void checkName(StringRef option, const std::string &given, const std::vector<std::string> &names, StringRef kind) {
  if (llvm::is_contained(names, given))
    return;
  const std::string candidate = nearest(given, names);
  throw Error(option.str() + given + ": there is no such " + kind.str() +
              (candidate.empty() ? "; there is " + llvm::join(names, ", ") : "; did you mean '" + candidate + "'?"));
}

std::map<std::string, Array> readInputs(const Options &options, const std::vector<runtime::TensorSpec> &arguments,
                                        std::map<std::string, std::vector<int64_t>> &shapes) {
  std::vector<std::string> names;
  for (const runtime::TensorSpec &argument : arguments)
    names.push_back(argument.name);
  for (const auto &[given, sizes] : shapes)
    checkName("--shape=", given, names, "argument");
  std::map<std::string, Array> values;
  for (const auto &[given, file] : options.inputFiles) {
    checkName("--input ", given, names, "argument");
    const runtime::TensorSpec &argument = arguments[static_cast<size_t>(llvm::find(names, given) - names.begin())];
    const auto shape = shapes.find(given);
    Array array = readInput(argument, file, shape == shapes.end() ? nullptr : &shape->second);
    if (llvm::any_of(argument.shape, ShapedType::isDynamic))
      shapes.try_emplace(given, array.shape().begin(), array.shape().end());
    values.emplace(given, std::move(array));
  }
  return values;
}

void execute(runtime::Executable &executable, const Options &options, const RunValues &values,
             runtime::Profiler &profiler, runtime::Trace *timeLine) {
  Stage stage(executable, values, options.seed, nullptr, timeLine);
  const bool isAsked = !options.profile.empty() || !options.flags.reportFolder.empty() || options.benchRuns;
  if (!options.profile.empty())
    profiler.memory = runtime::arenaInUse(executable.plan());
  runtime::Profiler *recorder = isAsked ? &profiler : nullptr;
  if (options.runs) {
    for (int64_t i = 0; i < *options.runs; ++i) {
      stage.step(options.benchRuns ? nullptr : recorder); // only warm runs are timed
      if (*options.runs > 1)
        stage.printScalars();
    }
    for (const NamedArray &result : stage.results())
      llvm::outs() << describe(result.name, result.array) << '\n';
  }
  if (options.benchRuns)
    bench(stage, executable, options, values, profiler);
  writeOutputs(options, stage.results());
  if (timeLine) {
    timeLine->add(profiler, timeLine->rowOf(*executable.device()));
    if (!options.benchRuns)
      llvm::errs() << runtime::profileReport(profiler, runtime::limitsOf(executable), profileRows);
  }
}

double millisecondsOf(runtime::Executable &executable, const RunValues &values, uint64_t seed, int runs) {
  Stage stage(executable, values, seed);
  stage.warmUp();
  const std::vector<double> times = stage.times(runs, nullptr);
  return *std::ranges::min_element(times);
}

void interpretOnce(func::FuncOp function, const Options &options, const RunValues &values) {
  // 1. Arguments.
  std::vector<RefTensor> arguments;
  for (const auto &[i, spec] : llvm::enumerate(argumentsOf(function))) {
    const Array array = values.of(spec, options.seed, 1);
    RefTensor tensor = splatTensor(tensorType(function.getArgument(static_cast<unsigned>(i))), 0);
    for (int64_t j = 0; j < tensor.size(); ++j)
      tensor.data[static_cast<size_t>(j)] = array.item(j);
    arguments.push_back(std::move(tensor));
  }
  const auto results = interpret(function, arguments, RefMode::rounding);
  if (!results)
    throw Error(results.error().message());

  // 2. Results, then states.
  const SignaturePlaces signature(function);
  std::vector<NamedArray> list;
  size_t number = 0;
  const std::vector<std::string> names = resultNames(function);
  for (auto [i, tensor] : llvm::enumerate(*results)) {
    if (function.getResultAttr(i, updatesAttr))
      continue;
    runtime::TensorSpec spec{names[number++], {}, {}};
    Array value = arrayOf(spec.name, tensor);
    if (const auto printed = runtime::printedAs(spec))
      llvm::outs() << runtime::printedLine(*printed, value.dtype(), std::span<const int64_t>(value.shape()),
                                           value.rawForReading())
                   << '\n';
    else
      list.push_back({spec.name, std::move(value)});
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    if (!function.getArgAttr(i, stateAttr))
      continue;
    const std::string state = argumentName(function, i);
    const RefTensor *value = &arguments[i];
    for (auto [j, tensor] : llvm::enumerate(*results))
      if (signature.updated(j) == function.getArgument(i))
        value = &tensor;
    list.push_back({state, arrayOf(state, *value)});
  }
  for (const NamedArray &result : list)
    llvm::outs() << describe(result.name, result.array) << '\n';
  writeOutputs(options, list);
}

std::string bytesText(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (bytes < 10000)
    stream << bytes << " B";
  else if (bytes < 10000000)
    stream << llvm::format("%.1f kB", static_cast<double>(bytes) / 1e3);
  else
    stream << llvm::format("%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

} // namespace tcc::driver
