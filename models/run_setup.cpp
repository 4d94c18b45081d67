#include "models/run_setup.h"
#include "models/input_error.h"
#include "runtime/dtype.h"

#include <fmt/format.h>
#include <unistd.h>

namespace tcc::models {

void checkMemory(const std::string &what, double bytes) {
  const double present = double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  if (bytes > present)
    throw InputError(fmt::format("{} {:.1f} GB, but this machine has {:.1f} GB", what, bytes / 1e9, present / 1e9));
}

void checkSequence(const TrainOptions &options, const ModelConfig &config) {
  if (options.sequence && *options.sequence > config.positions())
    throw InputError(fmt::format("--seq={}, but the model of {} has {} positions, the longest sequence",
                                 *options.sequence, options.initFolder, config.positions()));
}

ModelConfig trainedConfig(const TrainOptions &options, const std::optional<ModelFolder> &folder) {
  const ModelConfig config = folder ? folder->config() : options.config;
  checkSequence(options, config);
  if (options.dropout > 0 && !std::holds_alternative<Gpt2Config>(config.kind))
    throw InputError(fmt::format("--dropout is GPT-2's, the model of {} has none", options.initFolder));
  checkMemory("weights and the optimizer's two moments need", 3.0 * sizeof(float) * double(parameterCount(config)));
  return config;
}

optim::AdamwSettings adamwSettings(const TrainOptions &options) {
  optim::AdamwSettings settings;
  settings.beta1 = options.beta1;
  settings.beta2 = options.beta2;
  settings.eps = options.epsilon;
  settings.weightDecay = options.weightDecay;
  settings.clip = options.clipNorm;
  return settings;
}

RunState describeRunState(const TrainOptions &options, const ModelConfig &config, int64_t sequence,
                          const TokenSource &data) {
  const auto text = [](const auto &value) { return fmt::format("{}", value); };
  RunState state;
  state.identity = {{"model", config.describe()},
                    {"optimizer", "adamw"},
                    {"seed", text(options.seed)},
                    {"dropout", text(options.dropout)},
                    {"batch", fmt::format("{} x {} x {}", options.accumulate, options.batch, sequence)},
                    {"order", options.order == Order::Random ? "random" : "sequential"},
                    {"data", fmt::format("{} tokens, checksum {}", data.size(), data.fingerprint())},
                    {"held-out share", text(options.evalEvery && options.evalFile.empty() ? options.evalShare : 0)}};
  const Schedule &schedule = options.schedule;
  const char *kinds[] = {"cosine", "constant", "trapezoid"};
  state.settings = {{"--lr", text(schedule.peak)},
                    {"--schedule", kinds[size_t(schedule.kind)]},
                    {"--warmup", text(schedule.warmup)},
                    {"--min-lr", schedule.floor ? text(*schedule.floor) : "the default"},
                    {"--steps", schedule.length.steps ? text(*schedule.length.steps) : "none"},
                    {"--minutes", schedule.length.seconds ? text(*schedule.length.seconds / 60) : "none"},
                    {"--weight-decay", text(options.weightDecay)},
                    {"--beta1", text(options.beta1)},
                    {"--beta2", text(options.beta2)},
                    {"--clip", text(options.clipNorm)},
                    {"--dtype", std::string(runtime::name(options.products))},
                    {"-O", text(options.level)}};
  return state;
}

} // namespace tcc::models
