// Matmuls by panels, after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008).
//   1. C is cut into chunks of rows and columns, depth into stretches.
//   2. For a round, which is one chunk and as many stretches as scratch has room for, all threads pack the panels of B:
//      widened to f32, or as pairs of bf16 where the CPU multiplies those. The panels of the next round are packed
//      while blocks of this one are multiplied, so that threads seldom wait for each other.
//   3. Then each thread takes blocks: rows whose panels of A it packs into memory of its own, which stays in its
//      second-level cache, times all columns of the chunk, or some of them for the last blocks; those of the same rows
//      find their panels packed. Each right panel is in the first-level cache while it meets the block's left ones.
//      What the thread probably packs after the block is prefetched meanwhile. Registers hold sums of 6 rows and 16
//      columns, with AVX-512 of 14 rows and 32 columns.
//   4. A block goes through the stretches one after another: the first sets C, later ones add to it. The sums of 16-bit
//      results wait in scratch and are rounded once.
// Right panels may be kept for further matmuls by the same B, which then are blocks alone. Matmuls of few rows, or of
// one column, read B where it lies instead. Of a matrix times its own transpose, which is symmetric, blocks below the
// diagonal are not computed but copied from those above it, which have the same bits. The products of an element are
// added one after another within a stretch, and stretches are added in order. Stretches follow from the depth alone. So
// it does not matter which thread computes a block, and equal inputs give equal bits for any number of threads.
#pragma once
#include "runtime/panels/kernel.h"
#include <algorithm>
#include <optional>
#include <string>

namespace tcc::runtime::panels {

class Product {
public:
  /// The description must have been checked. C must have unit column stride, each operand one unit stride, and no size
  /// may be 0. Gives nothing for a matmul with geluGradient. If `kernel` is null, the CPU's best one is taken.
  static std::optional<Product> plan(const GemmDesc &desc, int threads, const Kernel *kernel = nullptr);

  /// How much scratch run() needs; it must be 64-byte aligned.
  int64_t scratchBytes() const { return bytesEach * workers; }
  /// Bytes of all right panels, where they can be kept (see PackedOperand); 0 where they cannot.
  int64_t packedBytes() const;
  /// "avx2 f32"
  std::string name() const;
  void run(const void *a, const void *b, void *c, const void *bias, void *scratch, PackedOperand packed = {}) const;

private:
  struct Call;
  struct Chunk;
  struct Packing;
  struct Place;
  struct Progress;
  struct Task;
  struct Worker;

  /// The blocks of a chunk, one for each task. If there are several threads, the last blocks of rows are cut into
  /// blocks of columns, so that all threads end at about the same time.
  struct Blocks {
    int64_t whole = 0;                  // blocks of rows that are not cut
    int64_t columns = 0, ofColumns = 0; // columns of a cut block, and into how many a block of rows is cut
    int64_t tasks = 0;
  };

  GemmDesc desc;
  bool swapped = false; // whether C is one column and computed as a row
  bool isFew = false;
  bool mayMirror = false; // whether C is symmetric if A and B are the same bytes
  const Kernel *kernel = nullptr;
  int threads = 1;
  int workers = 1;                                      // how many divide the batch, each with scratch of its own
  int64_t chunkRows = 0, chunkColumns = 0, stretch = 0; // sizes of a chunk of C, and of a stretch of depth
  int64_t stretches = 1;                                // how many stretches a round has
  int64_t roundsOfChunk = 1, rowChunks = 1, rounds = 1;
  int64_t taskRows = 0;                  // rows of a block
  int64_t leftStretches = 1;             // for how many of a round's stretches a worker has left panels
  Blocks blocks;                         // the same for each chunk
  int64_t packedPanels = 0;              // right panels that one task packs
  int64_t packTasks = 0;                 // tasks that pack the panels of a round
  int64_t earlyBlocks = 0;               // blocks of a round that come before the next round's packing
  int64_t packers = 1;                   // threads that pack, each with left panels of its own
  int64_t slots = 1;                     // each slot holds the right panels of one round
  int64_t leftBytes = 0, rightBytes = 0; // bytes of a block's left panels and a chunk's right ones, for one stretch
  // Where in scratch the right panels, the sums, the Progress and the bias begin, in bytes.
  int64_t rightAt = 0, sumsAt = 0, progressAt = 0, biasAt = 0;
  int64_t bytesEach = 0; // of scratch for each worker

  void cut();
  bool readsLeft() const; // with few rows: whether A is read where it lies
  void runOne(const Call &call) const;
  void runFew(const Call &call) const;
  /// The operand's lines from `firstLine` on over stretch `number` of its depth.
  ProductOperand stretchOf(const ProductOperand &operand, int64_t firstLine, int64_t lines, int64_t number) const;
  void cutChunk();
  void touchLeft(const Call &call, const Worker &worker) const;
  Chunk chunkOf(int64_t round) const;
  /// Rounds that follow each other may use the same right panels, which the first of them packs. This is the number of
  /// the packing that `round` uses, counted from 0.
  int64_t packOf(int64_t round) const { return round / roundsOfPack(); }
  int64_t roundsOfPack() const { return roundsOfChunk > 1 ? 1 : rowChunks; }
  /// Whether the panels of `round` are packed for it: there is such a round, and it does not read those of the one
  /// before it.
  bool isPackedAnew(int64_t round) const {
    return round < rounds && (round == 0 || packOf(round - 1) != packOf(round));
  }
  /// Tasks of a matmul: only blocks if B is packed already.
  int64_t allTasks(const Call &call) const;
  Task taskOf(const Call &call, int64_t number) const;
  Packing packingOf(int64_t number) const;
  Place placeOf(int64_t block) const;
  /// What packing number `number` of a round packs; no lines if that is nothing.
  ProductOperand rightPart(const Call &call, int64_t round, int64_t number) const;
  /// What the task packs first, when the worker does it; no lines if that is nothing.
  ProductOperand packedBy(const Call &call, const Worker &worker, const Task &task) const;
  void packRight(const Call &call, Progress &progress, const Task &task) const;
  /// `next` is what the worker does after it, as far as one knows.
  void multiply(const Call &call, Progress &progress, Worker &worker, const Task &task, const Task &next) const;
  /// Packs rows of the round's chunk and multiplies them with some of its columns.
  void multiplyBlock(const Call &call, int64_t round, Worker &worker, Place place, const Task &next) const;
  /// The first row of the block that has row `row` of C.
  int64_t firstRowOfBlock(int64_t row) const {
    return row / chunkRows * chunkRows + row % chunkRows / taskRows * taskRows;
  }
  /// The first column that a block computes of a symmetric C; those before it are copied.
  int64_t firstColumnOfBlock(int64_t firstRow) const { return firstRow / kernel->columns * kernel->columns; }
  void mirrorBlock(const Call &call, int64_t row, int64_t rows, int64_t column, int64_t columns) const;
  /// A worker's left panels for stretch `number` of a round. The last ones are for all further stretches as well.
  Panels leftPanels(char *scratch, int64_t worker, int64_t number) const {
    const int64_t place = worker * leftStretches + std::min(number, leftStretches - 1);
    return {reinterpret_cast<float *>(scratch + place * leftBytes), panelStride(kernel->rows)};
  }
  /// The right panels of packing `pack` for stretch `number` of the round.
  Panels rightPanels(const Call &call, int64_t pack, int64_t number) const;
  int64_t panelStride(int64_t width) const { return panelFloats(width, ceilDiv(stretch, kernel->packedDepth)); }
};

} // namespace tcc::runtime::panels
