// The chunk table: segments of work, cut into pieces for a number of threads. It is made once, from shapes and the
// thread count alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tcc::runtime {

struct Chunk {
  uint32_t segment;
  int64_t begin, end;
  bool operator==(const Chunk &) const = default;
};

/// Part p runs chunks [partBegin[p], partBegin[p + 1]).
struct ChunkTable {
  std::vector<Chunk> chunks;
  std::vector<uint32_t> partBegin;
  /// Parts that have something to do come first.
  int64_t busyParts = 0;
};

/// All segments form one line of grains (`granularity` indices each, the last of a segment maybe fewer), which is cut
/// into `parts` runs of equal length, give or take one grain.
ChunkTable cutSegments(std::span<const int64_t> extents, int64_t granularity, int64_t parts);

} // namespace tcc::runtime
