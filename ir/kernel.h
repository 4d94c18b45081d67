// analyzeKernel: what a fused region is, without regard to a target. The fuser, the scheduler, both emitters and the
// phase verifier call this one function; a region is a legal kernel exactly when it succeeds.
#pragma once
#include "ir/dialect.h"
#include "ir/index_expr.h"

namespace tcc {

/// The iteration space: outer × rows × columns. Element (o, r, c) has linear number (o·rows + r)·columns + c.
struct KernelSpace {
  int64_t outer = 1, rows = 1, columns = 1;

  int64_t elements() const { return outer * rows * columns; }
  bool operator==(const KernelSpace &) const = default;
};

/// An axis computed from others, valid where 0 <= value < extent; being outside is what `pad` and `concat` test.
struct DerivedAxis {
  IndexExpr value;
  int64_t extent;
};

/// One value of the region at one place of the iteration space. Nodes are in topological order.
struct KernelNode {
  enum class Kind : uint8_t {
    load,      // argument[index], or 0 where a guard fails; with `operands` = {row index}: argument[row·stride + index]
    literal,   // a splat literal of `op`
    index,     // the integer `index`, converted to the type
    random,    // random_bits of operands[0] = seed at element number `index`
    compute,   // the elementwise op `op` of the operands
    choose,    // operands[i] for the first i with guards[i] inside, else 0 (pad: one part, concat: several)
    rowReduce, // reduction `op` (reduce_sum or reduce_max) of operands[0] over the columns
  };
  Kind kind;
  mlir::Operation *op = nullptr;
  mlir::RankedTensorType type; // of the region's value; the element type is the node's
  llvm::SmallVector<unsigned, 3> operands;
  unsigned argument = 0;                 // load: number of the kernel's operand
  IndexExpr index;                       // load: element offset; index, random: the number
  int64_t gatherStride = 0;              // load with a row index: elements a row
  int64_t gatherRows = 0;                // … and the rows there are; outside of them the value is NaN (0 for integers)
  llvm::SmallVector<unsigned, 2> guards; // load: derived axes that must all be inside; choose: one list of them a part,
  llvm::SmallVector<unsigned, 2> guardCounts; // … guardCounts[i] of `guards` belong to part i
  bool perColumn = false;                     // depends on the column; others are computed once a row
  unsigned stage = 0; // the first stage that can compute it; a rowReduce's value is ready in the next stage
};

/// Where a result of the kernel goes.
struct KernelStore {
  enum class Kind : uint8_t {
    element,    // result[index] = node, for each (o, r, c), or each (o, r) where the node is not perColumn
    columnSum,  // result[index] = sum over rows; index uses outer and column alone
    columnMax,  // likewise
    scatterAdd, // result[row·scatterStride + index] += node in ascending rows; row = value of node `scatterRow`
  };
  Kind kind;
  unsigned node;
  IndexExpr index;
  bool perColumn = false;
  unsigned scatterRow = 0, scatterBase = 0; // scatterAdd: node of the row index; argument that holds the base
  int64_t scatterStride = 0, scatterRows = 0;
};

struct KernelInfo {
  KernelSpace space;
  llvm::SmallVector<DerivedAxis, 2> derived; // axis number i + axis::firstDerived
  std::vector<KernelNode> nodes;
  std::vector<KernelStore> stores; // one a result, in order
  unsigned stages = 1;             // passes over a row

  bool hasRowReduction() const;
  bool hasColumnResult() const; // columnSum, columnMax or scatterAdd
  /// What threads may divide: rows (outer·rows), blocks of rows (outer) or column tiles (outer·columns/tile).
  enum class Parallel : uint8_t { rows, outer, columns };
  Parallel parallel() const;

  /// True if the body is the same for any number of columns: one row, every access at the column itself or at one place
  /// for all, no coordinates. Such kernels run over *segments*: several tensors of different sizes, one body. Sizes
  /// that are equal modulo `segmentSizes` share even their vector tails.
  bool isSegment() const;
  static constexpr int64_t segmentSizes = 64;

  void print(llvm::raw_ostream &os) const;
};

/// What is analysed: the values to be computed, and those that are given; everything between belongs to the region.
struct KernelView {
  llvm::ArrayRef<mlir::Value> results;
  llvm::ArrayRef<mlir::Value> arguments;
};

/// The kernel's form, or nothing and in `refusal` what was expected.
std::optional<KernelInfo> analyzeKernel(const KernelView &view, std::string &refusal);
std::optional<KernelInfo> analyzeKernel(KernelOp kernel, std::string &refusal);

/// True if result `result` may be written into the buffer of argument `argument`: every read of the argument stands
/// in its own row, in no later stage than the writing one, and there at the written index.
bool mayShareBuffer(const KernelInfo &info, unsigned result, unsigned argument);

} // namespace tcc
