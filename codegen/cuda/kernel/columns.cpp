// Column sums without row reductions: a block has some columns, and its warps share the rows.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/shapes.h"

namespace tcc::cuda {
namespace {

class Columns : public KernelBody {
  using KernelBody::KernelBody;

  void writeShape() override {
    int64_t tiles = (form.space.columns + division.tile - 1) / division.tile;
    std::string count = std::to_string(tiles), tile = std::to_string(division.tile);
    w.line("const int o = block_x()" + (tiles == 1 ? "" : " / " + count) + ";");
    w.line("const int start = " + (tiles == 1 ? "0" : "block_x() % " + count + " * " + tile) + ";");
    declareWarp();
    writeNodes(stages.constantNodes);
    startColumnResults("start");
    open("for (int r = warp; r < " + std::to_string(form.space.rows) + "; r += " + std::to_string(warps()) + ")");
    writePasses("start");
    close();
    finishSharedResults("start");
  }
};

} // namespace

std::string columnsText(const FormKernel &source, KernelCalling calling, bool steady) {
  return Columns(source, calling, steady).text();
}

} // namespace tcc::cuda
