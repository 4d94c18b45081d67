// The usual four steps for layered drawings (Sugiyama, Tagawa, Toda 1981): (1) A box stands a layer below the lowest of
// what it reads; an edge against the order of the function counts for nothing. (2) Long edges get a point in each layer
// between. (3) The boxes of a layer are sorted by the means of their neighbours, several times. (4) Each box is moved
// as near to its neighbours' mean as the ones beside it allow, which is the least sum of squares (isotonic regression).
#include "frontend/report/picture_layout.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace tcc {
namespace {

constexpr double columnGap = 18, layerGap = 30, pointWidth = 6, margin = 10;
constexpr size_t mostPoints = 4000; // of long edges; more of them go straight
constexpr int sweeps = 8;
constexpr double averageCharacter = 6.9, tallest = 56;

/// A box of the level, or a point of a long edge.
struct Place {
  double width = 0, height = 0, x = 0; // x: the middle
  size_t layer = 0;
  std::vector<size_t> above = {}, below = {};
};

size_t characters(const std::string &text) {
  return static_cast<size_t>(
      llvm::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

class Level {
public:
  Level(const GraphPicture &picture, size_t group, const std::map<size_t, LevelLayout> &inner) {
    layout.items = picture.itemsOf(group);
    double most = 1;
    for (PictureItem item : layout.items)
      most = std::max(most, picture.costOf(item));
    for (auto [i, item] : llvm::enumerate(layout.items)) {
      number[item] = i;
      places.push_back(sized(picture, item, inner, std::sqrt(picture.costOf(item) / most)));
    }
    for (const auto &[from, to] : picture.edgesOf(group))
      layout.edges.push_back({number.at(from), number.at(to), {}});
  }

  LevelLayout run() {
    assignLayers();
    addPoints();
    sortLayers();
    assignColumns();
    finish();
    return std::move(layout);
  }

private:
  static Place sized(const GraphPicture &picture, PictureItem item, const std::map<size_t, LevelLayout> &inner,
                     double share) {
    using Sizes = PictureSizes;
    if (!item.isGroup) {
      const double width = Sizes::widthOf(picture.textOf(item.number)) + 2 * Sizes::padding;
      return {width, Sizes::lineHeight + Sizes::padding + tallest * share};
    }
    const double title = Sizes::widthOf(picture.titleOf(item.number)) + 2 * Sizes::padding;
    if (auto open = inner.find(item.number); open != inner.end())
      return {std::max(title, open->second.width), open->second.height + Sizes::headHeight};
    constexpr double narrowest = 84; // a closed group says how many boxes it has
    return {std::max(narrowest, title + 2 * Sizes::padding), 2 * Sizes::lineHeight + Sizes::padding + tallest * share};
  }

  /// Edges that go down: against the order of items none does.
  static bool goesDown(const LevelLayout::Edge &edge) { return edge.from < edge.to; }

  void assignLayers() {
    std::vector<std::vector<size_t>> readers(places.size());
    std::vector<bool> reads(places.size());
    for (const LevelLayout::Edge &edge : layout.edges)
      if (goesDown(edge)) {
        readers[edge.from].push_back(edge.to);
        reads[edge.to] = true;
      }
    for (size_t i = 0; i < places.size(); ++i)
      for (size_t reader : readers[i])
        places[reader].layer = std::max(places[reader].layer, places[i].layer + 1);
    // What reads nothing stands just above its first reader.
    for (size_t i = places.size(); i-- > 0;)
      if (!reads[i] && !readers[i].empty()) {
        size_t least = SIZE_MAX;
        for (size_t reader : readers[i])
          least = std::min(least, places[reader].layer);
        places[i].layer = least - 1;
      }
    // Boxes that nothing connects stand in rows of their own.
    constexpr size_t aRow = 6;
    size_t lonely = 0;
    for (size_t i = 0; i < places.size(); ++i)
      if (!reads[i] && readers[i].empty())
        places[i].layer = lonely++ / aRow;
    for (const Place &place : places)
      layers = std::max(layers, place.layer + 1);
  }

  void addPoints() {
    size_t points = 0;
    for (const LevelLayout::Edge &edge : layout.edges)
      points += goesDown(edge) ? places[edge.to].layer - places[edge.from].layer - 1 : 0;
    for (const LevelLayout::Edge &edge : layout.edges) {
      std::vector<size_t> &way = ways.emplace_back();
      if (!goesDown(edge))
        continue;
      size_t last = edge.from;
      for (size_t layer = places[edge.from].layer + 1; layer < places[edge.to].layer && points <= mostPoints; ++layer) {
        Place point{.width = pointWidth};
        point.layer = layer;
        places.push_back(point);
        way.push_back(places.size() - 1);
        connect(last, places.size() - 1);
        last = places.size() - 1;
      }
      connect(last, edge.to);
    }
    rows.resize(layers);
    for (size_t i = 0; i < places.size(); ++i)
      rows[places[i].layer].push_back(i);
  }
  void connect(size_t above, size_t below) {
    places[above].below.push_back(below);
    places[below].above.push_back(above);
  }

  void sortLayers() {
    std::vector<double> position(places.size());
    const auto number = [&](const std::vector<size_t> &row) {
      for (auto [i, place] : llvm::enumerate(row))
        position[place] = static_cast<double>(i) - static_cast<double>(row.size()) / 2;
    };
    llvm::for_each(rows, number);
    for (int sweep = 0; sweep < sweeps; ++sweep)
      for (size_t i = 0; i < rows.size(); ++i) {
        const bool down = sweep % 2 == 0;
        std::vector<size_t> &row = rows[down ? i : rows.size() - 1 - i];
        std::map<size_t, double> wanted;
        for (size_t place : row)
          wanted[place] = mean(down ? places[place].above : places[place].below, position, position[place]);
        llvm::stable_sort(row, [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
        number(row);
      }
  }
  static double mean(const std::vector<size_t> &neighbours, const std::vector<double> &position, double otherwise) {
    if (neighbours.empty())
      return otherwise;
    double sum = 0;
    for (size_t neighbour : neighbours)
      sum += position[neighbour];
    return sum / static_cast<double>(neighbours.size());
  }

  void assignColumns() {
    std::vector<double> x(places.size());
    for (const std::vector<size_t> &row : rows) {
      double at = 0;
      for (size_t place : row) {
        x[place] = at + places[place].width / 2;
        at += places[place].width + columnGap;
      }
      for (size_t place : row)
        x[place] -= at / 2;
    }
    for (int sweep = 0; sweep < sweeps; ++sweep)
      for (size_t i = 0; i < rows.size(); ++i) {
        const std::vector<size_t> &row = rows[sweep % 2 == 0 ? i : rows.size() - 1 - i];
        std::vector<double> wanted;
        for (size_t place : row) {
          std::vector<size_t> neighbours = places[place].above;
          llvm::append_range(neighbours, places[place].below);
          wanted.push_back(mean(neighbours, x, x[place]));
        }
        placeRow(row, wanted, x);
      }
    for (size_t i = 0; i < places.size(); ++i)
      places[i].x = x[i];
  }

  /// The places nearest to `wanted` that keep the order and the gaps: less what stands before, they only grow.
  void placeRow(const std::vector<size_t> &row, const std::vector<double> &wanted, std::vector<double> &x) const {
    struct Block {
      double sum;
      size_t count;
      double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<double> before(row.size());
    for (size_t i = 1; i < row.size(); ++i)
      before[i] = before[i - 1] + (places[row[i - 1]].width + places[row[i]].width) / 2 + columnGap;
    std::vector<Block> blocks;
    for (size_t i = 0; i < row.size(); ++i) {
      blocks.push_back({wanted[i] - before[i], 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back() = {blocks.back().sum + last.sum, blocks.back().count + last.count};
      }
    }
    size_t i = 0;
    for (const Block &block : blocks)
      for (size_t end = i + block.count; i < end; ++i)
        x[row[i]] = block.mean() + before[i];
  }

  void finish() {
    double left = 0, right = 0;
    for (const Place &place : places) {
      left = std::min(left, place.x - place.width / 2);
      right = std::max(right, place.x + place.width / 2);
    }
    std::vector<double> top(layers), height(layers);
    for (const Place &place : places)
      height[place.layer] = std::max(height[place.layer], place.height);
    double y = margin;
    for (size_t i = 0; i < layers; ++i) {
      top[i] = y;
      y += height[i] + layerGap;
    }
    const auto xOf = [&](const Place &place) { return place.x - left + margin; };
    for (size_t i = 0; i < layout.items.size(); ++i) {
      const Place &place = places[i];
      layout.boxes.push_back({xOf(place) - place.width / 2, top[place.layer] + (height[place.layer] - place.height) / 2,
                              place.width, place.height});
    }
    for (auto [edge, way] : llvm::zip_equal(layout.edges, ways)) {
      const Box &from = layout.boxes[edge.from], &to = layout.boxes[edge.to];
      edge.points.push_back({from.x + from.width / 2, from.y + from.height});
      for (size_t point : way) {
        const size_t layer = places[point].layer;
        edge.points.push_back({xOf(places[point]), top[layer]});
        edge.points.push_back({xOf(places[point]), top[layer] + height[layer]});
      }
      edge.points.push_back({to.x + to.width / 2, to.y});
    }
    layout.width = right - left + 2 * margin;
    layout.height = std::max(y - layerGap, margin) + margin;
  }

  LevelLayout layout;
  std::map<PictureItem, size_t> number;
  std::vector<Place> places; // items, then points
  std::vector<std::vector<size_t>> ways, rows;
  size_t layers = 0;
};

} // namespace

std::string PictureSizes::shortened(const std::string &text) {
  if (characters(text) <= longestLabel)
    return text;
  size_t end = 0;
  for (size_t count = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xc0) != 0x80 && count++ == longestLabel - 1)
      break;
  return text.substr(0, end) + "…";
}

double PictureSizes::widthOf(const std::string &text) {
  return averageCharacter * static_cast<double>(characters(shortened(text)));
}

LevelLayout layoutLevel(const GraphPicture &picture, size_t group, const std::map<size_t, LevelLayout> &inner) {
  return Level(picture, group, inner).run();
}

static void layoutInto(const GraphPicture &picture, size_t group, std::map<size_t, LevelLayout> &all) {
  for (size_t inner : picture.groups[group].groups)
    layoutInto(picture, inner, all);
  all[group] = layoutLevel(picture, group, all);
}

std::map<size_t, LevelLayout> layoutAll(const GraphPicture &picture) {
  std::map<size_t, LevelLayout> all;
  layoutInto(picture, 0, all);
  return all;
}

} // namespace tcc
