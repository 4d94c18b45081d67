// The pipeline's table and its runner: for each pass in order run, verify the phase reached, time, dump.
#include "passes/pipeline.h"
#include "ir/fingerprint.h"
#include "passes/bodies.h"
#include "passes/passes.h"
#include "passes/prints.h"
#include "passes/switches.h"
#include "passes/verify_each.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/TimeProfiler.h"
#include <chrono>

using namespace mlir;

namespace tcc {
namespace {

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

/// Ranks that keep parts of parameters do so to keep no whole ones.
bool keepsPacked(const PipelineOptions &options) {
  return optimizes(options) && options.target.packedOnceRows > 0 && options.ranks.zero < mostZero;
}

bool recomputes(const PipelineOptions &options) {
  return !options.recomputation.isNone();
}

constexpr bool (*always)(const PipelineOptions &) = nullptr;

constexpr PassInfo table[] = {
#define TCC_PASS(function, name, phase, reason, wanted) {name, Phase::phase, reason, wanted, function},
#include "passes/passes.def"
#undef TCC_PASS
};

bool isEnabled(const PassInfo &info, const PipelineOptions &options) {
  if (info.required())
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
      if (name == info.name && info.required() && !on)
        return module.emitError() << "pass '" << name << "' cannot be left out; no code can be made without it";
  }
  if (const std::string unknown = unknownDump(options.dump); !unknown.empty())
    return module.emitError() << unknown;
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
  function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    report.kernels += isa<KernelOp>(op) && !isUnreadKernel(op);
    report.matmuls += isa<MatmulOp, MatmulGeluGradientOp>(op);
    return isa<CustomOp>(op) ? WalkResult::skip() : WalkResult::advance(); // its regions are not what runs
  });
}

/// Whether what `who` left is valid, and of the phase.
LogicalResult verifyAfter(const Twine &who, Phase phase, ModuleOp module, bool changed) {
  func::FuncOp function = functionOf(module);
  if (changed && failed(verifyOps(function)))
    return module.emitError() << who << " left invalid IR";
  if (failed(verifyPhase(function, phase)))
    return module.emitError() << who << " did not reach phase '" << phaseName(phase) << "'";
  return success();
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

std::string unknownDump(StringRef dump) {
  if (dump.empty() || dump == "all" || dump == "changed" ||
      llvm::any_of(table, [&](const PassInfo &info) { return dump == info.name; }))
    return {};
  return ("unknown pass '" + dump + "' to dump after; 'all', 'changed' or a pass of --print-pipeline is expected")
      .str();
}

std::vector<const PassInfo *> optionalPasses(const PipelineOptions &options) {
  std::vector<const PassInfo *> passes;
  for (const PassInfo &info : table)
    if (!info.required() && isEnabled(info, options))
      passes.push_back(&info);
  return passes;
}

func::FuncOp functionOf(ModuleOp module) {
  return *module.getOps<func::FuncOp>().begin();
}

void printPipeline(llvm::raw_ostream &os, const PipelineOptions &options) {
  int position = 0;
  for (const PassInfo &info : table)
    os << llvm::format("%2d  %-20s %-9s %-4s ", ++position, info.name, phaseName(info.reaches).str().c_str(),
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
  if (options.reached)
    options.reached(Phase::captured, module);
  if (options.stopAfter == Phase::captured)
    return success();

  if (failed(markTarget(module, options.target)))
    return failure();
  printsToResults(function);
  llvm::raw_ostream &dumps = options.dumpStream ? *options.dumpStream : llvm::errs();
  bool wantText = !options.dump.empty();
  std::string before = wantText ? textOf(module) : std::string();
  bool reached = false;
  const bool looksAtEach = options.verifyEach || wantText; // it costs a seventh of the pipeline; else once at the end
  const bool asksWhatChanged = looksAtEach || options.findChanges || options.passed;
  Fingerprint fingerprint; // as the last pass left it
  if (asksWhatChanged)
    fingerprint = fingerprintOf(function);
  std::optional<Phase> phase;
  bool isBefore = !options.firstPass.empty();
  for (const PassInfo &info : table) {
    isBefore &= options.firstPass != info.name;
    if (options.endPass == info.name)
      break;
    if (isBefore || !isEnabled(info, options))
      continue;
    VerifyEach check(function, options);
    const llvm::TimeTraceScope traced("pass", info.name);
    auto start = std::chrono::steady_clock::now();
    if (failed(runOnBodies(function, [&](func::FuncOp graph) { return info.run(graph, options); })))
      return failure();
    double time = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    bool changed = false;
    if (asksWhatChanged) {
      const Fingerprint after = fingerprintOf(function);
      changed = std::exchange(fingerprint, after) != after;
    }
    report.passes.push_back({info.name, time, changed});
    if (options.passed)
      options.passed(report.passes.back(), module);
    if (wantText) {
      std::string text = textOf(module);
      if (options.dump == "all" || options.dump == info.name || (options.dump == "changed" && text != before))
        dumps << "// -----// IR Dump After " << info.name << " //----- //\n" << text << '\n';
      before = std::move(text);
    }
    phase = info.reaches;
    if (looksAtEach && failed(verifyAfter(Twine("pass '") + info.name + "'", info.reaches, module, changed)))
      return failure();
    if (failed(check.compare(info.name)))
      return failure();
    // The phase ends with the last enabled pass that reaches it.
    bool last = true;
    for (const PassInfo &later : llvm::ArrayRef(table).drop_front(report.passes.size() ? &info - table + 1 : 0))
      last &= !(isEnabled(later, options) && later.reaches == info.reaches);
    if (options.reached && last && info.reaches != Phase::captured)
      options.reached(info.reaches, module);
    if (options.stopAfter && info.reaches == *options.stopAfter && last) {
      reached = true;
      break;
    }
  }
  if (phase && !looksAtEach &&
      failed(verifyAfter("one of the passes (-fverify-each says which)", *phase, module, true)))
    return failure();
  count(function, report);
  if (recomputes(options))
    report.recomputed = recomputationCost(function, options);
  if (auto arena = function->getAttrOfType<IntegerAttr>("tcc.arena"))
    report.arenaBytes = arena.getInt();
  if (options.stopAfter && !reached)
    return module.emitError() << "phase '" << phaseName(*options.stopAfter) << "' is never reached by these passes";
  return success();
}

} // namespace tcc
