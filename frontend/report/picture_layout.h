// Decides where the boxes of a picture stand. Each level is laid out by itself, in layers from top to bottom, so that
// what is read stands above its readers.
#pragma once
#include "frontend/report/graph_picture.h"
#include <map>

namespace tcc {

struct Point {
  double x = 0, y = 0;
};

struct Box {
  double x = 0, y = 0, width = 0, height = 0; ///< from the corner of the level
};

/// One level: the boxes of a group, in the units of text of 12 pixels.
struct LevelLayout {
  double width = 0, height = 0;
  std::vector<PictureItem> items;
  std::vector<Box> boxes; ///< aligned with items
  struct Edge {
    size_t from = 0, to = 0; ///< numbers of items
    std::vector<Point> points;
  };
  std::vector<Edge> edges;
};

/// How large the boxes are and what they say.
struct PictureSizes {
  static constexpr double lineHeight = 15, padding = 8, headHeight = 24;
  static constexpr size_t longestLabel = 34; ///< characters; what is longer is cut

  /// `text` cut to longestLabel characters.
  static std::string shortened(const std::string &text);
  static double widthOf(const std::string &text);
};

/// The layout of one level; groups are boxes as large as `inner` says, or closed ones where it has none.
LevelLayout layoutLevel(const GraphPicture &picture, size_t group, const std::map<size_t, LevelLayout> &inner = {});

/// The layouts of all levels, each group open within its parent.
std::map<size_t, LevelLayout> layoutAll(const GraphPicture &picture);

} // namespace tcc
