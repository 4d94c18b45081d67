// Column sums without row reductions, and scatter-adds: a thread a column.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {
namespace {

class Columns : public KernelBody {
  using KernelBody::KernelBody;

  void writeShape() override {
    std::string columns = std::to_string(form.space.columns);
    writeItem("item", "static_cast<i64>(block_x()) * " + std::to_string(division.threads) + " + thread_x()");
    w.line("const int c = static_cast<int>(item" + (form.space.outer == 1 ? "" : " % " + columns) + ");");
    w.line("const int o = " + (form.space.outer == 1 ? "0" : "static_cast<int>(item / " + columns + ")") + ";");
    writeNodes(stages.constantNodes);
    startColumnResults("");
    open("for (int r = 0; r < " + std::to_string(form.space.rows) + "; ++r)");
    for (const KernelStage &stage : stages.stages)
      writeNodes(stage.rowNodes);
    writeColumnBody(0, "");
    close();
    finishColumnResults("");
  }
};

} // namespace

std::string columnsText(const KernelSource &source, KernelCalling calling) {
  return Columns(source, calling).text();
}

} // namespace tcc::cuda
