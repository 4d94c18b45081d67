// AttentionMatcher: recognises attention as users write it, starting from its softmax. Before the softmax stand q·kᵀ,
// scale and mask; after it casts, views and the matmul with the values.
#pragma once
#include "ir/ops/dropout.h"
#include "passes/attention_mask.h"
#include "llvm/ADT/SetVector.h"

namespace tcc {

/// A matched attention, in the terms of flash_attention. The batch dims of both matmuls are the same run of heads.
struct AttentionPattern {
  MatmulOp scores, mix;            // q·kᵀ, and probabilities times values
  bool queriesAreLhs = true;       // scores are q·kᵀ, else k·qᵀ
  bool probabilitiesAreLhs = true; // mix is P·v, else vᵀ·Pᵀ
  double scale = 1;
  AttentionMask mask;
  std::optional<Dropout> dropout; // of the probabilities
  int64_t headsOfFirst = 0;       // how many heads the random bits skip when the dropout's `first` grows by 1
};

class AttentionMatcher {
public:
  AttentionMatcher(LiteralRows &rows, MaskReader &masks) : rows(rows), masks(masks) {}

  /// The attention whose softmax ends with `division`, which divides the exponentials `e` by their sum (or multiplies
  /// them by its reciprocal). Gives nothing where this is no attention: `why` then says what was expected, and `mix` is
  /// the matmul with the values if the walk came that far.
  std::optional<AttentionPattern> match(ExpOp e, mlir::Operation *division);

  std::string why;
  MatmulOp mix;

private:
  LiteralRows &rows;
  MaskReader &masks;
  Axes axes;
  llvm::SetVector<mlir::Operation *> chain; // ops of the pattern, both matmuls included, without the literal ones
  llvm::SmallVector<MaskStep> steps;        // the one nearest to the softmax first
  AttentionPattern pattern;
  ScoreAxes roles;
  AxisLayout dropLayout; // of the probabilities where they are dropped out
  mlir::Operation *maskAt = nullptr;

  bool refuse(const std::string &reason) {
    why = reason;
    return false;
  }
  bool matchSoftmax(ExpOp e, mlir::Operation *division, mlir::Value &x, int64_t &axis);
  mlir::Value divisorOf(mlir::Operation *division, mlir::Value divisor, mlir::RankedTensorType type, int64_t axis);
  mlir::Value belowReshapes(mlir::Value value);
  mlir::Value belowDetach(mlir::Value value);
  mlir::Value rowStatistic(mlir::Value value, mlir::RankedTensorType full, int64_t axis);
  bool matchAfter(mlir::Value probabilities, AxisLayout layout);
  bool takeDropout(mlir::Value &value, const Dropout &dropout, const AxisLayout &layout);
  bool checkDropout();
  bool matchMix(MatmulOp op, mlir::Value probabilities, const AxisLayout &layout);
  bool matchBefore(mlir::Value x, AxisLayout layout);
  bool addLiteralStep(mlir::Operation *op, const AxisLayout &layout, mlir::Value &next);
  bool addSelect(SelectOp op, const AxisLayout &layout, mlir::Value &next);
  bool matchScores(MatmulOp op, const AxisLayout &layout, const AxisRun &keys);
  bool checkSizes();
  bool checkUses();
};

/// Whether `value` is computed from the result of a matmul through a few ops, none itself a matmul.
bool dependsOnProduct(mlir::Value value);
/// Whether `value` reaches an operand of a matmul through a few ops, none itself a matmul.
bool feedsProduct(mlir::Value value);

} // namespace tcc
