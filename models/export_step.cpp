#include "models/export_step.h"
#include "models/generate.h"
#include "models/model.h"
#include "models/run_device.h"
#include "models/run_files.h"
#include "models/run_ranks.h"
#include "models/run_setup.h"
#include "models/start_folders.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>

namespace tcc::models {
namespace {

/// "x86-64-v3,x86-64-v4"
std::vector<std::string> splitNames(const std::string &list) {
  std::vector<std::string> names;
  std::istringstream stream(list);
  for (std::string name; std::getline(stream, name, ',');)
    names.push_back(name);
  return names;
}

/// The weights that the options begin with, in the model.
void loadInitialWeights(const TrainOptions &options, const std::optional<ModelFolder> &folder,
                        const std::optional<AdapterFolder> &adapter, Model &model) {
  if (folder)
    model.load(*folder);
  if (adapter)
    model.load(*adapter);
  else if (options.adapts())
    model.initializeAdapter(options.seed);
  else if (!folder)
    model.initialize(options.seed);
}

} // namespace

void exportStep(const TrainOptions &given) {
  checkExportFiles(given);
  TrainOptions options = plannedOptions(withoutData(given));
  findStartFolders(options);
  const RunDevice device = chooseDevice(options.device, options.tuning);
  chooseProducts(options, device);
  const std::optional<ModelFolder> folder = openModelFolder(options);
  const ModelConfig config = trainedConfig(options, folder);
  const std::optional<AdapterFolder> adapter = openAdapter(options, config);
  Model model(config, trainedAdapter(options, config, adapter), options.parameters);
  const std::unique_ptr<optim::Optimizer> optimizer = makeOptimizer(options, model.trained());
  const DropoutRates dropout = trainedDropout(options, config);
  std::vector<std::string> architectures = splitNames(options.march);
  options.march = architectures.empty() ? "" : architectures.front();
  Function step = trainingFunction(options, model, *optimizer,
                                   functionOptions(options, device, stepInputNames(dropout), {"loss", "norm"}, {}));
  const std::vector<Array> arguments =
      emptyStepInputs(options.accumulate * options.batch, options.sequence.value_or(config.positions()), dropout);

  step.exportLibrary(options.compileOnly, arguments, architectures, options.hasRuntime);
  std::istringstream parts(step.lastCompile().cache);
  for (std::string part; !options.quiet && std::getline(parts, part);)
    fmt::print(stderr, "cache of {}\n", part);
  const auto say = [&](const std::string &path) {
    if (!options.quiet)
      fmt::print(stderr, "wrote {}, {:.1f} kB\n", path, double(std::filesystem::file_size(path)) / 1e3);
  };
  say(options.compileOnly);
  if (options.initialStates.empty())
    return;
  loadInitialWeights(options, folder, adapter, model);
  saveStates(options.initialStates, step.states());
  say(options.initialStates);
}

} // namespace tcc::models
