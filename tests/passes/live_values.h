// LiveValues: an oracle for memory plans that knows nothing of the planner. It says where the values of a planned
// function lie in the arena, when they live, and which of them share bytes although both live.
#pragma once
#include "ir/analyze_kernel.h"
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "llvm/ADT/DenseMap.h"

namespace tcc::test {

class LiveValues {
public:
  explicit LiveValues(mlir::func::FuncOp function) {
    mlir::Block &block = function.getBody().front();
    for (auto [i, op] : llvm::enumerate(block)) {
      mlir::Operation *before = op.getPrevNode();
      const bool isJoined = before && joinedGroup(&op) && joinedGroup(&op) == joinedGroup(before);
      position[&op] = isJoined ? position[before] : i;
      joined += isJoined;
    }
    for (mlir::Operation &op : block) {
      for (mlir::OpResult result : op.getOpResults())
        if (llvm::isa<StructuredOpInterface>(op) && !llvm::isa<UnpackOp>(op) && isStored(result) &&
            placeOf(result).space == PlaceSpace::arena)
          lives.push_back({result, placeOf(result).offset, placeOf(result).offset + byteSize(tensorType(result)),
                           position[&op], lastRead(result)});
      if (auto scratch = op.getAttrOfType<mlir::DenseI64ArrayAttr>(scratchAttr))
        lives.push_back({mlir::Value(), scratch[0], scratch[0] + scratch[1], position[&op], position[&op],
                         llvm::dyn_cast<AllToAllOp>(op)});
    }
  }

  /// How many kernels run at the same time as the one before them.
  int joinedKernels() const { return joined; }

  /// The first byte after all values.
  int64_t end() const {
    int64_t last = 0;
    for (const Life &life : lives)
      last = std::max(last, life.end);
    return last;
  }

  /// What is wrong: places that are not aligned, and values that share bytes while both live. Empty if nothing is.
  std::string problems() const {
    std::string text;
    for (const Life &a : lives) {
      if (a.begin % 64 != 0)
        text += "byte " + std::to_string(a.begin) + " is not aligned\n";
      for (const Life &b : lives) {
        const bool apart = a.end <= b.begin || b.end <= a.begin || a.last < b.first || b.last < a.first;
        if (&a != &b && !apart && b.first >= a.first && !mayTakeOver(a, b) && !isSentIn(b, a))
          text += "bytes " + std::to_string(b.begin) + ".." + std::to_string(b.end) + " are shared\n";
      }
    }
    return text;
  }

private:
  struct Life {
    mlir::Value value; // null for scratch
    int64_t begin, end;
    unsigned first, last;     // positions of ops, both included
    AllToAllOp exchange = {}; // whose scratch it is, or null
  };

  llvm::DenseMap<mlir::Operation *, unsigned> position; // one for kernels that run at the same time
  std::vector<Life> lives;
  int joined = 0;

  /// False for where the carried values of a loop begin that its first turn does not read.
  static bool isStored(mlir::OpResult result) {
    return llvm::any_of(result.getUses(),
                        [](mlir::OpOperand &use) {
                          auto loop = llvm::dyn_cast<RepeatOp>(use.getOwner());
                          return !loop || use.getOperandNumber() >= loop.getStart().size() ||
                                 !loop.getBody().front().getArgument(use.getOperandNumber()).use_empty();
                        }) ||
           result.use_empty();
  }

  /// The last op that reads `value`, itself or through views that are followed without a copy.
  unsigned lastRead(mlir::Value value) const {
    unsigned last = position.lookup(value.getDefiningOp());
    for (mlir::Operation *user : value.getUsers()) {
      last = std::max(last, position.lookup(user));
      if (user->hasTrait<ViewOp>() || llvm::isa<UnpackOp>(user)) // whose results lie in the value
        for (mlir::Value part : user->getResults())
          last = std::max(last, lastRead(part));
    }
    return last;
  }

  /// Whether `piece` is all that a rank sends, and the value lies in it where the exchange would copy it to.
  static bool isSentIn(const Life &piece, const Life &value) {
    AllToAllOp exchange = piece.exchange;
    int64_t place = piece.begin;
    for (mlir::Value sent : exchange &&exchange.getOwn() == 1 ? exchange.getValues() : mlir::ValueRange()) {
      if (value.value && sent == value.value && place == value.begin && value.last == piece.first)
        return true;
      place += (tensorType(sent).getNumElements() * 4 + 255) / 256 * 256;
    }
    return false;
  }

  /// Whether b's kernel writes over its operand a, which dies in it, and the kernel's form allows that.
  bool mayTakeOver(const Life &a, const Life &b) const {
    auto kernel = b.value ? b.value.getDefiningOp<KernelOp>() : KernelOp();
    if (!kernel || !a.value || a.begin != b.begin || a.last != b.first || a.first >= b.first)
      return false;
    std::string refusal;
    for (auto [i, input] : llvm::enumerate(kernel.getInputs()))
      if (input == a.value &&
          !mayShareBuffer(*analyzeKernel(kernel, refusal), llvm::cast<mlir::OpResult>(b.value).getResultNumber(), i))
        return false;
    return llvm::all_of(a.value.getUsers(),
                        [&](mlir::Operation *user) { return user == kernel || position.lookup(user) != b.first; });
  }
};

} // namespace tcc::test
