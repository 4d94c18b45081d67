// KernelBody writes what the texts of all shapes share, in these steps:
//   1. how the form is divided (launch.h), which nodes each pass over a row computes (ir/kernel_stages.h), and which of
//      their values stay in registers from one pass to a later one;
//   2. head comment and parameters;
//   3. the skeleton of the shape (writeShape): what each thread, warp or block owns; loops over rows and columns;
//   4. within it each node as one named local, each store, each accumulation.
// A value that is not kept is computed again in a later pass; no value goes through memory.
#pragma once
#include "codegen/cuda/gpu_model.h"
#include "codegen/cuda/kernel/column_values.h"
#include "codegen/cuda/kernel/launch.h"
#include "codegen/cuda/kernel/staging.h"
#include "codegen/cuda/kernel/writer.h"
#include "codegen/kernel_source.h"
#include "ir/kernel_stages.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <map>
#include <set>

namespace tcc::cuda {

class KernelBody {
public:
  KernelBody(const FormKernel &source, KernelCalling calling, bool steady);
  virtual ~KernelBody() = default;
  std::string text();

protected:
  const FormKernel &source;
  const KernelInfo &form;
  KernelCalling calling;
  KernelStages stages;
  KernelDivision division;
  ColumnValues values;
  StagedLoads staged;
  std::vector<bool> unrounded; // nodes that only their stores round (rounding.h)
  bool steady;                 // whether nothing is approximated (text.h)
  std::vector<bool> narrow;    // nodes that are read in 16 bits (ir/kernel_precision.h)
  Writer w;

  virtual void writeShape() = 0;

  /// The pragma of the loop over a thread's groups. The loop must be unrolled if its counter selects registers. If not,
  /// a long body is not unrolled, since that would only cost registers and the compiler's time.
  std::string unrolling() const;
  /// Whether a row belongs to a warp; if not, it belongs to the block.
  bool warpOwnsRow() const;
  /// Whether a thread has too many columns of the row for its loop to be unrolled as a whole.
  bool isLongRow() const { return division.perThread > mostUnrolledColumns; }
  int warps() const { return division.threads / warpSize; }

  // A scope of axes and locals.
  void open(const std::string &head);
  void close();

  /// Declares the derived axes that an expression uses, each after the derived axes that it uses itself.
  void declareAxesOf(const IndexExpr &expr);
  /// Declares `name` as the number of this thread's item; a thread without one returns.
  void writeItem(const std::string &name, const std::string &number);
  /// Declares o and r. `row` is an expression for the number of the row among all rows.
  void writeRowAxes(const std::string &row);

  /// Writes the loop over the groups of columns that a thread has in a row, from column `start` on (an expression, or
  /// empty). `body` can use `group`, the first column of the group, and `k`, the group's number; if groups are single
  /// columns, also `c`. In a long row the rounds in which all threads have a group form a loop of their own, whose
  /// loads the compiler can move forward.
  void overGroups(const std::string &start, llvm::function_ref<void()> body);
  /// Writes `body` for each column c of the group.
  void overLanes(llvm::function_ref<void()> body);
  /// The number of column c among the columns of the thread.
  std::string columnNumber() const { return division.vector == 1 ? "k" : "k * " + width() + " + lane"; }
  std::string width() const { return std::to_string(division.vector); }

  std::string name(unsigned id) const;
  void writeNodes(llvm::ArrayRef<unsigned> nodes);
  void writeRowNodes(llvm::ArrayRef<unsigned> nodes);
  /// Writes what stage `number` does at the columns of a group. `left` is used for segments: how many columns there are
  /// from the group to the segment's end.
  void writeGroupBody(unsigned number, const std::string &left = "");
  /// Writes the loads of pass 0 for all of a thread's groups into arrays `NAME_at[group's number]`, as
  /// writeGroupBody takes them where `hasEarlyLoads`.
  void writeEarlyLoads(llvm::function_ref<void(llvm::function_ref<void()>)> overRounds);
  bool hasEarlyLoads = false;
  /// Writes all passes over the row (o, r), from column `start` on, and the stores that have one element for each row.
  void writePasses(const std::string &start = "");
  void writeStore(unsigned number);

  // Rows that go through shared memory (staging.h): staged_N is the row of load N there.
  /// Writes the start of the copies of row r to `place`, an address in shared memory; the caller closes their group.
  void writeCopies(const std::string &place);
  /// Declares the rows that have been copied to `place`.
  void declareCopied(const std::string &place);

  // Row reductions (reductions.cpp): part_N reduces this thread's columns; the row's value then has the node's name.
  static std::string combined(Reduction reduction, const std::string &a, const std::string &b);
  void declareScratch();
  void declareKept();
  void writeReduced(unsigned id);

  // Results of columns (reductions.cpp): total_N[number of the thread's column], and the columns of a scatter-add's
  // result.
  std::string accumulatorType(size_t store) const;
  void startColumnResults(const std::string &start = "");
  void finishColumnResults(const std::string &start = "");
  /// Declares `warp`, the number of this thread's warp. This needs a shuffle of all lanes, so it stands before any
  /// branch.
  void declareWarp();
  /// Adds up the results of the block's warps and stores them. Needs `warp`.
  void finishSharedResults(const std::string &start = "");
  virtual void writeAccumulation(unsigned number);

private:
  std::map<unsigned, bool>
      usual; // for each node the value that all columns of the current group have (usual_columns.h)
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
  bool isStaged(unsigned id) const;
  bool isGroupStore(unsigned store) const;
  std::string textOf(const KernelNode &node, unsigned id);
  std::string randomText(const KernelNode &node) const;
  std::string loadText(const KernelNode &node);
  std::string computeText(const KernelNode &node, unsigned id);
  bool isUsualZero(unsigned id) const;
  std::string chooseText(const KernelNode &node);
  void writeScatterStart(size_t number);
  void writeTotal(size_t number, const std::string &value);
};

} // namespace tcc::cuda
