// The flags of train_gpt as CLI11 declares them; options.cpp makes a run's options of their values.
#pragma once
#include "models/options.h"

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tcc::models {

/// The values as CLI11 stores them. Those that are not given get defaults later, since some defaults depend on others.
struct RawOptions {
  std::string schedule = "cosine", order = "random", parameters = "f32", reduce = "tree", zero = "0";
  std::optional<int64_t> layers, heads, keyValueHeads, width, vocab, steps, warmup, checkpointEvery, generate;
  std::optional<std::string> batch; // a number or auto
  std::optional<double> rate, minimumRate, minutes, beta2, memory, price;
  bool hasNoPacking = false;
  std::string codeFlag; // the first flag of the compiler that changes a step's code, such as "-O3"
};

/// Declares every flag but --help and --version. When `app` parses, it writes values to `options` and `raw`, which must
/// still be there. `deviceKinds`: as for parseTrainOptions.
void declareOptions(CLI::App &app, TrainOptions &options, RawOptions &raw, const std::vector<std::string> &deviceKinds);

} // namespace tcc::models
