#include "models/run_pictures.h"
#include "frontend/files.h"

#include <chrono>
#include <fmt/format.h>

namespace tcc::models {

RunPictures::RunPictures(const TrainOptions &options, TrainLog &log) : options(options), log(log) {
  if (!options.tensorBoardFolder.empty())
    board.emplace(options.tensorBoardFolder);
}

void RunPictures::add(const StepRecord &record) {
  const auto tokens = double(record.tokens);
  if (!options.plotFile.empty()) {
    plot.training.push_back({tokens, record.loss});
    if (record.validationLoss)
      plot.validation.push_back({tokens, *record.validationLoss});
  }
  if (!board)
    return;
  std::vector<std::pair<std::string, double>> values = {{"loss/training", record.loss},
                                                        {"learning_rate", record.learningRate},
                                                        {"gradient_norm", record.norm},
                                                        {"tokens_per_second", record.tokensPerSecond},
                                                        {"tokens", tokens},
                                                        {"skipped_steps", double(record.skipped)}};
  if (record.validationLoss)
    values.emplace_back("loss/held_out", *record.validationLoss);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const bool before = board->complete();
  board->scalars(record.step, std::chrono::duration<double>(now).count(), values);
  if (before && !board->complete())
    log.warning(fmt::format("{}: cannot write the scalars; training goes on without them", options.tensorBoardFolder));
}

void RunPictures::draw(const std::string &title) {
  if (options.plotFile.empty())
    return;
  if (!options.jsonFile.empty() && options.jsonFile != "-" && log.complete())
    plot = plotPointsOfLog(options.jsonFile);
  AtomicFile file(options.plotFile);
  file.write(lossPlot(plot.training, plot.validation, title));
  file.commit();
  log.message(fmt::format("drew the loss to {}", options.plotFile));
}

} // namespace tcc::models
