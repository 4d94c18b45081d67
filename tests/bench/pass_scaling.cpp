// How the cost of compiling grows with the graph: GPT-2 training steps of more and more layers, their sizes tiny,
// through tracing, the pipeline and the lowering of the plan. Prints milliseconds of each step at each size and the
// exponent of the growth, fitted over the last factor of ten in ops.
// The least of a few runs counts, since other programs take their share of the machine.
//   pass_scaling [--ops=N] [-O LEVEL]     up to N captured ops; 10000 by default
#include "codegen/cpu/target.h"
#include "codegen/lower_plan.h"
#include "codegen/stopwatch.h"
#include "frontend/capture.h"
#include "frontend/graph_file.h"
#include "frontend/trace.h"
#include "mlir/IR/Verifier.h"
#include "models/model.h"
#include "passes/pipeline.h"
#include <cmath>
#include <cstring>
#include <iostream>
#include <llvm/Support/Format.h>

using namespace tcc;

namespace {

using Clock = std::chrono::steady_clock;

/// Milliseconds of each step, in the order in which they run.
struct Times {
  int64_t ops = 0, parameters = 0;
  std::vector<std::pair<std::string, double>> steps;
};

/// Batch 1, 8 tokens, width 8: what counts is the number of ops.
Times compileOnce(int64_t layers, int level) {
  const models::Gpt2Config config{.layers = layers, .heads = 1, .width = 8, .sequence = 8, .vocab = 16};
  const models::Model model(config);
  optim::Adamw optimizer(model.parameters());
  const std::vector<ValueType> types{
      {DType::i32, Shape{1, 8}}, {DType::i32, Shape{1, 8}}, {DType::f32, {}}, {DType::f32, {}}};
  const std::vector<std::string> names{"tokens", "targets", "lr", "step"};
  Times times;
  times.parameters = static_cast<int64_t>(model.parameters().size());
  auto start = Clock::now();
  auto lap = [&](const std::string &name) {
    times.steps.emplace_back(name, millisecondsSince(start));
    start = Clock::now();
  };

  Tracer tracer;
  const Recorded recorded = tracer.record(
      [&](std::span<const Tensor> in) {
        const models::ModelStep step = models::trainingStep(model, optimizer, in[0], in[1], in[2], in[3]);
        return std::vector<Tensor>{step.loss, step.norm};
      },
      types, names);
  lap("(trace)");
  mlir::MLIRContext &context = threadContext();
  mlir::OwningOpRef<mlir::ModuleOp> module = buildModule(*recorded.record, "step", {}, context);
  if (failed(mlir::verify(*module)) || failed(verifyGraph(*module)))
    throw std::runtime_error("the step is no valid graph");
  lap("(build and verify)");

  PipelineOptions options;
  options.level = level;
  PipelineReport report;
  if (failed(runPipeline(*module, options, report)))
    throw std::runtime_error("the pipeline failed");
  times.ops = report.capturedOps;
  double passes = 0;
  for (const PassReport &pass : report.passes) {
    times.steps.emplace_back(pass.name, pass.milliseconds);
    passes += pass.milliseconds;
  }
  times.steps.emplace_back("(verifying phases)", millisecondsSince(start) - passes);

  start = Clock::now();
  KernelTable kernels;
  if (auto plan = lowerPlan(functionOf(*module), cpu::CpuTarget({}, 1), 1, kernels); !plan)
    throw std::runtime_error(plan.error().message());
  lap("(lower the plan)");
  return times;
}

/// The least time of each step in several runs; the largest graphs run once.
Times compile(int64_t layers, int level) {
  Times best = compileOnce(layers, level);
  for (int runs = best.ops > 20000 ? 1 : 3; runs > 1; --runs) {
    const Times again = compileOnce(layers, level);
    for (size_t step = 0; step < best.steps.size(); ++step)
      best.steps[step].second = std::min(best.steps[step].second, again.steps[step].second);
  }
  return best;
}

/// The slope of log(time) over log(ops), least squares over the runs of the last factor of ten.
double exponent(const std::vector<Times> &runs, size_t step) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (const Times &run : runs) {
    if (run.ops * 10.5 < static_cast<double>(runs.back().ops))
      continue;
    const double x = std::log(static_cast<double>(run.ops)), y = std::log(std::max(1e-3, run.steps[step].second));
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return n < 2 ? 0 : (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

void print(const std::vector<Times> &runs) {
  llvm::raw_ostream &os = llvm::outs();
  auto row = [&](const std::string &name, auto cell) {
    os << llvm::format("%-20s", name.c_str());
    for (const Times &run : runs)
      os << cell(run);
  };
  row("ops", [](const Times &run) { return llvm::format("%11ld", static_cast<long>(run.ops)); });
  os << "   exponent\n";
  row("parameters", [](const Times &run) { return llvm::format("%11ld", static_cast<long>(run.parameters)); });
  os << '\n';
  for (size_t step = 0; step < runs.front().steps.size(); ++step) {
    row(runs.front().steps[step].first,
        [&](const Times &run) { return llvm::format("%8.1f ms", run.steps[step].second); });
    os << llvm::format("%11.2f\n", exponent(runs, step));
  }
}

} // namespace

int main(int count, char **arguments) {
  int64_t most = 10000;
  int level = 2;
  for (int i = 1; i < count; ++i) {
    if (std::strncmp(arguments[i], "--ops=", 6) == 0) {
      most = std::atoll(arguments[i] + 6);
    } else if (std::strncmp(arguments[i], "-O", 2) == 0) {
      level = std::atoi(arguments[i] + 2);
    } else {
      std::cerr << "unknown argument '" << arguments[i] << "'; --ops=N and -O LEVEL are known\n";
      return 2;
    }
  }
  try {
    std::vector<Times> runs;
    compile(1, level); // what is set up once
    for (double layers = 1; runs.empty() || static_cast<double>(runs.back().ops) * 1.8 < static_cast<double>(most);
         layers *= 2)
      runs.push_back(compile(static_cast<int64_t>(layers), level));
    print(runs);
  } catch (const std::exception &problem) {
    std::cerr << "pass_scaling: " << problem.what() << '\n';
    return 1;
  }
  return 0;
}
