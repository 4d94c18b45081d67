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
    if (!staged.loads.empty()) {
      w.line("DYNAMIC_SHARED(staged, 16);");
      writeCopies("staged");
      w.line("copy_async_commit();");
    }
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
    if (!staged.loads.empty())
      writeFirstCopies();
    if (division.shape == KernelShape::warpColumns)
      open("for (int r = warp; r < " + rows + "; r += " + std::to_string(warps()) + ")");
    else
      open("for (int r = 0; r < " + rows + "; ++r)");
    if (!staged.loads.empty())
      writeNextCopies();
    writePasses();
    if (!staged.loads.empty())
      w.line("half ^= 1;");
    close();
    if (division.shape == KernelShape::warpColumns)
      finishSharedResults();
    else
      finishColumnResults();
  }

  /// The warp has two places for rows: `half` is the one of the row that it works on.
  std::string placeOf(const std::string &half) const {
    return "copies + " + half + " * " + std::to_string(staged.rowBytes);
  }

  void writeFirstCopies() {
    w.line("DYNAMIC_SHARED(staged, 16);");
    w.line("unsigned char *const copies = staged + warp * " + std::to_string(2 * staged.rowBytes) + ";");
    w.line("int half = 0;");
    open("if (warp < " + std::to_string(form.space.rows) + ")");
    w.line("const int r = warp;");
    writeCopies("copies");
    close();
    w.line("copy_async_commit();");
  }

  void writeNextCopies() {
    w.line("const int next = r + " + std::to_string(warps()) + ";");
    open("if (next < " + std::to_string(form.space.rows) + ")");
    w.line("const int r = next;");
    writeCopies(placeOf("(half ^ 1)"));
    close();
    w.line("copy_async_commit();");
    declareCopied(placeOf("half"));
  }
};

} // namespace

std::string rowsText(const FormKernel &source, KernelCalling calling, bool steady) {
  return Rows(source, calling, steady).text();
}

} // namespace tcc::cuda
