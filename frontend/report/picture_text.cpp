#include "frontend/report/picture_text.h"
#include "frontend/markup.h"
#include "frontend/report/picture_layout.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include <cmath>

namespace tcc {
namespace {

using llvm::StringRef;

/// How boxes of a kind are filled, in light and in dark.
struct Fill {
  const char *kind, *light, *dark;
};
constexpr Fill fills[] = {{"input", "#e6e6ea", "#3b3d45"},     {"op", "#ffffff", "#2b2d33"},
                          {"kernel", "#bfe3c6", "#245c38"},    {"matmul", "#b9d4f4", "#244d80"},
                          {"attention", "#e3c8f2", "#5d3477"}, {"view", "#f4f1e4", "#45412f"},
                          {"custom", "#f7d3b0", "#7a4a1b"},    {"control", "#f5c6c9", "#7a2e36"}};

std::string megabytes(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f MB", static_cast<double>(bytes) * 1e-6);
  return text;
}

/// What is said of a node beside its name, a line each.
std::string detailsOf(const PictureNode &node) {
  std::string text = node.names.front();
  if (node.names.size() > 1)
    text += " … " + node.names.back() + " (" + std::to_string(node.names.size()) + ")";
  const bool isOne = node.kind != "kernel" && node.ops.size() == 1 && node.ops.front() != node.kind;
  text += "\n" + node.kind + " " + (isOne ? node.ops.front() + " " : "") + node.type;
  if (!node.source.empty())
    text += "\n" + node.source;
  if (node.kind == "kernel")
    text += "\n" + std::to_string(node.ops.size()) + " ops: " + llvm::join(node.ops, " ");
  if (node.flops)
    text += "\n" + std::to_string(node.flops) + " FLOP";
  return node.bytes ? text + "\n" + megabytes(node.bytes) : text;
}

std::string dotQuoted(StringRef text) {
  std::string out = "\"";
  for (const char c : llvm::json::fixUTF8(text))
    if (c == '\n')
      out += "\\n";
    else
      out += (c == '"' || c == '\\' ? std::string("\\") : std::string()) + c;
  return out + "\"";
}

std::string xmlQuoted(StringRef text) {
  return markupText(llvm::json::fixUTF8(text));
}

class Dot {
public:
  explicit Dot(const GraphPicture &picture) : picture(picture), stream(text) {
    for (const PictureItem item : picture.itemsOf(0))
      most = std::max(most, picture.costOf(item));
    for (size_t i = 0; i < picture.nodes.size(); ++i)
      most = std::max(most, picture.costOf({false, i}));
  }

  std::string run() {
    stream << "digraph " << dotQuoted(picture.title) << " {\n"
           << "  graph [fontname=\"Helvetica\", fontsize=12, style=\"rounded\", color=\"#888888\"];\n"
           << "  node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=11, color=\"#666666\"];\n"
           << "  edge [color=\"#777777\", arrowsize=0.6];\n";
    group(0, "  ");
    for (const PictureEdge &edge : picture.edges)
      stream << "  n" << edge.from << " -> n" << edge.to
             << (edge.next ? " [style=dashed, constraint=false, label=\"next\"];\n" : ";\n");
    stream << "}\n";
    return text;
  }

private:
  void group(size_t number, const std::string &indent) {
    for (const PictureItem item : picture.itemsOf(number)) {
      if (!item.isGroup) {
        node(item.number, indent);
        continue;
      }
      stream << indent << "subgraph cluster_" << item.number << " {\n"
             << indent << "  label=" << dotQuoted(picture.titleOf(item.number)) << ";\n";
      group(item.number, indent + "  ");
      stream << indent << "}\n";
    }
  }

  void node(size_t number, const std::string &indent) {
    const PictureNode &node = picture.nodes[number];
    const char *fill = "#ffffff";
    for (const Fill &each : fills)
      if (node.kind == each.kind)
        fill = each.light;
    constexpr double least = 0.3, span = 0.9; // inches
    stream << indent << "n" << number << " [label=" << dotQuoted(picture.textOf(number)) << ", fillcolor=\"" << fill
           << "\", height=" << llvm::format("%.2f", least + span * std::sqrt(picture.costOf({false, number}) / most))
           << ", tooltip=" << dotQuoted(detailsOf(node)) << "];\n";
  }

  const GraphPicture &picture;
  std::string text;
  llvm::raw_string_ostream stream;
  double most = 1;
};

class Svg {
public:
  explicit Svg(const GraphPicture &picture) : picture(picture), layouts(layoutAll(picture)), stream(text) {}

  std::string run() {
    const LevelLayout &whole = layouts.at(0);
    stream << llvm::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
                           "height=\"%.0f\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n",
                           whole.width, whole.height, whole.width, whole.height)
           << "<title>" << xmlQuoted(picture.title) << "</title>\n";
    style();
    stream << "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    level(0, {});
    stream << "</svg>\n";
    return text;
  }

private:
  void style() {
    const auto rules = [&](const char *page, const char *ink, const char *line, bool dark) {
      stream << ".page{fill:" << page << "}text{fill:" << ink << "}.g{fill:none;stroke:" << line
             << "}.e{fill:none;stroke:" << line << "}rect{stroke:" << line << "}";
      for (const Fill &fill : fills)
        stream << "." << fill.kind << "{fill:" << (dark ? fill.dark : fill.light) << "}";
    };
    stream << "<style>";
    rules("#fff", "#1b1b1f", "#8a8a92", false);
    stream << "@media(prefers-color-scheme:dark){";
    rules("#17181c", "#ececf1", "#77777f", true);
    stream << "}</style>\n<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" "
              "markerHeight=\"6\" orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#8a8a92\"/></marker></defs>\n";
  }

  void level(size_t group, Point corner) {
    const LevelLayout &layout = layouts.at(group);
    for (const LevelLayout::Edge &edge : layout.edges)
      line(edge.points, corner);
    for (auto [item, box] : llvm::zip_equal(layout.items, layout.boxes)) {
      const Box at{box.x + corner.x, box.y + corner.y, box.width, box.height};
      if (!item.isGroup) {
        node(item.number, at);
        continue;
      }
      rectangle("g", at, 8);
      label(picture.titleOf(item.number), {at.x + PictureSizes::padding, at.y + PictureSizes::headHeight - 8}, "start");
      const LevelLayout &inner = layouts.at(item.number);
      level(item.number, {at.x + (at.width - inner.width) / 2, at.y + PictureSizes::headHeight});
    }
  }

  void node(size_t number, const Box &box) {
    const PictureNode &node = picture.nodes[number];
    stream << "<g><title>" << xmlQuoted(detailsOf(node)) << "</title>";
    rectangle(node.kind, box, 5);
    label(PictureSizes::shortened(picture.textOf(number)), {box.x + box.width / 2, box.y + box.height / 2 + 4},
          "middle");
    stream << "</g>\n";
  }

  void rectangle(StringRef kind, const Box &box, int radius) {
    stream << llvm::format("<rect class=\"%s\" x=\"%.0f\" y=\"%.0f\" width=\"%.0f\" height=\"%.0f\" rx=\"%d\"/>",
                           kind.str().c_str(), box.x, box.y, box.width, box.height, radius);
  }
  void label(const std::string &words, Point at, const char *anchor) {
    stream << llvm::format("<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">", at.x, at.y, anchor) << xmlQuoted(words)
           << "</text>\n";
  }
  void line(const std::vector<Point> &points, Point corner) {
    stream << llvm::format("<path class=\"e\" marker-end=\"url(#a)\" d=\"M%.0f %.0f", points[0].x + corner.x,
                           points[0].y + corner.y);
    for (size_t i = 1; i < points.size(); ++i) {
      const double middle = (points[i - 1].y + points[i].y) / 2 + corner.y;
      stream << llvm::format("C%.0f %.0f %.0f %.0f %.0f %.0f", points[i - 1].x + corner.x, middle,
                             points[i].x + corner.x, middle, points[i].x + corner.x, points[i].y + corner.y);
    }
    stream << "\"/>\n";
  }

  const GraphPicture &picture;
  std::map<size_t, LevelLayout> layouts;
  std::string text;
  llvm::raw_string_ostream stream;
};

std::string groupPath(const GraphPicture &picture, size_t node) {
  std::string path;
  for (const PictureItem &item : picture.pathOf(node))
    if (item.isGroup) {
      std::string title = picture.titleOf(item.number);
      std::replace(title.begin(), title.end(), '/', '_');
      path += (path.empty() ? "" : "/") + title;
    }
  return path;
}

/// The nodes that are shown: of equal layers those of the first.
std::vector<size_t> shownNodes(const GraphPicture &picture, size_t group = 0) {
  std::vector<size_t> nodes = picture.groups[group].nodes;
  for (size_t inner : picture.groups[group].groups)
    llvm::append_range(nodes, shownNodes(picture, inner));
  return nodes;
}

llvm::json::Array textArray(const std::vector<std::string> &texts) {
  llvm::json::Array array;
  for (const std::string &text : texts)
    array.push_back(llvm::json::fixUTF8(text));
  return array;
}

llvm::json::Object levelJson(const GraphPicture &picture, size_t group) {
  const LevelLayout layout = layoutLevel(picture, group);
  const auto whole = [](double number) { return static_cast<int64_t>(std::lround(number)); };
  llvm::json::Array items, lines;
  for (auto [item, box] : llvm::zip_equal(layout.items, layout.boxes))
    items.push_back(llvm::json::Array{item.isGroup ? 1 : 0, static_cast<int64_t>(item.number), whole(box.x),
                                      whole(box.y), whole(box.width), whole(box.height)});
  for (const LevelLayout::Edge &edge : layout.edges) {
    llvm::json::Array line{static_cast<int64_t>(edge.from), static_cast<int64_t>(edge.to)};
    for (const Point &point : edge.points) {
      line.push_back(whole(point.x));
      line.push_back(whole(point.y));
    }
    lines.push_back(std::move(line));
  }
  const PictureGroup &of = picture.groups[group];
  return llvm::json::Object{{"title", llvm::json::fixUTF8(picture.titleOf(group))},
                            {"name", llvm::json::fixUTF8(of.name)},
                            {"parent", static_cast<int64_t>(of.parent)},
                            {"count", of.count},
                            {"width", whole(layout.width)},
                            {"height", whole(layout.height)},
                            {"items", std::move(items)},
                            {"lines", std::move(lines)}};
}

} // namespace

std::string jsonText(llvm::json::Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

std::string pictureAsDot(const GraphPicture &picture) {
  return Dot(picture).run();
}

std::string pictureAsSvg(const GraphPicture &picture) {
  return Svg(picture).run();
}

std::string pictureAsModelExplorer(const GraphPicture &picture) {
  llvm::json::Array nodes;
  for (size_t number : shownNodes(picture)) {
    const PictureNode &node = picture.nodes[number];
    llvm::json::Array incoming, attributes;
    for (const PictureEdge &edge : picture.edges)
      if (edge.to == number && !edge.next)
        incoming.push_back(llvm::json::Object{{"sourceNodeId", std::to_string(edge.from)}});
    const auto attribute = [&](const char *key, const std::string &value) {
      if (!value.empty())
        attributes.push_back(llvm::json::Object{{"key", key}, {"value", llvm::json::fixUTF8(value)}});
    };
    attribute("kind", node.kind);
    attribute("type", node.type);
    attribute("source", node.source);
    attribute("names", llvm::join(node.names, " "));
    attribute("ops", llvm::join(node.ops, " "));
    attribute("flops", std::to_string(node.flops));
    attribute("bytes", std::to_string(node.bytes));
    nodes.push_back(llvm::json::Object{{"id", std::to_string(number)},
                                       {"label", llvm::json::fixUTF8(picture.textOf(number))},
                                       {"namespace", llvm::json::fixUTF8(groupPath(picture, number))},
                                       {"incomingEdges", std::move(incoming)},
                                       {"attrs", std::move(attributes)}});
  }
  return jsonText(
      llvm::json::Object{{"graphs", llvm::json::Array{llvm::json::Object{{"id", llvm::json::fixUTF8(picture.title)},
                                                                         {"nodes", std::move(nodes)}}}}});
}

std::string pictureAsJson(const GraphPicture &picture) {
  llvm::json::Object nodes, groups; // by number: only those that are shown
  llvm::json::Array edges;
  for (size_t number : shownNodes(picture)) {
    const PictureNode &node = picture.nodes[number];
    nodes[std::to_string(number)] = llvm::json::Object{{"kind", node.kind},
                                                       {"text", llvm::json::fixUTF8(picture.textOf(number))},
                                                       {"type", llvm::json::fixUTF8(node.type)},
                                                       {"source", llvm::json::fixUTF8(node.source)},
                                                       {"flops", node.flops},
                                                       {"bytes", node.bytes},
                                                       {"cost", std::round(node.cost)},
                                                       {"group", static_cast<int64_t>(node.group)},
                                                       {"names", textArray(node.names)},
                                                       {"ops", textArray(node.ops)},
                                                       {"states", textArray(node.states)}};
  }
  for (const PictureEdge &edge : picture.edges)
    edges.push_back(
        llvm::json::Array{static_cast<int64_t>(edge.from), static_cast<int64_t>(edge.to), edge.next ? 1 : 0});
  std::vector<size_t> open = {0};
  while (!open.empty()) {
    const size_t group = open.back();
    open.pop_back();
    groups[std::to_string(group)] = levelJson(picture, group);
    llvm::append_range(open, picture.groups[group].groups);
  }
  return jsonText(llvm::json::Object{{"title", llvm::json::fixUTF8(picture.title)},
                                     {"nodes", std::move(nodes)},
                                     {"edges", std::move(edges)},
                                     {"groups", std::move(groups)}});
}

} // namespace tcc
