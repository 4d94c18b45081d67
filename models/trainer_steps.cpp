// The loop: a batch, a step, its line in the log, evaluations and checkpoints where they are due.
#include "frontend/state_parts.h"
#include "models/launch_ranks.h"
#include "models/trainer_run.h"
#include "runtime/executable.h"
#include "runtime/memory.h"

#include <cmath>

namespace tcc::models {

bool Trainer::isDue(int64_t every) const {
  return every > 0 && (state.step % every == 0 || isOver());
}

/// Whether what follows needs the states as this step leaves them.
bool Trainer::endsHere() const {
  return isOver() || (evaluation && isDue(options.evalEvery)) || isDue(options.hashEvery) ||
         (!options.checkpointFolder.empty() && isDue(options.checkpointEvery)); // on all ranks alike
}

/// The batch of step `index`; what the step waits for it is counted.
void Trainer::readBatch(int64_t index) {
  const int64_t begin = runtime::Profiler::now();
  if (options.prefetches)
    prefetched.read(index, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  else
    batches.read(index, inputs.tokens.data<int32_t>(), inputs.targets.data<int32_t>());
  const int64_t end = runtime::Profiler::now();
  waitedNs += end - begin;
  if (timeLine)
    timeLine->record({"wait for batch", "data", begin, end, {{"step", index}}});
}

StartedStep Trainer::startStep() {
  StartedStep next{.index = state.step, .begin = Clock::now()};
  readBatch(next.index);
  next.rate = options.schedule.rate(next.index, elapsed);
  profile.beforeStep(step);
  reportStep(next.index);
  const std::vector<Array> results = step.call(stepArguments(next.rate, next.index));
  next.loss = results[0];
  next.norm = results[1];
  ++state.step;
  return next;
}

/// On a device that works beside the host, a step's loss is read while the next one runs.
void Trainer::trainStep() {
  const runtime::TraceScope traced(timeLine, "training step", "train", {{"step", state.step}});
  if (timeLine)
    timeLine->count("tensors", runtime::Profiler::now(), runtime::countedLiveBytes());
  StartedStep next = startStep();
  finishStarted();
  started = std::move(next);
  if (!device.isGpu() || endsHere())
    finishStarted();
}

void Trainer::finishStarted() {
  if (const std::optional<StartedStep> before = std::exchange(started, std::nullopt))
    finishStep(*before);
}

/// Clocks and signals are a rank's own; what the run does next must be the same on all.
void Trainer::agreeOnMoment() {
  const RunRanks::Moment agreed = ranks.agree({elapsed, stop ? stop->signal() : 0});
  elapsed = agreed.elapsed;
  stopSignal = int(agreed.signal);
}

/// Waits for the step's results and logs it.
void Trainer::finishStep(const StartedStep &done) {
  const int64_t index = done.index;
  const double loss = done.loss.item(), norm = done.norm.item(), rate = done.rate;
  const Clock::time_point begin = std::max(done.begin, lastFinished);
  lastFinished = Clock::now();
  const double ms = std::chrono::duration<double>(lastFinished - begin).count() * 1e3;
  times.add(ms);
  elapsed += ms / 1e3;
  agreeOnMoment();
  if (summary.firstStepSeconds == 0)
    summary.firstStepSeconds = summary.compileSeconds + ms / 1e3;
  const bool isNewest = index + 1 == state.step;
  if (index == 0)
    state.lossFirst = loss;
  state.lossLast = loss;
  const bool isSkipped = !std::isfinite(loss) || !std::isfinite(norm);
  skippedInARow = isSkipped ? skippedInARow + 1 : 0;
  if (isSkipped)
    if (state.skipped++ == 0)
      log.message(
          fmt::format("step {}: loss {} with gradient norm {}, so its update was left out ({})", index, loss, norm,
                      step.lossScaling().empty() ? "a smaller --lr may help" : "the loss is scaled by half as much"));
  StepRecord record{.step = index,
                    .loss = loss,
                    .ms = ms,
                    .tokensPerSecond = double(stepTokens()) / ms * 1e3,
                    .learningRate = rate,
                    .norm = norm,
                    .tokens = (index + 1) * stepTokens(),
                    .elapsed = elapsed,
                    .skipped = state.skipped,
                    .averageTokensPerSecond = double(stepTokens()) / times.meanMs() * 1e3};
  if (times.count() == 1) // each step uses the same memory
    summary.peakBytes = step.executable()->peakBytes();
  record.plannedBytes = summary.plannedBytes;
  record.countedBytes = summary.peakBytes;
  if (isNewest)
    examine(record, evaluation && isDue(options.evalEvery), isDue(options.hashEvery));
  if (peakFlops > 0)
    record.machineShare = flopsPerToken * record.averageTokensPerSecond / peakFlops;
  if (record.machineShare > 1 && !saidAboveLimit) {
    saidAboveLimit = true;
    log.message("!: faster than the machine's peak, which was measured while it was busy; tcc --calibrate measures it "
                "again");
  }
  log.step(record);
  pictures.add(record);
}

/// Evaluates the parameters as the step leaves them, or hashes them. Those that are kept in parts are whole meanwhile.
void Trainer::examine(StepRecord &record, bool evaluates, bool hashes) {
  if (!evaluates && !hashes)
    return;
  const std::vector<StateParts> parts = makeWhole(model.trained(), ranks.handle().get(), WholeOn::allRanks);
  if (evaluates) {
    const runtime::TraceScope traced(timeLine, "evaluate", "train", {{"step", record.step}});
    record.validationLoss = summary.validationLoss = evaluation->loss();
  }
  if (hashes) {
    addHashes(record, model);
    ranks.requireEqual(factsOf(record)); // replicas that part have no bits to answer for
  }
  cutAgain(parts, ranks.handle().get());
}

/// A checkpoint that cannot be written is no reason to end a run, but the last one is what it was for. States that are
/// kept in parts are put together first, for which all ranks come here; they know then whether the first one has
/// written it.
void Trainer::writeCheckpoint(bool isLast) {
  const bool isTogether = options.zero > 0 && ranks.count() > 1;
  if (options.checkpointFolder.empty() || (!checkpoints && !isTogether) || writtenStep == state.step)
    return;
  if (options.schedule.length.seconds)
    state.seconds = elapsed;
  const BusyRank busy;
  const runtime::TraceScope traced(timeLine, "write checkpoint", "train", {{"step", state.step}});
  const std::vector<State> kept = wholeStates(keptStates(), ranks.handle().get());
  const std::vector<StateParts> parts = makeWhole(model.trained(), ranks.handle().get(), WholeOn::firstRank);
  if (checkpoints) {
    try {
      checkpoints->write(state, model, kept, initialConfig, options.initFolder, savedFiles);
      writtenStep = state.step;
    } catch (const Error &error) {
      const std::string why = fmt::format("no checkpoint of {} steps: {}", state.step, error.what());
      lacksCheckpoint = isLast;
      isLast ? log.error(why) : log.warning(why + "; the run goes on");
    }
  }
  cutAgain(parts, ranks.handle().get());
  if (isTogether)
    ranks.share(&writtenStep, sizeof writtenStep);
}

void Trainer::trainAll() {
  const int64_t firstStep = state.step;
  try {
    agreeOnMoment();
    while (!isOver() && !stopSignal && !hasDiverged()) {
      trainStep();
      if (started) // nothing waits for the step, which has agreed on nothing yet
        agreeOnMoment();
      if (!started && isDue(options.checkpointEvery))
        writeCheckpoint();
    }
    finishStarted();
  } catch (const Error &) {
    if (device.isGpu() && device.device->isClosed() && writtenStep > 0)
      log.warning(
          fmt::format("the GPU is lost; the same command with --resume goes on after step {}", writtenStep - 1));
    throw;
  }
  if (state.step > firstStep && !hasDiverged()) // older checkpoints are worth more than the state that diverged
    writeCheckpoint(true);
}

} // namespace tcc::models
