#include "runtime/panels/product.h"
#include "runtime/threads.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <unistd.h>

namespace tcc::runtime::panels {
namespace {

// A right panel of a stretch (24 or 48 KB) leaves the first-level cache room for a left one. A block's left panels
// leave a third of a second-level cache of 512 KB, or more of a larger one, for what is packed next; the more rows a
// block has, the seldomer right panels come from the third-level cache. A chunk's right panels of a stretch (2.4 MB)
// fit that one.
constexpr int64_t longestStretch = 384, chunkLines = 1536, mostBlockPanels = 32;
constexpr int64_t workerBytes = int64_t{1} << 20; // about, of a worker's left panels for several stretches
constexpr int64_t roundBytes = int64_t{4} << 20;  // of the right panels of a round: as many stretches as have room
constexpr int64_t fewBytes = int64_t{256} << 10;  // about, of B that a task with few rows reads
constexpr int64_t mostPackedPanels = 16, leastPackTasks = 4; // by a task; of a thread in a round
constexpr int64_t taskFlops = int64_t{12} << 20;             // about, of a multiplication's task and stretch, …
constexpr int64_t leastTasks = 8;                            // but of one thread's tasks no fewer than this
constexpr int64_t leastShared = int64_t{1} << 19;            // flops: below, waking a second thread takes longer

int64_t alignedBytes(int64_t floats) {
  return ceilDiv(floats * static_cast<int64_t>(sizeof(float)), 64) * 64;
}

/// At most, of a block's left panels.
int64_t blockBytes() {
  static const bool isSmall = ::sysconf(_SC_LEVEL2_CACHE_SIZE) == 256 << 10;
  return int64_t{isSmall ? 176 : 352} << 10;
}

/// The extent of each of the fewest equal pieces that are at most `most`, a multiple of `granularity`.
int64_t evenPiece(int64_t extent, int64_t most, int64_t granularity) {
  return ceilDiv(ceilDiv(extent, ceilDiv(extent, most)), granularity) * granularity;
}

/// Whether B, if it is the bytes of A, is its transpose.
bool areTransposes(const MatrixLayout &a, const MatrixLayout &b) {
  return a.dtype == b.dtype && a.rowStride == b.columnStride && a.columnStride == b.rowStride &&
         a.batchStrides == b.batchStrides;
}

/// Writes rows x columns elements of `from` to the transposed places from `to` on, in squares that stay in registers
/// and the first-level cache. Strides are in elements.
template <typename T>
void copyTransposed(const T *from, T *to, int64_t stride, int64_t rows, int64_t columns) {
  constexpr int64_t side = 16;
  for (int64_t column = 0; column < columns; column += side)
    for (int64_t row = 0; row < rows; row += side) {
      const int64_t height = std::min(side, rows - row), width = std::min(side, columns - column);
      for (int64_t j = 0; j < width; ++j)
        for (int64_t i = 0; i < height; ++i)
          to[(column + j) * stride + row + i] = from[(row + i) * stride + column + j];
    }
}

Upcoming memoryOf(const ProductOperand &operand) {
  const int64_t size = byteSize(operand.dtype);
  const auto *data = static_cast<const char *>(operand.data);
  if (operand.depthStride == 1)
    return {data, operand.lines, operand.depth * size, operand.lineStride * size};
  return {data, operand.lines > 0 ? operand.depth : 0, operand.lines * size, operand.depthStride * size};
}

} // namespace

/// One matmul of a batch.
struct Product::Call {
  ProductOperand left, right;
  char *c;
  const float *bias;
  char *scratch;
  int threads;
  bool mirrors;         // whether C is symmetric
  PackedOperand packed; // if it has data, the right panels lie there
};

/// A part of C, and as many stretches of depth from number `stretch` on.
struct Product::Chunk {
  int64_t row, rows, column, columns, stretch, stretches;
};

/// A task by its kind: packing number `number` of a round, or block number `number`.
struct Product::Task {
  bool packs;
  int64_t round, number;
};

/// What a packing packs: of stretch `stretch` of a round the panels from `panel` on.
struct Product::Packing {
  int64_t stretch, panel;
};

/// A block within a chunk.
struct Product::Place {
  int64_t row, column, columns;
};

/// What the threads of one matmul have done, by which they wait for each other. It lies in scratch.
struct Product::Progress {
  std::array<std::atomic<int64_t>, 2> packed, multiplied; // tasks that are done, by the slot that they wrote or read
  std::atomic<int64_t> *rounds;                           // for each block, of how many rounds it is done

  explicit Progress(std::atomic<int64_t> *rounds) : rounds(rounds) {}
};

/// A thread of a matmul, and which left panels its memory holds.
struct Product::Worker {
  int64_t number;
  int64_t round = -1, row = -1; // none
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
  product.mayMirror = desc.m == desc.n && !desc.bias && !desc.accumulate && areTransposes(desc.a, desc.b);
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
  const int64_t panelBytes = panelStride(kernel->rows) * static_cast<int64_t>(sizeof(float));
  // Of few rows blocks are smaller: then they keep more stretches of their left panels, and threads end together.
  const int64_t mostPanels = std::clamp<int64_t>(blockBytes() / panelBytes, 1, mostBlockPanels);
  const int64_t sharedPanels = chunkRows / kernel->rows / (2 * threads);
  const int64_t blockPanels = std::clamp(sharedPanels, ceilDiv(mostPanels, 2), mostPanels);
  taskRows = evenPiece(chunkRows, blockPanels * kernel->rows, kernel->rows);
  auto bytesOf = [&](int64_t lines, int64_t width) { return alignedBytes(lines / width * panelStride(width)); };
  leftBytes = bytesOf(taskRows, kernel->rows);
  rightBytes = bytesOf(chunkColumns, kernel->columns);
  const int64_t all = ceilDiv(desc.k, stretch);
  stretches = evenPiece(all, std::max<int64_t>(1, roundBytes / rightBytes), 1);
  roundsOfChunk = ceilDiv(all, stretches);
  rowChunks = ceilDiv(desc.m, chunkRows);
  rounds = ceilDiv(desc.n, chunkColumns) * rowChunks * roundsOfChunk;
  cutChunk();
  packers = std::min<int64_t>(threads, blocks.tasks);
  leftStretches = blocks.ofColumns > 1 ? std::clamp<int64_t>(workerBytes / leftBytes, 1, stretches) : 1;
  const int64_t rightPanelCount = chunkColumns / kernel->columns;
  packedPanels = std::clamp<int64_t>(rightPanelCount * stretches / (leastPackTasks * threads), 2, mostPackedPanels);
  packTasks = ceilDiv(rightPanelCount, packedPanels) * stretches;
  slots = packers > 1 && packOf(rounds - 1) > 0 ? 2 : 1;
  earlyBlocks = slots > 1 ? std::min(packers, blocks.tasks) : blocks.tasks;
  rightAt = packers * leftStretches * leftBytes;
  sumsAt = rightAt + slots * stretches * rightBytes;
  progressAt = sumsAt + (keepsSums ? alignedBytes(chunkRows * chunkColumns) : 0);
  const auto doneBytes = static_cast<int64_t>(sizeof(Progress) + sizeof(std::atomic<int64_t>) * blocks.tasks);
  biasAt = progressAt + ceilDiv(doneBytes, 64) * 64;
}

void Product::cutChunk() {
  const int64_t columnFlops = 2 * taskRows * stretches * stretch;
  const int64_t rowBlocks = ceilDiv(chunkRows, taskRows);
  const int64_t share = columnFlops * rowBlocks * chunkColumns / (leastTasks * threads);
  const int64_t flops = std::clamp(share, taskFlops, stretches * taskFlops);
  blocks.columns = evenPiece(chunkColumns, std::max(kernel->columns, flops / columnFlops), kernel->columns);
  blocks.ofColumns = ceilDiv(chunkColumns, blocks.columns);
  blocks.whole = threads > 1 ? std::max<int64_t>(0, rowBlocks - threads) : rowBlocks;
  blocks.tasks = blocks.whole + (rowBlocks - blocks.whole) * blocks.ofColumns;
}

bool Product::readsLeft() const {
  return desc.a.dtype == DType::f32 && leftOf(desc).depthStride == 1;
}

std::string Product::name() const {
  return std::string(kernel->name) + " " + std::string(runtime::name(desc.a.dtype));
}

int64_t Product::packedBytes() const {
  const bool packsEachOnce = rowChunks == 1 || roundsOfChunk == 1;
  return !isFew && !mayMirror && desc.batchCount() == 1 && packsEachOnce
             ? (packOf(rounds - 1) + 1) * stretches * rightBytes
             : 0;
}

void Product::run(const void *a, const void *b, void *c, const void *bias, void *scratch, PackedOperand packed) const {
  auto runElement = [&](int64_t i, char *memory) {
    Call call{leftOf(desc), rightOf(desc), nullptr, nullptr, memory, threads, mayMirror && a == b, packed};
    call.c = const_cast<char *>(batchElement(c, desc, desc.c, i));
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

// The tasks of a matmul, in the order in which threads take them: those that pack round 0, then for each round its
// blocks, with the packing of the next round after the first of them, or at the end where there is one slot. All rounds
// have equally many numbers; those of an edge that has fewer blocks or panels are empty. Where B is packed already
// there are blocks alone. A task waits for tasks before it alone, which other threads are at work on by then.
void Product::runOne(const Call &call) const {
  auto *memory = call.scratch + progressAt;
  auto *done = new (memory + sizeof(Progress)) std::atomic<int64_t>[static_cast<size_t>(blocks.tasks)]();
  Progress &progress = *new (memory) Progress(done);
  std::atomic<int64_t> next = 0;
  parallelRun(packers, [&](int64_t thread) {
    Worker worker{thread};
    bool isIdle = true;
    for (int64_t number; (number = next.fetch_add(1, std::memory_order_relaxed)) < allTasks(call);) {
      const Task task = taskOf(call, number);
      if (task.packs) {
        packRight(call, progress, task);
      } else {
        const Task after = taskOf(call, number + packers); // each other thread takes one before that
        multiply(call, progress, worker, task, after);
        isIdle = false;
      }
    }
    if (isIdle)
      touchLeft(call, worker);
  });
}

int64_t Product::allTasks(const Call &call) const {
  return call.packed.isPacked ? rounds * blocks.tasks : packTasks + rounds * (blocks.tasks + packTasks);
}

Product::Task Product::taskOf(const Call &call, int64_t number) const {
  if (call.packed.isPacked)
    return {false, number / blocks.tasks, number % blocks.tasks};
  if (number < packTasks)
    return {true, 0, number};
  const int64_t each = blocks.tasks + packTasks, round = (number - packTasks) / each;
  const int64_t ofRound = (number - packTasks) % each - earlyBlocks;
  if (ofRound >= 0 && ofRound < packTasks)
    return {true, round + 1, ofRound};
  return {false, round, earlyBlocks + ofRound - (ofRound < 0 ? 0 : packTasks)};
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

// A thread that came too late for a block writes to each page of its left panels. So the memory that a step counts is
// that of its plan, whichever threads were free.
void Product::touchLeft(const Call &call, const Worker &worker) const {
  constexpr int64_t page = 4096;
  const int64_t bytes = leftStretches * leftBytes;
  char *memory = call.scratch + worker.number * bytes;
  for (int64_t at = 0; at < bytes; at += page)
    memory[at] = 0;
  memory[bytes - 1] = 0;
}

Panels Product::rightPanels(const Call &call, int64_t pack, int64_t number) const {
  char *all = call.packed.data ? static_cast<char *>(call.packed.data) : call.scratch + rightAt;
  const int64_t slot = call.packed.data ? pack : pack % slots;
  return {reinterpret_cast<float *>(all + (slot * stretches + number) * rightBytes), panelStride(kernel->columns)};
}

Product::Chunk Product::chunkOf(int64_t round) const {
  const int64_t chunk = round / roundsOfChunk, first = round % roundsOfChunk * stretches;
  const int64_t row = chunk % rowChunks * chunkRows, column = chunk / rowChunks * chunkColumns;
  return {row,    std::min(chunkRows, desc.m - row),
          column, std::min(chunkColumns, desc.n - column),
          first,  std::min(stretches, ceilDiv(desc.k, stretch) - first)};
}

Product::Packing Product::packingOf(int64_t number) const {
  const int64_t ofStretch = packTasks / stretches;
  return {number / ofStretch, number % ofStretch * packedPanels};
}

ProductOperand Product::rightPart(const Call &call, int64_t round, int64_t number) const {
  const Chunk chunk = chunkOf(round);
  const auto [ofRound, panel] = packingOf(number);
  const int64_t column = panel * kernel->columns;
  if (ofRound >= chunk.stretches || column >= chunk.columns)
    return {};
  return stretchOf(call.right, chunk.column + column, std::min(packedPanels * kernel->columns, chunk.columns - column),
                   chunk.stretch + ofRound);
}

ProductOperand Product::packedBy(const Call &call, const Worker &worker, const Task &task) const {
  if (task.packs)
    return isPackedAnew(task.round) ? rightPart(call, task.round, task.number) : ProductOperand();
  const int64_t row = placeOf(task.number).row;
  if (task.round >= rounds || (worker.round == task.round && worker.row == row))
    return {};
  const Chunk chunk = chunkOf(task.round);
  return row < chunk.rows ? stretchOf(call.left, chunk.row + row, std::min(taskRows, chunk.rows - row), chunk.stretch)
                          : ProductOperand();
}

void Product::packRight(const Call &call, Progress &progress, const Task &task) const {
  if (!isPackedAnew(task.round))
    return;
  const int64_t pack = packOf(task.round), turn = pack / slots;
  std::atomic<int64_t> &packed = progress.packed[static_cast<size_t>(pack % slots)];
  awaitCount(progress.multiplied[static_cast<size_t>(pack % slots)], turn * roundsOfPack() * blocks.tasks);
  if (const ProductOperand part = rightPart(call, task.round, task.number); part.lines > 0) {
    const auto [ofRound, panel] = packingOf(task.number);
    Panels to = rightPanels(call, pack, ofRound);
    to.data += panel * to.stride;
    kernel->packRight(part, 0, ceilDiv(part.lines, kernel->columns), to);
  }
  packed.fetch_add(1, std::memory_order_release);
}

Product::Place Product::placeOf(int64_t block) const {
  const int64_t cut = block - blocks.whole;
  if (cut < 0)
    return {block * taskRows, 0, chunkColumns};
  return {(blocks.whole + cut / blocks.ofColumns) * taskRows, cut % blocks.ofColumns * blocks.columns, blocks.columns};
}

void Product::multiply(const Call &call, Progress &progress, Worker &worker, const Task &task, const Task &next) const {
  const int64_t pack = packOf(task.round);
  if (!call.packed.isPacked)
    awaitCount(progress.packed[static_cast<size_t>(pack % slots)], (pack / slots + 1) * packTasks);
  awaitCount(progress.rounds[task.number], task.round); // a block's stretches are added one after another
  multiplyBlock(call, task.round, worker, placeOf(task.number), next);
  progress.rounds[task.number].fetch_add(1, std::memory_order_release);
  progress.multiplied[static_cast<size_t>(pack % slots)].fetch_add(1, std::memory_order_release);
}

void Product::multiplyBlock(const Call &call, int64_t round, Worker &worker, Place place, const Task &next) const {
  const Chunk chunk = chunkOf(round);
  auto [row, column, columns] = place;
  if (call.mirrors) {
    const int64_t before = firstColumnOfBlock(chunk.row + row) - (chunk.column + column);
    column += std::max<int64_t>(0, before);
    columns -= std::max<int64_t>(0, before);
  }
  if (row >= chunk.rows || column >= chunk.columns || columns <= 0)
    return;
  const bool keepsSums = progressAt > sumsAt;
  Block block;
  block.rows = std::min(taskRows, chunk.rows - row);
  block.columns = std::min(columns, chunk.columns - column);
  Results &results = block.results;
  results.c = call.c + ((chunk.row + row) * desc.c.rowStride + chunk.column + column) * byteSize(desc.c.dtype);
  results.dtype = desc.c.dtype;
  results.stride = desc.c.rowStride;
  if (keepsSums) {
    results.sums = reinterpret_cast<float *>(call.scratch + sumsAt) + row * chunkColumns + column;
    results.sumsStride = chunkColumns;
  }
  // Panels are there from the worker's last block where it had these rows, but for those whose memory was used again.
  const bool isPacked = worker.round == round && worker.row == row;
  const int64_t packed = !isPacked ? 0 : leftStretches < chunk.stretches ? leftStretches - 1 : chunk.stretches;
  worker.round = round;
  worker.row = row;
  for (int64_t number = 0; number < chunk.stretches; ++number) {
    const ProductOperand left = stretchOf(call.left, chunk.row + row, block.rows, chunk.stretch + number);
    block.left = leftPanels(call.scratch, worker.number, number);
    if (number >= packed)
      kernel->packLeft(left, 0, ceilDiv(block.rows, kernel->rows), block.left);
    const int64_t depth = (chunk.stretch + number) * stretch;
    const bool isFirst = depth == 0;
    block.right = rightPanels(call, packOf(round), number);
    block.right.data += column / kernel->columns * block.right.stride;
    block.depth = ceilDiv(left.depth, kernel->packedDepth);
    results.bias = call.bias && isFirst ? call.bias + chunk.column + column : nullptr;
    results.accumulate = desc.accumulate || (!isFirst && !keepsSums);
    results.isBegun = keepsSums && !isFirst;
    results.isLast = !keepsSums || depth + stretch >= desc.k;
    ProductOperand upcoming;
    if (number + 1 == chunk.stretches)
      upcoming = packedBy(call, worker, next);
    else if (number + 1 >= packed)
      upcoming = stretchOf(call.left, chunk.row + row, block.rows, chunk.stretch + number + 1);
    block.upcoming = memoryOf(upcoming);
    kernel->multiply(block);
  }
  if (call.mirrors && chunk.stretch + chunk.stretches == ceilDiv(desc.k, stretch))
    mirrorBlock(call, chunk.row + row, block.rows, chunk.column + column, block.columns);
}

// What lies below the diagonal is complete when the block above it is. A block of rows that begins within a panel's
// columns has computed those before its first row itself.
void Product::mirrorBlock(const Call &call, int64_t row, int64_t rows, int64_t column, int64_t columns) const {
  const auto copy = [&]<typename T>(T *c) {
    for (int64_t target = std::max(column, row + rows); target < column + columns;) {
      const int64_t first = firstRowOfBlock(target);
      const int64_t end = std::min({column + columns, first + taskRows, (first / chunkRows + 1) * chunkRows});
      const int64_t height = std::min(row + rows, firstColumnOfBlock(first)) - row;
      copyTransposed(c + row * desc.c.rowStride + target, c + target * desc.c.rowStride + row, desc.c.rowStride, height,
                     end - target);
      target = end;
    }
  };
  if (desc.c.dtype == DType::f32)
    copy(reinterpret_cast<float *>(call.c));
  else
    copy(reinterpret_cast<uint16_t *>(call.c));
}

} // namespace tcc::runtime::panels
