// GraphPicture: a function at some phase as boxes within boxes, for people. It shows ops and kernels by layer, and
// equal layers once. -emit=dot, -emit=svg and the page of --report draw it; this file does not draw.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/target_model.h"
#include <compare>
#include <string>
#include <vector>

namespace tcc {

/// A box without boxes inside: an input, an op or a kernel. If equal layers are shown once, it stands for one in each.
struct PictureNode {
  std::string kind = {};  ///< "input", "kernel", "matmul", "attention", "view", "custom", "control" or "op"; its colour
  std::string label = {}; ///< within its group: "gelu+bias"
  std::string type = {};  ///< the types of its results
  std::string source = {};              ///< "FILE:LINE", or empty
  int64_t flops = 0, bytes = 0;         ///< for one layer
  double cost = 0;                      ///< the bytes that a copy would move in its time; decides its size
  std::vector<std::string> names = {};  ///< the whole names, one for each layer: "h.3.mlp.gelu+bias"
  std::vector<std::string> ops = {};    ///< the ops that a kernel fuses, in order
  std::vector<std::string> states = {}; ///< the states that it reads or writes in the first layer
  size_t group = 0;
};

/// A layer, a part of a layer, or the whole picture (number 0).
struct PictureGroup {
  std::string name = {}; ///< "h.3"
  size_t parent = 0;     ///< its own number for the whole picture
  std::vector<size_t> groups = {}, nodes = {};
  double place = 0;          ///< orders groups: the mean of its nodes' numbers before equal groups became one
  int64_t count = 1;         ///< how many equal groups it stands for
  std::string lastName = {}; ///< the name of the last of these
  bool chained = false;      ///< whether each of these reads what another one wrote
};

/// A value that one node reads from another.
struct PictureEdge {
  size_t from = 0, to = 0;
  bool next = false; ///< whether it leads from one of several equal layers to another
  auto operator<=>(const PictureEdge &) const = default;
};

/// Boxes of one level: groups and nodes with the same parent.
struct PictureItem {
  bool isGroup = false;
  size_t number = 0;
  auto operator<=>(const PictureItem &) const = default;
};

struct GraphPicture {
  std::string title;
  std::vector<PictureNode> nodes;
  std::vector<PictureGroup> groups;
  std::vector<PictureEdge> edges; ///< sorted, each once

  /// The boxes of a group in the order of the function.
  std::vector<PictureItem> itemsOf(size_t group) const;
  /// The groups that hold a node, from the outermost one on, and the node.
  std::vector<PictureItem> pathOf(size_t node) const;
  struct LevelEdge {
    PictureItem from, to;
    auto operator<=>(const LevelEdge &) const = default;
  };
  /// The edges between boxes of one group, each once; between a box and itself there is none.
  std::vector<LevelEdge> edgesOf(size_t group) const;
  /// "gelu+bias"; "adamw ×12" where each group has several of them.
  std::string textOf(size_t node) const;
  /// "h.1 … h.11 ×11, one after another"
  std::string titleOf(size_t group) const;
  /// The cost of all ops in the box.
  double costOf(PictureItem item) const;
};

/// The picture of a function at any phase. `target` says what its ops cost.
GraphPicture pictureOf(mlir::func::FuncOp function, const TargetModel &target);

} // namespace tcc
