// What passes may know of the machine that they compile for: plain data. No pass holds a number of a machine itself,
// and none asks which machine it is. The defaults are the CPU's; each target of codegen has its own values.
#pragma once
#include "ir/strided_view.h"
#include <limits>
#include <string>

namespace tcc {

/// What products gain from operands and results whose rows lie a multiple of elements apart.
struct PaddingModel {
  /// Shares of a product's time: with a left side that is read transposed, and other ones.
  struct Gain {
    double transposed = 0, other = 0;
  };
  int64_t multiple = 64; // that sizes are padded to; 0: none is
  int64_t enough = 8;    // sizes that are multiples of this gain nothing more
  // Of f32 and of 16 bits. Medians on Sapphire Rapids without AMX, one thread, oneDNN 2.6: the three products of a head
  // of 50257 × 768 with 1024 rows, 50304 for 50257: transposed left side 0.19 (f32) and 0.09 to 0.15 (bf16), others
  // within ± 0.05; with 256 rows 0 and 0.05. On Zen 4 bf16 gains more.
  Gain wide{.transposed = 0.09}, narrow{.transposed = 0.09};
  double flopsPerByte = 10; // of a product in the time that a byte of a copy takes
};

/// What products add to their sums on the way out, which else a kernel adds that reads them again.
struct EpilogueModel {
  bool bias = true;        // a row, added to each row
  bool narrowBias = false; // of the result's type alone: an f32 one is rounded first
  bool addend = true;      // a tensor of the result's type
  bool inPlace = true;     // ... in the result's place: one that is read again is copied first
  // Bytes that a kernel moves while the product adds a byte. oneDNN 2.6 on Zen 5, two cores: 1.5 ms for the 25 MB of
  // 4096 × 1536 in f32, where a copy moves 40 GB/s. A bias is free there.
  double addendPrice = 2.4;
};

struct TargetModel {
  std::string name = "cpu"; // stands on the module, so that a dump says what it was made for

  // split-reductions: work items are rows or columns, so long sums are cut into parts that are summed by a second
  // kernel
  int64_t columnParts = 16;   // at most so many partial sums of a column reduction
  int64_t fewestRows = 64;    // a column reduction of fewer rows is one kernel
  int64_t longestRow = 16384; // elements; a lone longer row is cut
  int64_t longestPart = 4096; // elements of a part of a row, at most
  int64_t shortestPart = 64;  // and at least

  // fuse-kernels
  int64_t alwaysRecomputed = 256;    // a value with fewer bytes of stored ancestors is always recomputed
  int64_t longestRecomputation = 64; // ops; a value behind more of them is stored
  int64_t mostRecomputedFrom = 8;    // stored values; a value that needs more of them is stored
  int64_t mostKernelOps = 256;       // of a merged kernel: bounds the time to compile it
  int64_t mostKernelOperands = 40;   // pointers that a kernel takes
  int64_t mostSiblings = 24;         // users of one value that are tried with each other
  int64_t longestKeptRow = std::numeric_limits<int64_t>::max(); // elements; longer rows are not merged over a row sum
  bool scatterAlone = false; // a scatter-add is a kernel of its own: beside others it would lose threads

  // schedule
  int64_t joinedBytes = 64 << 10; // by how much joining equal kernels may raise the most bytes that are ever alive

  PaddingModel padding;    // pad-shapes
  EpilogueModel epilogues; // fuse-epilogues

  // autocast, narrow-activations
  bool multipliesF16 = false;     // expand-unsupported: products of f16; else of the same values in f32
  bool narrowActivations = false; // with 16-bit products: activations are stored in 16 bits; else f32 where f32 is read

  // fuse-kernels, plan-memory and the lowering of plans
  ViewLimits views{.batchDims = 2}; // how products read their operands
  int64_t alignment = 64;           // bytes; of every allocation in the arena, a power of two
};

/// What only the target's code and libraries know. Asked by expand-unsupported and plan-memory.
class TargetQueries {
public:
  virtual ~TargetQueries() = default;
  /// Whether the target runs this ExpandableOpInterface op as it is, with its sizes and attributes.
  virtual bool hasKernel(mlir::Operation *) const { return false; }
  /// Arena bytes that the structured op needs while it runs.
  virtual int64_t scratchBytes(mlir::Operation *op) const = 0;
};

} // namespace tcc
