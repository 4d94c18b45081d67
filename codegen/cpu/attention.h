// Attention on the CPU as emitted functions. Each function works on a block of queries against one block of keys after
// another, with a running softmax (Dao 2023). This header says which functions there are, what they read when they run,
// and how their scratch memory is laid out.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// What a function computes. `sums` follows a backward function whose key heads were cut into parts: it adds the parts'
/// dK and dV.
enum class AttentionKind : uint8_t { forward, backward, sums };

/// What a function is compiled for. Sizes, strides, bounds of the mask and the scale are read when it runs.
struct AttentionForm {
  AttentionKind kind = AttentionKind::forward;
  ElementType element = ElementType::f32;
  int64_t width = 0;    // elements of one head's row
  bool dropout = false; // whether probabilities are dropped out; false for `sums`
  bool bias = false;    // whether a bias is added to the scores; of `sums`, whether the function before it has one

  /// "attention_forward f32 64", with " bias" and " dropout" appended for such a form. TextKernel::text
  /// (kernel_source.h) holds this.
  std::string text() const;
  /// The form that has this text; nothing for any other text.
  static std::optional<AttentionForm> of(llvm::StringRef text);
  /// The form for an attention op; nothing for other ops and for what is not emitted: element types other than f32 and
  /// bf16, heads wider than 256.
  static std::optional<AttentionForm> of(mlir::Operation *op);
};

/// The numbers of 64 bits to which a function's first argument points, in this order. After them come three strides for
/// each operand, in elements: batch, row and head (for log-sum-exp: batch, head and row). With dropout, two
/// pointers come after those of the operands: to the seed, and to `first`, the number that this batch's first row has
/// in the whole batch. Without a `first`, the second one is the seed's again.
enum class AttentionNumber : uint8_t {
  queries,
  keys,
  heads,
  keyHeads,
  group,     // heads / keyHeads
  units,     // pieces of work: parts of each key head (forward with AMX, of each head)
  parts,     // how many; they share out its blocks of queries. Backward each has sums of its own if there are several
  sums,      // backward with several parts: where in the scratch the units' sums of dK and dV begin, in bytes
  workers,   // items of the launch; in each round a worker takes one unit, and every other round counts from the last
             // worker
  scratch,   // bytes for one worker
  diagonal,  // query t sees keys up to t + diagonal; without a mask queries + keys, which hides nothing
  window,    // and only keys above t + diagonal - window. Both are clamped so that kernels can compute in 32 bits
  scale,     // the bits of an f32
  dropBelow, // random bits below it drop a probability
  keepScale, // the other probabilities are multiplied by it; the bits of an f32
  stream,    // the low 32 bits of the op's `stream` attribute, a key of the random bits
  seedWords, // how many words of 32 bits the seed has: 1 or 2
  hasFirst,  // 1, or 0 where there is no `first`
  strides,
};

/// How the scratch of one worker is laid out. Places are in bytes from its start. A word is what one lane holds: an
/// f32, or a pair of bf16 where the target multiplies pairs, as AMX's tiles do.
struct AttentionBlocks {
  static constexpr int64_t queries = 64; // of a block
  static constexpr int64_t fewKeys = 16; // where the mask hides a part of a block, keys are multiplied by so many
  int64_t keys = 64;                     // of a block
  int64_t rows = 4; // keys that are multiplied at once (with AMX 32); dK and dV have room for this many beyond the last
  bool byTiles;     // whether the functions of attention_amx.h are emitted, which use AMX
  int64_t parts;    // bf16 that an element becomes: with AMX 3 of an f32, else 1
  int64_t lanes;    // 32-bit lanes of a vector
  // Vectors of a block of registers, side by side: as many as there are registers for, without a fused multiply-add one
  // fewer, whose place a product takes.
  int64_t tileVectors;
  int64_t weighedVectors; // vectors of queries whose probabilities are made at once (forward)
  int64_t perWord;        // elements of a word
  int64_t steps;          // words of one query's or key's head row, without padding
  int64_t words;          // the same, padded to whole vectors
  int64_t width;          // elements of a row, padded to whole vectors

  // Where each part begins:
  // - queryColumns, dOutColumns: queries and dOut, transposed;
  // - queryPairs, dOutPairs: the same rows as words that hold elements of two rows;
  // - scores, dP: their place is later taken by P and dS;
  // - weightPairs: P or dS as words that hold two keys (the forward function with AMX has them in `weights`);
  // - sums: sums of out or dQ, transposed;
  // - top, total: one number for each query;
  // - packedEnd: how many keys of the unit's head are packed;
  // - kept: for each key a row of 64 bits, one for each query, set where dropout keeps the pair. The table begins at
  //   the block's first key, rounded down to a multiple of keptKeys.
  static constexpr int64_t keptKeys = 16;
  int64_t zeros, queryColumns, dOutColumns, queryPairs, dOutPairs, scores, dP, weightPairs, sums, top, total, packedEnd,
      kept;
  // With AMX alone: the configuration of its tiles; P and dS as left factors. Forward: P of this step and of the one
  // before, as right factors. Backward in f32: rows of out.
  int64_t configuration, weights, dWeights, outRows;

  // Bytes of all these. A head's packed keys follow; backward with one part adds sums of dK and dV.
  int64_t bytes;

  AttentionBlocks(const AttentionForm &form, const VectorTarget &target);
  /// Elements of dK, or of dV: a row for each key, and `rows` more that the last keys' products may write.
  int64_t sumElements(int64_t allKeys) const { return (allKeys + rows) * width; }
  int64_t sumBytes(int64_t allKeys) const { return 2 * 4 * sumElements(allKeys); }
  // Bytes of one packed key with its value, and where in them its parts begin: keys and values as rows, or as words
  // that hold elements of two rows. Forward these are keyRows and valuePairs alone.
  int64_t bytesOfKey = 0, keyRows = 0, valueRows = 0, keyPairs = 0, valuePairs = 0;
  /// Bytes of all packed keys of a head.
  int64_t keyBytes(int64_t allKeys) const;

private:
  int64_t take(int64_t words);
  void layOut(const AttentionForm &form);
  void layOutTiles(const AttentionForm &form);
};

/// Emits the function of a form at the builder's insertion point.
void emitAttention(mlir::OpBuilder &builder, llvm::StringRef symbol, const AttentionForm &form,
                   const VectorTarget &target);

} // namespace tcc::cpu
