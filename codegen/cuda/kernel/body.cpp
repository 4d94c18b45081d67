// Writes what the texts of all shapes share: head comment and parameters, each node as one named local, each store, the
// axes that indices are computed from.
#include "codegen/cuda/kernel/body.h"
#include "codegen/cuda/kernel/expressions.h"
#include "codegen/cuda/kernel/ranges.h"
#include "codegen/cuda/kernel/rounding.h"
#include "codegen/cuda/kernel/usual_columns.h"
#include "codegen/cuda/kernel/vectors.h"
#include "ir/kernel_precision.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace tcc::cuda {

using Kind = KernelNode::Kind;

static std::vector<std::string> headComment(const FormKernel &source, const KernelDivision &division) {
  static constexpr const char *shapes[] = {"a thread a group of columns",
                                           "segments of many tensors",
                                           "a warp a row",
                                           "a block a row",
                                           "a block a tile of columns",
                                           "a block an outer block, a warp a row",
                                           "a block an outer block",
                                           "a block a tile of the result"};
  const KernelInfo &form = source.form;
  const KernelSpace &space = form.space;
  std::vector<std::string> lines;
  lines.push_back("// " + source.symbol + ": " + source.title());
  lines.push_back("// space " + std::to_string(space.outer) + " x " + std::to_string(space.rows) + " x " +
                  std::to_string(space.columns) + ", " + std::to_string(form.stages) +
                  (form.stages == 1 ? " pass, " : " passes, ") + shapes[static_cast<int>(division.shape)] +
                  (division.vector > 1 ? ", groups of " + std::to_string(division.vector) : ""));
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

KernelBody::KernelBody(const FormKernel &source, KernelCalling calling, bool steady)
    : source(source), form(source.form), calling(calling), stages(kernelStages(form)), division(divide(form)),
      values(columnValues(form, stages, division)), staged(stagedLoads(form, division)),
      unrounded(roundedWhenStored(form)), steady(steady), narrow(readIn16Bits(form)) {}

std::string KernelBody::text() {
  writeHead();
  writeShape();
  w.close();
  return w.take();
}

void KernelBody::writeHead() {
  for (const std::string &line : headComment(source, division))
    w.line(line);
  bool segments = division.shape == KernelShape::segments;
  std::string parameters;
  if (calling == KernelCalling::joined) {
    parameters = segments ? "const u64 *table, int segments, int half" : "const u64 *table";
  } else {
    for (size_t i = 0; i < form.arguments.size(); ++i)
      parameters += "const " + elementType(form.arguments[i].type) + " *in" + std::to_string(i) + ", ";
    for (size_t i = 0; i < form.results.size(); ++i)
      parameters += elementType(form.results[i].type) + " *out" + std::to_string(i) + ", ";
    if (segments)
      parameters += "int columns";
    else
      parameters.resize(parameters.size() - 2);
  }
  w.open("KERNEL(" + functionName(source.symbol, calling) + ", " + std::to_string(division.threads) + ", " +
         std::to_string(division.resident) + ")(" + parameters + ")");
  if (calling == KernelCalling::joined)
    writeEntry();
}

/// Declares the table's entry for this block, and the tensors in it.
void KernelBody::writeEntry() {
  size_t arguments = form.arguments.size();
  std::string words = std::to_string(tableEntryBytes(form) / 8);
  if (division.shape == KernelShape::segments) {
    w.line("int segment = 0;");
    w.open("for (int step = half; step > 0; step /= 2)");
    w.line("if (segment < segments - step && table[(segment + step) * " + words + "ll + " +
           std::to_string(arguments + form.results.size() + 1) + "] <= static_cast<u64>(block_x()))");
    w.line("  segment += step;");
    w.close();
    w.line("const u64 *entry = table + segment * " + words + "ll;");
  } else {
    w.line("const u64 *entry = table + block_y() * " + words + "ll;");
  }
  auto declare = [&](const KernelTensor &tensor, const std::string &name, size_t word, const char *qualifier) {
    std::string type = qualifier + elementType(tensor.type) + " *";
    w.line(type + name + " = reinterpret_cast<" + type + ">(entry[" + std::to_string(word) + "]);");
  };
  for (size_t i = 0; i < arguments; ++i)
    declare(form.arguments[i], "in" + std::to_string(i), i, "const ");
  for (size_t i = 0; i < form.results.size(); ++i)
    declare(form.results[i], "out" + std::to_string(i), arguments + i, "");
}

//===- scopes and axes -----------------------------------------------------------------------------------------===//

void KernelBody::open(const std::string &head) {
  w.open(head);
  declaredAxes.emplace_back();
}
void KernelBody::close() {
  w.close();
  declaredAxes.pop_back();
}

/// Declares `name` as the number of this thread's item; a thread without one returns.
void KernelBody::writeItem(const std::string &name, const std::string &number) {
  w.line("const i64 " + name + " = " + number + ";");
  w.line("if (" + name + " >= " + std::to_string(division.items) + "ll)");
  w.line("  return;");
}

/// Declares o and r for row number `row`, an expression, of all rows.
void KernelBody::writeRowAxes(const std::string &row) {
  const KernelSpace &space = form.space;
  std::string rows = std::to_string(space.rows);
  w.line("const int o = " + (space.outer == 1 ? "0" : "static_cast<int>(" + row + " / " + rows + ")") + ";");
  w.line("const int r = static_cast<int>(" + (space.outer == 1 ? row : row + " % " + rows) + ");");
}

bool KernelBody::warpOwnsRow() const {
  return division.shape == KernelShape::warpRows || division.shape == KernelShape::warpColumns ||
         division.shape == KernelShape::columns;
}

std::string KernelBody::unrolling() const {
  constexpr size_t longBody = 96, shortBody = 8; // nodes of a column
  size_t nodes = 0;
  for (const std::vector<unsigned> &pass : values.computedIn)
    nodes = std::max(nodes, pass.size());
  const bool numbersRegisters =
      llvm::any_of(values.keptFrom, [](int stage) { return stage >= 0; }) ||
      llvm::any_of(form.stores, [](const KernelStore &store) { return store.kind != KernelStore::Kind::element; });
  if (!numbersRegisters && nodes > longBody)
    return "#pragma unroll 1";
  if (division.perThread <= mostUnrolledColumns)
    return "#pragma unroll";
  // Single columns are loads of a few bytes: many of them must be in flight.
  return division.vector == 1 && nodes <= shortBody ? "#pragma unroll 16" : "#pragma unroll 4";
}

void KernelBody::overGroups(const std::string &start, llvm::function_ref<void()> body) {
  bool single = division.vector == 1;
  std::string step = std::to_string(warpOwnsRow() ? warpSize : division.threads);
  std::string thread = warpOwnsRow() ? "lane_index()" : "thread_x()", column = single ? "c" : "group";
  int64_t groups = division.perThread / division.vector, whole = 0;
  if (start.empty() && isLongRow() && !warpOwnsRow())
    whole = form.space.columns / (division.threads * division.vector);
  auto rounds = [&](int64_t from, int64_t to) {
    if (from == to)
      return;
    w.line(unrolling());
    open("for (int k = " + std::to_string(from) + "; k < " + std::to_string(to) + "; ++k)");
    std::string number = "k * " + step + " + " + thread;
    w.line("const int " + column + " = " + (start.empty() ? "" : start + " + ") +
           (single ? number : "(" + number + ") * " + width()) + ";");
    if (to > whole)
      open("if (" + column + " < " + std::to_string(form.space.columns) + ")");
    body();
    if (to > whole)
      close();
    close();
  };
  rounds(0, whole);
  rounds(whole, groups);
}

void KernelBody::overLanes(llvm::function_ref<void()> body) {
  if (division.vector == 1)
    return body();
  w.line("#pragma unroll");
  open("for (int lane = 0; lane < " + width() + "; ++lane)");
  w.line("const int c = group + lane;");
  body();
  close();
}

/// Declares the derived axes that an expression uses, those that they use first.
void KernelBody::declareAxesOf(const IndexExpr &expr) {
  for (const IndexTerm &term : expr.terms)
    if (term.axis >= axis::firstDerived)
      declareAxis(term.axis);
}
void KernelBody::declareAxis(unsigned number) {
  if (llvm::any_of(declaredAxes, [&](const std::set<unsigned> &scope) { return scope.count(number) != 0; }))
    return;
  const IndexExpr &value = form.derived[number - axis::firstDerived].value;
  declareAxesOf(value);
  w.line(std::string("const ") + (fits32(value) ? "int" : "i64") + " d" + std::to_string(number) + " = " +
         indexText(value) + ";");
  declaredAxes.back().insert(number);
}

/// "d3 >= 0 && d3 < 5" for all of them; empty for none.
std::string KernelBody::inside(llvm::ArrayRef<unsigned> guards) {
  std::string text;
  for (unsigned guard : guards) {
    declareAxis(guard);
    std::string axis = "d" + std::to_string(guard);
    text += (text.empty() ? "" : " && ") + axis + " >= 0 && " + axis + " < " +
            std::to_string(form.derived[guard - axis::firstDerived].extent);
  }
  return text;
}

//===- nodes and stores ----------------------------------------------------------------------------------------===//

std::string KernelBody::name(unsigned id) const {
  const KernelNode &node = form.nodes[id];
  int op = id < source.names.ofNode.size() ? source.names.ofNode[id] : -1;
  std::string word = op >= 0 ? source.names.ops[static_cast<size_t>(op)].name : "x";
  if (node.kind == Kind::load && node.operands.empty())
    word = "x" + std::to_string(node.argument);
  for (char &letter : word)
    letter = llvm::isAlnum(letter) ? letter : '_';
  return word + "_" + std::to_string(id);
}

void KernelBody::writeNodes(llvm::ArrayRef<unsigned> nodes) {
  for (unsigned id : nodes)
    writeNode(id);
}

bool KernelBody::isGroupLoad(unsigned id) const {
  return division.vector > 1 && loadsGroups(form, form.nodes[id], division.vector);
}
bool KernelBody::isGroupStore(unsigned store) const {
  return division.vector > 1 && storesGroups(form, form.stores[store], division.vector);
}

/// Writes what stage `number` does at column c.
void KernelBody::writeColumn(unsigned number) {
  const KernelStage &stage = stages.stages[number];
  for (unsigned id : values.computedIn[number]) {
    std::string kept = "kept_" + std::to_string(id) + "[" + columnNumber() + "]";
    std::string start = "const " + valueType(form.nodes[id].type) + " " + name(id) + " = ";
    if (values.keptFrom[id] >= 0 && values.keptFrom[id] < static_cast<int>(number)) {
      w.line(start + kept + ";");
      continue;
    }
    if (isGroupLoad(id))
      w.line(start + name(id) + "_of[lane];");
    else
      writeNode(id);
    if (values.keptFrom[id] >= 0)
      w.line(kept + " = " + name(id) + ";");
  }
  for (unsigned id : stage.reductions) {
    // A sum starts at +0 and so is never -0: a zero of either sign leaves it as it is.
    if (form.nodes[id].reduction == Reduction::sum && isUsualZero(form.nodes[id].operands[0]))
      continue;
    std::string part = "part_" + std::to_string(id);
    w.line(part + " = " + combined(form.nodes[id].reduction, part, name(form.nodes[id].operands[0])) + ";");
  }
  for (unsigned store : stage.stores)
    if (isGroupStore(store))
      w.line("out" + std::to_string(store) + "_of[lane] = " + name(form.stores[store].node) + ";");
    else
      writeStore(store);
  for (unsigned store : stage.columnResults)
    writeAccumulation(store);
}

bool KernelBody::isStaged(unsigned id) const {
  return llvm::any_of(staged.loads, [&](const StagedLoad &load) { return load.node == id; });
}

void KernelBody::writeCopies(const std::string &place) {
  declareCopied(place);
  overGroups("", [&] {
    w.line("const int c = group;");
    for (const StagedLoad &load : staged.loads) {
      const KernelNode &node = form.nodes[load.node];
      w.line("copy_columns<" + width() + ">(staged_" + std::to_string(load.node) + " + group, in" +
             std::to_string(node.argument) + " + (" + indexText(node.index) + "));");
    }
  });
}

void KernelBody::declareCopied(const std::string &place) {
  for (const StagedLoad &load : staged.loads) {
    const std::string type = elementType(form.nodes[load.node].type);
    w.line(type + " *const staged_" + std::to_string(load.node) + " = reinterpret_cast<" + type + " *>(" + place +
           (load.offset == 0 ? "" : " + " + std::to_string(load.offset)) + ");");
  }
}

/// Whether the value is 0 at all columns of the current group, as a target's is where the target is no column of it.
bool KernelBody::isUsualZero(unsigned id) const {
  const KernelNode &node = form.nodes[id];
  if (node.kind == Kind::literal)
    return facts(node.type).isFloat && node.value.asFloat() == 0;
  if (node.kind != Kind::compute || node.steps.steps.size() != 1 || node.steps.steps[0].opcode != Opcode::select)
    return false;
  const ScalarStep &step = node.steps.steps[0];
  const auto known = usual.find(node.operands[step.operands[0]]);
  return known != usual.end() && isUsualZero(node.operands[step.operands[known->second ? 1 : 2]]);
}

/// Declares the values of a load for the columns of the group.
void KernelBody::writeGroupLoad(unsigned id, const std::string &left) {
  const KernelNode &node = form.nodes[id];
  if (hasEarlyLoads) {
    w.line(valueType(node.type) + " (&" + name(id) + "_of)[" + width() + "] = " + name(id) + "_at[k];");
    return;
  }
  if (isStaged(id)) {
    w.line(valueType(node.type) + " " + name(id) + "_of[" + width() + "];");
    w.line("load_columns(staged_" + std::to_string(id) + " + group, " + name(id) + "_of);");
    return;
  }
  declareAxesOf(node.index);
  std::string place = indexText(node.index), condition = inside(node.guards),
              otherwise = zero(facts(node.type).computed);
  if (!node.operands.empty()) {
    std::string row = name(node.operands[0]);
    place = "static_cast<i64>(" + row + ") * " + std::to_string(node.gatherStride) + " + " + place;
    condition = row + " >= 0 && " + row + " < " + std::to_string(node.gatherRows);
    otherwise = outsideValue(node.type);
  }
  std::string array = name(id) + "_of";
  std::string call = "load_columns(in" + std::to_string(node.argument) + " + (" + place + "), " + array +
                     (left.empty() ? "" : ", " + left) + ");";
  w.line(valueType(node.type) + " " + array + "[" + width() + "];");
  if (condition.empty()) {
    w.line(call);
    return;
  }
  w.line("fill_columns(" + array + ", " + otherwise + ");");
  w.line("if (" + condition + ")");
  w.line("  " + call);
}

void KernelBody::writeEarlyLoads(llvm::function_ref<void(llvm::function_ref<void()>)> overRounds) {
  const std::string groups = std::to_string(division.perThread / division.vector);
  auto isLoadedEarly = [&](unsigned id) { return isGroupLoad(id); };
  for (unsigned id : llvm::make_filter_range(values.computedIn[0], isLoadedEarly))
    w.line(valueType(form.nodes[id].type) + " " + name(id) + "_at[" + groups + "][" + width() + "];");
  overRounds([&] {
    w.line("const int c = group;");
    for (unsigned id : llvm::make_filter_range(values.computedIn[0], isLoadedEarly)) {
      const KernelNode &node = form.nodes[id];
      w.line("load_columns(in" + std::to_string(node.argument) + " + (" + indexText(node.index) + "), " + name(id) +
             "_at[k]);");
    }
  });
}

void KernelBody::writeGroupBody(unsigned number, const std::string &left) {
  if (division.vector == 1)
    return writeColumn(number);
  w.line("const int c = group;");
  for (unsigned id : values.computedIn[number])
    if (isGroupLoad(id) && (values.keptFrom[id] < 0 || values.keptFrom[id] >= static_cast<int>(number)))
      writeGroupLoad(id, left);
  const std::vector<UsualColumn> columns =
      isLongRow() ? usualColumns(form, values.computedIn[number]) : std::vector<UsualColumn>();
  if (columns.empty())
    return writeGroup(number, left);
  std::string isUsual;
  for (const UsualColumn &column : columns) {
    isUsual += (isUsual.empty() ? "" : " && ") + usualCondition(column, "group", division.vector, name(column.value));
    usual.emplace(column.node, column.usual);
  }
  open("if (" + isUsual + ")");
  writeGroup(number, left);
  close();
  usual.clear();
  open("else");
  writeGroup(number, left);
  close();
}

/// Writes what stage `number` does at the columns of a group, whose loads are there, and its stores.
void KernelBody::writeGroup(unsigned number, const std::string &left) {
  const KernelStage &stage = stages.stages[number];
  for (unsigned store : stage.stores)
    if (isGroupStore(store))
      w.line(accumulatorType(store) + " out" + std::to_string(store) + "_of[" + width() + "];");
  overLanes([&] { writeColumn(number); });
  for (unsigned store : stage.stores)
    if (isGroupStore(store)) {
      std::string result = "out" + std::to_string(store);
      declareAxesOf(form.stores[store].index);
      w.line("store_columns(" + result + " + (" + indexText(form.stores[store].index) + "), " + result + "_of" +
             (left.empty() ? "" : ", " + left) + ");");
    }
}

void KernelBody::writeStore(unsigned number) {
  const KernelStore &store = form.stores[number];
  declareAxesOf(store.index);
  w.line("out" + std::to_string(number) + "[" + indexText(store.index) +
         "] = " + stored(name(store.node), form.results[number].type) + ";");
}

void KernelBody::writeNode(unsigned id) {
  const KernelNode &node = form.nodes[id];
  declareAxesOf(node.index);
  std::string value = textOf(node, id);
  w.line("const " + valueType(node.type) + " " + name(id) + " = " + value + ";");
}

std::string KernelBody::textOf(const KernelNode &node, unsigned id) {
  if (auto known = usual.find(id); known != usual.end())
    return known->second ? "true" : "false";
  switch (node.kind) {
  case Kind::load:
    return loadText(node);
  case Kind::literal:
    return literal(node.value, node.type);
  case Kind::index:
    return facts(node.type).isFloat ? rounded("static_cast<float>(" + indexText(node.index) + ")", node.type)
                                    : "static_cast<" + valueType(node.type) + ">(" + indexText(node.index) + ")";
  case Kind::random:
    return randomText(node);
  case Kind::compute:
    return computeText(node, id);
  default:
    return chooseText(node);
  }
}

std::string KernelBody::randomText(const KernelNode &node) const {
  bool wide = form.nodes[node.operands[0]].type == ElementType::i64;
  std::string text = std::string("random_bits(static_cast<") + (wide ? "u64" : "u32") + ">(" + name(node.operands[0]) +
                     "), " + std::to_string(static_cast<uint32_t>(node.stream)) + "u";
  for (unsigned place : llvm::drop_begin(node.operands))
    text += ", static_cast<u32>(" + name(place) + ")";
  return text + ")";
}

std::string KernelBody::loadText(const KernelNode &node) {
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

/// Declares a local for each step but the last.
std::string KernelBody::computeText(const KernelNode &node, unsigned id) {
  llvm::SmallVector<TypedText> values;
  for (unsigned operand : node.operands)
    values.push_back({name(operand), facts(form.nodes[operand].type).computed});
  const size_t count = node.operands.size();
  const std::vector<ValueRange> ranges = rangesOf(node.steps, count);
  auto isOne = [&](unsigned value) { return ranges[value].low == 1 && ranges[value].high == 1; };
  std::vector<std::optional<SigmoidOfStep>> sigmoids(node.steps.steps.size());
  for (size_t i = 0; !steady && narrow[id] && i < sigmoids.size(); ++i)
    sigmoids[i] = sigmoidOf(node.steps, count, i);
  const std::vector<bool> needed = neededSteps(node.steps, count, sigmoids);
  for (auto [i, step] : llvm::enumerate(node.steps.steps)) {
    if (!needed[i]) {
      values.push_back({"", step.type});
      continue;
    }
    llvm::SmallVector<TypedText> operands;
    for (unsigned k = 0; k < facts(step.opcode).operands; ++k)
      operands.push_back(values[step.operands[k]]);
    std::string text;
    if (sigmoids[i])
      text = "near_sigmoid_f32(" + std::string(sigmoids[i]->isMirrored ? "-" : "") + values[sigmoids[i]->x].text + ")";
    else if (step.opcode == Opcode::divF && isOne(step.operands[0]) && ranges[step.operands[1]].hasPlainReciprocal())
      text = "reciprocal_f32(" + operands[1].text + ")";
    else if (!steady && isExpBelowMaximum(form, id))
      text = "near_exp_f32(" + operands[0].text + ")";
    else
      text = stepText(step, operands);
    bool last = values.size() == node.steps.result && i + 1 == node.steps.steps.size();
    if (step.opcode == Opcode::constant || last) {
      values.push_back({text, step.type});
      continue;
    }
    std::string local = name(id) + "_" + std::to_string(i);
    w.line("const " + valueType(step.type) + " " + local + " = " + text + ";");
    values.push_back({local, step.type});
  }
  const std::string &value = values[node.steps.result].text;
  return unrounded[id] ? value : rounded(value, node.type);
}

std::string KernelBody::chooseText(const KernelNode &node) {
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

} // namespace tcc::cuda
