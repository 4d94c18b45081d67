// Which lanes a rank computes, and the pieces of the tree of all lanes that they make: plain arithmetic.
#pragma once
#include <cstdint>
#include <vector>

namespace tcc {

inline constexpr int64_t mostLanes = 4096; ///< and so ranks

/// The tree's node over lanes [first, first + count).
struct LaneNode {
  int64_t first = 0, count = 0;
  bool operator==(const LaneNode &) const = default;

  /// Of how many lanes the left half of a node of several is: the largest power of two below its count.
  int64_t leftCount() const {
    int64_t left = 1;
    while (left * 2 < count)
      left *= 2;
    return left;
  }
  LaneNode left() const { return {first, leftCount()}; }
  LaneNode right() const { return {first + leftCount(), count - leftCount()}; }
};

/// The first lane of rank `rank`, and of `ranks` the number of lanes.
constexpr int64_t firstLane(int64_t lanes, int64_t ranks, int64_t rank) {
  return rank * lanes / ranks;
}

/// The fewest nodes of the tree under `node` that cover exactly the lanes [begin, end) of it, in order.
inline void addLaneNodes(const LaneNode &node, int64_t begin, int64_t end, std::vector<LaneNode> &nodes) {
  if (begin >= node.first + node.count || end <= node.first)
    return;
  if (begin <= node.first && node.first + node.count <= end) {
    nodes.push_back(node);
    return;
  }
  addLaneNodes(node.left(), begin, end, nodes);
  addLaneNodes(node.right(), begin, end, nodes);
}

/// The nodes that a rank's lanes make: what it adds up alone.
inline std::vector<LaneNode> laneNodesOf(int64_t lanes, int64_t ranks, int64_t rank) {
  std::vector<LaneNode> nodes;
  addLaneNodes({0, lanes}, firstLane(lanes, ranks, rank), firstLane(lanes, ranks, rank + 1), nodes);
  return nodes;
}

/// The first rank whose nodes have the sizes of this rank's: what such ranks compute is one program.
inline int64_t firstAlike(int64_t lanes, int64_t ranks, int64_t rank) {
  const auto sizes = [&](int64_t of) {
    std::vector<int64_t> list;
    for (const LaneNode &node : laneNodesOf(lanes, ranks, of))
      list.push_back(node.count);
    return list;
  };
  int64_t alike = 0;
  while (sizes(alike) != sizes(rank))
    ++alike;
  return alike;
}

} // namespace tcc
