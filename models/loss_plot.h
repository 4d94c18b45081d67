// The loss of a run as a figure: one SVG file without scripts or outside fonts.
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

/// The points of a --json log of train_gpt; lines that are no steps are passed over.
PlotPoints plotPointsOfLog(const std::string &path);

/// Training loss as thin raw values under their running mean, validation loss as points on a line, both over tokens;
/// axes with round numbers, lines named at their ends. Values that are not finite are left out; without any the axes
/// are empty.
std::string lossPlot(const std::vector<PlotPoint> &training, const std::vector<PlotPoint> &validation,
                     std::string_view title);

} // namespace tcc::models
