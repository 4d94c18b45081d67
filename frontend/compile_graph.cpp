#include "frontend/compile_graph.h"
#include "codegen/dtypes.h"
#include "codegen/stopwatch.h"
#include "codegen/targets.h"
#include "frontend/capture.h"
#include "frontend/compile_options.h"
#include "frontend/compile_summary.h"
#include "frontend/diagnostics.h"
#include "frontend/graph_file.h"
#include "frontend/remarks.h"
#include "ir/reference/bytes.h"
#include "ir/reference/host_reference.h"
#include "ir/scalar_form.h"
#include "runtime/memory_report.h"

namespace tcc {
namespace {

/// The function over the interpreter's tensors.
std::string interpret(const runtime::HostFunction &function, llvm::ArrayRef<const RefTensor *> operands,
                      std::vector<RefTensor> &results) {
  std::vector<Array> memory;
  std::vector<Shape> shapes;
  const auto add = [&](const RefTensor &tensor) {
    const llvm::ArrayRef<int64_t> sizes = tensor.shape();
    shapes.emplace_back(std::span<const int64_t>(sizes.data(), sizes.size()));
    memory.push_back(Array::uninitialized(shapes.back(), dtypeOf(*elementTypeOf(tensor.element()))));
  };
  for (const RefTensor *operand : operands) {
    add(*operand);
    writeBytes(*operand, memory.back().raw());
  }
  for (const RefTensor &result : results)
    add(result);
  std::vector<tcc_tensor> tensors;
  for (size_t i = 0; i < memory.size(); ++i)
    tensors.push_back({memory[i].raw(), shapes[i].begin(), static_cast<int32_t>(shapes[i].rank()),
                       static_cast<int32_t>(memory[i].dtype())});
  const tcc_custom_call call{static_cast<int32_t>(operands.size()),
                             static_cast<int32_t>(results.size()),
                             tensors.data(),
                             tensors.data() + operands.size(),
                             nullptr,
                             0};
  try {
    function(runtime::CustomArguments(call));
  } catch (const std::exception &problem) {
    return "threw: " + std::string(problem.what());
  }
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = readBytes(results[i].type, memory[operands.size() + i].rawForReading());
  return {};
}

} // namespace

static HostReference referenceOf(const runtime::HostFunction &function) {
  return [function](llvm::ArrayRef<const RefTensor *> operands, std::vector<RefTensor> &results) {
    return interpret(function, operands, results);
  };
}

HostOp addHostOp(const runtime::HostFunction &function) {
  return {runtime::addHostFunction(function), addHostReference(referenceOf(function))};
}

void addHostProvider(const std::string &name, const runtime::FunctionProvider &provider) {
  addReferenceProvider(name, [find = provider.find](const std::string &symbol) {
    const auto function = find(symbol);
    return function ? referenceOf(*function) : HostReference();
  });
  runtime::addFunctionProvider(name, provider);
}

std::shared_ptr<runtime::Device> openGraphDevice(std::string_view kind, int ordinal) {
  const TargetKind *known = targetKindOf({kind.data(), kind.size()});
  if (!known || !known->hasDevices())
    throw Error("tcc compiles for no device of kind '" + std::string(kind) + "'");
  auto device = known->openDevice({.ordinal = ordinal});
  if (!device)
    throw Error(device.error().message());
  return std::move(*device);
}

CompiledGraph compileGraph(std::string_view text, const std::string &name, const GraphOptions &options) {
  const auto start = std::chrono::steady_clock::now();
  std::string said;
  llvm::raw_string_ostream stream(said);
  DiagnosticPrinter printer(stream);
  mlir::MLIRContext &context = threadContext();
  GraphLimits limits;
  limits.hostCode = options.hostCode;
  mlir::OwningOpRef<mlir::ModuleOp> module = parseGraph({text.data(), text.size()}, name, context, printer, limits);
  if (!module)
    throw Error(said);
  const ScopedDiagnostics diagnostics(&context, printer);
  const auto orThrow = [&](auto made) {
    if (!made)
      throw Error("'" + name + "' cannot be compiled: " + said + made.error().message());
    return std::move(*made);
  };

  CompileOptions compileOptions;
  applyFlags(options, compileOptions);
  compileOptions.allowCustomCode = options.allowCustomCode || options.hostCode;
  if (options.device)
    compileOptions.targetName = withArchitecture(options.device->codeTarget(), options.march);
  else
    compileOptions.targetName = withArchitecture(compileOptions.targetName, options.march);
  compileOptions.device = options.device;
  compileOptions.pipeline.verifyEach = options.verifyEach;
  compileOptions.remarks = wantsRemarks(options);
  compileOptions.costs = wantsCosts(options);
  CompileSession session = orThrow(CompileSession::open(std::move(compileOptions)));
  runtime::Artefact artefact = orThrow(session.artefact(std::move(module)));

  CompiledGraph compiled;
  if (session.options().remarks) {
    llvm::raw_string_ostream remarks(compiled.remarks);
    DiagnosticPrinter plain(remarks);
    printRemarks(session.report().remarks, options, plain);
  }
  if (options.memoryReport)
    compiled.remarks += runtime::memoryReport(artefact.targets.front().plan).text();
  const auto loading = std::chrono::steady_clock::now();
  runtime::ExecutableOptions loaded{options.threads, options.checked, options.device};
  loaded.captures = options.capturesSteps;
  loaded.deviceTensors = options.device && !options.device->sharesHostMemory();
  compiled.executable = orThrow(runtime::Executable::load(std::move(artefact), loaded));
  compiled.summary = summaryOf(session.report(), *compiled.executable);
  compiled.summary.loadMs = millisecondsSince(loading);
  compiled.summary.totalMs = millisecondsSince(start);
  return compiled;
}

} // namespace tcc
