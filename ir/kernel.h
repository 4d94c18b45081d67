// KernelInfo, the kernel form: what a fused region computes, as plain data that knows neither MLIR nor a target.
// analyzeKernel (ir/analyze_kernel.h) makes it, and every emitter reads it. Two kernels whose forms are equal are one.
#pragma once
#include "ir/index_expr.h"
#include "ir/scalar_steps.h"
#include <string>
#include <vector>

namespace tcc {

/// The iteration space: outer × rows × columns. Element (o, r, c) has linear number (o·rows + r)·columns + c.
struct KernelSpace {
  int64_t outer = 1, rows = 1, columns = 1;

  int64_t elements() const { return outer * rows * columns; }
  bool operator==(const KernelSpace &) const = default;
};

/// A tensor in memory, dense in row-major order.
struct KernelTensor {
  ElementType type = ElementType::f32;
  int64_t elements = 0;

  bool operator==(const KernelTensor &) const = default;
};

/// An axis that is computed from others. It is inside its range where 0 <= value < extent; `pad` and `concat` test
/// that.
struct DerivedAxis {
  IndexExpr value;
  int64_t extent;

  bool operator==(const DerivedAxis &) const = default;
};

/// What a reduction makes of its values.
enum class Reduction : uint8_t {
  sum,
  maximum, // NaN if one is NaN
  product,
};

/// "sum", "maximum" or "product".
const char *name(Reduction reduction);

/// One value of the region at one place of the iteration space. Nodes are in topological order. A member that the
/// node's kind does not name has its default, so that equal nodes are equal in every member.
struct KernelNode {
  enum class Kind : uint8_t {
    load, // argument[index], or 0 where a guard fails; a gather has an operand, the row: argument[row·stride + index]
    literal,   // `value`
    index,     // the integer `index`, converted to the type
    random,    // random_bits of `stream`; operands: seed, then outer index, row and column modulo 2^32
    compute,   // `steps` of the operands, rounded to the type
    choose,    // operands[i] for the first i with guards[i] inside, else 0 (pad: one part, concat: several)
    rowReduce, // `reduction` of operands[0] over the columns
  };
  Kind kind = Kind::load;
  ElementType type = ElementType::f32;
  llvm::SmallVector<unsigned, 3> operands; // numbers of earlier nodes
  unsigned argument = 0;                   // load: number of the kernel's operand
  IndexExpr index;                         // load: element offset; index: the number
  int64_t gatherStride = 0;                // load with a row: how many elements a row of the table has
  int64_t gatherRows = 0;                  // load with a row: how many rows there are; others give NaN (0 for integers)
  llvm::SmallVector<unsigned, 2> guards;   // load: derived axes that must all be inside; choose: those of each part
  llvm::SmallVector<unsigned, 2> guardCounts; // choose: how many of `guards` belong to each part, in order
  ScalarLiteral value;                        // literal
  uint64_t stream = 0;                        // random
  ScalarSteps steps;                          // compute
  Reduction reduction = Reduction::sum;       // rowReduce
  bool perColumn = false;                     // whether it depends on the column; if not, it is computed once for a row
  unsigned stage = 0; // the first stage that can compute it; the value of a rowReduce is ready in the stage after that

  bool operator==(const KernelNode &) const = default;
};

/// Where a result of the kernel goes.
struct KernelStore {
  enum class Kind : uint8_t {
    element,      // result[index] = node, for each (o, r, c), or each (o, r) where the node is not perColumn
    columnReduce, // result[index] = `reduction` over rows; index uses outer and column alone
    scatterAdd,   // result[row·scatterStride + index] += node in ascending rows; row = value of node `scatterRow`
  };
  Kind kind = Kind::element;
  unsigned node = 0;
  IndexExpr index;
  bool perColumn = false;
  Reduction reduction = Reduction::sum;     // columnReduce
  unsigned scatterRow = 0, scatterBase = 0; // scatterAdd: node of the row index; argument that holds the base
  int64_t scatterStride = 0, scatterRows = 0;

  bool operator==(const KernelStore &) const = default;
};

struct KernelInfo {
  KernelSpace space;
  std::vector<KernelTensor> arguments, results;
  llvm::SmallVector<DerivedAxis, 2> derived; // axis number i + axis::firstDerived
  std::vector<KernelNode> nodes;
  std::vector<KernelStore> stores; // one for each result, in order
  unsigned stages = 1;             // the number of passes over a row

  bool operator==(const KernelInfo &) const = default;

  bool hasRowReduction() const;
  bool hasColumnResult() const; // columnReduce or scatterAdd
  bool dependsOnColumn(const IndexExpr &expr) const;
  bool axisDependsOnColumn(unsigned axis) const;
  /// Whether every access steps through the columns with one stride, without div or mod of the column.
  bool isAffineInColumns() const;

  /// Whether the body is the same for any number of columns. Then there is one row, no coordinate is used, and each
  /// access is at the column itself or at one place for all columns. Such a kernel can run over *segments*: several
  /// tensors of different sizes. Sizes that are equal modulo `segmentSizes` also have the same vector tail.
  bool isSegment() const;
  static constexpr int64_t segmentSizes = 64;

  void print(llvm::raw_ostream &os) const;
};

/// The names of a kernel's parts, for labels, symbols and head comments. They are no part of its form: kernels that
/// differ in names alone are equal.
struct KernelNames {
  struct Op {
    std::string name;   // "reduce_sum"
    std::string source; // "model.cpp:12", or empty
    std::string value;  // the user's name for its result, or empty
  };
  std::string label;       // "gelu+add", or "kernel"
  std::string work;        // "exp_mul": the ops that compute; symbols are made of it, and have no name of the user's
  std::vector<Op> ops;     // of the region, in its order
  std::vector<int> ofNode; // for each node the number of its op; -1: a load of an argument
};

/// The form that stands for all kernels with one body. For a segment kernel its sizes are the least ones with the same
/// vector tail; any other form stays as it is. Kernels are equal if these forms are; an emitter is given nothing else.
KernelInfo normalized(KernelInfo form);

/// Hash of a form: equal for equal ones.
size_t hashOf(const KernelInfo &form);

/// Whether a result may be written into the buffer of an argument, for each result one after the other all arguments.
/// That is so if the argument is read only in its own row, in no later stage than the one that writes, and in that
/// stage only at the written index. The planner puts no other result over an argument, so an emitter may rely on this.
std::vector<bool> sharedBuffers(const KernelInfo &info);
/// The same of one result and one argument.
inline bool mayShareBuffer(const KernelInfo &info, unsigned result, unsigned argument) {
  return sharedBuffers(info)[result * info.arguments.size() + argument];
}

} // namespace tcc
