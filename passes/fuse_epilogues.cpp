// fuse-epilogues: what is added to the result of a matmul becomes part of the matmul (TargetModel::epilogues).
//   1. the pass walks down from each matmul as long as one op alone reads the value: through the widening of a 16-bit
//      result, reshapes, additions of a repeated row (the bias) and of one tensor of the result's shape (the addend),
//      and at the end perhaps through the rounding of the sum to the operands' 16-bit type;
//   2. an addend must be in memory already: it is an argument, the result or operand of a matmul, or read by ops that
//      wait for different structured ops. If two matmuls are added up, the later one takes the earlier one's result;
//   3. this pays where the sum is stored anyway: then the matmul's own result is neither written nor read. The sum is
//      stored where a structured op or the caller reads it, where a further matmul adds it, and, if it has an addend,
//      where a later kernel reads it too: one that waits for a matmul, or for a value of one element such as a norm. A
//      sum that goes to other ranks counts as stored also where it is sent in pieces: one rank alone stores it, and
//      its sum must have the same bits. A sum with a bias alone is recomputed by each kernel that reads it, as before
//      GELU and its gradient; there nothing would be saved. The addend costs what the model says, and a copy where it
//      is read again and the target adds in place;
//   4. the matmul moves after what it adds.
// A sum is rounded once, where product and sum were before: bits change where the product had 16 bits, as its sum has;
// an f32 bias of a target that takes the result's type alone is rounded to it first. In f32 the order of the additions
// is the library's. Never: a matmul with other readers, empty ones, one whose rounding would be lost.
#include "ir/emit.h"
#include "ir/names.h"
#include "ir/tensor_bytes.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

/// Below reshapes and, for a 16-bit `element`, one widening: the value of that element type, or null.
Value storedForm(Value value, Type element) {
  while (Operation *op = value.getDefiningOp()) {
    bool widened = isa<CastOp>(op) && tensorType(value).getElementType().isF32() &&
                   tensorType(op->getOperand(0)).getElementType() == element && !element.isF32();
    if (!isa<ReshapeOp>(op) && !widened)
      break;
    value = op->getOperand(0);
  }
  return tensorType(value).getElementType() == element ? value : Value();
}

/// The vector of `columns` elements that the value repeats as each row, or null.
Value repeatedRow(Value value, int64_t columns) {
  auto repeated = value.getDefiningOp<BroadcastOp>();
  if (!repeated)
    return {};
  RankedTensorType type = tensorType(repeated.getX());
  bool isRow = type.getNumElements() == columns && (type.getRank() == 0 || type.getShape().back() == columns);
  return isRow ? repeated.getX() : Value();
}

/// The matmul that the value is the only reader's operand of, perhaps with a row added; null if there is none.
MatmulOp productOf(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto product = dyn_cast_if_present<MatmulOp>(op))
      return product;
    if (isa_and_present<CastOp, ReshapeOp>(op)) {
      value = op->getOperand(0);
      continue;
    }
    auto sum = dyn_cast_if_present<AddOp>(op);
    int64_t columns = sum && tensorType(value).getRank() > 0 ? tensorType(value).getShape().back() : -1;
    if (sum && repeatedRow(sum.getRhs(), columns))
      value = sum.getLhs();
    else if (sum && repeatedRow(sum.getLhs(), columns))
      value = sum.getRhs();
    else
      break;
  }
  return {};
}

/// A matmul and what is added to it.
struct Epilogue {
  MatmulOp product;
  OpOperand *row = nullptr, *tensor = nullptr; // what the sum reads of its bias and its addend
  Value sum;                                   // f32; null where nothing is added
  Type element;                                // of what is stored: the sum's, or that of all its readers' casts

  /// In memory below reshapes; null where it is not of the element type that is stored.
  Value addend() const { return storedForm(tensor->get(), element); }

  int64_t bytes(Type of) const { return tensorType(product->getResult(0)).getNumElements() * elementBytes(of); }
};

class Epilogues {
public:
  Epilogues(func::FuncOp function, const PipelineOptions &options)
      : function(function), block(function.getBody().front()), options(options), model(options.target.epilogues) {}

  LogicalResult run() {
    SmallVector<Epilogue> found;
    for (MatmulOp product : block.getOps<MatmulOp>())
      if (Epilogue epilogue = find(product); epilogue.sum)
        found.push_back(epilogue);
    if (found.empty())
      return success();
    llvm::stable_sort(found, [](const Epilogue &a, const Epilogue &b) { // a sum is there before what adds it
      return a.sum.getDefiningOp()->isBeforeInBlock(b.sum.getDefiningOp());
    });
    for (const Epilogue &epilogue : found)
      epilogueOf[epilogue.product] = &epilogue;
    findMemoryValues();
    for (Epilogue &epilogue : found)
      decide(epilogue);
    for (Operation *op : dead)
      op->erase();
    return success();
  }

private:
  func::FuncOp function;
  Block &block;
  const PipelineOptions &options;
  const EpilogueModel &model;
  llvm::DenseMap<Operation *, const Epilogue *> epilogueOf; // by matmul
  llvm::DenseSet<Value> inMemory;                           // whatever kernels store
  // The longest chain of structured ops and one-element values from which a value is computed.
  llvm::DenseMap<Value, int> waits;
  // Ops that were replaced and have lost their operands. They are erased at the end, so that no new value has an old
  // one's address.
  llvm::SetVector<Operation *> dead;

  //===- step 1 ------------------------------------------------------------------------------------------------===//

  Epilogue find(MatmulOp product) const {
    Epilogue found;
    found.product = product;
    RankedTensorType type = tensorType(product.getResult());
    if (product.hasEpilogue() || product.flops() == 0)
      return found;
    for (Value at = product.getResult(); at.hasOneUse();) {
      Operation *reader = *at.user_begin();
      auto sum = dyn_cast<AddOp>(reader);
      if (isa<ReshapeOp>(reader) ||
          (!found.sum && isa<CastOp>(reader) && tensorType(reader->getResult(0)).getElementType().isF32())) {
        at = reader->getResult(0);
        continue;
      }
      if (!sum || !tensorType(at).getElementType().isF32() || tensorType(at).getRank() == 0 ||
          tensorType(at).getShape().back() != type.getShape().back())
        break;
      OpOperand &other = sum->getOpOperand(sum.getLhs() == at ? 1 : 0);
      bool isRow = bool(repeatedRow(other.get(), type.getShape().back()));
      MatmulOp beside = isRow ? MatmulOp() : productOf(other.get());
      OpOperand *&place = isRow ? found.row : found.tensor;
      if (place || (beside && product->isBeforeInBlock(beside)))
        break;
      place = &other;
      found.sum = at = sum.getResult();
    }
    if (found.sum)
      found.element = storedElement(found);
    return found;
  }

  /// The operands' 16-bit type where every reader of the sum rounds it to that; else f32.
  static Type storedElement(const Epilogue &found) {
    Type narrow = tensorType(found.product->getOperand(0)).getElementType(),
         wide = tensorType(found.sum).getElementType();
    bool rounded = narrow.getIntOrFloatBitWidth() == 16 && llvm::all_of(found.sum.getUsers(), [&](Operation *user) {
                     return isa<CastOp>(user) && tensorType(user->getResult(0)).getElementType() == narrow;
                   });
    return rounded ? narrow : wide;
  }

  //===- steps 2 and 3 -----------------------------------------------------------------------------------------===//

  void findMemoryValues() {
    auto require = [&](Value root) {
      while (auto reshape = root.getDefiningOp<ReshapeOp>())
        root = reshape.getX();
      inMemory.insert(root);
    };
    for (Operation &op : block) {
      llvm::for_each(memoryOperands(&op, options.target.views), require);
      int most = 0;
      for (Value operand : op.getOperands())
        most = std::max(most, waits.lookup(operand));
      for (Value result : op.getResults()) {
        bool isScalar = tensorType(result).getNumElements() == 1 && op.getNumOperands() > 0;
        waits[result] = most + (isScalar || isa<StructuredOpInterface>(op));
      }
    }
  }

  bool isInMemory(Value value) const {
    Operation *op = value.getDefiningOp();
    auto literal = dyn_cast_if_present<ConstantOp>(op);
    return !op || isa<StructuredOpInterface>(op) || (literal && !literal.getValue().isSplat()) ||
           inMemory.contains(value) || (!op->hasTrait<ViewOp>() && isReadLater(value));
  }

  /// Whether several ops read the value and one of them waits for more than the value does.
  bool isReadLater(Value value) const {
    SmallVector<Value> work{value};
    int readers = 0;
    bool later = false;
    while (!work.empty())
      for (Operation *reader : work.pop_back_val().getUsers()) {
        if (isa<CastOp>(reader) || reader->hasTrait<ViewOp>()) {
          work.push_back(reader->getResult(0));
          continue;
        }
        ++readers;
        later |= llvm::any_of(reader->getOperands(),
                              [&](Value operand) { return waits.lookup(operand) > waits.lookup(value); });
      }
    return later && readers > 1;
  }

  /// Whether a collective sends the value as it is, perhaps in pieces and beside others.
  static bool isSent(Value value) {
    SmallVector<Value> work{value};
    while (!work.empty())
      for (Operation *reader : work.pop_back_val().getUsers()) {
        if (isa<CollectiveOpInterface>(reader))
          return true;
        if (isa<ReshapeOp, SliceOp, PadOp, ConcatOp, BroadcastOp>(reader))
          work.push_back(reader->getResult(0));
      }
    return false;
  }

  /// Whether the sum is in memory anyway, or will be: it is what a later matmul takes as its addend.
  bool isKept(const Epilogue &found, int depth = 0) const {
    constexpr int mostSums = 64;
    bool isStored =
        found.element.isF32() ? inMemory.contains(found.sum) : llvm::any_of(found.sum.getUsers(), [&](Operation *cast) {
          return inMemory.contains(cast->getResult(0));
        });
    if (isStored || (found.tensor && isReadLater(found.sum)) || isSent(found.sum))
      return true;
    Value at = found.sum;
    while (at.hasOneUse() && isa<CastOp, ReshapeOp>(*at.user_begin()))
      at = at.user_begin()->getResult(0);
    auto next = at.hasOneUse() ? dyn_cast<AddOp>(*at.user_begin()) : AddOp();
    MatmulOp later = next ? productOf(next.getLhs() == at ? next.getRhs() : next.getLhs()) : MatmulOp();
    const Epilogue *taker = later ? epilogueOf.lookup(later) : nullptr;
    return taker && taker->tensor && taker->tensor->get() == at && depth < mostSums && isKept(*taker, depth + 1);
  }

  /// Whether nothing else reads what the sum reads as its addend.
  static bool dies(Value addend, Value root) {
    for (Value at = addend;; at = at.getDefiningOp()->getOperand(0)) {
      if (!at.hasOneUse())
        return false;
      if (at == root)
        return isa_and_present<StructuredOpInterface>(root.getDefiningOp());
    }
  }

  /// What is expected and not there; empty where the matmul takes all that is added.
  std::string objection(const Epilogue &found, int64_t &saved) const {
    Type own = tensorType(found.product->getResult(0)).getElementType();
    saved = 2 * found.bytes(own);
    if (found.row && !model.bias)
      return "expected a target whose products add a row";
    if (found.tensor && !model.addend)
      return "expected a target whose products add a tensor";
    if (!own.isF32() && own != found.element)
      return "expected a sum that is rounded as the product is: else a rounding would be lost";
    if (!isKept(found))
      return "expected a sum that is stored; it stays in the kernel that reads it";
    if (!found.tensor)
      return {};
    Value root = found.addend();
    if (!root || !isInMemory(root))
      return "expected an addend that is in memory in the result's type";
    int64_t added = found.bytes(found.element);
    saved += added - static_cast<int64_t>(model.addendPrice * static_cast<double>(added));
    if (model.inPlace && !dies(found.tensor->get(), root))
      saved -= 2 * added;
    if (saved <= 0)
      return "expected an addend that nothing reads afterwards: the target adds in place, and a copy costs what is "
             "saved";
    return {};
  }

  void decide(Epilogue &found) {
    int64_t saved = 0;
    std::string reason = objection(found, saved);
    Location place = found.product->getLoc();
    if (FileLineColLoc source = sourceOf(place))
      place = source;
    std::string what = found.row ? found.tensor ? "a row and a tensor" : "a row" : "a tensor";
    std::string name = nameOf(found.product).str();
    if (options.remarks)
      options.remarks->push_back(reason.empty() ? Remark{Remark::Kind::passed, "fuse-epilogues", place,
                                                         name + " adds " + what + " on its way out", saved}
                                                : Remark{Remark::Kind::missed, "fuse-epilogues", place,
                                                         name + " does not add " + what + ": " + reason, 0});
    if (reason.empty())
      rewrite(found);
  }

  //===- step 4 ------------------------------------------------------------------------------------------------===//

  void rewrite(Epilogue &found) {
    MatmulOp product = found.product;
    RankedTensorType type = tensorType(product.getResult());
    OpBuilder builder(found.sum.getDefiningOp());
    Emit e(builder, product->getLoc());
    Value bias, addend;
    if (found.row) {
      const int64_t columns = type.getShape().back();
      Emit ofRow(builder, found.row->get().getLoc());
      Value row = repeatedRow(found.row->get(), columns);
      const bool rounds = model.narrowBias && !found.element.isF32();
      Value same = rounds ? storedForm(row, found.element) : storedForm(row, tensorType(row).getElementType());
      bias = ofRow.reshape(same ? same : row, {columns});
      bias = rounds ? ofRow.cast(bias, found.element) : bias;
    }
    if (found.tensor)
      addend = e.reshape(found.addend(), type.getShape());
    bool follows = tensorType(product.getA()).getElementType() == found.element;
    Value made = e.create<MatmulOp>(product.getA(), product.getB(), bias, addend, product.getTransposeA(),
                                    product.getTransposeB(), follows ? TypeAttr() : TypeAttr::get(found.element));
    Value result = e.reshape(made, tensorType(found.sum).getShape());
    if (found.element == tensorType(found.sum).getElementType())
      found.sum.replaceAllUsesWith(result);
    for (Operation *cast : llvm::to_vector(found.sum.getUsers())) {
      cast->replaceAllUsesWith(ValueRange{result});
      drop(cast);
    }
    drop(found.sum.getDefiningOp());
  }

  /// Cuts off an op that nobody reads, and what only it read.
  void drop(Operation *op) {
    SmallVector<Operation *> work{op};
    while (!work.empty()) {
      Operation *next = work.pop_back_val();
      if (!next || !next->use_empty() || !dead.insert(next))
        continue;
      SmallVector<Value> operands(next->getOperands());
      next->dropAllReferences();
      for (Value operand : operands)
        work.push_back(operand.getDefiningOp());
    }
  }
};

} // namespace

LogicalResult fuseEpilogues(func::FuncOp function, const PipelineOptions &options) {
  if (!options.target.epilogues.bias && !options.target.epilogues.addend)
    return success();
  return Epilogues(function, options).run();
}

} // namespace tcc
