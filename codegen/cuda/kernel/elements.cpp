// A thread has an element, or a group of them, of one tensor or of many.
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
    writeItem("item", "static_cast<i64>(block_x()) * " + std::to_string(division.threads) + " + thread_x()");
    if (perColumn) {
      bool oneRow = form.space.outer * form.space.rows == 1, single = division.vector == 1;
      std::string groups = std::to_string(form.space.columns / division.vector);
      std::string number = "static_cast<int>(item" + std::string(oneRow ? "" : " % " + groups) + ")";
      w.line(single ? "const int c = " + number + ";" : "const int group = " + number + " * " + width() + ";");
      if (oneRow) {
        w.line("const int o = 0, r = 0;");
      } else {
        w.line("const i64 row = item / " + groups + ";");
        writeRowAxes("row");
      }
    } else {
      writeRowAxes("item");
    }
    writeNodes(stages.constantNodes);
    for (const KernelStage &stage : stages.stages)
      writeNodes(stage.rowNodes);
    if (perColumn)
      writeGroupBody(0);
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
    w.line("const int first = " + block + " * " + std::to_string(segmentBlock) + ";");
    w.line("const int o = 0, r = 0;");
    writeNodes(stages.constantNodes);
    for (const KernelStage &stage : stages.stages)
      writeNodes(stage.rowNodes);
    bool single = division.vector == 1;
    std::string column = single ? "c" : "group", threads = std::to_string(division.threads);
    auto overRounds = [&](llvm::function_ref<void()> body) {
      w.line("#pragma unroll");
      open("for (int k = 0; k < " + std::to_string(division.perThread / division.vector) + "; ++k)");
      w.line("const int " + column + " = first + (k * " + threads + " + thread_x())" + (single ? "" : " * " + width()) +
             ";");
      body();
      close();
    };
    if (loadsSeveralGroups(division)) { // no block but the last has fewer elements
      open("if (first + " + std::to_string(segmentBlock) + " <= columns)");
      hasEarlyLoads = true;
      writeEarlyLoads(overRounds);
      overRounds([&] { writeGroupBody(0); });
      hasEarlyLoads = false;
      w.line("return;");
      close();
    }
    overRounds([&] {
      open("if (" + column + " < columns)");
      writeGroupBody(0, single ? "" : "columns - group");
      close();
    });
  }
};

} // namespace

std::string elementsText(const FormKernel &source, KernelCalling calling, bool steady) {
  return Elements(source, calling, steady).text();
}

} // namespace tcc::cuda
