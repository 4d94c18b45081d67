// barPlot: a list of figures as bars, one SVG text that needs no scripts and no font files.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

struct Bar {
  std::string name = {};    ///< before the bar
  double value = 0;         ///< its length; 0 draws none
  std::string text = {};    ///< after the bar
  std::string tooltip = {}; ///< empty: none
  double low = 0, high = 0; ///< the ends of a line over the bar's end, which shows a spread; equal ones draw none
};

/// The SVG text. Each bar has a row; the longest one is as wide as the figure allows.
std::string barPlot(const std::vector<Bar> &bars, std::string_view title);

} // namespace tcc
