// Matmuls by AMX's tiles: of bf16, and of f32 as six matmuls of three bf16 parts, after Henry, Tang and Heinecke,
// "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations" (2019).
//   1. The operand with fewer lines, the resident one, is packed as panels into scratch by all threads.
//   2. Threads divide the other one's panels into slabs. A slab is packed into the thread's own memory, so that each
//      element is packed once, and multiplied with all resident panels: a stretch of the depth of each, which stays in
//      the first-level cache, meets all panels of the slab.
//   3. Depth is cut into blocks, so that a slab stays in the second-level cache; its sums wait in the thread's memory
//      from one block to the next. Where the resident operand is too large, depth is cut into chunks first, and C adds
//      them up, or sums in scratch where C has 16 bits.
//   4. Panels of f32 that cannot be split (infinities, NaNs, all tiny) are multiplied as they are, by AVX-512.
// Blocks and chunks follow from sizes alone, so that equal inputs give equal bits for any number of threads.
#pragma once
#include "runtime/gemm.h"
#include "runtime/tiles/multiply.h"
#include <optional>

namespace tcc::runtime::tiles {

class Product {
public:
  /// Gives nothing if AMX may not be used here, or if panels are the better choice: few lines, C without unit column
  /// stride. The description must have been checked, and each operand must have a unit stride.
  static std::optional<Product> plan(const GemmDesc &desc, int threads);

  /// How much scratch run() needs; it must be 64-byte aligned.
  int64_t scratchBytes() const { return bytes; }
  const char *name() const { return parts == 1 ? "amx bf16" : "amx 3 x bf16"; }
  void run(const void *a, const void *b, void *c, const void *bias, void *scratch) const;

private:
  struct Call;
  struct Block;
  struct Slab;

  GemmDesc desc;
  int threads = 1, parts = 1;
  bool leftIsResident = false;
  bool streams = false;                        // whether C, if it is aligned, is written past the caches
  bool byBatch = false;                        // whether threads divide the batch, each with memory for a whole matmul
  int64_t chunk = 0, block = 0;                // elements of depth of each, multiples of a tile's depth
  int64_t stretch = 0;                         // tiles of depth of a panel that stay in the first-level cache
  int64_t slabs = 0, slabPanels = 0, cuts = 1; // cuts of the resident panels, where there are fewer slabs than threads
  bool carriesSums = false;                    // whether sums wait in memory of each slab's own between two chunks
  int64_t carriedAt = 0;
  int64_t greatestAt = 0; // in the resident operand's memory: a number for each panel of each block
  int64_t residentBytes = 0, slabBytes = 0, sumsBytes = 0, bytes = 0;

  int64_t residentPanels() const;
  bool keepsSums() const { return chunk > block || carriesSums; } // whether memory holds sums of several blocks of C
  /// Whether sums of one resident panel wait for those of the next, its neighbour in C's rows.
  bool keepsPairs() const { return streams && !leftIsResident && desc.c.dtype != DType::f32; }
  Block blockAt(const Call &call, int64_t residentPanel, int64_t otherPanel, bool isFirst) const;
  void runOne(const Call &call) const;
  void runTask(const Call &call, int64_t task, char *memory, const Stretch &depth) const;
  void multiplySlab(const Call &call, const Slab &slab, bool isFirstChunk) const;
  float *sumsOf(const Slab &slab, int64_t residentPanel, int64_t slabPanel) const;
  void finishBlock(const Slab &slab, const Block &block, int64_t residentPanel, int64_t slabPanel) const;
  uint32_t *greatestOf(const Call &call) const;
};

} // namespace tcc::runtime::tiles
