// Which tiles a block of a Hopper kernel works on, and in which order. Needs common.cuh and the constants persistent and
// lastTileFirst.
//
// A block of a plain launch has one item: its place in the grid. Persistent blocks, at most as many as fit on the device
// at once, take items in rounds, so that a block loads its next tiles while it finishes the last ones: round r begins at
// item r · blocks, and every second round runs backwards, which evens out items that grow or shrink along a round. Items
// are ordered by sections of heads whose keys and values stay in the level-2 cache together, and in a section by tile.

struct Work {
  int tile, head, batch;
};

// What all items have in common: tiles of a head, heads, items, and heads of a section.
struct WorkList {
  int tiles, heads, items, section;
};

// `sharing` heads walk over the same `walkedBytes`.
DEVICE WorkList work_list(int tiles, int heads, int batches, int sharing, i64 walkedBytes) {
  constexpr int cacheBytes = 24 << 20;
  int together = persistent ? static_cast<int>(cacheBytes / (walkedBytes > 0 ? walkedBytes : 1)) : 0;
  return {tiles, heads, persistent ? tiles * heads * batches : 1, sharing * maximum(1, minimum(together, 4096))};
}

// The block's item of a round; it has no more work when that is the list's end or beyond.
DEVICE int work_number(int round) {
  if (!persistent)
    return round;
  return round * grid_x() + ((round & 1) != 0 ? grid_x() - 1 - block_x() : block_x());
}

DEVICE Work work_of(const WorkList &list, int number) {
  if (!persistent)
    return {lastTileFirst ? grid_x() - 1 - block_x() : block_x(), block_y(), block_z()};
  int ofSection = list.section * list.tiles;
  int firstHead = number / ofSection * list.section;
  int within = number % ofSection;
  int heads = minimum(list.section, list.items / list.tiles - firstHead);
  int position = within / heads;
  int head = firstHead + within % heads;
  return {lastTileFirst ? list.tiles - 1 - position : position, head % list.heads, head / list.heads};
}
