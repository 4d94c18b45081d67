// lossPlot: draws the loss of a training run as one SVG text that needs no scripts and no font files.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

struct PlotPoint {
  double tokens = 0, loss = 0;
};

struct PlotPoints {
  std::vector<PlotPoint> training, validation;
};

/// The points of a log that train_gpt --json has written. Lines that describe no training step are skipped.
PlotPoints plotPointsOfLog(const std::string &path);

/// The SVG text. Training loss is drawn twice over the tokens seen: raw and pale, and as a running mean on top.
/// Validation loss is a line with a dot for each point. Axis numbers are round, each line has its name at its right
/// end, and points that are not finite are left out. If no points remain, only the axes and the title are drawn.
std::string lossPlot(const std::vector<PlotPoint> &training, const std::vector<PlotPoint> &validation,
                     std::string_view title);

} // namespace tcc::models
