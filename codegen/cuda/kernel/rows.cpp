// Rows with reductions over their columns: a warp or a block has a row; or a block walks down the rows and sums columns
// on the way.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {
namespace {

class Rows : public KernelBody {
  using KernelBody::KernelBody;

  void writeShape() override {
    bool sumsColumns = division.shape == KernelShape::warpColumns || division.shape == KernelShape::blockColumns;
    return sumsColumns ? writeOuterBlock() : writeRows();
  }

  void writeRows() {
    declareScratch();
    if (division.shape == KernelShape::warpRows)
      writeItem("row", "static_cast<i64>(block_x()) * " + std::to_string(warps()) + " + warp_index()");
    else
      w.line("const i64 row = block_x();");
    writeRowAxes("row");
    writeNodes(stages.constantNodes);
    writePasses();
  }

  void writeOuterBlock() {
    declareScratch();
    w.line("const int o = block_x();");
    if (division.shape == KernelShape::warpColumns)
      declareWarp();
    writeNodes(stages.constantNodes);
    startColumnResults();
    std::string rows = std::to_string(form.space.rows);
    if (division.shape == KernelShape::warpColumns)
      open("for (int r = warp; r < " + rows + "; r += " + std::to_string(warps()) + ")");
    else
      open("for (int r = 0; r < " + rows + "; ++r)");
    writePasses();
    close();
    if (division.shape == KernelShape::warpColumns)
      finishSharedResults();
    else
      finishColumnResults();
  }
};

} // namespace

std::string rowsText(const FormKernel &source, KernelCalling calling) {
  return Rows(source, calling).text();
}

} // namespace tcc::cuda
