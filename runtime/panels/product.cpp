#include "runtime/panels/product.h"
#include "runtime/threads.h"
#include "runtime/wait_policy.h"
#include <algorithm>

namespace tcc::runtime::panels {
namespace {

// A right panel of a stretch (24 KB) leaves the first-level cache room for a left one; a block's left panels (144 KB)
// fit a second-level one, a chunk's right panels of a stretch (2.4 MB) a third-level one.
constexpr int64_t longestStretch = 384, blockPanels = 16, chunkLines = 1536;
// As many stretches as these have room for are packed in one part. Where threads sleep at the end of each part, few
// parts count for more than caches.
constexpr int64_t packedBytes = int64_t{4} << 20, packedBytesOfSleepers = int64_t{8} << 20;
constexpr int64_t fewBytes = int64_t{256} << 10;  // about, of B that a task with few rows reads
constexpr int64_t packedPanels = 16;              // by one task
constexpr int64_t taskFlops = int64_t{12} << 20;  // about, of a multiplication's task and stretch, …
constexpr int64_t leastTasks = 8;                 // but of one thread's tasks no fewer than this
constexpr int64_t leastShared = int64_t{1} << 19; // flops: below, waking a second thread takes longer

int64_t alignedBytes(int64_t floats) {
  return ceilDiv(floats * static_cast<int64_t>(sizeof(float)), 64) * 64;
}

/// The extent of each of the fewest equal pieces that are at most `most`, a multiple of `granularity`.
int64_t evenPiece(int64_t extent, int64_t most, int64_t granularity) {
  return ceilDiv(ceilDiv(extent, ceilDiv(extent, most)), granularity) * granularity;
}

} // namespace

/// One matmul of a batch.
struct Product::Call {
  ProductOperand left, right;
  char *c;
  const float *bias;
  char *scratch;
  int threads;
};

/// A part of C, and as many stretches of depth from number `stretch` on.
struct Product::Chunk {
  int64_t row, rows, column, columns, stretch, stretches;
};

/// The blocks of a chunk, one for each task. Of several threads the last blocks of rows are cut into blocks of columns,
/// so that all end at about the same time.
struct Product::Blocks {
  int64_t whole;              // blocks of rows that are not cut
  int64_t columns, ofColumns; // a cut one's columns, and the number of blocks that each is cut into
  int64_t tasks;
};

std::optional<Product> Product::plan(const GemmDesc &given, int threads, const Kernel *kernel) {
  if (given.geluGradient)
    return std::nullopt;
  Product product;
  GemmDesc &desc = product.desc;
  desc = given;
  desc.c = normalized(given.c, given.m, given.n);
  if (desc.n == 1 && desc.m > 1 && !desc.bias && desc.c.rowStride == 1) {
    desc = transposed(desc);
    product.swapped = true;
  }
  product.kernel = kernel ? kernel : &bestKernel(desc.a.dtype);
  product.threads = 2 * desc.m * desc.n * desc.k < leastShared ? 1 : threads;
  if (desc.batchCount() > 1 && desc.flops() >= leastShared &&
      (product.threads == 1 || desc.batchCount() >= 4 * threads)) {
    product.workers = static_cast<int>(std::min<int64_t>(threads, desc.batchCount()));
    product.threads = 1;
  }
  product.isFew = desc.m <= mostFewRows;
  if (product.isFew)
    product.biasAt = product.readsLeft() ? 0 : alignedBytes(desc.m * desc.k);
  else
    product.cut();
  product.bytesEach =
      product.biasAt +
      (desc.bias ? alignedBytes(ceilDiv(desc.n, product.kernel->columns) * product.kernel->columns) : 0);
  return product;
}

void Product::cut() {
  stretch = evenPiece(desc.k, longestStretch * kernel->packedDepth, 4);
  const bool keepsSums = desc.c.dtype != DType::f32 && stretch < desc.k;
  chunkRows = keepsSums ? evenPiece(desc.m, chunkLines, kernel->rows) : ceilDiv(desc.m, kernel->rows) * kernel->rows;
  chunkColumns = evenPiece(desc.n, chunkLines, kernel->columns);
  taskRows = evenPiece(chunkRows, blockPanels * kernel->rows, kernel->rows);
  auto bytesOf = [&](int64_t lines, int64_t width) { return alignedBytes(lines / width * panelStride(width)); };
  leftBytes = bytesOf(taskRows, kernel->rows);
  rightBytes = bytesOf(chunkColumns, kernel->columns);
  const int64_t all = ceilDiv(desc.k, stretch);
  auto stretchesIn = [&](int64_t bytes) { return evenPiece(all, std::max<int64_t>(1, bytes / rightBytes), 1); };
  stretches = stretchesIn(packedBytes);
  stretchesOfSleepers = threads > 1 ? stretchesIn(packedBytesOfSleepers) : stretches;
  packers = std::min<int64_t>(
      threads,
      blocksOf({0, std::min(chunkRows, desc.m), 0, std::min(chunkColumns, desc.n), 0, std::min(stretches, all)}).tasks);
  rightAt = packers * leftBytes;
  sumsAt = rightAt + stretchesOfSleepers * rightBytes;
  biasAt = sumsAt + (keepsSums ? alignedBytes(chunkRows * chunkColumns) : 0);
}

bool Product::readsLeft() const {
  return desc.a.dtype == DType::f32 && leftOf(desc).depthStride == 1;
}

std::string Product::name() const {
  return std::string(kernel->name) + " " + std::string(runtime::name(desc.a.dtype));
}

void Product::run(const void *a, const void *b, void *c, const void *bias, void *scratch) const {
  auto runElement = [&](int64_t i, char *memory) {
    Call call{leftOf(desc), rightOf(desc), const_cast<char *>(batchElement(c, desc, desc.c, i)),
              nullptr,      memory,        threads};
    call.left.data = batchElement(a, desc, desc.a, i);
    call.right.data = batchElement(b, desc, desc.b, i);
    if (desc.bias) {
      auto *widened = reinterpret_cast<float *>(memory + biasAt);
      kernel->widen({bias, *desc.bias, 1, desc.n, desc.n, 1}, widened);
      std::fill(widened + desc.n, widened + ceilDiv(desc.n, kernel->columns) * kernel->columns, 0.0f);
      call.bias = widened;
    }
    isFew ? runFew(call) : runOne(call);
  };
  if (swapped)
    std::swap(a, b);
  auto *memory = static_cast<char *>(scratch);
  takeTasks(desc.batchCount(), workers, [&](int64_t i, int64_t worker) { runElement(i, memory + worker * bytesEach); });
}

void Product::runOne(const Call &call) const {
  const int64_t all = ceilDiv(desc.k, stretch);
  const int64_t atOnce = waitsAreBrief() ? stretchesOfSleepers : stretches;
  for (int64_t column = 0; column < desc.n; column += chunkColumns)
    for (int64_t row = 0; row < desc.m; row += chunkRows)
      for (int64_t first = 0; first < all; first += atOnce) {
        const Chunk chunk{row,   std::min(chunkRows, desc.m - row), column, std::min(chunkColumns, desc.n - column),
                          first, std::min(atOnce, all - first)};
        if (row == 0 || atOnce < all)
          packRight(call, chunk);
        multiply(call, chunk);
      }
}

void Product::runFew(const Call &call) const {
  FewRows few{static_cast<const float *>(call.left.data), call.left.lineStride, desc.m, call.right, {}};
  if (!readsLeft()) {
    few.left = reinterpret_cast<float *>(call.scratch);
    few.leftStride = desc.k;
    kernel->widen(call.left, reinterpret_cast<float *>(call.scratch));
  }
  const int64_t columns = std::max<int64_t>(1, fewBytes / (desc.k * byteSize(desc.b.dtype) * fewColumns)) * fewColumns;
  takeTasks(ceilDiv(desc.n, columns), call.threads, [&](int64_t task, int64_t) {
    FewRows part = few;
    const int64_t column = task * columns;
    part.right = few.right.from(column, 0);
    part.right.lines = std::min(columns, desc.n - column);
    part.results.c = call.c + column * byteSize(desc.c.dtype);
    part.results.dtype = desc.c.dtype;
    part.results.stride = desc.c.rowStride;
    part.results.bias = call.bias ? call.bias + column : nullptr;
    part.results.accumulate = desc.accumulate;
    kernel->multiplyFew(part);
  });
}

ProductOperand Product::stretchOf(const ProductOperand &operand, int64_t firstLine, int64_t lines,
                                  int64_t number) const {
  ProductOperand part = operand.from(firstLine, number * stretch);
  part.lines = lines;
  part.depth = std::min(stretch, desc.k - number * stretch);
  return part;
}

void Product::packRight(const Call &call, const Chunk &chunk) const {
  const int64_t panels = ceilDiv(chunk.columns, kernel->columns), tasks = ceilDiv(panels, packedPanels);
  takeTasks(tasks * chunk.stretches, call.threads, [&](int64_t task, int64_t) {
    const int64_t number = task / tasks, first = task % tasks * packedPanels;
    kernel->packRight(stretchOf(call.right, chunk.column, chunk.columns, chunk.stretch + number), first,
                      std::min(packedPanels, panels - first), rightPanels(call.scratch, number));
  });
}

Product::Blocks Product::blocksOf(const Chunk &chunk) const {
  const int64_t columnFlops = 2 * taskRows * chunk.stretches * stretch;
  const int64_t rowBlocks = ceilDiv(chunk.rows, taskRows);
  const int64_t share = columnFlops * rowBlocks * chunk.columns / (leastTasks * threads);
  const int64_t flops = std::clamp(share, taskFlops, chunk.stretches * taskFlops);
  Blocks blocks;
  blocks.columns = evenPiece(chunk.columns, std::max(kernel->columns, flops / columnFlops), kernel->columns);
  blocks.ofColumns = ceilDiv(chunk.columns, blocks.columns);
  blocks.whole = threads > 1 ? std::max<int64_t>(0, rowBlocks - threads) : rowBlocks;
  blocks.tasks = blocks.whole + (rowBlocks - blocks.whole) * blocks.ofColumns;
  return blocks;
}

void Product::multiply(const Call &call, const Chunk &chunk) const {
  const Blocks blocks = blocksOf(chunk);
  takeTasks(blocks.tasks, packers, [&](int64_t task, int64_t worker) {
    const int64_t cut = task - blocks.whole;
    if (cut < 0)
      multiplyBlock(call, chunk, worker, task * taskRows, 0, chunk.columns);
    else
      multiplyBlock(call, chunk, worker, (blocks.whole + cut / blocks.ofColumns) * taskRows,
                    cut % blocks.ofColumns * blocks.columns, blocks.columns);
  });
}

void Product::multiplyBlock(const Call &call, const Chunk &chunk, int64_t worker, int64_t row, int64_t column,
                            int64_t columns) const {
  const bool keepsSums = biasAt > sumsAt;
  Block block;
  block.rows = std::min(taskRows, chunk.rows - row);
  block.columns = std::min(columns, chunk.columns - column);
  block.left = leftPanels(call.scratch, worker);
  Results &results = block.results;
  results.c = call.c + ((chunk.row + row) * desc.c.rowStride + chunk.column + column) * byteSize(desc.c.dtype);
  results.dtype = desc.c.dtype;
  results.stride = desc.c.rowStride;
  if (keepsSums) {
    results.sums = reinterpret_cast<float *>(call.scratch + sumsAt) + row * chunkColumns + column;
    results.sumsStride = chunkColumns;
  }
  for (int64_t number = 0; number < chunk.stretches; ++number) {
    const ProductOperand left = stretchOf(call.left, chunk.row + row, block.rows, chunk.stretch + number);
    kernel->packLeft(left, 0, ceilDiv(block.rows, kernel->rows), block.left);
    const int64_t depth = (chunk.stretch + number) * stretch;
    const bool isFirst = depth == 0;
    block.right = rightPanels(call.scratch, number);
    block.right.data += column / kernel->columns * block.right.stride;
    block.depth = ceilDiv(left.depth, kernel->packedDepth);
    results.bias = call.bias && isFirst ? call.bias + chunk.column + column : nullptr;
    results.accumulate = desc.accumulate || (!isFirst && !keepsSums);
    results.isBegun = keepsSums && !isFirst;
    results.isLast = !keepsSums || depth + stretch >= desc.k;
    kernel->multiply(block);
  }
}

} // namespace tcc::runtime::panels
