// A picture as text: for Graphviz, as SVG, for Model Explorer, and for the page of --report.
#pragma once
#include "frontend/report/graph_picture.h"
#include "llvm/Support/JSON.h"

namespace tcc {

/// Compact JSON.
std::string jsonText(llvm::json::Value value);

/// DOT with a cluster for each group; `dot -Tsvg` and its kin draw it.
std::string pictureAsDot(const GraphPicture &picture);

/// A drawing of its own, every group open; light and dark as the viewer asks.
std::string pictureAsSvg(const GraphPicture &picture);

/// {"graphs": [{"id", "nodes": [{"id", "label", "namespace", "incomingEdges", "attrs"}]}]}, which
/// github.com/google-ai-edge/model-explorer opens.
std::string pictureAsModelExplorer(const GraphPicture &picture);

/// {"title", "nodes": [{"kind", "text", …}], "edges": [[from, to, next]], "groups": [{"title", "parent", "count",
/// "items": [[is group, number, x, y, width, height]], "lines": [[from item, to item, x, y, …]]}]}: each group with the
/// layout of its own level, where the groups in it are closed.
std::string pictureAsJson(const GraphPicture &picture);

} // namespace tcc
