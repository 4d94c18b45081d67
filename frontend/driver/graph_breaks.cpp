// What a break costs is what goes when it goes: kernels, bytes and time of the graph with it and without it.
#include "frontend/driver/graph_breaks.h"
#include "frontend/break_words.h"
#include "frontend/graph_file.h"
#include "ir/host_ops.h"
#include "runtime/printed.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace tcc::driver {
namespace {

constexpr size_t mostMeasured = 32; // each is a compilation
constexpr int runs = 15;

/// The ops that ask, in order.
std::vector<Operation *> asking(func::FuncOp function) {
  std::vector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (isa<ItemOp, PrintOp>(op))
      ops.push_back(&op);
  return ops;
}

ReadKind kindOf(Operation *op) {
  return isa<PrintOp>(op) ? ReadKind::print : ReadKind::item;
}

struct Variant {
  runtime::Plan plan;
  int64_t kernels = 0;
  std::unique_ptr<runtime::Executable> executable; // null where there is no device
};

class Measurement {
public:
  Measurement(ModuleOp module, const CompileOptions &options, const std::shared_ptr<runtime::Device> &device)
      : module(module), options(options), device(device) {}
  int64_t compilations = 0;

  /// Without the op that asks at place `left`; with all where it is beyond them.
  Variant compile(size_t left) {
    OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
    const std::vector<Operation *> ops = asking(functionOf(*copy));
    if (left < ops.size()) {
      if (auto item = dyn_cast<ItemOp>(ops[left]))
        item.getResult().replaceAllUsesWith(item.getX());
      ops[left]->erase();
    }
    ++compilations;
    auto session = CompileSession::open(options);
    auto artefact = session ? session->artefact(std::move(copy)) : session.error();
    if (!artefact) {
      const std::string problem = artefact.error().message();
      throw Error("--graph-breaks: the graph cannot be compiled" + (problem.empty() ? "" : ": " + problem));
    }
    Variant variant{artefact->targets.front().plan, session->report().pipeline.kernels, nullptr};
    if (device) {
      runtime::silencePrints(artefact->targets.front().plan);
      auto loaded = runtime::Executable::load(std::move(*artefact), {options.threads, false, device});
      if (!loaded)
        throw Error(loaded.error().message());
      variant.executable = std::move(*loaded);
    }
    return variant;
  }

private:
  ModuleOp module;
  const CompileOptions &options;
  std::shared_ptr<runtime::Device> device;
};

int64_t printedBytes(const runtime::Plan &plan) {
  int64_t bytes = 0;
  for (const runtime::TensorSpec &output : plan.outputs)
    if (runtime::printedAs(output))
      bytes += output.bytes();
  return bytes;
}

BreakSite siteOf(Operation *op) {
  const TextPlace place = placeOf(op->getLoc());
  const ReadKind kind = kindOf(op);
  auto print = dyn_cast<PrintOp>(op);
  BreakSite site;
  site.file = place.file;
  site.line = place.line;
  site.column = place.column;
  site.source = sourceLine(place.file, place.line);
  site.why = breakReason(kind, print ? print.getName().str() : std::string());
  site.instead = std::string(insteadOf(kind));
  site.times = site.inStep = 1;
  return site;
}

} // namespace

void refuseBreaks(func::FuncOp function, const CompilerFlags &flags, DiagnosticPrinter &printer) {
  const std::vector<Operation *> ops = flags.fullGraph ? asking(function) : std::vector<Operation *>();
  for (Operation *op : ops)
    printer.print(Severity::error, placeOf(op->getLoc()), breakRefusal(kindOf(op), function.getName().str()));
}

bool hasBreaks(func::FuncOp function) {
  return !asking(function).empty();
}

BreakReport graphBreaks(ModuleOp module, const CompileOptions &options, const std::shared_ptr<runtime::Device> &device,
                        const RunValues &values, uint64_t seed) {
  Measurement measurement(module, options, device);
  const Variant whole = measurement.compile(std::numeric_limits<size_t>::max());
  BreakReport report;
  report.function = functionOf(module).getName().str();
  const std::vector<Operation *> ops = asking(functionOf(module));
  for (size_t i = 0; i < ops.size(); ++i) {
    BreakSite site = siteOf(ops[i]);
    site.milliseconds = std::numeric_limits<double>::quiet_NaN();
    if (i < mostMeasured) {
      const Variant without = measurement.compile(i);
      site.kernels = std::max<int64_t>(0, whole.kernels - without.kernels);
      site.bytesToHost = printedBytes(whole.plan) - printedBytes(without.plan);
      if (whole.plan == without.plan)
        site.milliseconds = 0; // the same step
      else if (whole.executable)
        site.milliseconds = std::max(0.0, millisecondsOf(*whole.executable, values, seed, runs) -
                                              millisecondsOf(*without.executable, values, seed, runs));
    }
    report.sites.push_back(std::move(site));
  }
  report.calls = device ? 2 * runs * static_cast<int64_t>(report.sites.size()) : 0;
  report.callsWithBreaks = report.calls / 2;
  report.compiled = measurement.compilations;
  return report;
}

} // namespace tcc::driver
