#include "models/replicas.h"
#include "codegen/build_id.h"
#include "models/checksum.h"
#include "runtime/cpu.h"
#include "runtime/flights.h"

#include <fmt/format.h>

namespace tcc::models {

RankFacts factsOf(const RunState &state) {
  RankFacts facts{{"build of tcc", buildText()}, {"CPU features", runtime::cpuFeatures()}};
  for (const auto *list : {&state.identity, &state.settings})
    for (const auto &[name, value] : *list)
      facts["'" + name + "'"] = value;
  return facts;
}

RankFacts factsOf(const runtime::Plan &plan) {
  const std::string exchanges = runtime::exchangesOf(plan);
  return {{"step's collectives", checksumOf(std::as_bytes(std::span(exchanges)))}};
}

RankFacts factsOf(const StepRecord &record) {
  RankFacts facts;
  for (const auto &[name, hash] : record.parameterHashes)
    facts[fmt::format("parameter {} after step {}", name, record.step)] = hash;
  return facts;
}

void addHashes(StepRecord &record, const Model &model) {
  for (const Parameter &parameter : model.trained())
    record.parameterHashes.emplace_back(
        parameter.name(),
        checksumOf({static_cast<const std::byte *>(parameter.rawForReading()), size_t(parameter.bytes())}));
}

void shareProgress(RunRanks &ranks, RunState &state) {
  struct Progress {
    int64_t step, skipped;
    double lossFirst, lossLast, seconds;
  } progress{state.step, state.skipped, state.lossFirst, state.lossLast, state.seconds.value_or(-1)};
  ranks.share(&progress, sizeof progress);
  state.step = progress.step;
  state.skipped = progress.skipped;
  state.lossFirst = progress.lossFirst;
  state.lossLast = progress.lossLast;
  if (progress.seconds >= 0)
    state.seconds = progress.seconds;
}

void shareStates(RunRanks &ranks, Model &model, std::span<const State> kept) {
  if (ranks.count() == 1)
    return;
  for (const Parameter &parameter : model.parameters())
    ranks.share(parameter.raw(), parameter.bytes());
  if (model.adapter())
    for (const Parameter &parameter : model.trained())
      ranks.share(parameter.raw(), parameter.bytes());
  for (const State &state : kept)
    ranks.share(state.raw(), state.bytes());
}

} // namespace tcc::models
