// pad-shapes: sizes of matmuls become multiples of what the target's matmuls like, where that pays.
//   1. a size is a candidate if rows of a matmul's operand or result are that many elements apart in memory, and it is
//      no multiple of PaddingModel::enough;
//   2. sizes of one extent that the computation hands from matmul to matmul (a vocabulary: in the head, in the logits'
//      gradient, in the embedding's) are one choice: all of them grow or none;
//   3. growing pays where the time that the matmuls save, by the model's measured shares, is worth more than the added
//      flops and the copied bytes: operands that no kernel writes (parameters), and results that the caller gets. In
//      steady code (stages.h) it follows from the size alone;
//   4. operands get zeros after their elements, and results are cut back to their size, which is a view. What lies
//      between two such matmuls is computed in the longer size (grown_dims), and masked where elements meet.
// Padding is never seen: arguments, results and indices keep their sizes, so that an index between a size and its
// padding is out of range as before; added rows and columns are cut off; the contracted dim gets zeros on both sides.
// Sums may be added up in another order. The pass never pads random values, nor matmuls with batches on both sides.
#include "ir/emit.h"
#include "ir/kernel_space.h"
#include "ir/names.h"
#include "passes/dead_ops.h"
#include "passes/grown_dims.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "passes/stages.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace tcc {
namespace {

/// Where a matmul's rows, columns and contracted elements are: which dim of which value.
struct ProductDims {
  ValueDim mOfA, kOfA, kOfB, nOfB, mOfResult, nOfResult;

  explicit ProductDims(MatmulOp op) {
    int64_t rank = tensorType(op.getA()).getRank(), last = rank - 1;
    mOfA = {op.getA(), op.getTransposeA() ? last : last - 1};
    kOfA = {op.getA(), op.getTransposeA() ? last - 1 : last};
    kOfB = {op.getB(), op.getTransposeB() ? 1 : 0};
    nOfB = {op.getB(), op.getTransposeB() ? 0 : 1};
    mOfResult = {op.getResult(), last - 1};
    nOfResult = {op.getResult(), last};
  }
};

int64_t sizeOf(ValueDim at) {
  return tensorType(at.first).getDimSize(at.second);
}

/// The matmul's dims that are the last of an operand or of the result.
SmallVector<ValueDim, 3> pitches(MatmulOp op) {
  ProductDims dims(op);
  SmallVector<ValueDim, 3> list{dims.nOfResult};
  for (ValueDim at : {op.getTransposeA() ? dims.mOfA : dims.kOfA, op.getTransposeB() ? dims.kOfB : dims.nOfB})
    if (llvm::none_of(list, [&](ValueDim known) { return sizeOf(known) == sizeOf(at); }))
      list.push_back(at);
  return list;
}

bool isPlain(MatmulOp op) {
  return tensorType(op.getB()).getRank() == 2 && tensorType(op.getResult()).getNumElements() > 0 &&
         tensorType(op.getA()).getNumElements() > 0;
}

/// Sets of dims that are one extent, joined as they are found.
class Extents {
public:
  unsigned operator()(ValueDim at) {
    auto [known, inserted] = numbers.try_emplace(at, parents.size());
    if (inserted)
      parents.push_back(parents.size());
    unsigned number = known->second;
    while (parents[number] != number)
      number = parents[number] = parents[parents[number]];
    return number;
  }
  void join(ValueDim a, ValueDim b) { parents[(*this)(a)] = (*this)(b); }

private:
  DenseMap<ValueDim, unsigned> numbers;
  std::vector<unsigned> parents;
};

/// One extent, with what padding it would do.
struct Choice {
  int64_t size = 0, padded = 0;
  SmallVector<MatmulOp> products;
  double saved = 0, added = 0; // flops
  int64_t copied = 0;          // bytes, read and written
  bool growsResult = false, isReduced = false;
  llvm::SmallDenseSet<Value> copies;
};

class PadShapes {
public:
  PadShapes(func::FuncOp function, const PipelineOptions &options)
      : block(function.getBody().front()), options(options), isSteady(function->hasAttr(steadyAttr)),
        model(options.target.padding), multiple(options.padding.value_or(model.multiple)) {}

  void run() {
    findExtents();
    for (MatmulOp op : block.getOps<MatmulOp>())
      if (isPlain(op))
        ask(op);
    for (auto &[extent, choice] : choices)
      count(extent, choice);
    decide();
    if (!accepted.empty())
      rewrite();
  }

private:
  Block &block;
  const PipelineOptions &options;
  const bool isSteady;
  const PaddingModel &model;
  int64_t multiple;
  Extents extentOf;
  llvm::DenseSet<int64_t> asked;             // sizes
  llvm::MapVector<unsigned, Choice> choices; // by extent
  llvm::DenseSet<unsigned> accepted;
  DenseMap<int64_t, int64_t> sizes; // accepted ones, padded

  bool mayBePadded(int64_t size) const { return size % multiple != 0 && size % std::min(multiple, model.enough) != 0; }

  void findExtents() {
    block.walk([&](MatmulOp op) {
      if (isPlain(op))
        for (ValueDim at : pitches(op))
          if (sizeOf(at) % multiple != 0)
            asked.insert(sizeOf(at));
    });
    if (asked.empty())
      return;
    for (Operation &op : block) {
      if (auto product = dyn_cast<MatmulOp>(op); product && isPlain(product)) {
        ProductDims dims(product);
        extentOf.join(dims.mOfA, dims.mOfResult);
        extentOf.join(dims.kOfA, dims.kOfB);
        extentOf.join(dims.nOfB, dims.nOfResult);
      }
      for (Value result : op.getResults())
        for (auto [dim, size] : llvm::enumerate(tensorType(result).getShape()))
          if (asked.contains(size))
            if (auto sources = sourceDims(result, dim))
              for (ValueDim source : *sources)
                extentOf.join({result, static_cast<int64_t>(dim)}, source);
    }
  }

  /// The share of its time that the matmul gains from pitches that are multiples.
  double gainOf(MatmulOp op) const {
    bool isNarrow = tensorType(op.getA()).getElementTypeBitWidth() <= 16;
    const PaddingModel::Gain &gain = isNarrow ? model.narrow : model.wide;
    return op.getTransposeA() ? gain.transposed : gain.other;
  }

  void ask(MatmulOp op) {
    SmallVector<ValueDim, 3> list = pitches(op);
    llvm::erase_if(list, [&](ValueDim at) { return sizeOf(at) % multiple == 0; });
    double flops = static_cast<double>(op.flops());
    auto gaining = llvm::count_if(list, [&](ValueDim at) { return mayBePadded(sizeOf(at)); });
    for (ValueDim at : list) {
      Choice &choice = choices[extentOf(at)];
      choice.size = sizeOf(at);
      choice.padded = llvm::divideCeil(choice.size, multiple) * multiple;
      if (!llvm::is_contained(choice.products, op)) {
        choice.products.push_back(op);
        choice.added += flops * (static_cast<double>(choice.padded) / choice.size - 1);
      }
      if (mayBePadded(choice.size))
        choice.saved += flops * gainOf(op) / static_cast<double>(gaining);
    }
  }

  /// Adds what would be copied.
  void count(unsigned extent, Choice &choice) {
    auto isOf = [&](ValueDim at) { return sizeOf(at) == choice.size && extentOf(at) == extent; };
    for (MatmulOp op : choice.products) {
      ProductDims dims(op);
      choice.growsResult |= isOf(dims.mOfResult) || isOf(dims.nOfResult);
    }
    for (Operation &op : block)
      if (isReduction(&op))
        for (int64_t axis : reducedAxes(&op))
          choice.isReduced |= isOf({op.getOperand(0), axis});
    for (MatmulOp op : choice.products) {
      ProductDims dims(op);
      for (ValueDim at : {dims.mOfA, dims.kOfA, dims.kOfB, dims.nOfB})
        if (isOf(at))
          countOperand(at.first, choice);
      if ((isOf(dims.mOfResult) || isOf(dims.nOfResult)) && isReturned(op.getResult()))
        countCopy(op.getResult(), choice);
    }
  }

  void countCopy(Value value, Choice &choice) {
    RankedTensorType type = tensorType(value);
    if (choice.copies.insert(value).second)
      choice.copied += 2 * type.getNumElements() * type.getElementTypeBitWidth() / 8;
  }

  /// A kernel writes its result padded at once, unless it sums up rows that stay as short as they are.
  void countOperand(Value value, Choice &choice) {
    Operation *op = value.getDefiningOp();
    while (op && op->hasTrait<ViewOp>()) {
      value = op->getOperand(0);
      op = value.getDefiningOp();
    }
    bool isKernel = op && op->hasTrait<KernelBodyOp>() && !isReduction(op);
    if (!isKernel || (choice.isReduced && !choice.growsResult))
      countCopy(value, choice);
  }

  static bool isReturned(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isa<func::ReturnOp>(user) || (user->hasTrait<ViewOp>() && isReturned(user->getResult(0)));
    });
  }

  void decide() {
    for (auto &[extent, choice] : choices) {
      double spent = choice.added + static_cast<double>(choice.copied) * model.flopsPerByte;
      double most = model.steadyShare * static_cast<double>(choice.size); // that a size grows by in steady code
      bool pays = isSteady ? choice.saved > 0 && static_cast<double>(choice.padded - choice.size) <= most
                           : choice.saved > spent;
      if (mayBePadded(choice.size) && pays) {
        accepted.insert(extent);
        sizes[choice.size] = choice.padded;
        tell(Remark::Kind::passed, choice, llvm::formatv("computed as {0}: {1}", choice.padded, figures(choice)));
      } else if (!mayBePadded(choice.size)) {
        tell(Remark::Kind::missed, choice,
             llvm::formatv("kept: multiples of {0} are enough for the products of target '{1}'",
                           std::min(multiple, model.enough), options.target.name));
      } else if (choice.saved == 0) {
        tell(Remark::Kind::missed, choice,
             llvm::formatv("kept: products like these gain nothing from multiples of {0} on target '{1}'", multiple,
                           options.target.name));
      } else if (isSteady) {
        tell(Remark::Kind::missed, choice,
             llvm::formatv("kept: {0} is more than steady code grows by on target '{1}', {2:P1}", choice.padded,
                           options.target.name, model.steadyShare));
      } else {
        tell(Remark::Kind::missed, choice,
             llvm::formatv("kept: {0} would not pay: {1}", choice.padded, figures(choice)));
      }
    }
  }

  /// "saves about 7.1 GFLOP of 237.4, adds 0.2 and copies 0.0 MB".
  static std::string figures(const Choice &choice) {
    double flops = 0;
    for (MatmulOp op : choice.products)
      flops += static_cast<double>(MatmulOp(op).flops());
    return llvm::formatv("saves the time of {0:f3} GFLOP of {1:f3}, adds {2:f3}, copies {3:f1} MB", choice.saved * 1e-9,
                         flops * 1e-9, choice.added * 1e-9, static_cast<double>(choice.copied) * 1e-6);
  }

  void tell(Remark::Kind kind, const Choice &choice, const std::string &message) {
    if (!options.remarks)
      return;
    MatmulOp first = choice.products.front();
    std::string of = nameOf(first).str();
    if (choice.products.size() > 1)
      of +=
          llvm::formatv(" and {0} more product{1}", choice.products.size() - 1, choice.products.size() > 2 ? "s" : "");
    options.remarks->push_back(
        {kind, "pad-shapes", first.getLoc(), llvm::formatv("size {0} of {1} is {2}", choice.size, of, message), 0});
  }

  bool isAccepted(ValueDim at) { return sizes.contains(sizeOf(at)) && accepted.contains(extentOf(at)); }

  void rewrite() {
    SmallVector<std::pair<Operation *, SmallVector<ValueDim, 3>>> work; // extents are known of what there is now
    DenseMap<Operation *, std::array<bool, 3>> grows;                   // m, n, k
    for (const auto &[extent, choice] : choices)
      if (accepted.contains(extent))
        for (MatmulOp op : choice.products) {
          ProductDims dims(op);
          grows[op] = {isAccepted(dims.mOfA), isAccepted(dims.nOfB), isAccepted(dims.kOfA)};
        }
    GrownDims values(block, sizes);
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    for (Operation *op : ops)
      if (auto found = grows.find(op); found != grows.end())
        replace(cast<MatmulOp>(op), found->second, values);
      else
        values.visit(op);
    values.finish();
    eraseDeadOps(cast<func::FuncOp>(block.getParentOp()));
  }

  static void replace(MatmulOp op, std::array<bool, 3> grows, GrownDims &values) {
    auto [m, n, k] = grows;
    ProductDims dims(op);
    auto operand = [&](ValueDim first, bool isFirst, ValueDim second, bool isSecond) {
      Value value = first.first;
      if (isFirst)
        value = values.padded(value, first.second);
      return isSecond ? values.padded(value, second.second) : value;
    };
    Value a = operand(dims.kOfA, k, dims.mOfA, m), b = operand(dims.kOfB, k, dims.nOfB, n);
    OpBuilder builder(op);
    Emit emit(builder, op.getLoc());
    Value longer =
        emit.matmul(a, b, op.getTransposeA(), op.getTransposeB(), tensorType(op.getResult()).getElementType());
    SmallVector<int64_t> cut;
    if (m)
      cut.push_back(dims.mOfResult.second);
    if (n)
      cut.push_back(dims.nOfResult.second);
    if (cut.empty())
      op.getResult().replaceAllUsesWith(longer);
    else
      values.cutProduct(op, longer, cut);
  }
};

} // namespace

LogicalResult padShapes(func::FuncOp function, const PipelineOptions &options) {
  if (options.padding.value_or(options.target.padding.multiple) > 0)
    PadShapes(function, options).run();
  return success();
}

} // namespace tcc
