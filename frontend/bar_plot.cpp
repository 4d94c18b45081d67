#include "frontend/bar_plot.h"
#include "frontend/markup.h"

#include <algorithm>
#include <fmt/format.h>

namespace tcc {

namespace {

constexpr double width = 800, left = 200, right = 220, top = 44, barHeight = 20, gap = 8;
constexpr const char *colour = "#1f6fb4";

} // namespace

std::string barPlot(const std::vector<Bar> &bars, std::string_view title) {
  double most = 0;
  for (const Bar &bar : bars)
    most = std::max({most, bar.value, bar.high});
  const double scale = most > 0 ? (width - left - right) / most : 0;
  const double height = top + double(bars.size()) * (barHeight + gap) + 16;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#333\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#fff\"/>\n<text x=\"16\" y=\"24\" font-size=\"15\" font-weight=\"600\">{2}</text>\n",
      width, height, markupText(title));
  double y = top;
  for (const Bar &bar : bars) {
    const double end = left + std::max(bar.value, bar.high) * scale;
    out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", left - 8, y + 14, markupText(bar.name));
    if (bar.value > 0)
      out += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"><title>{}</title></rect>",
                         left, y, bar.value * scale, barHeight, colour, markupText(bar.tooltip));
    if (bar.high > bar.low)
      out += fmt::format("<path d=\"M{0:.1f} {2:.1f}H{1:.1f}M{0:.1f} {3:.1f}v6M{1:.1f} {3:.1f}v6\" stroke=\"#333\"/>",
                         left + bar.low * scale, left + bar.high * scale, y + barHeight / 2, y + barHeight / 2 - 3);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", end + 6, y + 14, markupText(bar.text));
    y += barHeight + gap;
  }
  return out + "</svg>\n";
}

} // namespace tcc
