#include "runtime/tiles/product.h"
#include "runtime/cpu.h"
#include "runtime/threads.h"
#include <algorithm>
#include <array>

namespace tcc::runtime::tiles {
namespace {

constexpr int64_t mostResidentBytes = int64_t{8} << 20, mostSumsBytes = int64_t{1} << 20;
constexpr int64_t panelSums = panelLines * panelLines, sumBytes = panelSums * static_cast<int64_t>(sizeof(float));
constexpr int64_t mostSlabPanels = 16, longestStretch = 18;         // tiles of depth
constexpr int64_t lineBytes = 64, leastStreamed = int64_t{2} << 20; // bytes of C: a second-level cache

} // namespace

/// One matmul of a batch.
struct Product::Call {
  ProductOperand left, right;
  void *c;
  const void *bias;
  char *scratch;
  bool alone; // by one thread

  template <typename Fn>
  void divide(int threads, Fn &&fn) const {
    if (alone)
      fn(0);
    else
      parallelRun(threads, fn);
  }
};

int64_t Product::residentPanels() const {
  return ceilDiv(leftIsResident ? desc.m : desc.n, panelLines);
}

std::optional<Product> Product::plan(const GemmDesc &desc, int threads) {
  constexpr int64_t fewLines = 16;
  const MatrixLayout c = normalized(desc.c, desc.m, desc.n);
  if (!hasTiles() || c.columnStride != 1 || std::min(desc.m, desc.n) < fewLines || desc.geluGradient ||
      (desc.a.dtype != DType::f32 && desc.a.dtype != DType::bf16))
    return std::nullopt;
  Product product;
  product.desc = desc;
  product.desc.c = c;
  product.threads = threads;
  product.parts = partsOf(desc.a.dtype);
  product.leftIsResident = desc.m <= desc.n;
  const int64_t rowBytes = c.rowStride * byteSize(c.dtype);
  product.streams = !desc.accumulate && desc.m * rowBytes >= leastStreamed && rowBytes % lineBytes == 0;
  product.byBatch = desc.batchCount() >= threads && desc.batchCount() > 1;

  const int64_t steps = ceilDiv(desc.k, tileDepth);
  const int64_t blocks = product.parts == 1 ? ceilDiv(steps, 32) : steps <= 16 ? 1 : ceilDiv(steps, 8);
  product.block = ceilDiv(steps, blocks) * tileDepth;
  const int64_t blockSteps = product.block / tileDepth;
  const int64_t resident = product.residentPanels(), blockBytes = resident * panelBytes(product.block, product.parts);
  product.stretch = ceilDiv(blockSteps, ceilDiv(blockSteps, longestStretch));
  product.chunk = product.block * std::clamp<int64_t>(mostResidentBytes / blockBytes, 1, blocks);
  product.carriesSums = product.chunk < desc.k && desc.c.dtype != DType::f32;
  product.greatestAt = resident * panelBytes(product.chunk, product.parts);
  product.residentBytes = product.greatestAt + ceilDiv(resident * product.chunk / product.block * 4, 64) * 64;

  const bool keepsSums = product.keepsSums();
  const int64_t panels = ceilDiv(product.leftIsResident ? desc.n : desc.m, panelLines);
  const int64_t most =
      keepsSums ? std::clamp<int64_t>(mostSumsBytes / (resident * sumBytes), 4, mostSlabPanels) : mostSlabPanels;
  const int64_t dividers = product.byBatch ? 1 : threads;
  product.slabPanels = ceilDiv(panels, dividers * ceilDiv(panels, dividers * most));
  product.slabs = ceilDiv(panels, product.slabPanels);
  product.cuts = std::min(resident, ceilDiv(dividers, product.slabs));
  product.slabBytes = product.slabPanels * panelBytes(product.block, product.parts);
  product.sumsBytes = (keepsSums              ? ceilDiv(resident, product.cuts)
                       : product.keepsPairs() ? 2
                                              : 1) *
                      product.slabPanels * sumBytes;
  const int64_t ofThread = product.slabBytes + (product.carriesSums ? 0 : product.sumsBytes);
  product.carriedAt = product.residentBytes + dividers * ofThread;
  product.bytes = product.carriedAt + (product.carriesSums ? product.slabs * product.cuts * product.sumsBytes : 0);
  if (product.byBatch)
    product.bytes *= threads;
  return product;
}

void Product::run(const void *a, const void *b, void *c, const void *bias, void *scratch) const {
  auto runElement = [&](int64_t i, char *memory, bool alone) {
    Call call{leftOf(desc), rightOf(desc), const_cast<char *>(batchElement(c, desc, desc.c, i)), bias, memory, alone};
    call.left.data = batchElement(a, desc, desc.a, i);
    call.right.data = batchElement(b, desc, desc.b, i);
    runOne(call);
  };
  auto *memory = static_cast<char *>(scratch);
  if (!byBatch) {
    for (int64_t i = 0; i < desc.batchCount(); ++i)
      runElement(i, memory, false);
    return;
  }
  parallelRun(threads, [&](int64_t thread) {
    const Range range = cutRange(desc.batchCount(), 1, threads, thread);
    for (int64_t i = range.begin; i < range.end; ++i)
      runElement(i, memory + thread * (bytes / threads), true);
  });
}

uint32_t *Product::greatestOf(const Call &call) const {
  return reinterpret_cast<uint32_t *>(call.scratch + greatestAt);
}

void Product::runOne(const Call &call) const {
  const ProductOperand &resident = leftIsResident ? call.left : call.right;
  for (int64_t begin = 0; begin < desc.k; begin += chunk) {
    const Stretch depth{0, 0, begin, std::min(chunk, desc.k - begin)};
    call.divide(threads, [&](int64_t thread) {
      const Range panels = call.alone ? Range{0, residentPanels()} : cutRange(residentPanels(), 1, threads, thread);
      char *to = call.scratch;
      uint32_t *greatest = greatestOf(call);
      for (int64_t at = 0; at < depth.depth; at += block, greatest += residentPanels()) {
        const Stretch part{panels.begin, panels.end - panels.begin, begin + at, std::min(block, depth.depth - at)};
        const int64_t bytesOfPanel = panelBytes(part.depth, parts);
        pack(resident, leftIsResident ? Side::left : Side::right, part, to + panels.begin * bytesOfPanel,
             greatest + panels.begin);
        to += residentPanels() * bytesOfPanel;
      }
    });
    const int64_t workers = call.alone ? 1 : threads;
    call.divide(threads, [&](int64_t thread) {
      const Tiles tiles;
      const Range tasks = cutRange(slabs * cuts, 1, workers, thread);
      char *memory = call.scratch + residentBytes + thread * (slabBytes + (carriesSums ? 0 : sumsBytes));
      for (int64_t task = tasks.begin; task < tasks.end; ++task)
        runTask(call, task, memory, depth);
    });
  }
}

/// Where a block of C is, and how much of it is there.
struct Product::Block {
  Results results;
  int64_t row, column, rows, columns;
};

Product::Block Product::blockAt(const Call &call, int64_t residentPanel, int64_t otherPanel, bool isFirst) const {
  const int64_t row = (leftIsResident ? residentPanel : otherPanel) * panelLines;
  const int64_t column = (leftIsResident ? otherPanel : residentPanel) * panelLines;
  Results results;
  results.c = const_cast<char *>(offset(call.c, desc.c.dtype, row * desc.c.rowStride + column));
  results.dtype = desc.c.dtype;
  results.stride = desc.c.rowStride;
  if (desc.bias && isFirst) {
    results.biasType = *desc.bias;
    results.bias = offset(call.bias, *desc.bias, column);
  }
  results.accumulate = desc.accumulate || !isFirst;
  results.streams = streams && isFirst && reinterpret_cast<uintptr_t>(results.c) % lineBytes == 0;
  return {results, row, column, std::min(panelLines, desc.m - row), std::min(panelLines, desc.n - column)};
}

/// A packed slab over a block of depth, and the resident panels that it meets.
struct Product::Slab {
  Stretch part;
  const char *panels = nullptr;
  const uint32_t *greatest = nullptr; // of each panel
  Range cut;                          // of the resident panels
  const char *resident = nullptr;
  const uint32_t *greatestOfResident = nullptr;
  float *sums = nullptr;
  bool isBegun = false; // whether sums hold those of the depth before
  bool isLast = false;  // of the blocks of a chunk
};

/// A slab against one cut of the resident panels, over a chunk of depth.
void Product::runTask(const Call &call, int64_t task, char *memory, const Stretch &depth) const {
  const ProductOperand &operand = leftIsResident ? call.right : call.left;
  const int64_t firstPanel = task / cuts * slabPanels;
  std::array<uint32_t, mostSlabPanels> greatest;
  Slab slab;
  slab.part.firstPanel = firstPanel;
  slab.part.panels = std::min(slabPanels, ceilDiv(operand.lines, panelLines) - firstPanel);
  slab.panels = memory;
  slab.greatest = greatest.data();
  slab.cut = cutRange(residentPanels(), 1, cuts, task % cuts);
  slab.resident = call.scratch;
  slab.greatestOfResident = greatestOf(call);
  slab.sums = reinterpret_cast<float *>(carriesSums ? call.scratch + carriedAt + task * sumsBytes : memory + slabBytes);
  slab.isBegun = carriesSums && depth.firstDepth > 0;
  for (int64_t at = 0; at < depth.depth; at += block) {
    slab.part.firstDepth = depth.firstDepth + at;
    slab.part.depth = std::min(block, depth.depth - at);
    slab.isBegun |= at > 0;
    slab.isLast = at + slab.part.depth == depth.depth;
    pack(operand, leftIsResident ? Side::right : Side::left, slab.part, memory, greatest.data());
    multiplySlab(call, slab, depth.firstDepth == 0);
    slab.resident += residentPanels() * panelBytes(slab.part.depth, parts);
    slab.greatestOfResident += residentPanels();
  }
}

/// Where the sums of a block of C wait.
float *Product::sumsOf(const Slab &slab, int64_t residentPanel, int64_t slabPanel) const {
  const int64_t row = keepsSums() ? residentPanel - slab.cut.begin : keepsPairs() ? residentPanel % 2 : 0;
  return slab.sums + (row * slabPanels + slabPanel) * panelSums;
}

/// Writes the sums of a block that is complete. Results of 16 bits that stream are written two blocks of a row at a
/// time, when the second one, which has the odd number, is complete.
void Product::finishBlock(const Slab &slab, const Block &block, int64_t residentPanel, int64_t slabPanel) const {
  const float *sums = sumsOf(slab, residentPanel, slabPanel);
  const Range columns =
      leftIsResident ? Range{slab.part.firstPanel, slab.part.firstPanel + slab.part.panels} : slab.cut;
  const int64_t column = block.column / panelLines;
  const bool comesInPairs = block.results.streams && block.results.dtype != DType::f32 && block.columns == panelLines;
  const bool isSecond = column % 2 != 0 && column > columns.begin;
  const bool isFirst = column % 2 == 0 && column + 1 < columns.end && desc.n - block.column >= 2 * panelLines;
  if (!comesInPairs || (!isFirst && !isSecond))
    return finish(sums, block.rows, block.columns, block.results);
  if (isFirst)
    return;
  Results pair = block.results;
  pair.c = const_cast<char *>(offset(pair.c, pair.dtype, -panelLines));
  if (pair.bias)
    pair.bias = offset(pair.bias, pair.biasType, -panelLines);
  finishPair(leftIsResident ? sumsOf(slab, residentPanel, slabPanel - 1) : sumsOf(slab, residentPanel - 1, slabPanel),
             sums, block.rows, pair);
}

/// Each resident panel, a stretch of its depth at a time, meets all of the slab's. So the stretch stays in the
/// first-level cache while theirs come from the second-level one.
void Product::multiplySlab(const Call &call, const Slab &slab, bool isFirstChunk) const {
  const int64_t panels = slab.part.panels, steps = ceilDiv(slab.part.depth, tileDepth);
  const int64_t stepBytes = panelBytes(tileDepth, parts), stretchBytes = stretch * stepBytes;
  const int64_t aheadBytes = ceilDiv(ceilDiv(stretchBytes, panels), lineBytes) * lineBytes;
  for (int64_t r = slab.cut.begin; r < slab.cut.end; ++r)
    for (int64_t step = 0; step < steps; step += stretch)
      for (int64_t s = 0; s < panels; ++s) {
        const char *x = slab.resident + (r * steps + step) * stepBytes;
        const char *y = slab.panels + (s * steps + step) * stepBytes;
        const bool isLast = slab.isLast && step + stretch >= steps;
        const Block to = blockAt(call, r, slab.part.firstPanel + s, carriesSums || isFirstChunk);
        const bool byParts = parts == 1 || (splits(slab.greatestOfResident[r]) && splits(slab.greatest[s]));
        const bool direct = isLast && step == 0 && !slab.isBegun && byParts && to.rows == panelLines &&
                            to.columns == panelLines && to.results.dtype == DType::f32 && !to.results.bias &&
                            !to.results.streams;
        float *dense = sumsOf(slab, r, s);
        const bool accumulate = direct ? to.results.accumulate : step > 0 || slab.isBegun;
        if (!to.results.streams && isLast)
          fetch(to.results, to.rows, to.columns);
        if (byParts) {
          const Ahead ahead{x + stretchBytes + s * aheadBytes, aheadBytes,
                            direct                   ? nullptr
                            : s + 1 < panels         ? dense + panelSums
                            : step + stretch < steps ? sumsOf(slab, r, 0)
                                                     : sumsOf(slab, r + 1, 0)};
          multiply(leftIsResident ? x : y, leftIsResident ? y : x, std::min(stretch, steps - step), parts,
                   leftIsResident ? Side::left : Side::right, direct ? static_cast<float *>(to.results.c) : dense,
                   direct ? to.results.stride : panelLines, accumulate, ahead);
        } else if (step == 0) {
          multiplyPlainly(call.left.from(to.row, slab.part.firstDepth),
                          call.right.from(to.column, slab.part.firstDepth), slab.part.depth, dense, accumulate);
        }
        if (!direct && isLast && (!carriesSums || slab.part.firstDepth + slab.part.depth == desc.k))
          finishBlock(slab, to, r, s);
      }
}

} // namespace tcc::runtime::tiles
