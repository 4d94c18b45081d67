// What all shapes share of a kernel's text, in these steps:
//   1. how the form is divided (launch.h), which nodes each pass over a row computes (ir/kernel_stages.h), and which of
//      their values stay in registers from one pass to a later one;
//   2. head comment and parameters;
//   3. the skeleton of the shape (writeShape): who owns what; loops over rows and columns;
//   4. within it each node as one named local, each store, each accumulation.
// Values are recomputed in a later pass where they are not kept; no value goes through memory.
#pragma once
#include "codegen/cuda/kernel/column_values.h"
#include "codegen/cuda/kernel/launch.h"
#include "codegen/cuda/kernel/writer.h"
#include "codegen/kernel_source.h"
#include "ir/kernel_stages.h"
#include <set>

namespace tcc::cuda {

class KernelBody {
public:
  KernelBody(const KernelSource &source, KernelCalling calling);
  virtual ~KernelBody() = default;
  std::string text();

protected:
  const KernelSource &source;
  const KernelInfo &form;
  KernelCalling calling;
  KernelStages stages;
  KernelDivision division;
  ColumnValues values;
  Writer w;

  virtual void writeShape() = 0;

  bool unrolls() const { return division.perThread <= mostUnrolledColumns; }

  // A scope of axes and locals.
  void open(const std::string &head);
  void close();

  /// Declares `name` as the number of this thread's item, and leaves where there is none.
  void writeItem(const std::string &name, const std::string &number);
  /// o and r of row number `row` (a text) of all.
  void writeRowAxes(const std::string &row);

  std::string name(unsigned id) const;
  void writeNodes(llvm::ArrayRef<unsigned> nodes);
  /// What stage `number` does at column c; `subscript` is the number of the thread's column, for kept values.
  void writeColumnBody(unsigned number, const std::string &subscript);
  void writeStore(unsigned number);

  // Row reductions (reductions.cpp): part_N takes this thread's columns, then the row's value has the node's name.
  static std::string startOf(const KernelNode &node);
  static std::string combined(bool isMax, const std::string &a, const std::string &b);
  void declareScratch();
  void declareKept();
  void writeReduced(unsigned id);

  // Results of columns: total_N, or total_N[k], and the columns of a scatter-add's result.
  std::string accumulatorType(size_t store) const;
  void startColumnResults(const std::string &subscript);
  void finishColumnResults(const std::string &subscript);
  void writeAccumulation(unsigned number, const std::string &subscript);

private:
  std::vector<std::set<unsigned>> declaredAxes{1}; // derived axes, by open scope

  void writeHead();
  void writeEntry();
  void declareAxesOf(const IndexExpr &expr);
  void declareAxis(unsigned number);
  std::string inside(llvm::ArrayRef<unsigned> guards);
  void writeNode(unsigned id);
  std::string textOf(const KernelNode &node, unsigned id);
  std::string randomText(const KernelNode &node) const;
  std::string loadText(const KernelNode &node);
  std::string computeText(const KernelNode &node, unsigned id);
  std::string chooseText(const KernelNode &node);
  void writeScatterStart(size_t number);
};

} // namespace tcc::cuda
