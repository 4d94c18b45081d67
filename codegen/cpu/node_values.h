// NodeValues: the value of a kernel node as a scalar (once a row) or in the lanes of a vector, built on demand.
#pragma once
#include "codegen/cpu/kernel_plan.h"
#include "codegen/cpu/lane_builder.h"
#include "ir/kernel_precision.h"

namespace tcc::cpu {

using NodeMap = llvm::DenseMap<unsigned, mlir::Value>;

/// Whether 32 bits hold every value that the expression and its parts can have.
bool fitsIn32(const KernelInfo &info, const IndexExpr &expr);

/// One row of the iteration space, and what is known of it.
struct RowScope {
  RowScope(mlir::Value outer, mlir::Value row) : outer(outer), row(row) {}

  mlir::Value outer, row; // 64-bit coordinates
  NodeMap values;         // row-level nodes and finished row reductions
};

/// Neighbouring columns of a row, one for each lane.
struct LaneScope {
  RowScope &row;
  mlir::Value column;                   // of lane 0, a multiple of the vector width
  mlir::Value mask;                     // the lanes inside the row; null: all of them
  unsigned stage;                       // the pass
  int64_t partBegin = -1, partEnd = -1; // the columns over which the loop runs, if they are known
  NodeMap values = NodeMap();
};

class NodeValues {
public:
  NodeValues(LaneBuilder &b, const KernelInfo &info, const KernelPlan &plan)
      : b(b), info(info), plan(plan), narrow(readIn16Bits(info)) {}

  llvm::SmallVector<mlir::Value> arguments; // pointers: inputs, then results
  mlir::Value scratch;                      // plan.scratchRows rows of f32, or null
  mlir::Value rows; // how many rows an outer block has, if code reads this number at run time; null: the form's number

  /// Computes a row-level node and remembers it in `row`.
  void computeRowNode(unsigned node, RowScope &row);
  mlir::Value inLanes(unsigned node, LaneScope &lanes);

  mlir::Value scalarIndex(const IndexExpr &expr, const RowScope &row, mlir::Value column);
  /// Address of the element of lane 0; the index must step by one from lane to lane.
  mlir::Value address(mlir::Value base, mlir::Type element, const IndexExpr &index, const RowScope &row,
                      mlir::Value column);
  mlir::Value scratchAddress(unsigned node, LaneScope &lanes);
  /// The step of the expression from lane to lane; nothing if it differs between vectors.
  std::optional<int64_t> laneStride(const IndexExpr &expr) const;

private:
  LaneBuilder &b;
  const KernelInfo &info;
  const KernelPlan &plan;
  const std::vector<bool> narrow; // nodes that are read in 16 bits

  using Operand = llvm::function_ref<mlir::Value(unsigned)>;

  mlir::Value compute(unsigned id, Operand operand, bool vector);
  /// `inside` gives whether a guard holds, and `known` does where that is known when the kernel is compiled.
  mlir::Value choose(const KernelNode &node, Operand operand, llvm::function_ref<mlir::Value(unsigned)> inside,
                     llvm::function_ref<std::optional<bool>(unsigned)> known, mlir::Type type);
  mlir::Value number(const KernelNode &node, mlir::Value index);
  mlir::Value random(const KernelNode &node, Operand operand, bool vector);
  mlir::Value loadScalar(const KernelNode &node, RowScope &row);
  mlir::Value loadLanes(const KernelNode &node, LaneScope &lanes);
  /// Whether guards of a load say which rows exist, and nothing of columns.
  bool readsWholeRows(const KernelNode &node) const;
  /// Whether a load reads one place, such as a concatenated part of one element, which is there for all lanes.
  bool isAlwaysThere(const KernelNode &node) const;
  mlir::Value loadOfRow(const KernelNode &node, LaneScope &lanes);
  mlir::Value makeLanes(unsigned id, LaneScope &lanes);

  const DerivedAxis &derived(unsigned axis) const { return info.derived[axis - axis::firstDerived]; }
  mlir::Value scalarAxis(unsigned axis, const RowScope &row, mlir::Value column);
  mlir::Value line(const RowScope &row);
  mlir::Value laneIndex(const IndexExpr &expr, LaneScope &lanes, mlir::Type element);
  mlir::Value laneAxis(unsigned axis, LaneScope &lanes, mlir::Type element);
  mlir::Type laneIndexType(const IndexExpr &expr);
  bool isAligned(unsigned axis) const;
  mlir::Value insideRow(unsigned axis, const RowScope &row);
  /// Whether all columns of the loop are inside the axis; nothing if that differs between them.
  std::optional<bool> isInsidePart(unsigned axis, const LaneScope &lanes) const;
  mlir::Value insideLanes(unsigned axis, LaneScope &lanes);
};

} // namespace tcc::cpu
