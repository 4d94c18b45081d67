// autocast: matrix products take their operands in 16 bits and add up in f32.
//   1. the operands of each f32 product are cast below their views, once a value, so that what is stored is 16-bit and
//      every product of the value, forward and backward, reads the same one;
//   2. the product keeps its f32 result; where every user casts it again, or the target stores narrow results alone, it
//      is rounded on its way out instead.
// Everything else stays as it is: sums, norms, softmax, losses, parameters and their updates are f32. Casts are
// ordinary ops, and fusion puts them into the kernels that make the values. Products that are written with other types
// are left alone.
#include "ir/dialect.h"
#include "passes/passes.h"
#include "passes/pipeline.h"

using namespace mlir;

namespace tcc {
namespace {

class Autocast {
public:
  Autocast(func::FuncOp function, Type narrow, bool narrowResults)
      : block(function.getBody().front()), narrow(narrow), narrowResults(narrowResults) {}

  void run() {
    SmallVector<MatmulOp> products;
    for (MatmulOp product : block.getOps<MatmulOp>())
      if (tensorType(product.getA()).getElementType().isF32())
        products.push_back(product);
    SmallVector<MatmulOp> made;
    for (MatmulOp product : products)
      made.push_back(narrowOperands(product));
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (op.hasTrait<ViewOp>() && op.use_empty()) // of the operands before
        op.erase();
    for (MatmulOp product : made)
      narrowResult(product);
  }

private:
  Block &block;
  Type narrow;
  bool narrowResults;
  DenseMap<Value, Value> narrowed;

  RankedTensorType narrowType(Value value) const { return RankedTensorType::get(tensorType(value).getShape(), narrow); }

  /// `value` in 16 bits: views are repeated over the cast of what is below them.
  Value narrowedValue(Value value) {
    SmallVector<Operation *> views; // from the value down; chains can be long
    Operation *op = value.getDefiningOp();
    while (op && op->hasTrait<ViewOp>() && op->getNumOperands() == 1 && !narrowed.contains(value)) {
      views.push_back(op);
      value = op->getOperand(0);
      op = value.getDefiningOp();
    }
    Value &known = narrowed[value];
    if (!known) {
      OpBuilder builder(value.getContext());
      builder.setInsertionPointAfterValue(value);
      known = CastOp::create(builder, value.getLoc(), narrowType(value), value);
    }
    Value result = known;
    for (Operation *view : llvm::reverse(views)) {
      Operation *repeated = OpBuilder(view).clone(*view);
      repeated->setOperand(0, result);
      repeated->getResult(0).setType(narrowType(view->getResult(0)));
      result = narrowed[view->getResult(0)] = repeated->getResult(0);
    }
    return result;
  }

  MatmulOp withTypes(MatmulOp product, Value a, Value b, Type element) {
    OpBuilder builder(product);
    RankedTensorType type = RankedTensorType::get(tensorType(product.getResult()).getShape(), element);
    TypeAttr dtype = element == narrow ? TypeAttr() : TypeAttr::get(element);
    auto made = MatmulOp::create(builder, product.getLoc(), type, a, b, product.getTransposeA(),
                                 product.getTransposeB(), dtype);
    product->replaceAllUsesWith(made);
    product->erase();
    return made;
  }

  MatmulOp narrowOperands(MatmulOp product) {
    Value a = narrowedValue(product.getA()), b = narrowedValue(product.getB());
    return withTypes(product, a, b, tensorType(product.getResult()).getElementType());
  }

  void narrowResult(MatmulOp product) {
    Value result = product.getResult();
    SmallVector<Operation *> casts(result.getUsers());
    bool onlyCasts = !casts.empty() && llvm::all_of(casts, [&](Operation *user) {
      return isa<CastOp>(user) && tensorType(user->getResult(0)).getElementType() == narrow;
    });
    Type wide = tensorType(result).getElementType();
    if (wide == narrow || !(onlyCasts || narrowResults))
      return;
    MatmulOp made = withTypes(product, product.getA(), product.getB(), narrow);
    Value widened; // for those that read the wide result
    for (Operation *user : casts) {
      if (isa<CastOp>(user) && tensorType(user->getResult(0)).getElementType() == narrow) {
        user->getResult(0).replaceAllUsesWith(made.getResult());
        user->erase();
        continue;
      }
      if (!widened) {
        OpBuilder builder(made.getContext());
        builder.setInsertionPointAfter(made);
        widened = CastOp::create(builder, made.getLoc(), tensorType(made.getResult()).clone(wide), made.getResult());
      }
      user->replaceUsesOfWith(made.getResult(), widened);
    }
  }
};

} // namespace

LogicalResult autocast(func::FuncOp function, const PipelineOptions &options) {
  if (options.products == ProductType::bf16)
    Autocast(function, BFloat16Type::get(function.getContext()), options.target.narrowResults).run();
  return success();
}

} // namespace tcc
