// RunPictures: writes what other programs show of a run, a figure of the loss and scalars for TensorBoard.
#pragma once
#include "models/loss_plot.h"
#include "models/options.h"
#include "models/tensorboard.h"
#include "models/train_log.h"

#include <optional>
#include <string>

namespace tcc::models {

class RunPictures {
public:
  /// Writes what the options ask for. Throws Error where TensorBoard's folder cannot be written. `options` and `log`
  /// must outlive this object.
  RunPictures(const TrainOptions &options, TrainLog &log);

  void add(const StepRecord &record);
  /// Draws --plot, of the whole run where its log has it. Throws Error where the file cannot be written.
  void draw(const std::string &title);

private:
  const TrainOptions &options;
  TrainLog &log;
  std::optional<TensorBoardLog> board;
  PlotPoints plot;
};

} // namespace tcc::models
