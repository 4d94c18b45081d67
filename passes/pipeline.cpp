// The pipeline's table and its runner: for each pass in order run, verify the phase reached, time, dump.
#include "passes/pipeline.h"
#include "mlir/IR/OperationSupport.h"
#include "mlir/IR/Verifier.h"
#include "passes/passes.h"
#include "passes/verify_each.h"
#include "llvm/Support/Format.h"
#include <chrono>

using namespace mlir;

namespace tcc {
namespace {

using PassFunction = LogicalResult (*)(func::FuncOp, const PipelineOptions &);

bool optimizes(const PipelineOptions &options) {
  return options.level >= 1;
}

bool narrowsProducts(const PipelineOptions &options) {
  return options.products != ProductType::asWritten;
}

bool padsShapes(const PipelineOptions &options) {
  return optimizes(options) && options.padding.value_or(options.target.padding.multiple) > 0;
}

bool narrowsActivations(const PipelineOptions &options) {
  return narrowsProducts(options) && options.target.narrowActivations;
}

constexpr PassInfo table[] = {
    {"specialize-shapes", Phase::captured, "first: every later pass sees static sizes", true, nullptr},
    {"decompose", Phase::captured, "before autodiff: gradients are known of primitives alone", true, nullptr},
    {"match-attention", Phase::captured, "on primitives, before autodiff: the gradient of attention is attention's too",
     false, optimizes},
    {"autodiff", Phase::joint, "on primitives; forward and backward become one dataflow", true, nullptr},
    {"autocast", Phase::shaped, "before kernels are asked for: a target may have them of 16-bit types alone", false,
     narrowsProducts},
    {"expand-unsupported", Phase::shaped, "after autodiff: the target may have the gradient's kernel as well", true,
     nullptr},
    {"simplify", Phase::shaped, "after autodiff: it shares sums and removes what no result needs", false, optimizes},
    {"pad-shapes", Phase::shaped, "of final types: what products gain follows from them; before sums are cut up", false,
     padsShapes},
    {"split-reductions", Phase::shaped, "before fusion: a long reduction's first part joins its producer", true,
     nullptr},
    {"narrow-activations", Phase::shaped, "before fusion, on the ops that it sees: it says what will be stored", false,
     narrowsActivations},
    {"fuse-kernels", Phase::fused, "after every rewrite of primitives: none remains outside a kernel", true, nullptr},
    {"schedule", Phase::fused, "before planning: live ranges follow from the order", true, nullptr},
    {"plan-memory", Phase::planned, "last: places follow from order and kernels", true, nullptr},
};

constexpr PassFunction functions[] = {specializeShapes,  decompose, matchAttention, autodiff,        autocast,
                                      expandUnsupported, simplify,  padShapes,      splitReductions, narrowActivations,
                                      fuseKernels,       schedule,  planMemory};
static_assert(std::size(table) == std::size(functions));

bool isEnabled(const PassInfo &info, const PipelineOptions &options) {
  if (info.required)
    return true;
  auto given = options.passes.find(info.name);
  return given != options.passes.end() ? given->second : info.wanted(options);
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, OpPrintingFlags().enableDebugInfo(false).printNameLocAsPrefix());
  return text;
}

LogicalResult checkNames(ModuleOp module, const PipelineOptions &options) {
  auto known = [](StringRef name) {
    return llvm::any_of(table, [&](const PassInfo &info) { return name == info.name; });
  };
  for (const auto &[name, on] : options.passes) {
    if (!known(name))
      return module.emitError() << "unknown pass '" << name << "'"
                                << (nearestPass(name).empty() ? "" : "; did you mean '" + nearestPass(name) + "'?");
    for (const PassInfo &info : table)
      if (name == info.name && info.required && !on)
        return module.emitError() << "pass '" << name << "' cannot be left out; no code can be made without it";
  }
  if (!options.dump.empty() && options.dump != "all" && options.dump != "changed" && !known(options.dump))
    return module.emitError() << "unknown pass '" << options.dump << "' to dump after; 'all', 'changed' or a pass "
                              << "of --print-pipeline is expected";
  return success();
}

/// Passes decide by the target's numbers, so a module that one target's passes have seen is no other's.
LogicalResult markTarget(ModuleOp module, const TargetModel &target) {
  auto known = module->getAttrOfType<StringAttr>(targetAttr);
  if (known && known != target.name)
    return module.emitError() << "the module was compiled for target '" << known.getValue()
                              << "'; it cannot go on for '" << target.name << "'";
  module->setAttr(targetAttr, StringAttr::get(module.getContext(), target.name));
  return success();
}

void count(func::FuncOp function, PipelineReport &report) {
  report.kernels = report.matmuls = 0;
  for (Operation &op : function.getBody().front()) {
    report.kernels += isa<KernelOp>(op);
    report.matmuls += isa<MatmulOp>(op);
  }
}

} // namespace

llvm::ArrayRef<PassInfo> pipelineTable() {
  return table;
}

std::string nearestPass(StringRef name) {
  std::string best;
  unsigned distance = 4;
  for (const PassInfo &info : table)
    if (unsigned d = name.edit_distance(info.name, true, distance); d < distance) {
      distance = d;
      best = info.name;
    }
  return best;
}

void printPipeline(llvm::raw_ostream &os, const PipelineOptions &options) {
  int position = 0;
  for (const PassInfo &info : table)
    os << llvm::format("%2d  %-18s %-9s %-4s ", ++position, info.name, phaseName(info.reaches).str().c_str(),
                       isEnabled(info, options) ? "on" : "off")
       << info.reason << '\n';
}

LogicalResult runPipeline(ModuleOp module, const PipelineOptions &options, PipelineReport &report) {
  if (failed(checkNames(module, options)))
    return failure();
  func::FuncOp function;
  for (auto candidate : module.getOps<func::FuncOp>()) {
    if (function)
      return candidate.emitError("a module holds one function; this is a second one");
    function = candidate;
  }
  if (!function || function.isExternal() || !function.getBody().hasOneBlock())
    return module.emitError("a module holds one function with a body");
  report.capturedOps = std::distance(function.getBody().front().begin(), function.getBody().front().end()) - 1;
  if (options.stopAfter == Phase::captured)
    return success();

  if (failed(markTarget(module, options.target)))
    return failure();
  llvm::raw_ostream &dumps = options.dumpStream ? *options.dumpStream : llvm::errs();
  bool wantText = !options.dump.empty();
  std::string before = wantText ? textOf(module) : std::string();
  bool reached = false;
  OperationFingerPrint fingerprint(function); // as the last pass left it
  for (auto [info, run] : llvm::zip(table, functions)) {
    if (!isEnabled(info, options))
      continue;
    VerifyEach check(function, options);
    auto start = std::chrono::steady_clock::now();
    if (failed(run(function, options)))
      return failure();
    double time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    OperationFingerPrint after(function);
    bool changed = fingerprint != after;
    fingerprint = after;
    report.passes.push_back({info.name, time, changed});
    if (wantText) {
      std::string text = textOf(module);
      if (options.dump == "all" || options.dump == info.name || (options.dump == "changed" && text != before))
        dumps << "// -----// IR Dump After " << info.name << " //----- //\n" << text << '\n';
      before = std::move(text);
    }
    if (changed && failed(mlir::verify(module)))
      return module.emitError() << "pass '" << info.name << "' left invalid IR";
    if (failed(verifyPhase(function, info.reaches)))
      return module.emitError() << "pass '" << info.name << "' did not reach phase '" << phaseName(info.reaches) << "'";
    if (failed(check.compare(info.name)))
      return failure();
    // The phase ends with the last enabled pass that reaches it.
    bool last = true;
    for (const PassInfo &later : llvm::ArrayRef(table).drop_front(report.passes.size() ? &info - table + 1 : 0))
      last &= !(isEnabled(later, options) && later.reaches == info.reaches);
    if (options.stopAfter && info.reaches == *options.stopAfter && last) {
      reached = true;
      break;
    }
  }
  count(function, report);
  if (auto arena = function->getAttrOfType<IntegerAttr>("tcc.arena"))
    report.arenaBytes = arena.getInt();
  if (options.stopAfter && !reached)
    return module.emitError() << "phase '" << phaseName(*options.stopAfter) << "' is never reached by these passes";
  return success();
}

} // namespace tcc
