// Names in locations, and the label of a kernel from the names of its ops.
#include "ir/names.h"
#include "ir/dialect.h"
#include "ir/known_traits.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace tcc {

StringRef nameOf(Location loc) {
  auto name = dyn_cast<NameLoc>(loc);
  return name ? name.getName().getValue() : StringRef();
}

StringRef nameOf(Operation *op) {
  StringRef name = nameOf(op->getLoc());
  if (auto custom = dyn_cast<CustomOp>(op); custom && name.empty())
    return custom.getCalled();
  return name.empty() ? op->getName().stripDialect() : name;
}

Location named(Location loc, StringRef name) {
  if (auto other = dyn_cast<NameLoc>(loc))
    loc = other.getChildLoc();
  return NameLoc::get(StringAttr::get(loc->getContext(), name), loc);
}

FileLineColLoc sourceOf(Location loc) {
  if (auto place = dyn_cast<FileLineColLoc>(loc))
    return place;
  if (auto name = dyn_cast<NameLoc>(loc))
    return sourceOf(name.getChildLoc());
  if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      if (FileLineColLoc place = sourceOf(part))
        return place;
    return {};
  }
  if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    FileLineColLoc callee = sourceOf(call.getCallee());
    return callee ? callee : sourceOf(call.getCaller());
  }
  return {};
}

StringRef scopeOf(StringRef name) {
  return name.contains('.') ? name.rsplit('.').first : StringRef();
}

namespace {

constexpr StringRef gradientSuffix = ".grad";

/// What a name means to a kernel.
struct Part {
  bool result = false; // an op that gives a result has it
  unsigned ops = 0;
};

/// Ops that move or convert values, or compute a scalar; a kernel that does more is not called by them.
bool isMinor(Operation &op) {
  return knownTrait<ViewOp>(&op) || isa<ConstantOp, IotaOp, CastOp>(op) ||
         llvm::all_of(op.getOperandTypes(), [](Type type) { return cast<RankedTensorType>(type).getRank() == 0; });
}

/// The form in which `name` is written after a kernel's first name: without the scope that both share, and as its last
/// word alone if it lies within the first one's scope. A number says nothing without the word before it, so both stay.
StringRef shortened(StringRef name, StringRef first) {
  size_t same = 0;
  for (size_t i = 0; i < name.size() && i < first.size() && name[i] == first[i]; ++i)
    if (name[i] == '.')
      same = i + 1;
  StringRef scope = scopeOf(first), rest = name.drop_front(same);
  if (!scope.empty() && name.starts_with(scope) && name.drop_front(scope.size()).starts_with("."))
    return name.drop_front(scopeOf(name.drop_back(name.ends_with(gradientSuffix) ? gradientSuffix.size() : 0)).size())
        .ltrim('.');
  return llvm::all_of(rest.split('.').first, llvm::isDigit) ? name : rest;
}

} // namespace

/// Whether two names differ in numbers of layers alone.
static bool equalButForNumbers(StringRef a, StringRef b) {
  auto plain = [](StringRef name) {
    std::string text = name.str();
    llvm::erase_if(text, llvm::isDigit);
    return text;
  };
  return plain(a) == plain(b);
}

SmallVector<StringRef> namesOf(Block &body) {
  llvm::MapVector<StringRef, Part> parts;
  for (bool minor : {false, true}) {
    if (!parts.empty())
      break;
    for (Operation &op : body.without_terminator())
      if (minor || !isMinor(op))
        ++parts[nameOf(&op)].ops;
  }
  for (Value result : body.getTerminator()->getOperands()) {
    Operation *op = result.getDefiningOp();
    while (op && isMinor(*op) && !parts.contains(nameOf(op)) && op->getNumOperands() == 1)
      op = op->getOperand(0).getDefiningOp();
    if (auto known = op ? parts.find(nameOf(op)) : parts.end(); known != parts.end())
      known->second.result = true;
  }
  SmallVector<std::pair<StringRef, Part>> order;
  for (auto &[name, part] : parts)
    if (part.result || !parts.contains((name + gradientSuffix).str()))
      order.emplace_back(name, part);
  llvm::stable_sort(order, [](const auto &a, const auto &b) {
    return std::pair(a.second.result, a.second.ops) > std::pair(b.second.result, b.second.ops);
  });
  return llvm::to_vector(llvm::make_first_range(order));
}

Location mainLocation(Block &body, ArrayRef<StringRef> names) {
  for (Operation &op : body.without_terminator())
    if (!names.empty() && nameOf(&op) == names[0] && sourceOf(op.getLoc()))
      return op.getLoc();
  return body.getTerminator()->getLoc();
}

std::string kernelLabel(ArrayRef<StringRef> names) {
  constexpr size_t mostParts = 4; // and no bound on characters, which would make labels depend on how long names are
  if (names.empty())
    return "copy";
  std::string label = names[0].str();
  for (StringRef name : llvm::drop_begin(names)) {
    StringRef word = shortened(name, names[0]);
    if (equalButForNumbers(name, names[0]) || llvm::is_contained(llvm::split(label, '+'), word))
      continue;
    if (llvm::count(label, '+') + 1 == mostParts)
      return label + "+…";
    label += "+" + word.str();
  }
  return label;
}

std::string workOf(Block &body) {
  llvm::SetVector<StringRef> kinds;
  for (Operation &op : body.without_terminator())
    if (!isMinor(op))
      kinds.insert(op.getName().stripDialect());
  return kinds.empty() ? "copy" : llvm::join(kinds, "_");
}

} // namespace tcc
