// RunPictures: writes what other programs show of a run: a figure of the loss, CSV, and the scalars of TensorBoard and
// Weights & Biases.
#pragma once
#include "models/csv_log.h"
#include "models/loss_plot.h"
#include "models/options.h"
#include "models/tensorboard.h"
#include "models/train_log.h"
#include "models/wandb.h"

#include <optional>
#include <string>

namespace tcc::models {

class RunPictures {
public:
  /// Writes what the options ask for, from the step that the run begins with or goes on from. Throws Error where a file
  /// or folder cannot be written. `title` says what is trained on what. `options` and `log` must outlive this object.
  RunPictures(const TrainOptions &options, TrainLog &log, const std::string &title, int64_t firstStep);

  void add(const StepRecord &record);
  /// The end of the run, with the exit status of the program.
  void finish(int status, const RunSummary &summary, double elapsed);
  /// Draws --plot, of the whole run where its log has it. Throws Error where the file cannot be written.
  void draw(const std::string &title);

private:
  template <typename Log>
  void say(const Log &written, bool before, const std::string &where);

  const TrainOptions &options;
  TrainLog &log;
  std::optional<TensorBoardLog> board;
  std::optional<CsvLog> table;
  std::optional<WandbRun> run;
  PlotPoints plot;
};

} // namespace tcc::models
