// What comes of a run: its figures, its page, weights, a sample, and why it diverged.
#include "frontend/state_parts.h"
#include "models/generate.h"
#include "models/run_dumps.h"
#include "models/text_generator.h"
#include "models/trainer_run.h"
#include "runtime/executable.h"

namespace tcc::models {

/// Why the run ends: where the values of its last step stop being finite.
std::string Trainer::divergence() {
  const int64_t last = state.step - 1;
  std::string where;
  try {
    where = step.findNonFinite(stepArguments(options.schedule.rate(last, elapsed), last), options.findNan);
    if (where.empty())
      where = "on the CPU every value of this step is finite";
    else
      where = "first not finite: " + where + (options.findNan ? "" : " (--find-nan names the op and its line)");
  } catch (const Error &error) {
    where = error.what();
  }
  return divergedText(options, skippedInARow, last, where, writtenStep);
}

/// A loss that is not finite may be that of one rank alone, whose parameters are no longer those of the others. Then it
/// is named, by an Error on every rank. With --zero=3 there are no replicas.
void Trainer::compareReplicas() {
  if (options.zero >= 3)
    return;
  StepRecord record{.step = state.step - 1};
  addHashes(record, model);
  ranks.requireEqual(factsOf(record));
}

/// The run's figures, while the step's executable is the only one.
void Trainer::finish() {
  summary.model = options.model;
  summary.config = options.configFile;
  summary.lossFirst = state.lossFirst;
  summary.lossLast = state.lossLast;
  summary.batch = options.batch;
  summary.seq = sequence;
  summary.dtype = options.productName();
  summary.stepMsMedian = times.medianMs();
  if (summary.stepMsMedian > 0)
    summary.tokensPerSecond = double(stepTokens()) / summary.stepMsMedian * 1e3;
  summary.recompiles = step.counters().cache.recompiles;
  const std::shared_ptr<runtime::Executable> executable = step.executable();
  summary.threads = executable->threads();
  if (const auto target = executable->metadata().find("target"); target != executable->metadata().end())
    summary.target = target->second;
  summary.peakBytes = executable->peakBytes();
  if (const auto evaluated = evaluation ? evaluation->executable() : nullptr; evaluated && !device.isGpu())
    summary.plannedBytes += keptBytes(evaluated->plan()); // beside the step
  // The better of two figures, since the machine may be shared: a peak that is too low would flatter the figure.
  if (ranks.isFirst())
    peakFlops = std::max(peakFlops, peakOfRanks(times.meanMs() * double(times.count()) / 1e3));
  if (peakFlops > 0 && summary.stepMsMedian > 0) {
    try {
      summary.mfu = modelFlopsUse(flopsPerToken, summary.tokensPerSecond, peakFlops);
    } catch (const Error &error) {
      log.message(std::string("no share of the machine's peak: ") + error.what());
    }
  }
  if (const std::string table = profile.finish(step); !table.empty()) {
    log.message(table);
    log.message(fmt::format("a step waited {:.3f} ms for its batch",
                            double(waitedNs) * 1e-6 / double(std::max<int64_t>(times.count(), 1))));
  }
  log.finish(summary, elapsed);
  if (!hasDiverged())
    writePage("");
  sayMemory();
  if (state.skipped > 0)
    log.message(fmt::format("{} of {} updates were left out, their loss or gradient norm was not finite", state.skipped,
                            state.step));
}

/// Planned and counted bytes, of all ranks where they keep parts.
void Trainer::sayMemory() {
  const auto say = [&](const char *what, int64_t planned, int64_t counted) {
    if (planned > 0)
      log.message(fmt::format("memory{}: {} bytes planned, {} bytes counted at the peak", what, planned, counted));
    if (ranks.count() == 1 || options.zero == 0)
      return;
    const double own[] = {double(planned), double(counted)};
    std::string text;
    for (const std::vector<double> &bytes : ranks.gather(own))
      text += fmt::format("{} {:.0f} of {:.0f}", text.empty() ? "" : ",", bytes[1], bytes[0]);
    if (planned > 0)
      log.message("bytes counted of those planned, by rank:" + text);
  };
  say("", summary.plannedBytes, summary.peakBytes);
  if (!evaluation || device.isGpu()) // a GPU reports what it has for all functions together
    return;
  const std::shared_ptr<runtime::Executable> evaluated = evaluation->executable(); // null where a rank had no batch
  say(" of evaluation", evaluated ? bytesWhileEvaluating(step.executable()->plan(), evaluated->plan()) : 0,
      evaluated ? evaluated->peakBytes() : 0);
}

/// Lets the first rank have whole what it reads after the last step: parameters to save or to sample with, and all
/// states to search for where values stopped being finite. All ranks come here.
void Trainer::gatherAtTheEnd() {
  if (hasDiverged())
    makeWhole(keptStates(), ranks.handle().get(), WholeOn::firstRank);
  bool isWanted = hasDiverged() || !options.saveFolder.empty() || options.sampleTokens > 0;
  if (options.zero < 3)
    return;
  ranks.share(&isWanted, sizeof isWanted); // other ranks neither save nor sample
  if (isWanted)
    makeWhole(model.trained(), ranks.handle().get(), WholeOn::firstRank);
}

/// The weights under the names of the folder that training began with.
std::vector<NamedTensor> Trainer::savedTensors() const {
  std::vector<NamedTensor> tensors = model.named();
  for (size_t i = 0; i < initialNames.size(); ++i)
    tensors[i].name = initialNames[i];
  return tensors;
}

void Trainer::save() {
  if (options.saveFolder.empty())
    return;
  const runtime::TraceScope traced(timeLine, "save weights", "train");
  if (adapter) {
    writeAdapterFolder(options.saveFolder, config, *adapter, model.named(), options.initFolder, initialConfig);
    writeTokenizerFiles(options.saveFolder, savedFiles);
  } else {
    writeModelFolder(options.saveFolder, config, savedTensors(), initialConfig, savedFiles);
  }
  log.message(fmt::format("wrote the {} to {}", adapter ? "adapter" : "weights", options.saveFolder));
}

void Trainer::sample(std::span<const int32_t> prompt) {
  const runtime::TraceScope traced(timeLine, "sample", "train");
  TextGenerator generator(model, sequence, function({}, {}), options.cachesKeys);
  const std::vector<int32_t> text = generator.generate(prompt, options.sampleTokens, samplingOptions(options));
  log.message("sample:");
  std::fputs((renderText(text, config.vocabulary(), tokenizer) + "\n").c_str(), output);
  std::fflush(output);
}

/// What --profile and --report have of a run that an error ends: how far it came.
void Trainer::showFailure(const std::string &error) {
  profile.finish(step);
  try {
    writePage(error);
  } catch (const Error &) { // that of the run is said
  }
}

void Trainer::writePage(const std::string &error) {
  if (!options.reportFolder.empty())
    step.writeReport(
        options.reportFolder, stepArguments(0, 0),
        {.profile = &profile.recorded(), .log = log.lines(), .error = error, .command = options.commandLine});
}

} // namespace tcc::models
