#include "models/loss_plot.h"
#include "frontend/markup.h"
#include "models/json_file.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>

namespace tcc::models {

namespace {

constexpr double width = 760, height = 440, left = 64, right = 120, top = 44, bottom = 52;
constexpr size_t mostPoints = 2000; // of a drawn line
constexpr const char *trainingColour = "#1f6fb4", *validationColour = "#c8501e";

/// 1, 2 or 5 times a power of ten, so that about `count` steps fill the range.
double roundStep(double range, int count) {
  const double raw = range / count, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * 0.999)
      return factor * power;
  return 10 * power;
}

/// 1500000 as "1.5M".
std::string count(double value) {
  for (const auto &[unit, name] : {std::pair(1e12, "T"), {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= unit)
      return fmt::format("{:.3g}{}", value / unit, name);
  return fmt::format("{:.3g}", value);
}

struct Axes {
  double tokens = 1, low = 0, high = 1, step = 0.2;

  double x(double value) const { return left + (width - left - right) * value / tokens; }
  double y(double loss) const { return height - bottom - (height - top - bottom) * (loss - low) / (high - low); }
};

std::vector<PlotPoint> finite(const std::vector<PlotPoint> &points) {
  std::vector<PlotPoint> kept;
  std::copy_if(points.begin(), points.end(), std::back_inserter(kept),
               [](const PlotPoint &point) { return std::isfinite(point.loss) && std::isfinite(point.tokens); });
  return kept;
}

Axes axesOf(const std::vector<PlotPoint> &training, const std::vector<PlotPoint> &validation) {
  Axes axes;
  double low = INFINITY, high = -INFINITY;
  for (const std::vector<PlotPoint> *points : {&training, &validation})
    for (const PlotPoint &point : *points) {
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
      axes.tokens = std::max(axes.tokens, point.tokens);
    }
  if (low > high)
    return axes;
  if (high - low < 1e-6 * (1 + std::abs(high)))
    high = low + 1;
  axes.step = roundStep(high - low, 6);
  axes.low = std::floor(low / axes.step) * axes.step;
  axes.high = std::ceil(high / axes.step) * axes.step;
  return axes;
}

/// Means of equal numbers of neighbours where there are more points than can be seen.
std::vector<PlotPoint> thinned(const std::vector<PlotPoint> &points) {
  const size_t group = (points.size() + mostPoints - 1) / mostPoints;
  if (group <= 1)
    return points;
  std::vector<PlotPoint> means;
  for (size_t first = 0; first < points.size(); first += group) {
    const size_t last = std::min(points.size(), first + group);
    PlotPoint mean;
    for (size_t i = first; i < last; ++i) {
      mean.tokens += points[i].tokens / double(last - first);
      mean.loss += points[i].loss / double(last - first);
    }
    means.push_back(mean);
  }
  return means;
}

/// An exponential mean over about a fiftieth of the points.
std::vector<PlotPoint> smoothed(std::vector<PlotPoint> points) {
  const double keep = 1 - 1 / std::max(1.0, double(points.size()) / 50);
  double mean = 0, weight = 0;
  for (PlotPoint &point : points) {
    mean = keep * mean + (1 - keep) * point.loss;
    weight = keep * weight + (1 - keep);
    point.loss = mean / weight;
  }
  return points;
}

std::string line(const std::vector<PlotPoint> &points, const Axes &axes, const char *style) {
  if (points.size() < 2)
    return "";
  std::string path;
  for (const PlotPoint &point : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", axes.x(point.tokens), axes.y(point.loss));
  return fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}/>\n", path, style);
}

std::string frame(const Axes &axes, std::string_view title) {
  std::string out =
      fmt::format("<text x=\"{}\" y=\"24\" font-size=\"15\" font-weight=\"600\">{}</text>\n", left, markupText(title));
  const int digits = axes.step < 1 ? int(std::ceil(-std::log10(axes.step) - 1e-9)) : 0;
  for (double value = axes.low; value <= axes.high + axes.step / 2; value += axes.step)
    out += fmt::format("<path d=\"M{0} {1:.1f}H{2}\" stroke=\"#e4e4e4\"/><text x=\"{3}\" y=\"{4:.1f}\" "
                       "text-anchor=\"end\">{5:.{6}f}</text>\n",
                       left, axes.y(value), width - right, left - 8, axes.y(value) + 4, value, digits);
  const double step = roundStep(axes.tokens, 6);
  for (double value = 0; value <= axes.tokens * 1.0001; value += step)
    out += fmt::format("<path d=\"M{0:.1f} {1}v5\" stroke=\"#888\"/><text x=\"{0:.1f}\" y=\"{2}\" "
                       "text-anchor=\"middle\">{3}</text>\n",
                       axes.x(value), height - bottom, height - bottom + 20, count(value));
  return out + fmt::format("<path d=\"M{0} {1}H{2}\" stroke=\"#888\"/><text x=\"{3}\" y=\"{4}\" "
                           "text-anchor=\"middle\">tokens</text><text transform=\"translate(16 {5}) rotate(-90)\" "
                           "text-anchor=\"middle\">loss</text>\n",
                           left, height - bottom, width - right, (left + width - right) / 2, height - 10,
                           (top + height - bottom) / 2);
}

} // namespace

PlotPoints plotPointsOfLog(const std::string &path) {
  PlotPoints points;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const auto json = parseLogLine(line);
    if (!json.is_object() || !json.contains("step") || !json.contains("tokens") || !json["tokens"].is_number())
      continue;
    const double tokens = json["tokens"];
    for (const auto &[key, list] : {std::pair("loss", &points.training), std::pair("val_loss", &points.validation)})
      if (json.contains(key) && json[key].is_number())
        list->push_back({tokens, json[key].get<double>()});
  }
  return points;
}

std::string lossPlot(const std::vector<PlotPoint> &allTraining, const std::vector<PlotPoint> &allValidation,
                     std::string_view title) {
  const std::vector<PlotPoint> training = finite(allTraining), validation = finite(allValidation);
  const Axes axes = axesOf(training, validation);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#fff\"/>\n",
      width, height);
  out += frame(axes, title);
  const std::vector<PlotPoint> mean = smoothed(thinned(training));
  out += line(thinned(training), axes, fmt::format("stroke=\"{}\" stroke-opacity=\"0.25\"", trainingColour).c_str());
  out += line(mean, axes, fmt::format("stroke=\"{}\" stroke-width=\"2\"", trainingColour).c_str());
  out += line(validation, axes, fmt::format("stroke=\"{}\" stroke-width=\"2\"", validationColour).c_str());
  for (const PlotPoint &point : validation)
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", axes.x(point.tokens),
                       axes.y(point.loss), validationColour);
  // Names at the lines' ends, never on each other.
  double trainingAt = mean.empty() ? 0 : axes.y(mean.back().loss) + 4;
  double validationAt = validation.empty() ? 0 : axes.y(validation.back().loss) + 4;
  if (!mean.empty() && !validation.empty() && std::abs(trainingAt - validationAt) < 15) {
    const double middle = (trainingAt + validationAt) / 2, side = trainingAt <= validationAt ? -7.5 : 7.5;
    trainingAt = middle + side;
    validationAt = middle - side;
  }
  const auto name = [&](double y, const char *colour, const char *text, double value) {
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"{}\" font-weight=\"600\">{} {:.3f}</text>\n",
                       width - right + 8, y, colour, text, value);
  };
  if (!mean.empty())
    name(trainingAt, trainingColour, "training", mean.back().loss);
  if (!validation.empty())
    name(validationAt, validationColour, "held out", validation.back().loss);
  return out + "</svg>\n";
}

} // namespace tcc::models
