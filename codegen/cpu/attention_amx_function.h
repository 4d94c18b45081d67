// AmxFunction: what the forward and the backward function with AMX share. It packs the keys of a head once for each
// unit, and finds which blocks of 32 keys and 32 queries (spans) the mask does not hide entirely.
#pragma once
#include "codegen/cpu/attention_amx.h"
#include "codegen/cpu/attention_function.h"

namespace tcc::cpu {

class AmxFunction : public AttentionFunction {
public:
  AmxFunction(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks, unsigned operands,
              unsigned results)
      : AttentionFunction(b, form, blocks, operands, results), amx(t, blocks), b(AttentionFunction::b),
        blocks(AttentionFunction::blocks) {}

protected:
  static constexpr int64_t span = AmxTiles::span, tileRows = AmxTiles::rows, rowBytes = AmxTiles::rowBytes,
                           tileBytes = AmxTiles::bytes;
  static constexpr int64_t vectors = 2; // vectors that a span of queries fills
  AmxTiles amx;
  LaneBuilder &b;
  const AttentionBlocks &blocks;
  // Of f32, packed queries are multiplied by the scale, and exponentials are powers of e. Of bf16 they have the scale's
  // sign alone, since multiplying would round them again, and exponentials are powers of two.
  mlir::Value queryFactor;   // what packColumns() takes for queries
  mlir::Value exponentScale; // of bf16: |scale| · log2(e), by which scores are multiplied

  void beginWorker() override;
  void endWorker() override { amx.release(); }

  bool isWide() const { return blocks.parts > 1; } // whether elements are f32
  /// The exponent that belongs to a score, and the power of an exponent that is hardly above 0.
  mlir::Value exponentOf(mlir::Value score) { return isWide() ? score : t.mulF(score, exponentScale); }
  mlir::Value power(mlir::Value exponent) { return isWide() ? t.exponential(exponent) : amx.powerOfTwo(exponent); }

  struct Steps {
    mlir::Value begin, end;
  };
  /// The spans of the block's keys that at least one query of a span of queries sees.
  Steps keySpans(const AttentionBlock &block, mlir::Value group);
  /// The spans of the block's queries that see at least one key of a span of keys.
  Steps querySpans(const AttentionBlock &block, mlir::Value keySpan);

  /// Writes the products of a span of keys with a span of queries to `to`.
  void multiply(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan, mlir::Value packedRows,
                mlir::Value columns, mlir::Value to, int64_t across);
  /// The same in pieces.
  AmxTiles::Pieces multiplyInPieces(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan,
                                    mlir::Value packedRows, mlir::Value columns, mlir::Value to, int64_t across);
  /// Whether the mask hides a pair of a span of queries and a span of keys.
  mlir::Value isBorder(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan);
  /// Emits body(true) for the case that the mask hides a pair of the two spans, and body(false) for the other case.
  llvm::SmallVector<mlir::Value> ifBorder(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan,
                                          llvm::function_ref<llvm::SmallVector<mlir::Value>(bool)> body);
  /// As seenKeys(), but without keys that do not exist.
  SeenKeys seenKeysOf(const AttentionBlock &block, mlir::Value firstQuery);
};

} // namespace tcc::cpu
