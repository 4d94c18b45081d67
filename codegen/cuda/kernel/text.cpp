// A kernel's text in these steps:
//   1. how the form is divided (launch.h), which nodes each pass over a row computes (ir/kernel_stages.h), and which of
//      their values stay in registers from one pass to a later one;
//   2. head comment and parameters;
//   3. the skeleton of the shape: who owns what; loops over rows and columns;
//   4. within it each node as one named local, each store, each accumulation.
// Values are recomputed in a later pass where they are not kept; no value goes through memory.
#include "codegen/cuda/kernel/text.h"
#include "codegen/cuda/kernel/column_values.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/writer.h"
#include "ir/kernel_stages.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

namespace tcc::cuda {
namespace {

using Kind = KernelNode::Kind;
using StoreKind = KernelStore::Kind;

std::vector<std::string> headComment(const KernelSource &source, const KernelDivision &division) {
  static constexpr const char *shapes[] = {"a thread an element", "segments of many tensors", "a warp a row",
                                           "a block a row",       "a thread a column",        "a block an outer block"};
  const KernelInfo &form = source.form;
  const KernelSpace &space = form.space;
  std::vector<std::string> lines;
  lines.push_back("// " + source.symbol + ": " + source.names.label);
  lines.push_back("// space " + std::to_string(space.outer) + " x " + std::to_string(space.rows) + " x " +
                  std::to_string(space.columns) + ", " + std::to_string(form.stages) +
                  (form.stages == 1 ? " pass, " : " passes, ") + shapes[static_cast<int>(division.shape)]);
  std::string fused = "// fuses", where;
  for (const KernelNames::Op &op : source.names.ops) {
    std::string word = " " + op.name + (op.source.empty() || op.source == where ? "" : " (" + op.source + ")");
    where = op.source;
    if (fused.size() + word.size() > 118) {
      lines.push_back(fused);
      fused = "//      ";
    }
    fused += word;
  }
  lines.push_back(fused);
  return lines;
}

class KernelText {
public:
  explicit KernelText(const KernelSource &source)
      : source(source), form(source.form), stages(kernelStages(form)), division(divide(form)),
        values(columnValues(form, stages, division)) {}

  std::string run() {
    writeHead();
    switch (division.shape) {
    case KernelShape::elements:
      writeElements();
      break;
    case KernelShape::segments:
      writeSegments();
      break;
    case KernelShape::warpRows:
    case KernelShape::blockRows:
      writeRows();
      break;
    case KernelShape::columns:
      writeColumns();
      break;
    case KernelShape::blockColumns:
      writeBlockColumns();
      break;
    }
    w.close();
    return w.take();
  }

private:
  const KernelSource &source;
  const KernelInfo &form;
  KernelStages stages;
  KernelDivision division;
  ColumnValues values;
  Writer w;
  std::vector<std::set<unsigned>> declaredAxes{1}; // derived axes, by open scope

  bool unrolls() const { return division.perThread <= mostUnrolledColumns; }

  //===- step 2 ------------------------------------------------------------------------------------------------===//

  void writeHead() {
    for (const std::string &line : headComment(source, division))
      w.line(line);
    std::string parameters;
    if (division.shape == KernelShape::segments) {
      parameters = "const u64 *table, int segments";
    } else {
      for (size_t i = 0; i < form.arguments.size(); ++i)
        parameters += "const " + elementType(form.arguments[i].type) + " *in" + std::to_string(i) + ", ";
      for (size_t i = 0; i < form.results.size(); ++i)
        parameters += elementType(form.results[i].type) + " *out" + std::to_string(i) + ", ";
      parameters.resize(parameters.size() - 2);
    }
    w.open("KERNEL(" + source.symbol + ", " + std::to_string(division.threads) + ", 1)(" + parameters + ")");
  }

  //===- step 3: skeletons -------------------------------------------------------------------------------------===//

  void open(const std::string &head) {
    w.open(head);
    declaredAxes.emplace_back();
  }
  void close() {
    w.close();
    declaredAxes.pop_back();
  }

  /// Declares `name` as the number of this thread's item, and leaves where there is none.
  void writeItem(const std::string &name, const std::string &number) {
    w.line("const i64 " + name + " = " + number + ";");
    w.line("if (" + name + " >= " + std::to_string(division.items) + "ll)");
    w.line("  return;");
  }

  /// o and r of row number `row` (a text) of all.
  void writeRowAxes(const std::string &row) {
    const KernelSpace &space = form.space;
    std::string rows = std::to_string(space.rows);
    w.line("const int o = " + (space.outer == 1 ? "0" : "static_cast<int>(" + row + " / " + rows + ")") + ";");
    w.line("const int r = static_cast<int>(" + (space.outer == 1 ? row : row + " % " + rows) + ");");
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

  void writeColumns() {
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

  //===- accumulators ------------------------------------------------------------------------------------------===//

  static std::string startOf(bool isMax, ElementType type) {
    if (!isMax)
      return zero(facts(type).computed);
    if (facts(type).isFloat)
      return "float_from_bits(0xff800000u)";
    return literal(ScalarLiteral::ofInteger(type == ElementType::i32 ? INT32_MIN : INT64_MIN), type);
  }
  static std::string startOf(const KernelNode &node) { return startOf(node.isMax, node.type); }

  static std::string combined(bool isMax, const std::string &a, const std::string &b) {
    return std::string(isMax ? "MaxOf" : "SumOf") + "::combine(" + a + ", " + b + ")";
  }

  void declareScratch() {
    std::set<std::string> types;
    if (division.shape != KernelShape::warpRows)
      for (const KernelNode &node : form.nodes)
        if (node.kind == Kind::rowReduce)
          types.insert(valueType(node.type));
    for (const std::string &type : types)
      w.line("SHARED(" + type + ", scratch_" + type + ", 32);");
  }

  void declareKept() {
    for (auto [i, stage] : llvm::enumerate(values.keptFrom))
      if (stage >= 0)
        w.line(valueType(form.nodes[i].type) + " kept_" + std::to_string(i) + "[" + std::to_string(division.perThread) +
               "];");
  }

  void writeReduced(unsigned id) {
    const KernelNode &node = form.nodes[id];
    std::string type = valueType(node.type), part = "part_" + std::to_string(id);
    std::string reduction = node.isMax ? "<MaxOf>(" : "<SumOf>(";
    std::string value = division.shape == KernelShape::warpRows
                            ? "warp_reduce" + reduction + part + ")"
                            : "block_reduce" + reduction + part + ", scratch_" + type + ")";
    w.line("const " + type + " " + name(id) + " = " + rounded(value, node.type) + ";");
  }

  std::string accumulatorType(size_t store) const { return valueType(form.results[store].type); }

  void startColumnResults(const std::string &subscript) {
    for (auto [i, store] : llvm::enumerate(form.stores)) {
      if (store.kind == StoreKind::element)
        continue;
      if (store.kind == StoreKind::scatterAdd) {
        writeScatterStart(i);
        continue;
      }
      std::string start = startOf(store.kind == StoreKind::columnMax, form.results[i].type);
      w.line((subscript.empty() ? accumulatorType(i) + " " : "") + "total_" + std::to_string(i) + subscript + " = " +
             start + ";");
    }
  }

  void finishColumnResults(const std::string &subscript) {
    for (auto [i, store] : llvm::enumerate(form.stores))
      if (store.kind == StoreKind::columnSum || store.kind == StoreKind::columnMax)
        w.line("out" + std::to_string(i) + "[" + indexText(store.index) +
               "] = " + stored("total_" + std::to_string(i) + subscript, form.results[i].type) + ";");
  }

  /// This thread's column of the base, unless base and result are one.
  void writeScatterStart(size_t number) {
    const KernelStore &store = form.stores[number];
    std::string base = "in" + std::to_string(store.scatterBase), result = "out" + std::to_string(number);
    std::string index = "t * " + std::to_string(store.scatterStride) + "ll + " + indexText(store.index);
    open("if (" + base + " != " + result + ")");
    w.line("for (i64 t = 0; t < " + std::to_string(store.scatterRows) + "; ++t)");
    w.line("  " + result + "[" + index + "] = " + base + "[" + index + "];");
    close();
  }

  //===- step 4: nodes and stores ------------------------------------------------------------------------------===//

  std::string name(unsigned id) const {
    const KernelNode &node = form.nodes[id];
    int op = id < source.names.ofNode.size() ? source.names.ofNode[id] : -1;
    std::string word = op >= 0 ? source.names.ops[static_cast<size_t>(op)].name : "x";
    if (node.kind == Kind::load && node.operands.empty())
      word = "x" + std::to_string(node.argument);
    for (char &letter : word)
      letter = llvm::isAlnum(letter) ? letter : '_';
    return word + "_" + std::to_string(id);
  }

  void writeNodes(llvm::ArrayRef<unsigned> nodes) {
    for (unsigned id : nodes)
      writeNode(id);
  }

  /// What stage `number` does at column c; `subscript` is the number of the thread's column, for kept values.
  void writeColumnBody(unsigned number, const std::string &subscript) {
    const KernelStage &stage = stages.stages[number];
    for (unsigned id : values.computedIn[number]) {
      std::string kept = "kept_" + std::to_string(id) + "[" + subscript + "]";
      if (values.keptFrom[id] >= 0 && values.keptFrom[id] < static_cast<int>(number)) {
        w.line("const " + valueType(form.nodes[id].type) + " " + name(id) + " = " + kept + ";");
        continue;
      }
      writeNode(id);
      if (values.keptFrom[id] >= 0)
        w.line(kept + " = " + name(id) + ";");
    }
    for (unsigned id : stage.reductions) {
      std::string part = "part_" + std::to_string(id);
      w.line(part + " = " + combined(form.nodes[id].isMax, part, name(form.nodes[id].operands[0])) + ";");
    }
    for (unsigned store : stage.stores)
      writeStore(store);
    for (unsigned store : stage.columnResults)
      writeAccumulation(store, division.shape == KernelShape::blockColumns ? "[k]" : "");
  }

  void writeStore(unsigned number) {
    const KernelStore &store = form.stores[number];
    declareAxesOf(store.index);
    w.line("out" + std::to_string(number) + "[" + indexText(store.index) +
           "] = " + stored(name(store.node), form.results[number].type) + ";");
  }

  void writeAccumulation(unsigned number, const std::string &subscript) {
    const KernelStore &store = form.stores[number];
    if (store.kind != StoreKind::scatterAdd) {
      std::string total = "total_" + std::to_string(number) + subscript;
      w.line(total + " = " + combined(store.kind == StoreKind::columnMax, total, name(store.node)) + ";");
      return;
    }
    std::string row = name(store.scatterRow), result = "out" + std::to_string(number);
    ElementType type = form.results[number].type;
    open("if (" + row + " >= 0 && " + row + " < " + std::to_string(store.scatterRows) + ")");
    w.line(elementType(type) + " *target = " + result + " + static_cast<i64>(" + row + ") * " +
           std::to_string(store.scatterStride) + " + " + indexText(store.index) + ";");
    w.line("*target = " + stored(loaded("*target", type) + " + " + name(store.node), type) + ";");
    close();
  }

  /// Declares the derived axes that an expression uses, those that they use first.
  void declareAxesOf(const IndexExpr &expr) {
    for (const IndexTerm &term : expr.terms)
      if (term.axis >= axis::firstDerived)
        declareAxis(term.axis);
  }
  void declareAxis(unsigned number) {
    if (llvm::any_of(declaredAxes, [&](const std::set<unsigned> &scope) { return scope.count(number) != 0; }))
      return;
    const IndexExpr &value = form.derived[number - axis::firstDerived].value;
    declareAxesOf(value);
    w.line(std::string("const ") + (fits32(value) ? "int" : "i64") + " d" + std::to_string(number) + " = " +
           indexText(value) + ";");
    declaredAxes.back().insert(number);
  }

  /// "d3 >= 0 && d3 < 5" for all of them; empty for none.
  std::string inside(llvm::ArrayRef<unsigned> guards) {
    std::string text;
    for (unsigned guard : guards) {
      declareAxis(guard);
      std::string axis = "d" + std::to_string(guard);
      text += (text.empty() ? "" : " && ") + axis + " >= 0 && " + axis + " < " +
              std::to_string(form.derived[guard - axis::firstDerived].extent);
    }
    return text;
  }

  void writeNode(unsigned id) {
    const KernelNode &node = form.nodes[id];
    declareAxesOf(node.index);
    std::string value = textOf(node, id);
    w.line("const " + valueType(node.type) + " " + name(id) + " = " + value + ";");
  }

  std::string textOf(const KernelNode &node, unsigned id) {
    switch (node.kind) {
    case Kind::load:
      return loadText(node);
    case Kind::literal:
      return literal(node.value, node.type);
    case Kind::index:
      return facts(node.type).isFloat ? rounded("static_cast<float>(" + indexText(node.index) + ")", node.type)
                                      : "static_cast<" + valueType(node.type) + ">(" + indexText(node.index) + ")";
    case Kind::random:
      return "random_bits(static_cast<u32>(" + name(node.operands[0]) + "), " +
             std::to_string(static_cast<uint32_t>(node.stream)) + "u, static_cast<u64>(" + indexText(node.index) + "))";
    case Kind::compute:
      return computeText(node, id);
    default:
      return chooseText(node);
    }
  }

  std::string loadText(const KernelNode &node) {
    bool gathers = !node.operands.empty();
    std::string none = zero(facts(node.type).computed), condition = inside(node.guards);
    if (gathers && node.gatherRows * node.gatherStride == 0)
      return outsideValue(node.type);
    if (!gathers && form.arguments[node.argument].elements == 0)
      return none;
    std::string index = indexText(node.index);
    if (!gathers) {
      std::string element = loaded("in" + std::to_string(node.argument) + "[" + index + "]", node.type);
      return condition.empty() ? element : condition + " ? " + element + " : " + none;
    }
    std::string row = name(node.operands[0]);
    std::string place = "static_cast<i64>(" + row + ") * " + std::to_string(node.gatherStride) + " + " + index;
    std::string element = loaded("in" + std::to_string(node.argument) + "[" + place + "]", node.type);
    std::string known = row + " >= 0 && " + row + " < " + std::to_string(node.gatherRows);
    std::string value = known + " ? " + element + " : " + outsideValue(node.type);
    return condition.empty() ? value : condition + " ? (" + value + ") : " + none;
  }

  /// One local a step, but for the last.
  std::string computeText(const KernelNode &node, unsigned id) {
    llvm::SmallVector<TypedText> values;
    for (unsigned operand : node.operands)
      values.push_back({name(operand), facts(form.nodes[operand].type).computed});
    for (auto [i, step] : llvm::enumerate(node.steps.steps)) {
      llvm::SmallVector<TypedText> operands;
      for (unsigned k = 0; k < facts(step.opcode).operands; ++k)
        operands.push_back(values[step.operands[k]]);
      std::string text = stepText(step, operands);
      bool last = values.size() == node.steps.result && i + 1 == node.steps.steps.size();
      if (step.opcode == Opcode::constant || last) {
        values.push_back({text, step.type});
        continue;
      }
      std::string local = name(id) + "_" + std::to_string(i);
      w.line("const " + valueType(step.type) + " " + local + " = " + text + ";");
      values.push_back({local, step.type});
    }
    return rounded(values[node.steps.result].text, node.type);
  }

  std::string chooseText(const KernelNode &node) {
    std::string text = zero(facts(node.type).computed);
    unsigned first = node.guards.size();
    for (unsigned i = node.operands.size(); i-- > 0;) {
      first -= node.guardCounts[i];
      std::string condition = inside(llvm::ArrayRef<unsigned>(node.guards).slice(first, node.guardCounts[i]));
      std::string part = name(node.operands[i]);
      text = condition.empty() ? part : condition + " ? " + part + " : (" + text + ")";
    }
    return text;
  }
};

} // namespace

std::string kernelText(const KernelSource &source) {
  return KernelText(source).run();
}

} // namespace tcc::cuda
