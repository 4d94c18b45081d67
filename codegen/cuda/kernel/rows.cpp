// Rows with reductions over their columns: a warp or a block a row; or a block that walks down the rows and sums
// columns on the way.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/shapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tcc::cuda {
namespace {

using StoreKind = KernelStore::Kind;

class Rows : public KernelBody {
  using KernelBody::KernelBody;

  void writeShape() override {
    if (division.shape == KernelShape::blockColumns)
      writeBlockColumns();
    else
      writeRows();
  }

  /// The loop over the columns of a row that a thread has; `body` sees c, and k where the loop is unrolled.
  void overColumns(llvm::function_ref<void()> body) {
    std::string step = std::to_string(division.shape == KernelShape::warpRows ? 32 : division.threads);
    std::string first = division.shape == KernelShape::warpRows ? "lane_index()" : "thread_x()";
    std::string columns = std::to_string(form.space.columns);
    if (unrolls())
      w.line("#pragma unroll");
    open("for (int k = 0; k < " + std::to_string(division.perThread) + "; ++k)");
    w.line("const int c = k * " + step + " + " + first + ";");
    open("if (c < " + columns + ")");
    body();
    close();
    close();
  }

  void writeRows() {
    bool warps = division.shape == KernelShape::warpRows;
    declareScratch();
    if (warps)
      writeItem("row", "static_cast<i64>(block_x()) * " + std::to_string(division.threads / 32) + " + warp_index()");
    else
      w.line("const i64 row = block_x();");
    writeRowAxes("row");
    writeNodes(stages.constantNodes);
    writePasses();
  }

  /// All passes over the row o, r, and its row stores.
  void writePasses() {
    declareKept();
    for (unsigned number = 0; number < form.stages; ++number) {
      const KernelStage &stage = stages.stages[number];
      writeNodes(stage.rowNodes);
      if (stage.reductions.empty() && stage.stores.empty() && stage.columnResults.empty())
        continue;
      for (unsigned node : stage.reductions)
        w.line(valueType(form.nodes[node].type) + " part_" + std::to_string(node) + " = " + startOf(form.nodes[node]) +
               ";");
      overColumns([&] { writeColumnBody(number, "k"); });
      for (unsigned node : stage.reductions)
        writeReduced(node);
    }
    writeNodes(stages.stages[form.stages].rowNodes);
    if (stages.rowStores.empty())
      return;
    bool warps = division.shape == KernelShape::warpRows;
    w.line(warps ? "warp_barrier();" : "block_barrier();"); // a store may lie over what others of the row have read
    open(warps ? "if (lane_index() == 0)" : "if (thread_x() == 0)");
    for (unsigned store : stages.rowStores)
      writeStore(store);
    close();
  }

  void writeBlockColumns() {
    declareScratch();
    w.line("const int o = block_x();");
    writeNodes(stages.constantNodes);
    for (auto [i, store] : llvm::enumerate(form.stores))
      if (store.kind == StoreKind::columnSum || store.kind == StoreKind::columnMax)
        w.line(accumulatorType(i) + " total_" + std::to_string(i) + "[" + std::to_string(division.perThread) + "];");
    overColumns([&] { startColumnResults("[k]"); });
    open("for (int r = 0; r < " + std::to_string(form.space.rows) + "; ++r)");
    writePasses();
    close();
    overColumns([&] { finishColumnResults("[k]"); });
  }
};

} // namespace

std::string rowsText(const KernelSource &source, KernelCalling calling) {
  return Rows(source, calling).text();
}

} // namespace tcc::cuda
