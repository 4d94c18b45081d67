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
    size_t arguments = form.arguments.size(), pointers = arguments + form.results.size();
    std::string words = std::to_string(pointers + 2);
    w.line("int segment = 0;");
    w.open("for (int step = 1 << 30; step > 0; step /= 2)");
    w.line("if (segment < segments - step && table[(segment + step) * " + words + "ll + " +
           std::to_string(pointers + 1) + "] <= static_cast<u64>(block_x()))");
    w.line("  segment += step;");
    w.close();
    w.line("const u64 *entry = table + segment * " + words + "ll;");
    auto declare = [&](const KernelTensor &tensor, const std::string &name, size_t word, const char *qualifier) {
      std::string type = qualifier + elementType(tensor.type) + " *";
      w.line(type + name + " = reinterpret_cast<" + type + ">(entry[" + std::to_string(word) + "]);");
    };
    for (size_t i = 0; i < arguments; ++i)
      declare(form.arguments[i], "in" + std::to_string(i), i, "const ");
    for (size_t i = 0; i < form.results.size(); ++i)
      declare(form.results[i], "out" + std::to_string(i), arguments + i, "");
    w.line("const int columns = static_cast<int>(entry[" + std::to_string(pointers) + "]);");
    w.line("const int first = (block_x() - static_cast<int>(entry[" + std::to_string(pointers + 1) + "])) * " +
           std::to_string(segmentBlock) + " + thread_x();");
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

std::string elementsText(const KernelSource &source) {
  return Elements(source).text();
}

} // namespace tcc::cuda
