// The artefact against the interpreter:
//   1. estimate what interpreting costs; halve the largest sizes of --shape until it is below the limit;
//   2. for each kind of inputs: what the results should be, what the artefact gives, and the tolerance rule for chains.
#include "codegen/verify_artefact.h"
#include "codegen/graph_reference.h"
#include "codegen/graph_runner.h"
#include "passes/verify_each.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr double secondsAFlop = 2e-9; // of the interpreter, rounding included
constexpr int runs = 2 * 2;           // kinds of inputs, and exact and rounding

/// The graph with sizes and gradients, as it is interpreted; null where the pipeline refuses, which it has said.
OwningOpRef<ModuleOp> jointOf(ModuleOp captured, const PipelineOptions &options) {
  OwningOpRef<ModuleOp> joint(cast<ModuleOp>(captured->clone()));
  PipelineOptions pipeline;
  pipeline.level = 0;
  pipeline.shapes = options.shapes;
  pipeline.stopAfter = Phase::joint;
  PipelineReport report;
  if (failed(runPipeline(*joint, pipeline, report)))
    return {};
  return joint;
}

double secondsToInterpret(func::FuncOp function) {
  double seconds = 0;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto structured = dyn_cast<StructuredOpInterface>(op))
      seconds += secondsAFlop * static_cast<double>(structured.flops());
    for (Value result : op.getResults())
      seconds += secondsAnElement * static_cast<double>(tensorType(result).getNumElements());
  }
  return runs * seconds;
}

/// Halves the largest size that was given; false where all are 1.
bool makeSmaller(std::map<std::string, std::vector<int64_t>> &shapes) {
  int64_t *largest = nullptr;
  for (auto &[name, shape] : shapes)
    for (int64_t &size : shape)
      if (!largest || size > *largest)
        largest = &size;
  if (!largest || *largest <= 1)
    return false;
  int64_t before = *largest; // sizes that are equal belong together
  for (auto &[name, shape] : shapes)
    for (int64_t &size : shape)
      if (size == before)
        size = before / 2;
  return true;
}

std::string textOf(const std::map<std::string, std::vector<int64_t>> &shapes) {
  std::string text;
  for (const auto &[name, shape] : shapes) {
    text += (text.empty() ? "" : ", ") + name + ":";
    for (size_t i = 0; i < shape.size(); ++i)
      text += (i ? "x" : "") + std::to_string(shape[i]);
  }
  return text;
}

runtime::Error compareRuns(ModuleOp captured, ModuleOp joint, const runtime::Artefact &artefact,
                           const CompileOptions &options) {
  func::FuncOp function = functionOf(joint);
  auto runner = GraphRunner::load(artefact, function, {.threads = options.threads, .checked = true});
  if (!runner)
    return runner.error();
  PipelineOptions pipeline = options.pipeline;
  pipeline.passes.try_emplace("match-attention", pipeline.level > 0); // as the pipeline's own default is
  // With 16-bit matmuls a result has the error of narrower floats, whatever its own type is.
  const Tolerance tolerance{.factor = pipeline.products == ProductType::asWritten ? 0.0 : 3.0};
  for (VerifyInputs kind : {VerifyInputs::random, VerifyInputs::adversarial}) {
    std::vector<RefTensor> inputs = verifyInputs(function, kind);
    runtime::Expected<Reference> reference = Reference::make(captured, inputs, pipeline);
    if (!reference)
      return reference.error();
    runtime::Expected<std::vector<RefTensor>> results = (*runner)->run(inputs);
    if (!results)
      return results.error();
    if (std::string wrong = reference->checkChain(*results, tolerance); !wrong.empty())
      return runtime::Error(std::string("the artefact computes something else than the graph on ") +
                            (kind == VerifyInputs::random ? "random" : "adversarial") + " inputs: " + wrong);
  }
  return {};
}

} // namespace

runtime::Error verifyArtefact(ModuleOp captured, const runtime::Artefact &artefact, const CompileOptions &options,
                              double mostSeconds) {
  if (artefact.targets.empty() || !StringRef(artefact.targets.front().target).starts_with("cpu")) {
    captured.emitRemark() << "-fverify-each: the artefact is not run; it is for target '"
                          << (artefact.targets.empty() ? "" : artefact.targets.front().target) << "'";
    return {};
  }
  CompileOptions smaller = options;
  smaller.pipeline.verifyEach = false;
  smaller.pipeline.dump.clear();
  OwningOpRef<ModuleOp> joint = jointOf(captured, smaller.pipeline);
  double seconds = joint ? secondsToInterpret(functionOf(*joint)) : 0, wanted = seconds;
  while (joint && seconds > mostSeconds && makeSmaller(smaller.pipeline.shapes)) {
    joint = jointOf(captured, smaller.pipeline);
    seconds = joint ? secondsToInterpret(functionOf(*joint)) : 0;
  }
  if (!joint || seconds > mostSeconds) {
    captured.emitRemark() << "-fverify-each: the artefact is not run; interpreting the graph would take about "
                          << static_cast<int64_t>(wanted / 60) + 1 << " minutes, and its sizes are fixed";
    return {};
  }
  if (smaller.pipeline.shapes == options.pipeline.shapes)
    return compareRuns(captured, *joint, artefact, smaller);
  captured.emitRemark() << "-fverify-each: the artefact is compiled and run with " << textOf(smaller.pipeline.shapes)
                        << "; with the sizes given the interpreter would take about "
                        << static_cast<int64_t>(wanted / 60) + 1 << " minutes";
  auto small = compileArtefact(captured.clone(), smaller);
  return small ? compareRuns(captured, *joint, *small, smaller) : small.error();
}

} // namespace tcc
