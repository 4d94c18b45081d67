// A word in a plan is written as its number between two marks.
#include "codegen/name_table.h"
#include "codegen/graph_digest.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

constexpr char mark = '\x1a';
constexpr StringRef separators = ".+: ,"; // what labels join words by

/// Calls visit(word, end) for each word and the separator after it, which is empty at the end.
void visitWords(StringRef label, llvm::function_ref<void(StringRef word, StringRef end)> visit) {
  while (true) {
    const size_t end = label.find_first_of(separators);
    visit(label.take_front(end), end == StringRef::npos ? "" : label.substr(end, 1));
    if (end == StringRef::npos)
      return;
    label = label.drop_front(end + 1);
  }
}

StringRef nameOr(StringAttr name) {
  return name ? name.getValue() : StringRef();
}

/// Calls change(text) for each text of a plan that is made of names alone, or its part that is.
bool changeNames(runtime::Plan &plan, llvm::function_ref<bool(std::string &)> change) {
  std::vector<bool> isForm(plan.kernels.size());
  for (runtime::Instruction &instruction : plan.instructions) {
    std::string scope = instruction.origin.scope;
    if (!change(instruction.origin.scope))
      return false;
    if (instruction.origin.op == KernelOp::getOperationName().rsplit('.').second) {
      if (!change(instruction.label))
        return false;
      runtime::visitKernels(instruction, [&](uint32_t number) { isForm[number] = true; });
    } else if (StringRef(instruction.label).starts_with(scope)) {
      instruction.label = instruction.origin.scope + instruction.label.substr(scope.size());
    }
  }
  for (auto [kernel, form] : llvm::zip_equal(plan.kernels, isForm))
    if (form && !change(kernel.description))
      return false;
  return true;
}

bool changePlaces(runtime::Plan &plan, llvm::function_ref<bool(runtime::SourceLocation &)> change) {
  return llvm::all_of(plan.instructions,
                      [&](runtime::Instruction &instruction) { return llvm::all_of(instruction.sources, change); });
}

} // namespace

NameTable::NameTable(ModuleOp captured) {
  for (StringRef word : {"", "*", "bias", "copy", "grad", "kernel"})
    ownWords.insert(word);
  for (RegisteredOperationName op : captured.getContext()->getRegisteredOperations())
    ownWords.insert(op.stripDialect());
  captured->walk([&](CustomOp op) { ownWords.insert(op.getCalled()); });
  captured->walk<WalkOrder::PreOrder>([&](Operation *op) {
    add(op->getLoc());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          add(argument.getLoc());
    text += '\n';
  });
  func::FuncOp function = functionOf(captured);
  functionName = function.getName();
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    (function.getArgAttr(i, stateAttr) ? states : inputs)
        .emplace_back(nameOr(function.getArgAttrOfType<StringAttr>(i, nameAttr)));
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!function.getResultAttr(i, updatesAttr))
      outputs.emplace_back(nameOr(function.getResultAttrOfType<StringAttr>(i, nameAttr)));
}

void NameTable::add(Location loc) {
  if (auto place = dyn_cast<FileLineColLoc>(loc)) {
    const auto [known, isNew] = placeNumbers.try_emplace(place, places.size());
    if (isNew)
      places.push_back(
          {place.getFilename().str(), static_cast<int32_t>(place.getLine()), static_cast<int32_t>(place.getColumn())});
    text += "@" + std::to_string(known->second);
  } else if (auto name = dyn_cast<NameLoc>(loc)) {
    addName(name.getName());
    add(name.getChildLoc());
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    text += "call";
    add(call.getCallee());
    add(call.getCaller());
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    text += "fused" + std::to_string(fused.getLocations().size());
    for (Location part : fused.getLocations())
      add(part);
  } else {
    text += "?";
  }
}

/// Labels leave out names that differ in digits alone, so which words do is part of the pattern.
void NameTable::addName(StringRef name) {
  text += "'";
  visitWords(name, [&](StringRef word, StringRef end) {
    if (isOwnWord(word)) {
      text += "=" + word.str();
    } else {
      const auto [known, isNew] = wordNumbers.try_emplace(word, words.size());
      if (isNew)
        words.push_back(word.str());
      text += std::to_string(known->second);
    }
    std::string kind = word.str();
    llvm::erase_if(kind, llvm::isDigit);
    text += "/" + std::to_string(kindNumbers.try_emplace(kind, kindNumbers.size()).first->second) + end.str();
  });
  text += "'";
}

/// Labels add "×" with a count, and "…".
bool NameTable::isOwnWord(StringRef word) const {
  return ownWords.contains(word) || llvm::all_of(word, llvm::isDigit) || word.starts_with("×") || word.starts_with("…");
}

bool NameTable::toNumbers(runtime::Plan &plan) const {
  auto numbered = [&](std::string &label) {
    std::string changed;
    visitWords(label, [&](StringRef word, StringRef end) {
      const auto known = isOwnWord(word) ? wordNumbers.end() : wordNumbers.find(word);
      changed += known == wordNumbers.end() ? word.str() : mark + std::to_string(known->second) + mark;
      changed += end;
    });
    label = std::move(changed);
    return true;
  };
  std::map<std::tuple<std::string, int32_t, int32_t>, int32_t> numbers;
  for (auto [i, place] : llvm::enumerate(places))
    numbers.try_emplace({place.file, place.line, place.column}, static_cast<int32_t>(i));
  plan.name.clear();
  size_t number = 0; // a plan's tensors have different names
  for (auto [list, names] : {std::pair(&plan.inputs, &inputs), {&plan.outputs, &outputs}, {&plan.states, &states}})
    for (auto [tensor, name] : llvm::zip(*list, *names))
      if (!name.empty())
        tensor.name = mark + std::to_string(number++);
  return changeNames(plan, numbered) && changePlaces(plan, [&](runtime::SourceLocation &source) {
           const auto number = numbers.find({source.file, source.line, source.column});
           if (number != numbers.end())
             source = {"", number->second, 0};
           return number != numbers.end();
         });
}

bool NameTable::toNames(runtime::Plan &plan) const {
  auto named = [&](std::string &label) {
    std::string changed;
    for (StringRef rest = label; !rest.empty();) {
      const auto [before, after] = rest.split(mark);
      const auto [number, next] = after.split(mark);
      changed += before;
      size_t place = 0;
      if (before.size() == rest.size())
        break;
      if (number.getAsInteger(10, place) || place >= words.size())
        return false;
      changed += words[place];
      rest = next;
    }
    label = std::move(changed);
    return true;
  };
  plan.name = functionName;
  for (auto [list, names] : {std::pair(&plan.inputs, &inputs), {&plan.outputs, &outputs}, {&plan.states, &states}}) {
    if (list->size() < names->size())
      return false;
    for (auto [tensor, name] : llvm::zip(*list, *names))
      if (!name.empty())
        tensor.name = name;
  }
  return changeNames(plan, named) && changePlaces(plan, [&](runtime::SourceLocation &source) {
           const bool has = source.line >= 0 && static_cast<size_t>(source.line) < places.size();
           if (has)
             source = places[static_cast<size_t>(source.line)];
           return has;
         });
}

/// The names are taken away and given back: a copy of the module would cost more than the rest.
std::string namelessText(ModuleOp captured) {
  func::FuncOp function = functionOf(captured);
  const StringAttr name = function.getSymNameAttr();
  const ArrayAttr arguments = function.getArgAttrsAttr(), results = function.getResAttrsAttr();
  Builder builder(captured.getContext());
  llvm::StringMap<unsigned> states;
  auto without = [&](ArrayAttr all, bool areArguments) {
    SmallVector<Attribute> nameless;
    for (auto [i, one] : llvm::enumerate(all)) {
      NamedAttrList list(cast<DictionaryAttr>(one));
      auto own = dyn_cast_or_null<StringAttr>(list.erase(nameAttr));
      if (areArguments && own)
        states.try_emplace(own.getValue(), i);
      auto updated = dyn_cast_or_null<StringAttr>(list.get(updatesAttr));
      if (updated && states.contains(updated.getValue()))
        list.set(updatesAttr, builder.getI64IntegerAttr(states.lookup(updated.getValue())));
      // Whether there is a name at all decides which one a plan gives.
      if (own)
        list.set(nameAttr, builder.getUnitAttr());
      nameless.push_back(list.getDictionary(captured.getContext()));
    }
    return builder.getArrayAttr(nameless);
  };
  function.setSymName("0");
  if (arguments)
    function.setArgAttrsAttr(without(arguments, true));
  if (results)
    function.setResAttrsAttr(without(results, false));
  std::string text = placelessText(captured);
  function.setSymNameAttr(name);
  if (arguments)
    function.setArgAttrsAttr(arguments);
  if (results)
    function.setResAttrsAttr(results);
  return text;
}

} // namespace tcc
