// What the forward and the backward function with AMX share: the packed keys of a head, which each unit packs once, and
// which products of 32 keys and 32 queries the mask does not hide.
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
  static constexpr int64_t vectors = 2; // of a span of queries
  AmxTiles amx;
  LaneBuilder &b;
  const AttentionBlocks &blocks;
  mlir::Value exponentScale; // |scale| · log2(e): scores are multiplied by it, their sign is that of the packed queries
  mlir::Value signs;         // those of a word of queries, flipped

  void beginWorker() override;
  void endWorker() override { amx.release(); }

  /// The keys of a head that one of its queries sees: only those are read.
  HeadRows seenRows(unsigned operand, const AttentionBlock &block, mlir::Value &first);
  /// The place after a worker's blocks and after `bytesOfKey` bytes for each key of a head (whole spans of keys).
  mlir::Value packedKeys(int64_t bytesOfKey);
  int64_t rowTiles() const { return 2 * blocks.words * 2 / rowBytes; } // of a packed row: steps of 32 elements

  struct Steps {
    mlir::Value begin, end;
  };
  /// The spans of the block's keys that one of a span of its queries sees …
  Steps keySpans(const AttentionBlock &block, mlir::Value group);
  /// … and the other way round.
  Steps querySpans(const AttentionBlock &block, mlir::Value keySpan);

  /// to = a span's keys times a span's queries.
  void multiply(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan, mlir::Value packedRows,
                mlir::Value columns, mlir::Value to, int64_t across);
  /// Runs one of two bodies: the first where the mask hides a pair of the spans.
  llvm::SmallVector<mlir::Value> ifBorder(const AttentionBlock &block, mlir::Value group, mlir::Value keySpan,
                                          llvm::function_ref<llvm::SmallVector<mlir::Value>(bool)> body);
  /// As seenKeys, and no key that is not there.
  SeenKeys seenKeysOf(const AttentionBlock &block, mlir::Value firstQuery);
};

} // namespace tcc::cpu
