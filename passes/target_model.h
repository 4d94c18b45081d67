// TargetModel: all that passes know of the machine that they compile for, as plain data. No pass holds a number of a
// machine itself, and none asks which machine it is. The defaults are the CPU's; each target of codegen has its own
// values.
#pragma once
#include "ir/strided_view.h"
#include <limits>
#include <string>

namespace tcc {

/// What matmuls gain when the rows of their operands and results lie a multiple of some number of elements apart.
struct PaddingModel {
  /// The share of a matmul's time that is saved: where its left side is read transposed, and for all others.
  struct Gain {
    double transposed = 0, other = 0;
  };
  int64_t multiple = 64; // sizes are padded to multiples of it; 0: sizes are not padded
  int64_t enough = 8;    // sizes that are multiples of this gain nothing more
  // For f32 and for 16 bits. Measured: medians of the three matmuls of a head of 50257 × 768 with 1024 rows, with 50304
  // in place of 50257, by oneDNN 2.6 on one thread of a Sapphire Rapids without AMX. With a transposed left side 0.19
  // is gained in f32 and 0.09 to 0.15 in bf16, otherwise at most 0.05 is gained or lost. With 256 rows it is 0 and
  // 0.05. On Zen 4 bf16 gains more.
  Gain wide{.transposed = 0.09}, narrow{.transposed = 0.09};
  double flopsPerByte = 10; // how many flops a matmul does in the time in which a copy moves a byte
  // In steady code a size grows where this adds no more than such a share of it. What else would be weighed is not the
  // same for each number of ranks and each --zero: which values are copied, and which sizes are seen to be one.
  double steadyShare = 0;
};

/// What a matmul can add to its sums before it stores them. What it cannot add is added by a kernel that reads the
/// stored sums again.
struct EpilogueModel {
  bool bias = true;        // one row, which is added to each row of the result
  bool narrowBias = false; // the bias must have the result's type: an f32 one is rounded to it first
  bool addend = true;      // a tensor of the result's type and shape
  bool inPlace = true;     // the addend stands in the result's place; one that others still read is copied first
  // How many bytes a kernel moves in the time that the matmul takes to add one byte of addend. Measured with oneDNN 2.6
  // on two cores of a Zen 5: 1.5 ms for the 25 MB of 4096 × 1536 in f32, where a copy moves 40 GB/s. A bias costs
  // nothing there.
  double addendPrice = 2.4;
};

struct TargetModel {
  std::string name = "cpu"; // stands on the module, so that a dump says what it was made for

  // split-reductions: a kernel's work items are rows or columns, so a long sum is cut into parts, which a second kernel
  // adds up
  int64_t columnParts = 16;   // the most partial sums of a column reduction
  int64_t fewestRows = 64;    // a column reduction of fewer rows is one kernel
  int64_t longestRow = 16384; // elements; a longer row is cut where the reduction has one row alone
  int64_t longestPart = 4096; // the most elements of a part of a row
  int64_t shortestPart = 64;  // the fewest elements of a part of a row

  // fuse-kernels
  int64_t alwaysRecomputed = 256;    // a value with fewer bytes of stored ancestors is always recomputed
  int64_t longestRecomputation = 64; // ops; a value that takes more of them is stored
  int64_t mostRecomputedFrom = 8;    // stored values; a value that needs more of them is stored
  int64_t mostKernelOps = 256;       // the most ops of a merged kernel, which bounds the time to compile it
  int64_t mostKernelOperands = 40;   // pointers that a kernel takes
  int64_t mostSiblings = 24;         // users of one value that are tried with each other
  int64_t longestKeptRow = std::numeric_limits<int64_t>::max(); // elements; longer rows are not merged over a row sum
  bool scatterAlone =
      false; // whether a scatter-add must be a kernel of its own; fused with others it has fewer threads

  // schedule
  int64_t joinedBytes = 64 << 10; // by how many bytes joining equal kernels may raise the peak of live bytes

  PaddingModel padding;    // pad-shapes
  EpilogueModel epilogues; // fuse-epilogues

  // expand-unsupported: whether matmuls of f16 exist; if not, their operands are converted to f32
  bool multipliesF16 = false;
  // narrow-activations: whether activations are stored in 16 bits if matmuls multiply 16 bits
  bool narrowActivations = false;
  // keep-packed: the most rows of a matmul whose packed right operand is kept for others. With 512 rows packing took a
  // tenth of a matmul's time on a Zen 3 with cold operands, so that 2,048 rows would gain 2 %. 0: none is kept.
  int64_t packedOnceRows = 1024;

  // fuse-kernels, plan-memory and the lowering of plans
  ViewLimits views{.batchDims = 2}; // the strides with which matmuls can read their operands
  int64_t alignment = 64;           // of every allocation in the arena, in bytes; a power of two
};

/// Questions that only the target's code and libraries can answer. expand-unsupported and plan-memory ask them.
class TargetQueries {
public:
  virtual ~TargetQueries() = default;
  /// Whether the target runs this ExpandableOpInterface op as it is, with its sizes and attributes.
  virtual bool hasKernel(mlir::Operation *) const { return false; }
  /// Arena bytes that the structured op needs while it runs.
  virtual int64_t scratchBytes(mlir::Operation *op) const = 0;
};

} // namespace tcc
