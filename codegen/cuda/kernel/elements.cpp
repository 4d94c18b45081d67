// A thread an element, of one tensor or of many.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/shapes.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc::cuda {
namespace {

class Elements : public KernelBody {
  using KernelBody::KernelBody;

  void writeShape() override {
    if (division.shape == KernelShape::segments)
      writeSegments();
    else
      writeElements();
  }

  void writeElements() {
    bool perColumn = llvm::any_of(form.stores, [](const KernelStore &store) { return store.perColumn; });
    std::string columns = std::to_string(form.space.columns);
    writeItem("item", "static_cast<i64>(block_x()) * " + std::to_string(division.threads) + " + thread_x()");
    if (perColumn) {
      bool oneRow = form.space.outer * form.space.rows == 1;
      w.line("const int c = static_cast<int>(item" + (oneRow ? "" : " % " + columns) + ");");
      if (oneRow) {
        w.line("const int o = 0, r = 0;");
      } else {
        w.line("const i64 row = item / " + columns + ";");
        writeRowAxes("row");
      }
    } else {
      writeRowAxes("item");
    }
    writeNodes(stages.constantNodes);
    for (const KernelStage &stage : stages.stages)
      writeNodes(stage.rowNodes);
    if (perColumn)
      writeColumnBody(0, "0");
    for (unsigned store : stages.rowStores)
      writeStore(store);
  }

  void writeSegments() {
    std::string block = "block_x()";
    if (calling == KernelCalling::joined) {
      size_t pointers = form.arguments.size() + form.results.size();
      w.line("const int columns = static_cast<int>(entry[" + std::to_string(pointers) + "]);");
      block = "(block_x() - static_cast<int>(entry[" + std::to_string(pointers + 1) + "]))";
    }
    w.line("const int first = " + block + " * " + std::to_string(segmentBlock) + " + thread_x();");
    w.line("const int o = 0, r = 0;");
    writeNodes(stages.constantNodes);
    for (const KernelStage &stage : stages.stages)
      writeNodes(stage.rowNodes);
    w.line("#pragma unroll");
    open("for (int k = 0; k < " + std::to_string(segmentBlock / division.threads) + "; ++k)");
    w.line("const int c = first + k * " + std::to_string(division.threads) + ";");
    open("if (c < columns)");
    writeColumnBody(0, "k");
    close();
    close();
  }
};

} // namespace

std::string elementsText(const KernelSource &source, KernelCalling calling) {
  return Elements(source, calling).text();
}

} // namespace tcc::cuda
