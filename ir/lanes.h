// Which lanes a rank computes, and which nodes of the tree over all lanes they fill. Sums over lanes are added along
// this tree.
#pragma once
#include <bit>
#include <cstdint>
#include <vector>

namespace tcc {

inline constexpr int64_t mostLanes = 4096; ///< also the most ranks

/// The node of the tree over lanes [first, first + count).
struct LaneNode {
  int64_t first = 0, count = 0;
  bool operator==(const LaneNode &) const = default;

  /// How many lanes the left child of a node of several lanes has: the largest power of two below its count.
  int64_t leftCount() const {
    int64_t left = 1;
    while (left * 2 < count)
      left *= 2;
    return left;
  }
  LaneNode left() const { return {first, leftCount()}; }
  LaneNode right() const { return {first + leftCount(), count - leftCount()}; }
};

/// The first lane of rank `rank`. For `rank` = `ranks` it is the number of lanes.
constexpr int64_t firstLane(int64_t lanes, int64_t ranks, int64_t rank) {
  return rank * lanes / ranks;
}

/// Appends the fewest nodes of the tree below `node` that cover exactly its lanes in [begin, end), in order.
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

/// The nodes that a rank's lanes fill. The rank can add these up by itself.
inline std::vector<LaneNode> laneNodesOf(int64_t lanes, int64_t ranks, int64_t rank) {
  std::vector<LaneNode> nodes;
  addLaneNodes({0, lanes}, firstLane(lanes, ranks, rank), firstLane(lanes, ranks, rank + 1), nodes);
  return nodes;
}

/// The least number of lanes, `lanes` or more, that is a power of two on each rank, the same on all. With it each
/// rank's lanes are one node of the tree, and all ranks run the same loops over lanes.
inline int64_t alikeLanes(int64_t lanes, int64_t ranks) {
  return ranks * static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>((lanes + ranks - 1) / ranks)));
}

/// The first rank whose nodes have the same sizes as this rank's. Such ranks run the same program.
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
