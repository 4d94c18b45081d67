// Makes a picture of a function: (1) There is a node for each input and each op that computes or moves something. (2) A
// node's group follows from its name: first the part of the step (forward, backward, update), then its scopes. (3) A
// group that holds one box is dissolved. (4) If groups of one parent have equal forms, the first one stands for all.
#include "frontend/report/graph_picture.h"
#include "ir/dialect.h"
#include "ir/names.h"
#include "ir/strided_view.h"
#include "runtime/labels.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>
#include <map>
#include <set>

using namespace mlir;

namespace tcc {
namespace {

constexpr StringRef gradientSuffix = ".grad";

std::string textOf(Type type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    stream << tensor.getElementType();
    if (tensor.getRank()) {
      stream << "[";
      for (auto [i, size] : llvm::enumerate(tensor.getShape()))
        ShapedType::isDynamic(size) ? stream << (i ? "×?" : "?") : stream << (i ? "×" : "") << size;
      stream << "]";
    }
  } else {
    stream << type;
  }
  return text;
}

std::string textOf(TypeRange types) {
  return llvm::join(llvm::map_range(types, [](Type type) { return textOf(type); }), ", ");
}

int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.hasStaticShape())
      bytes += tensor.getNumElements() * std::max<int64_t>(1, tensor.getElementTypeBitWidth() / 8);
  return bytes;
}

std::string kindOf(Operation *op) {
  if (isa<KernelOp>(op))
    return "kernel";
  if (isa<CustomOp>(op))
    return "custom";
  if (op->getName().stripDialect().contains("attention"))
    return "attention";
  if (isa<StructuredOpInterface>(op) || op->getName().stripDialect() == "linear")
    return "matmul";
  if (isa<BodyOpInterface>(op))
    return "control";
  return op->hasTrait<ViewOp>() ? "view" : "op";
}

/// "h.3", "mlp" of "h.3.mlp.gelu": a number belongs to the word before it.
std::vector<std::string> scopesOf(StringRef name) {
  SmallVector<StringRef> words;
  scopeOf(name).split(words, '.', -1, false);
  std::vector<std::string> scopes;
  for (StringRef word : words)
    if (!scopes.empty() && llvm::all_of(word, llvm::isDigit))
      scopes.back() += "." + word.str();
    else
      scopes.push_back(word.str());
  return scopes;
}

class Painter {
public:
  Painter(func::FuncOp function, const TargetModel &target) : function(function), target(target) {
    picture.title = function.getName();
    picture.groups.push_back({.name = picture.title});
  }

  GraphPicture paint() {
    addInputs();
    // What a fused step hands out through views has no node; before fusion views are the user's ops.
    isFused = !function.getBody().getOps<KernelOp>().empty();
    for (Operation &op : function.getBody().front().without_terminator())
      addOp(op);
    dissolve();
    sortGroups();
    fold();
    return std::move(picture);
  }

private:
  void addInputs() {
    for (BlockArgument argument : function.getArguments()) {
      const unsigned i = argument.getArgNumber();
      const auto given = function.getArgAttrOfType<StringAttr>(i, nameAttr);
      const std::string name = given ? given.str() : "arg" + std::to_string(i);
      if (function.getArgAttr(i, stateAttr)) {
        states[argument] = name;
        continue;
      }
      PictureNode node{.kind = "input", .label = name, .type = textOf(argument.getType())};
      node.names = {name};
      makers[argument] = add(std::move(node), {});
    }
  }

  /// The nodes whose results a value is made of: one, or none for literals and states.
  std::optional<size_t> makerOf(Value value, std::vector<std::string> *read) const {
    while (true) {
      if (auto state = states.find(value); state != states.end()) {
        if (read && !llvm::is_contained(*read, state->second))
          read->push_back(state->second);
        return std::nullopt;
      }
      if (auto maker = makers.find(value); maker != makers.end())
        return maker->second;
      Operation *op = value.getDefiningOp();
      if (!op || op->getNumOperands() == 0)
        return std::nullopt;
      value = op->getOperand(0); // a view
    }
  }

  bool isShown(Operation &op) const {
    if (isa<ConstantOp, IotaOp>(op))
      return false;
    return !isFused || !op.hasTrait<ViewOp>();
  }

  enum class Part { forward, backward, update };

  /// Backward: gradients. Update: what becomes of them.
  Part partOf(Operation &op, StringRef name, const std::set<size_t> &read) {
    if (name.ends_with(gradientSuffix) || isa<GradientOp>(op))
      return Part::backward;
    for (OpOperand &use : op.getUses())
      if (isa<func::ReturnOp>(use.getOwner()) && function.getResultAttr(use.getOperandNumber(), updatesAttr))
        return Part::update;
    return llvm::any_of(read, [&](size_t maker) { return parts[maker] != Part::forward; }) ? Part::update
                                                                                           : Part::forward;
  }

  void addOp(Operation &op) {
    if (!isShown(op))
      return;
    PictureNode node{.kind = kindOf(&op), .type = textOf(op.getResultTypes())};
    std::string whole = nameOf(&op).str();
    if (auto kernel = dyn_cast<KernelOp>(op)) {
      whole = kernel.getLabel().value_or("kernel").str();
      for (Operation &inner : kernel.getBody().front().without_terminator())
        if (!inner.hasTrait<ViewOp>() && !isa<ConstantOp>(inner))
          node.ops.push_back(inner.getName().stripDialect().str());
    } else {
      node.ops = {op.getName().stripDialect().str()};
    }
    const StringRef first = StringRef(whole).substr(0, StringRef(whole).find_first_of("+:, "));
    std::set<size_t> read;
    for (Value operand : op.getOperands())
      if (std::optional<size_t> maker = makerOf(operand, &node.states))
        read.insert(*maker);
    const Part part = partOf(op, first, read);
    constexpr const char *partNames[] = {"forward", "backward", "update"};
    std::vector<std::string> path = {partNames[static_cast<size_t>(part)]};
    llvm::append_range(path,
                       scopesOf(first.ends_with(gradientSuffix) ? first.drop_back(gradientSuffix.size()) : first));
    const size_t scope =
        first.rfind('.', first.ends_with(gradientSuffix) ? first.size() - gradientSuffix.size() - 1 : StringRef::npos);
    node.label = whole.substr(scope == StringRef::npos ? 0 : scope + 1);
    if (FileLineColLoc source = sourceOf(op.getLoc()))
      node.source = source.getFilename().str() + ":" + std::to_string(source.getLine());
    if (auto structured = dyn_cast<StructuredOpInterface>(op)) {
      node.flops = structured.flops();
      node.bytes = structured.bytes(target.views);
    } else {
      node.bytes = bytesOf(op.getOperandTypes()) + bytesOf(op.getResultTypes());
    }
    node.cost =
        std::max(static_cast<double>(node.bytes), static_cast<double>(node.flops) / target.padding.flopsPerByte);
    node.names = {whole};
    const size_t number = add(std::move(node), path);
    parts[number] = part;
    for (size_t from : read)
      picture.edges.push_back({from, number});
    for (Value result : op.getResults())
      makers[result] = number;
  }

  size_t add(PictureNode node, const std::vector<std::string> &path) {
    size_t group = 0;
    for (const std::string &name : path) {
      auto [known, isNew] = groupsByName.try_emplace({group, name}, picture.groups.size());
      if (isNew) {
        picture.groups[group].groups.push_back(known->second);
        picture.groups.push_back({.name = name, .parent = group});
      }
      group = known->second;
    }
    node.group = group;
    picture.groups[group].nodes.push_back(picture.nodes.size());
    picture.nodes.push_back(std::move(node));
    return picture.nodes.size() - 1;
  }

  /// Moves the boxes of a group with one box, and of a part that is the whole function, into the parent.
  void dissolve() {
    for (size_t i = picture.groups.size(); i-- > 1;) { // groups stand after their parents
      PictureGroup &group = picture.groups[i], &parent = picture.groups[group.parent];
      const bool isPart = group.parent == 0;
      if (group.groups.size() + group.nodes.size() != 1 && !(isPart && parent.groups.size() == 1))
        continue;
      const std::string prefix = isPart ? "" : group.name + ".";
      for (size_t node : group.nodes) {
        picture.nodes[node].group = group.parent;
        picture.nodes[node].label = prefix + picture.nodes[node].label;
      }
      for (size_t inner : group.groups) {
        picture.groups[inner].parent = group.parent;
        picture.groups[inner].name = prefix + picture.groups[inner].name;
      }
      llvm::erase(parent.groups, i);
      llvm::append_range(parent.groups, group.groups);
      llvm::append_range(parent.nodes, group.nodes);
      group.groups.clear();
      group.nodes.clear();
    }
  }

  void sortGroups() {
    std::vector<size_t> counts(picture.groups.size());
    for (size_t i = picture.groups.size(); i-- > 0;) { // groups stand after their parents
      PictureGroup &group = picture.groups[i];
      llvm::sort(group.nodes);
      double sum = 0;
      for (size_t node : group.nodes)
        sum += static_cast<double>(node);
      counts[i] = group.nodes.size();
      for (size_t inner : group.groups) {
        sum += picture.groups[inner].place * static_cast<double>(counts[inner]);
        counts[i] += counts[inner];
      }
      group.place = counts[i] ? sum / static_cast<double>(counts[i]) : 0;
      llvm::sort(group.groups, [&](size_t a, size_t b) { return picture.groups[a].place < picture.groups[b].place; });
    }
  }

  void fold() {
    std::vector<Level> levels; // as they are before
    for (const PictureEdge &edge : picture.edges) {
      levels.push_back(levelOf(edge));
      levelEdges[levels.back().group].insert({levels.back().from, levels.back().to});
    }
    for (size_t i = 0; i < picture.nodes.size(); ++i)
      nodeFor.push_back(i);
    for (size_t i = 0; i < picture.groups.size(); ++i)
      groupFor.push_back(i);
    foldGroup(0);
    for (auto [edge, level] : llvm::zip_equal(picture.edges, levels)) {
      edge = {find(nodeFor, edge.from), find(nodeFor, edge.to)};
      if (!level.from.isGroup || !level.to.isGroup)
        continue;
      const size_t from = find(groupFor, level.from.number), to = find(groupFor, level.to.number);
      edge.next = from == to;
      picture.groups[from].chained |= from == to;
    }
    llvm::sort(picture.edges);
    picture.edges.erase(llvm::unique(picture.edges), picture.edges.end());
  }

  void foldGroup(size_t number) {
    std::map<std::string, size_t> first;
    std::vector<size_t> groups, nodes;
    for (size_t inner : picture.groups[number].groups) {
      const auto [known, isNew] =
          first.try_emplace(runtime::labelPattern(picture.groups[inner].name) + digestOf(inner), inner);
      if (isNew) {
        groups.push_back(inner);
        continue;
      }
      picture.groups[known->second].count += 1;
      picture.groups[known->second].lastName = picture.groups[inner].name;
      merge(known->second, inner);
    }
    for (size_t node : picture.groups[number].nodes) {
      const auto [known, isNew] = first.try_emplace(nodeDigest(picture.nodes[node]), node);
      if (isNew || picture.nodes[node].kind == "input" || reads(known->second, node))
        nodes.push_back(node);
      else
        mergeNode(known->second, node);
    }
    picture.groups[number].groups = groups;
    picture.groups[number].nodes = nodes;
    for (size_t inner : groups)
      foldGroup(inner);
  }

  /// `other` has the form of `into`: what is at the same place in both becomes one.
  void merge(size_t into, size_t other) {
    groupFor[other] = into;
    for (auto [mine, its] : llvm::zip_equal(picture.groups[into].nodes, picture.groups[other].nodes))
      mergeNode(mine, its);
    for (auto [mine, its] : llvm::zip_equal(picture.groups[into].groups, picture.groups[other].groups))
      merge(mine, its);
  }
  void mergeNode(size_t into, size_t node) {
    nodeFor[node] = into;
    picture.nodes[into].names.push_back(picture.nodes[node].names.front());
  }
  bool reads(size_t maker, size_t reader) const {
    return llvm::is_contained(picture.edges, PictureEdge{maker, reader});
  }
  static size_t find(const std::vector<size_t> &standsFor, size_t number) {
    while (standsFor[number] != number)
      number = standsFor[number];
    return number;
  }

  /// A text for what is inside of a group and how it is connected; numbers of layers do not count.
  const std::string &digestOf(size_t number) {
    std::string &known = digests[number];
    if (!known.empty())
      return known;
    std::string text;
    llvm::raw_string_ostream stream(text);
    std::map<PictureItem, size_t> places;
    for (PictureItem item : picture.itemsOf(number)) {
      places.try_emplace(item, places.size());
      if (item.isGroup)
        stream << "{" << runtime::labelPattern(picture.groups[item.number].name) << digestOf(item.number) << "}";
      else
        stream << nodeDigest(picture.nodes[item.number]) << ";";
    }
    for (const auto &[from, to] : levelEdges[number])
      stream << places.at(from) << ">" << places.at(to) << ",";
    return digests[number] = text;
  }
  static std::string nodeDigest(const PictureNode &node) {
    return "|" + node.kind + "|" + runtime::labelPattern(node.names.front()) + "|" + node.type + "|" +
           std::to_string(node.flops) + "|" + std::to_string(node.bytes) + "|" + llvm::join(node.ops, ",");
  }

  struct Level {
    size_t group;
    PictureItem from, to;
  };
  /// The innermost group that holds both ends, and its boxes in which they are.
  Level levelOf(const PictureEdge &edge) const {
    const std::vector<PictureItem> from = picture.pathOf(edge.from), to = picture.pathOf(edge.to);
    size_t i = 0;
    while (i + 1 < from.size() && i + 1 < to.size() && from[i] == to[i])
      ++i;
    return {i == 0 ? 0 : from[i - 1].number, from[i], to[i]};
  }

  func::FuncOp function;
  const TargetModel &target;
  GraphPicture picture;
  bool isFused = false;
  llvm::DenseMap<Value, size_t> makers;
  std::map<size_t, Part> parts; // of nodes; inputs are forward
  llvm::DenseMap<Value, std::string> states;
  std::map<std::pair<size_t, std::string>, size_t> groupsByName;
  std::map<size_t, std::set<std::pair<PictureItem, PictureItem>>> levelEdges; // by group
  std::map<size_t, std::string> digests;                                      // of groups
  std::vector<size_t> nodeFor, groupFor; // for each the one that stands for it, maybe through others
};

} // namespace

std::string GraphPicture::textOf(size_t node) const {
  int64_t several = static_cast<int64_t>(nodes[node].names.size());
  for (size_t group = nodes[node].group; group != 0; group = groups[group].parent)
    several /= groups[group].count;
  return nodes[node].label + (several > 1 ? " ×" + std::to_string(several) : "");
}

std::vector<PictureItem> GraphPicture::itemsOf(size_t group) const {
  std::vector<PictureItem> items;
  for (size_t inner : groups[group].groups)
    items.push_back({true, inner});
  for (size_t node : groups[group].nodes)
    items.push_back({false, node});
  const auto place = [&](PictureItem item) {
    return item.isGroup ? groups[item.number].place : static_cast<double>(item.number);
  };
  llvm::sort(items, [&](PictureItem a, PictureItem b) { return place(a) < place(b); });
  return items;
}

std::vector<PictureItem> GraphPicture::pathOf(size_t node) const {
  std::vector<PictureItem> path = {{false, node}};
  for (size_t group = nodes[node].group; group != 0; group = groups[group].parent)
    path.push_back({true, group});
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<GraphPicture::LevelEdge> GraphPicture::edgesOf(size_t group) const {
  std::vector<LevelEdge> list;
  const auto itemOf = [&](size_t node) -> std::optional<PictureItem> {
    PictureItem item{false, node};
    for (size_t at = nodes[node].group; at != group; at = groups[at].parent) {
      if (at == 0)
        return std::nullopt;
      item = {true, at};
    }
    return item;
  };
  for (const PictureEdge &edge : edges) {
    const auto from = itemOf(edge.from), to = itemOf(edge.to);
    if (from && to && !(*from == *to) && !edge.next)
      list.push_back({*from, *to});
  }
  llvm::sort(list);
  list.erase(llvm::unique(list), list.end());
  return list;
}

double GraphPicture::costOf(PictureItem item) const {
  if (!item.isGroup)
    return nodes[item.number].cost * static_cast<double>(nodes[item.number].names.size());
  double cost = 0;
  for (PictureItem inner : itemsOf(item.number))
    cost += costOf(inner);
  return cost;
}

std::string GraphPicture::titleOf(size_t group) const {
  const PictureGroup &of = groups[group];
  if (of.count == 1)
    return of.name;
  return of.name + " … " + of.lastName + " ×" + std::to_string(of.count) + (of.chained ? ", one after another" : "");
}

GraphPicture pictureOf(func::FuncOp function, const TargetModel &target) {
  return Painter(function, target).paint();
}

} // namespace tcc
