// CompileSession: passes, then the plan, then checks of custom ops, then machine code, and at last the artefact.
#include "codegen/compile_session.h"
#include "codegen/custom.h"
#include "codegen/lower_plan.h"
#include "codegen/rank_compilation.h"
#include "codegen/remarks.h"
#include "codegen/step_cache.h"
#include "codegen/stopwatch.h"
#include "codegen/targets.h"
#include "codegen/verify_artefact.h"
#include "passes/bodies.h"
#include "passes/passes.h"
#include "passes/prints.h"
#include "runtime/memory_report.h"
#include "runtime/printed.h"
#include "runtime/threads.h"
#include "runtime/tuning_file.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/TimeProfiler.h"

using namespace mlir;

namespace tcc {

static_assert(printPrefix == runtime::printPrefix, "passes name what the runtime prints");

static constexpr char firstOfTrial[] = "rematerialize"; // what a limit changes begins there
static constexpr size_t linesOfError = 8;
static constexpr int tunedLevel = 3;            // of -O
static constexpr char tuningEntry[] = "tuning"; // of an artefact's metadata: what was chosen
static constexpr char saidByDiagnostics[] = ""; // the empty message of an error that MLIR diagnostics have explained

CompileSession::CompileSession(CompileOptions options, std::shared_ptr<const Target> target)
    : compileOptions(std::move(options)), compileTarget(std::move(target)) {}

runtime::Expected<CompileSession> CompileSession::open(CompileOptions options) {
  if (options.threads <= 0)
    options.threads = runtime::availableThreads();
  std::shared_ptr<const Target> target(std::shared_ptr<void>(), options.target); // owns nothing: the caller keeps it
  if (!target) {
    auto made = makeTarget(options.targetName, options.code, options.threads);
    if (!made)
      return made.error();
    (*made)->keepCodeIn(options.cache);
    target = std::move(*made);
  }
  return CompileSession(std::move(options), std::move(target));
}

/// Runs the passes up to `stopAfter`, or all. Gives false after an error, which MLIR diagnostics have explained.
bool CompileSession::runPasses(ModuleOp module, std::optional<Phase> stopAfter) {
  PipelineOptions pipeline = compileOptions.pipeline;
  pipeline.stopAfter = stopAfter;
  pipeline.recomputation = chosen.value_or(pipeline.recomputation);
  return runPasses(module, std::move(pipeline));
}

/// Calls `hook`, if there is one, and adds the time that it takes.
template <typename... Arguments>
static void addTimeOf(std::function<void(Arguments...)> &hook, double &ms) {
  if (hook)
    hook = [hook, &ms](Arguments... arguments) {
      const auto start = std::chrono::steady_clock::now();
      hook(arguments...);
      ms += millisecondsSince(start);
    };
}

bool CompileSession::runPasses(ModuleOp module, PipelineOptions pipeline) {
  lastReport = {};
  watchedMs = 0;
  addTimeOf(pipeline.reached, watchedMs);
  addTimeOf(pipeline.passed, watchedMs);
  const llvm::TimeTraceScope traced("passes");
  const auto start = std::chrono::steady_clock::now();
  pipeline.target = compileTarget->model();
  pipeline.queries = compileTarget.get();
  pipeline.remarks = compileOptions.remarks ? &lastReport.remarks : nullptr;
  const bool ran = succeeded(runPipeline(module, pipeline, lastReport.pipeline));
  lastReport.pipelineMs = lastReport.totalMs = millisecondsSince(start) - watchedMs;
  return ran;
}

/// With a limit: which of recomputationChoices() is the first whose plan fits. They are tried in the order of their
/// time, so a smaller limit never gives a faster step, nor one that needs more memory. For the least memory all are
/// tried; of equal plans the first is taken.
runtime::Error CompileSession::chooseRecomputation(ModuleOp captured) {
  chosen.reset();
  const bool isLeast = compileOptions.leastMemory;
  if (compileOptions.memoryLimit == 0 && !isLeast)
    return {};
  PipelineOptions front = compileOptions.pipeline;
  front.verifyEach = false;
  front.dump.clear();
  front.endPass = firstOfTrial;
  front.reached = nullptr;
  front.passed = nullptr;
  OwningOpRef<ModuleOp> fused(captured.clone());
  if (!runPasses(*fused, front))
    return runtime::Error(saidByDiagnostics);
  std::vector<Recomputation> choices{compileOptions.pipeline.recomputation};
  if (compileOptions.recomputesToFit) {
    choices = recomputationChoices(functionOf(*fused));
    const auto first = llvm::find(choices, compileOptions.pipeline.recomputation);
    if (first != choices.end())
      choices.erase(choices.begin(), first);
    else
      choices = {compileOptions.pipeline.recomputation};
  }
  const std::vector<Recomputation> byTime = fasterFirst(*fused, choices);
  std::optional<runtime::Plan> smallest;
  for (const Recomputation &choice : byTime) {
    OwningOpRef<ModuleOp> trial(fused->clone());
    PipelineOptions rest = compileOptions.pipeline;
    rest.verifyEach = false;
    rest.dump.clear();
    rest.firstPass = firstOfTrial;
    rest.recomputation = choice;
    rest.reached = nullptr;
    rest.passed = nullptr;
    if (!runPasses(*trial, rest))
      return runtime::Error(saidByDiagnostics);
    KernelTable kernels;
    runtime::Expected<runtime::Plan> plan =
        lowerPlan(functionOf(*trial), *compileTarget, compileOptions.threads, kernels);
    if (!plan)
      return plan.error();
    if (!isLeast && plan->plannedBytes() <= compileOptions.memoryLimit) {
      chosen = choice;
      return {};
    }
    if (!smallest || plan->plannedBytes() < smallest->plannedBytes()) {
      smallest = std::move(*plan);
      chosen = choice;
    }
  }
  if (isLeast && (compileOptions.memoryLimit == 0 || smallest->plannedBytes() <= compileOptions.memoryLimit))
    return {};
  constexpr int64_t shownInBytes = 1000; // as megabytes they would be 0.000
  const int64_t limit = compileOptions.memoryLimit;
  return runtime::Error(
      llvm::formatv("the step needs at least {0:f3} MB, and its memory limit is {1}; what takes most:{2}",
                    static_cast<double>(smallest->plannedBytes()) * 1e-6,
                    limit < shownInBytes ? llvm::formatv("{0} bytes", limit).str()
                                         : llvm::formatv("{0:f3} MB", static_cast<double>(limit) * 1e-6).str(),
                    runtime::largestLines(*smallest, linesOfError)));
}

/// The choices in the order of the time that they take, by the target's model.
std::vector<Recomputation> CompileSession::fasterFirst(ModuleOp fused, ArrayRef<Recomputation> choices) const {
  std::vector<std::pair<double, Recomputation>> timed;
  PipelineOptions pipeline = compileOptions.pipeline;
  pipeline.target = compileTarget->model();
  for (const Recomputation &choice : choices) {
    OwningOpRef<ModuleOp> trial(fused.clone());
    pipeline.recomputation = choice;
    func::FuncOp function = functionOf(*trial);
    if (succeeded(runOnBodies(function, [&](func::FuncOp graph) { return rematerialize(graph, pipeline); })))
      timed.push_back({recomputationCost(function, pipeline).share, choice});
  }
  llvm::stable_sort(timed, llvm::less_first());
  std::vector<Recomputation> sorted;
  llvm::append_range(sorted, llvm::make_second_range(timed));
  return sorted;
}

runtime::Error CompileSession::checkCustom(ModuleOp planned) const {
  const CustomCheckOptions options{.always = compileOptions.pipeline.verifyEach};
  if (runtime::Error wrong = checkCustomOps(planned, options))
    return wrong;
  if (!compileOptions.device || compileOptions.device->sharesHostMemory())
    return {};
  return checkCustomOpsOn(compileOptions.device, planned, compileOptions, options);
}

static void tellSlowerCode(ModuleOp planned, const Target &target, Remarks &remarks) {
  planned.walk([&](StructuredOpInterface op) {
    if (std::string text = target.remarkOn(op); !text.empty())
      remarks.push_back({Remark::Kind::missed, "kernels", op.getLoc(), std::move(text)});
  });
}

runtime::Expected<CompileSession::Planned> CompileSession::planned(OwningOpRef<ModuleOp> captured) {
  if (runtime::Error noPlan = chooseRecomputation(*captured))
    return noPlan;
  Planned result{std::move(captured), {}, {}};
  if (!runPasses(*result.module, std::nullopt))
    return runtime::Error(saidByDiagnostics);
  const llvm::TimeTraceScope traced("plan");
  const auto start = std::chrono::steady_clock::now();
  runtime::Expected<runtime::Plan> plan =
      lowerPlan(functionOf(*result.module), *compileTarget, compileOptions.threads, result.kernels);
  if (!plan)
    return plan.error();
  result.plan = std::move(*plan);
  lastReport.codegenSteps = {{"plan", millisecondsSince(start)}};
  lastReport.compiledKernels = static_cast<int64_t>(result.kernels.sources().size());
  lastReport.plannedBytes = result.plan.plannedBytes();
  lastReport.pipeline.arenaBytes = result.plan.arenaBytes;
  if (compileOptions.watched)
    lastReport.kernels = result.kernels.sources();
  if (compileOptions.remarks) {
    tellSlowerCode(*result.module, *compileTarget, lastReport.remarks);
    addPackingRemarks(result.plan, *result.module->getContext(), lastReport.remarks);
  }
  if (compileOptions.costs)
    addCostRemarks(result.plan, *result.module->getContext(), lastReport.remarks);
  lastReport.remarks = joined(lastReport.remarks);
  return result;
}

runtime::Expected<runtime::Artefact> CompileSession::artefact(OwningOpRef<ModuleOp> captured, runtime::Ranks *ranks) {
  const auto start = std::chrono::steady_clock::now();
  lastReport = {};
  if (!compileOptions.allowCustomCode)
    if (runtime::Error refused = refuseCustomCode(*captured))
      return refused;
  std::optional<llvm::TimeTraceScope> looking(std::in_place, "cache");
  StepCache cache(*captured, compileOptions, *compileTarget, /*sends=*/ranks != nullptr);
  if (ranks)
    looking.reset();
  runtime::Expected<runtime::Artefact> made =
      ranks ? artefactOfRanks(std::move(captured), cache, *ranks) : artefactOfOne(std::move(captured), cache, looking);
  lastReport.totalMs = millisecondsSince(start) - watchedMs;
  return made;
}

/// What the cache has of the step.
runtime::Expected<CompileSession::Kept> CompileSession::keptStep(StepCache &cache) {
  Kept kept{cache.find(lastReport)};
  if (!kept.step)
    return kept;
  const runtime::Expected<bool> agrees = hasChoicesOfFile(*kept.step);
  if (!agrees)
    return agrees.error();
  kept.hasOtherChoices = !*agrees;
  if (kept.hasOtherChoices)
    kept.step.reset();
  return kept;
}

/// Why the step is compiled although there is a cache. To be asked before, since compiling may add entries.
std::string CompileSession::missWords(const StepCache &cache, const Kept &kept) const {
  return kept.step              ? "hit: " + cache.file() + ", compiled all the same"
         : kept.hasOtherChoices ? "miss: the tuning file has other choices than the kept step"
                                : "miss: " + cache.missReason();
}

/// `looking` is open while the cache is searched.
runtime::Expected<runtime::Artefact> CompileSession::artefactOfOne(OwningOpRef<ModuleOp> captured, StepCache &cache,
                                                                   std::optional<llvm::TimeTraceScope> &looking) {
  if (!cache.refusal().empty()) {
    looking.reset();
    runtime::Expected<runtime::Artefact> made = compiled(std::move(captured));
    lastReport.cache = "not used: " + cache.refusal();
    return made;
  }
  runtime::Expected<Kept> kept = keptStep(cache);
  if (!kept)
    return kept.error();
  // Held until this function returns: other processes wait meanwhile (30 s at most) and do not compile the same step.
  std::optional<FileCache::Turn> turn;
  if (!kept->step) {
    turn.emplace(cache.wait());
    kept = keptStep(cache); // another process may have made it meanwhile
    if (!kept)
      return kept.error();
  }
  looking.reset();
  const bool isTaken = kept->step && !compileOptions.watched;
  if (isTaken && cache.checksCode())
    if (runtime::Error wrong = checkFound(std::move(captured)))
      return wrong;
  cache.count(kept->step.has_value());
  if (isTaken) {
    lastReport.fromCache = true;
    lastReport.cache = "hit: " + cache.file();
    return std::move(*kept->step);
  }
  const std::string why = missWords(cache, *kept);
  runtime::Expected<runtime::Artefact> made = compiled(std::move(captured));
  lastReport.cache = why;
  if (made && !kept->step)
    if (runtime::Error problem = cache.store(*made, lastReport))
      lastReport.cache += "; not kept: " + problem.message();
  return made;
}

/// Before each exchange a rank has gone as far as it can; an error is kept until the others can be told.
runtime::Expected<runtime::Artefact> CompileSession::artefactOfRanks(OwningOpRef<ModuleOp> captured, StepCache &cache,
                                                                     runtime::Ranks &ranks) {
  std::string explanation; // of an error that diagnostics have explained
  const ScopedDiagnosticHandler listening(captured->getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && explanation.empty())
      explanation = diagnostic.str();
    return failure(); // others say it
  });
  const bool isCached = cache.refusal().empty();
  runtime::Expected<Kept> kept = isCached ? keptStep(cache) : Kept();
  // One rank alone takes its turn among the processes that compile its step: ranks of two runs that waited for each
  // other's turns could wait in a circle.
  std::optional<FileCache::Turn> turn;
  if (isCached && ranks.rank() == 0 && kept && !kept->step) {
    turn.emplace(cache.wait());
    kept = keptStep(cache);
  }
  const bool isTaken = kept && kept->step && !compileOptions.watched;
  const runtime::Expected<RankCompilation> agreed = RankCompilation::agree(ranks, cache.digest(), isTaken);
  if (!agreed)
    return agreed.error();
  runtime::Error problem = kept.error();
  if (isTaken && cache.checksCode())
    problem = checkFound(std::move(captured));
  const std::string why = !isCached ? "not used: " + cache.refusal()
                          : isTaken ? "hit: " + cache.file()
                          : kept    ? missWords(cache, *kept)
                                    : "";
  std::optional<Prepared> step;
  if (agreed->compiles() && !problem) {
    runtime::Expected<Prepared> made = prepared(std::move(captured));
    if (made)
      step.emplace(std::move(*made));
    else
      problem = made.error();
  }
  if (runtime::Error failed = agreed->shareError(problem, explanation))
    return failed;

  runtime::Expected<runtime::Artefact> made = runtime::Error("no rank has made the step");
  if (isTaken)
    made = std::move(*kept->step);
  const auto emit = [&](llvm::ArrayRef<KernelSource> kernels) { return compileTarget->emitTogether(kernels, ranks); };
  if (step)
    made = finished(std::move(*step), emit);
  else if (agreed->isAnyCompiling())
    (void)emit({}).error(); // what this rank makes for others; each of them says what it lacks
  std::string entry;
  if (made && agreed->isSource()) {
    const runtime::Expected<std::string> bytes = cache.entry(*made, lastReport);
    entry = bytes ? *bytes : ""; // none of the others' then
  }
  const runtime::Expected<std::string> received = agreed->exchange(entry);
  if (!received)
    return made ? received.error() : made.error();
  lastReport.cache = why;
  lastReport.fromCache = isTaken;
  if (isCached && (isTaken || step))
    cache.count(kept->step.has_value());
  if (step && made && isCached && !kept->step)
    if (runtime::Error notKept = cache.store(*made, lastReport))
      lastReport.cache += "; not kept: " + notKept.message();
  if (agreed->source() == ranks.rank())
    return made;
  std::optional<runtime::Artefact> taken = cache.read(*received, lastReport);
  lastReport.cache += "; taken from rank " + std::to_string(agreed->source());
  if (!taken)
    return runtime::Error("what rank " + std::to_string(agreed->source()) + " has compiled is no step");
  return std::move(*taken);
}

/// What custom ops compute is looked at in the planned function, where they have their sizes.
runtime::Error CompileSession::checkFound(OwningOpRef<ModuleOp> captured) {
  const CompileReport found = lastReport;
  const runtime::Expected<Planned> step = planned(std::move(captured));
  lastReport = found;
  return step ? checkCustom(*step->module) : step.error();
}

/// From -O3 on: chooses how the kernels are compiled. `choices` gets a line for each kernel: its key in tuning files, a
/// tab, and the choice.
runtime::Error CompileSession::tune(Planned &step, std::vector<KernelSource> &kernels, std::string &choices) {
  if (compileOptions.pipeline.level < tunedLevel)
    return {};
  const llvm::TimeTraceScope traced("tuning");
  const auto start = std::chrono::steady_clock::now();
  const std::string &folder = compileOptions.cache.place();
  TuningOptions options{.file = compileOptions.tuning,
                        .isOfUser = !compileOptions.tuning.empty(),
                        .threads = compileOptions.threads,
                        .seconds = compileOptions.tuningSeconds};
  if (!options.isOfUser && !folder.empty())
    options.file = folder + "/kernels.tcctune";
  const runtime::Expected<TuningReport> tuned = compileTarget->tune(kernels, step.plan, options);
  if (!tuned)
    return tuned.error();
  for (const auto &[kernel, choice] : tuned->choices)
    choices += kernel + '\t' + choice + '\n';
  lastReport.tuned = tuned->text();
  lastReport.codegenSteps.emplace_back("tuning", millisecondsSince(start));
  if (compileOptions.watched)
    lastReport.kernels = kernels;
  if (compileOptions.remarks)
    addTuningRemarks(*tuned, step.plan, *step.module->getContext(), lastReport.remarks);
  lastReport.remarks = joined(lastReport.remarks);
  return {};
}

/// Whether a kept step has what the user's tuning file chooses. What the file lacks is added to it from the step.
runtime::Expected<bool> CompileSession::hasChoicesOfFile(const runtime::Artefact &known) const {
  const auto entry = known.metadata.find(tuningEntry);
  if (compileOptions.tuning.empty() || entry == known.metadata.end())
    return true;
  auto file = runtime::TuningFile::open(compileOptions.tuning);
  if (!file)
    return file.error();
  std::map<std::string, std::string> choices, missing;
  for (StringRef rest = entry->second; !rest.empty();) {
    const auto [line, after] = rest.split('\n');
    const auto [kernel, choice] = line.split('\t');
    choices[kernel.str()] = choice.str();
    rest = after;
  }
  for (const auto &[kernel, choice] : choices) {
    const std::optional<std::string> held = file->choice(kernel);
    if (held && *held != choice)
      return false;
    if (!held)
      missing[kernel] = choice;
  }
  if (missing.empty())
    return true;
  if (runtime::Error problem = file->addChoices(missing))
    return problem;
  return true;
}

/// Compiles without the cache of steps. Code of single kernels may come from disk all the same.
runtime::Expected<runtime::Artefact> CompileSession::compiled(OwningOpRef<ModuleOp> captured) {
  runtime::Expected<Prepared> step = prepared(std::move(captured));
  if (!step)
    return step.error();
  return finished(std::move(*step), [&](llvm::ArrayRef<KernelSource> kernels) { return compileTarget->emit(kernels); });
}

/// All that is done before machine code.
runtime::Expected<CompileSession::Prepared> CompileSession::prepared(OwningOpRef<ModuleOp> captured) {
  OwningOpRef<ModuleOp> original;
  if (compileOptions.pipeline.verifyEach) {
    printsToResults(functionOf(*captured)); // the reference's results are the artefact's
    original = cast<ModuleOp>(captured.get()->clone());
  }
  runtime::Expected<Planned> step = planned(std::move(captured));
  if (!step)
    return step.error();
  if (runtime::Error wrong = checkCustom(*step->module))
    return wrong;
  Prepared made{std::move(*step), std::move(original), {}, {}};
  made.kernels = made.step.kernels.sources();
  if (runtime::Error problem = tune(made.step, made.kernels, made.choices))
    return problem;
  return made;
}

/// `emit` makes the code objects of the kernels.
runtime::Expected<runtime::Artefact> CompileSession::finished(Prepared prepared, EmitFunction emit) {
  const llvm::TimeTraceScope traced("code generation");
  const auto emitting = std::chrono::steady_clock::now();
  runtime::Expected<std::vector<std::string>> code = emit(prepared.kernels);
  if (!code)
    return code.error();
  lastReport.codegenSteps.emplace_back("machine code of " + std::to_string(lastReport.compiledKernels) + " kernels",
                                       millisecondsSince(emitting));
  lastReport.emitted = compileTarget->emitted();
  runtime::Expected<std::string> needs = compileTarget->needs();
  if (!needs)
    return needs.error();
  lastReport.codegenMs = 0;
  for (const auto &[name, ms] : lastReport.codegenSteps)
    lastReport.codegenMs += ms;

  runtime::Artefact artefact;
  artefact.targets.push_back(
      {compileTarget->codeName(), std::move(*needs), std::move(prepared.step.plan), std::move(*code)});
  artefact.metadata = {{"target", compileTarget->model().name},
                       {"level", std::to_string(compileOptions.pipeline.level)},
                       {"kernels", std::to_string(lastReport.pipeline.kernels)},
                       {"matmuls", std::to_string(lastReport.pipeline.matmuls)}};
  if (!prepared.choices.empty())
    artefact.metadata[tuningEntry] = prepared.choices;
  if (prepared.original)
    if (runtime::Error wrong = verifyArtefact(*prepared.original, artefact, compileOptions))
      return wrong;
  return artefact;
}

runtime::Expected<OwningOpRef<ModuleOp>> CompileSession::lowered(OwningOpRef<ModuleOp> captured, Phase phase) {
  if (phase >= Phase::fused)
    if (runtime::Error noPlan = chooseRecomputation(*captured))
      return noPlan;
  if (!runPasses(*captured, phase))
    return runtime::Error(saidByDiagnostics);
  lastReport.remarks = joined(lastReport.remarks);
  return captured;
}

runtime::Expected<CompileSession::PlanAndKernels> CompileSession::planAndKernels(OwningOpRef<ModuleOp> captured) {
  runtime::Expected<Planned> step = planned(std::move(captured));
  if (!step)
    return step.error();
  return PlanAndKernels{std::move(step->plan), step->kernels.sources()};
}

runtime::Expected<runtime::Plan> CompileSession::plan(OwningOpRef<ModuleOp> captured) {
  runtime::Expected<PlanAndKernels> both = planAndKernels(std::move(captured));
  if (!both)
    return both.error();
  return std::move(both->plan);
}

runtime::Expected<std::vector<KernelSource>> CompileSession::kernels(OwningOpRef<ModuleOp> captured) {
  runtime::Expected<PlanAndKernels> both = planAndKernels(std::move(captured));
  if (!both)
    return both.error();
  return std::move(both->kernels);
}

runtime::Expected<runtime::Artefact> compileArtefact(OwningOpRef<ModuleOp> captured, CompileOptions options) {
  runtime::Expected<CompileSession> session = CompileSession::open(std::move(options));
  return session ? session->artefact(std::move(captured)) : session.error();
}

} // namespace tcc
