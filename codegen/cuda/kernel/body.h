// KernelBody writes what the texts of all shapes share, in these steps:
//   1. how the form is divided (launch.h), which nodes each pass over a row computes (ir/kernel_stages.h), and which of
//      their values stay in registers from one pass to a later one;
//   2. head comment and parameters;
//   3. the skeleton of the shape (writeShape): who owns what; loops over rows and columns;
//   4. within it each node as one named local, each store, each accumulation.
// Values are recomputed in a later pass where they are not kept; no value goes through memory.
#pragma once
#include "codegen/cuda/gpu_model.h"
#include "codegen/cuda/kernel/column_values.h"
#include "codegen/cuda/kernel/launch.h"
#include "codegen/cuda/kernel/writer.h"
#include "codegen/kernel_source.h"
#include "ir/kernel_stages.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <set>

namespace tcc::cuda {

class KernelBody {
public:
  KernelBody(const FormKernel &source, KernelCalling calling);
  virtual ~KernelBody() = default;
  std::string text();

protected:
  const FormKernel &source;
  const KernelInfo &form;
  KernelCalling calling;
  KernelStages stages;
  KernelDivision division;
  ColumnValues values;
  std::vector<bool> unrounded; // nodes that only their stores round (rounding.h)
  Writer w;

  virtual void writeShape() = 0;

  /// The pragma of the loop over a thread's groups. Where the loop's counter numbers registers, it must be unrolled;
  /// elsewhere a long body is not, since that would only cost registers and the compiler's time.
  std::string unrolling() const;
  /// Whether a row belongs to a warp, else to the block.
  bool warpOwnsRow() const;
  /// Whether a thread has too many columns of the row for its loop to be unrolled as a whole.
  bool isLongRow() const { return division.perThread > mostUnrolledColumns; }
  int warps() const { return division.threads / warpSize; }

  // A scope of axes and locals.
  void open(const std::string &head);
  void close();

  /// Declares the derived axes that an expression uses, those that they use first.
  void declareAxesOf(const IndexExpr &expr);
  /// Declares `name` as the number of this thread's item; a thread without one returns.
  void writeItem(const std::string &name, const std::string &number);
  /// Declares o and r for row number `row`, an expression, of all rows.
  void writeRowAxes(const std::string &row);

  /// The loop over the groups of columns of a row that a thread has, from column `start` (a text, or empty) on. `body`
  /// sees group, its first column, and k, its number; where groups are single columns, c. Of a long row, rounds in
  /// which all threads have a group stand in a loop of their own, whose loads may go ahead of it.
  void overGroups(const std::string &start, llvm::function_ref<void()> body);
  /// `body` for each column c of the group.
  void overLanes(llvm::function_ref<void()> body);
  /// The number of the thread's column c, of all that it has.
  std::string columnNumber() const { return division.vector == 1 ? "k" : "k * " + width() + " + lane"; }
  std::string width() const { return std::to_string(division.vector); }

  std::string name(unsigned id) const;
  void writeNodes(llvm::ArrayRef<unsigned> nodes);
  /// Writes what stage `number` does at the columns of a group. `left`, in segments alone: how many columns there are
  /// from the group to the segment's end.
  void writeGroupBody(unsigned number, const std::string &left = "");
  /// Writes all passes over the row (o, r), from column `start` on, and the stores of what has one element a row.
  void writePasses(const std::string &start = "");
  void writeStore(unsigned number);

  // Row reductions (reductions.cpp): part_N takes this thread's columns, then the row's value has the node's name.
  static std::string combined(Reduction reduction, const std::string &a, const std::string &b);
  void declareScratch();
  void declareKept();
  void writeReduced(unsigned id);

  // Results of columns (reductions.cpp): total_N[number of the thread's column], and the columns of a scatter-add's
  // result.
  std::string accumulatorType(size_t store) const;
  void startColumnResults(const std::string &start = "");
  void finishColumnResults(const std::string &start = "");
  /// Declares `warp`, the number of this thread's warp. It takes a shuffle, so it stands before any branch, where all
  /// lanes are.
  void declareWarp();
  /// Adds up what the block's warps have, and stores it. Needs `warp`.
  void finishSharedResults(const std::string &start = "");
  virtual void writeAccumulation(unsigned number);

private:
  std::map<unsigned, bool> usual; // by node: what it is at all columns of the group that is written (usual_columns.h)
  std::vector<std::set<unsigned>> declaredAxes{1}; // derived axes, by open scope

  void writeHead();
  void writeEntry();
  void declareAxis(unsigned number);
  void writeGroup(unsigned number, const std::string &left);
  std::string inside(llvm::ArrayRef<unsigned> guards);
  void writeNode(unsigned id);
  void writeColumn(unsigned number);
  void writeGroupLoad(unsigned id, const std::string &left);
  bool isGroupLoad(unsigned id) const;
  bool isGroupStore(unsigned store) const;
  std::string textOf(const KernelNode &node, unsigned id);
  std::string randomText(const KernelNode &node) const;
  std::string loadText(const KernelNode &node);
  std::string computeText(const KernelNode &node, unsigned id);
  std::string chooseText(const KernelNode &node);
  void writeScatterStart(size_t number);
  void writeTotal(size_t number, const std::string &value);
};

} // namespace tcc::cuda
