#include "runtime/chunk_table.h"
#include "runtime/threads.h"
#include <algorithm>

namespace tcc::runtime {

ChunkTable cutSegments(std::span<const int64_t> extents, int64_t granularity, int64_t parts) {
  auto grainsOf = [&](int64_t extent) { return extent / granularity + (extent % granularity != 0); };
  int64_t grains = 0;
  for (int64_t extent : extents)
    grains += grainsOf(extent);

  ChunkTable table;
  table.partBegin.push_back(0);
  table.busyParts = std::min(parts, grains);
  uint32_t segment = 0;
  int64_t segmentStart = 0; // first grain of `segment`
  for (int64_t part = 0; part < parts; ++part) {
    const Range range = cutRange(grains, 1, parts, part);
    for (int64_t grain = range.begin; grain < range.end;) {
      while (grain >= segmentStart + grainsOf(extents[segment]))
        segmentStart += grainsOf(extents[segment++]);
      const int64_t last = std::min(range.end, segmentStart + grainsOf(extents[segment]));
      table.chunks.push_back({segment, (grain - segmentStart) * granularity,
                              std::min(extents[segment], (last - segmentStart) * granularity)});
      grain = last;
    }
    table.partBegin.push_back(static_cast<uint32_t>(table.chunks.size()));
  }
  return table;
}

} // namespace tcc::runtime
