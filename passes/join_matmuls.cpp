// join-matmuls: matmuls that multiply one value by several parameters become one, where that pays.
//   1. candidates have the same left side, and on the right a matrix that is an argument, perhaps cast or seen through
//      views, so that it is there before the first of them; what a bias or another tensor is added to at once stays as
//      it is, since a matmul adds that itself;
//   2. what one matmul saves is in the backward pass: there the gradient of their left side is a sum of as many matmuls
//      as there are, each of which reads and writes the whole sum (EpilogueModel::addendPrice). Forward sums cost the
//      same, joined or not, but for narrow parameters, such as an adapter's, which gain more than is counted here;
//   3. against it stand the copies: of the parameters side by side, which costs nothing where a cast writes them
//      anyway, and of the results' gradients;
//   4. where all candidates do not pay, the widest is left out, as long as two are left;
//   5. the parameters are joined once for all matmuls that read the same ones; results are slices, which are views.
// It runs before autodiff, which then makes one matmul for each gradient. Forward sums have the same terms; a gradient
// of the left side is one longer sum, so its bits differ. Parameters keep their places, shapes and names. It never
// joins a matmul whose parameter is trained with one whose is not: the gradient of both would be computed.
#include "ir/emit.h"
#include "ir/known_traits.h"
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;

namespace tcc {
namespace {

/// The argument that the value is below casts and views, or null.
BlockArgument argumentBelow(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (op->getNumOperands() != 1 || (!op->hasTrait<ViewOp>() && !isa<CastOp>(op)))
      return {};
    value = op->getOperand(0);
  }
  return cast<BlockArgument>(value);
}

/// Whether an addition, perhaps of the value reshaped or cast, is all that reads it.
bool isAdded(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.getUsers().begin();
    if (isa<AddOp>(user))
      return true;
    if (!isa<ReshapeOp, CastOp>(user))
      break;
    value = user->getResult(0);
  }
  return false;
}

int64_t columnsOf(MatmulOp op) {
  return tensorType(op.getResult()).getShape().back();
}
Type readType(MatmulOp op) {
  return tensorType(op.getB()).getElementType();
}
Type storedType(MatmulOp op) {
  return tensorType(op.getResult()).getElementType();
}

/// "h.0.attn.c_q_and_c_k.matmul" of "h.0.attn.c_q.matmul" and "h.0.attn.c_k.matmul".
std::string joinedName(ArrayRef<StringRef> names) {
  SmallVector<StringRef> parts;
  names.front().split(parts, '.');
  auto isCommon = [&](StringRef word, size_t at, bool fromEnd) {
    return llvm::all_of(names, [&](StringRef name) {
      SmallVector<StringRef> own;
      name.split(own, '.');
      return own.size() == parts.size() && own[fromEnd ? own.size() - 1 - at : at] == word;
    });
  };
  size_t before = 0, after = 0;
  while (before < parts.size() && isCommon(parts[before], before, false))
    ++before;
  while (before + after < parts.size() && isCommon(parts[parts.size() - 1 - after], after, true))
    ++after;
  std::string joined;
  for (StringRef name : names) {
    SmallVector<StringRef> own;
    name.split(own, '.');
    bool isAlike = own.size() == parts.size();
    ArrayRef<StringRef> middle = isAlike ? ArrayRef(own).drop_front(before).drop_back(after) : ArrayRef(own);
    joined += (joined.empty() ? "" : "_and_") + llvm::join(middle, ".");
  }
  std::string head = llvm::join(ArrayRef(parts).take_front(before), "."),
              tail = llvm::join(ArrayRef(parts).take_back(after), ".");
  return head + (head.empty() || joined.empty() ? "" : ".") + joined + (tail.empty() ? "" : ".") + tail;
}

/// Matmuls that may be one.
struct Group {
  SmallVector<MatmulOp> products; // in the graph's order
  bool isTrained = false;         // its parameters
  bool hasGradientOfLeft = false;

  MatmulOp first() const { return products.front(); }
  SmallVector<Value> parameters() const {
    return llvm::map_to_vector(products, [](MatmulOp op) -> Value { return op.getB(); });
  }
  std::string name() const {
    return joinedName(llvm::map_to_vector(products, [](MatmulOp op) { return nameOf(op.getOperation()); }));
  }
  bool takes(MatmulOp op, bool trained) const {
    return trained == isTrained && op.getTransposeB() == first().getTransposeB() && readType(op) == readType(first()) &&
           storedType(op) == storedType(first());
  }
};

/// What one matmul instead of several brings, in bytes.
struct Balance {
  double saved = 0, copied = 0;
};

class JoinMatmuls {
public:
  JoinMatmuls(func::FuncOp function, const PipelineOptions &options)
      : block(function.getBody().front()), options(options) {}

  void run() {
    findActive();
    for (const Group &group : findGroups()) {
      std::optional<Group> part = partThatPays(group);
      say(part.value_or(group), part.has_value());
      if (!part)
        continue;
      for (MatmulOp op : group.products)
        if (!llvm::is_contained(part->products, op))
          remark(Remark::Kind::missed, op,
                 (nameOf(op.getOperation()) + " stays apart from " + part->name() + ": joined too, it would cost more")
                     .str(),
                 0);
      join(*part);
    }
  }

private:
  Block &block;
  const PipelineOptions &options;
  llvm::DenseSet<Value> active;                            // what gradients are taken through
  std::map<std::vector<const void *>, Value> joinedBefore; // by parameters: these side by side

  void findActive() {
    for (Operation &op : block) {
      if (auto gradient = dyn_cast<GradientOp>(op))
        active.insert(gradient.getWrt().begin(), gradient.getWrt().end());
    }
    for (Operation &op : block)
      if (!knownTrait<NoGradient>(&op) && llvm::any_of(op.getOperands(), [&](Value v) { return active.contains(v); }))
        active.insert(op.getResults().begin(), op.getResults().end());
  }

  /// What keeps a matmul of a parameter apart from the others; empty if nothing does.
  StringRef refusal(MatmulOp op) const {
    if (op.getTransposeA())
      return "expected a left side that is not transposed";
    if (isAdded(op.getResult()))
      return "expected no addition to its result, which a matmul does itself";
    if (tensorType(op.getResult()).getNumElements() == 0 || tensorType(op.getA()).getNumElements() == 0)
      return "expected at least one element";
    return {};
  }

  std::vector<Group> findGroups() {
    llvm::MapVector<Value, SmallVector<MatmulOp>> byLeft;
    for (MatmulOp op : block.getOps<MatmulOp>())
      if (tensorType(op.getB()).getRank() == 2 && !op.hasEpilogue() && argumentBelow(op.getB()))
        byLeft[op.getA()].push_back(op);
    std::vector<Group> groups;
    for (auto &[left, products] : byLeft) {
      if (products.size() < 2)
        continue;
      std::vector<Group> alike;
      for (MatmulOp op : products) {
        if (StringRef why = refusal(op); !why.empty()) {
          remark(Remark::Kind::missed, op, (nameOf(op.getOperation()) + " stays apart: " + why).str(), 0);
          continue;
        }
        bool isTrained = active.contains(op.getB());
        auto known = llvm::find_if(alike, [&](const Group &group) { return group.takes(op, isTrained); });
        if (known == alike.end())
          alike.push_back({{op}, isTrained, active.contains(left)});
        else
          known->products.push_back(op);
      }
      for (Group &group : alike)
        if (group.products.size() > 1)
          groups.push_back(std::move(group));
    }
    return groups;
  }

  bool narrows(Type element) const { return options.products != ProductType::asWritten && element.isF32(); }

  /// Bytes of an element of a result that another matmul reads.
  double storedBytes(Type element) const {
    return narrows(element) && options.target.narrowActivations ? 2 : double(elementBytes(element));
  }

  Balance weigh(const Group &group) const {
    MatmulOp first = group.first();
    double stored = storedBytes(storedType(first));
    int64_t contracted = tensorType(first.getA()).getShape().back(), columns = 0;
    int64_t rows = tensorType(first.getA()).getNumElements() / contracted;
    for (MatmulOp op : group.products)
      columns += columnsOf(op);
    Balance balance;
    if (group.hasGradientOfLeft) {
      double price = options.target.epilogues.addend ? options.target.epilogues.addendPrice : 3;
      balance.saved = price * double(group.products.size() - 1) * double(rows) * double(contracted) * stored;
    }
    if (!castsAnyway(group) && !joinedBefore.contains(keyOf(group)))
      balance.copied += 2.0 * double(columns) * double(contracted) * double(elementBytes(readType(first)));
    if (group.hasGradientOfLeft || group.isTrained)
      balance.copied += 2.0 * double(rows) * double(columns) * stored;
    return balance;
  }

  /// All of the group, or what is left of it without the widest matmuls, whose copies cost most.
  std::optional<Group> partThatPays(Group group) const {
    for (; group.products.size() > 1; group.products.erase(widest(group)))
      if (Balance balance = weigh(group); balance.saved > balance.copied)
        return group;
    return std::nullopt;
  }

  static SmallVector<MatmulOp>::iterator widest(Group &group) {
    return llvm::max_element(group.products, [](MatmulOp a, MatmulOp b) { return columnsOf(a) < columnsOf(b); });
  }

  static std::vector<const void *> keyOf(const Group &group) {
    std::vector<const void *> key{reinterpret_cast<const void *>(uintptr_t(group.first().getTransposeB()))};
    for (Value parameter : group.parameters())
      key.push_back(parameter.getAsOpaquePointer());
    return key;
  }

  /// Whether a kernel writes the parameters for the matmuls in another type, joined or not.
  bool castsAnyway(const Group &group) const {
    return llvm::all_of(group.parameters(), [&](Value parameter) {
      return narrows(tensorType(parameter).getElementType()) &&
             tensorType(argumentBelow(parameter)).getElementType().isF32();
    });
  }

  void remark(Remark::Kind kind, MatmulOp op, std::string text, int64_t bytes) const {
    if (options.remarks)
      options.remarks->push_back({kind, "join-matmuls", op.getLoc(), std::move(text), bytes});
  }

  void say(const Group &group, bool pays) const {
    if (!options.remarks)
      return;
    const Balance balance = weigh(group);
    std::string text = "the " + std::to_string(group.products.size()) + " matmuls " + group.name() +
                       (pays ? " are one" : " stay apart");
    if (!pays)
      text += llvm::formatv(": one would save moving {0:F1} kB and copy {1:F1} kB", balance.saved * 1e-3,
                            balance.copied * 1e-3)
                  .str();
    remark(pays ? Remark::Kind::passed : Remark::Kind::missed, group.first(), text,
           pays ? int64_t(balance.saved - balance.copied) : 0);
  }

  /// Moves to before `first` what of the value's chain of casts and views comes after it.
  static void moveBefore(Operation *first, Value value) {
    SmallVector<Operation *> chain;
    for (Operation *op = value.getDefiningOp(); op && first->isBeforeInBlock(op);
         op = op->getOperand(0).getDefiningOp())
      chain.push_back(op);
    for (Operation *op : llvm::reverse(chain))
      op->moveBefore(first);
  }

  /// The parameters side by side, before `first`; what they are made of moves there.
  Value joinedParameters(const Group &group, MatmulOp first) {
    for (Value parameter : group.parameters())
      moveBefore(first, parameter);
    Value &joined = joinedBefore[keyOf(group)];
    if (!joined) {
      OpBuilder builder(first);
      joined = ConcatOp::create(builder, named(first->getLoc(), group.name()), group.parameters(),
                                first.getTransposeB() ? 0 : 1);
    } else if (first->isBeforeInBlock(joined.getDefiningOp())) {
      joined.getDefiningOp()->moveBefore(first); // made for matmuls whose first one comes later
    }
    return joined;
  }

  void join(const Group &group) {
    MatmulOp first = group.first();
    Value parameters = joinedParameters(group, first);
    OpBuilder builder(first);
    Value product = Emit(builder, named(first->getLoc(), group.name()))
                        .matmul(first.getA(), parameters, false, first.getTransposeB(), storedType(first));
    ArrayRef<int64_t> shape = tensorType(product).getShape();
    int64_t at = 0;
    for (MatmulOp op : group.products) {
      SmallVector<int64_t> starts(shape.size(), 0), limits(shape);
      starts.back() = at;
      limits.back() = at += columnsOf(op);
      Emit own(builder, op->getLoc());
      op.replaceAllUsesWith(own.slice(product, starts, limits));
    }
    for (MatmulOp op : group.products) // last, since slices are made before the first of them
      op.erase();
  }
};

} // namespace

LogicalResult joinMatmuls(func::FuncOp function, const PipelineOptions &options) {
  JoinMatmuls(function, options).run();
  return success();
}

} // namespace tcc
