// Attention on the CPU as emitted functions. They take blocks of queries and blocks of keys with a running softmax,
// after Dao (2023). This header says which functions there are, what they read when they run, and how their scratch
// memory is laid out.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// What a function computes. `sums` adds up the partial dK and dV that several units have written.
enum class AttentionKind : uint8_t { forward, backward, sums };

/// What a function is compiled for. Sizes, strides, bounds of the mask and the scale are read when it runs.
struct AttentionForm {
  AttentionKind kind = AttentionKind::forward;
  ElementType element = ElementType::f32;
  int64_t width = 0;    // elements of a head
  bool dropout = false; // whether probabilities are dropped out; false for `sums`

  /// "attention_forward f32 64", and " dropout" after it for a form with dropout: what KernelSource::text holds.
  std::string text() const;
  /// The form that has this text; nothing for any other text.
  static std::optional<AttentionForm> of(llvm::StringRef text);
  /// The form for an attention op; nothing for other ops and for what is not emitted: element types other than f32 and
  /// bf16, heads wider than 256.
  static std::optional<AttentionForm> of(mlir::Operation *op);
};

/// The numbers of 64 bits to which a function's first argument points, in this order. After them come three strides for
/// each operand, in elements: batch, row and head (for log-sum-exp: batch, head and row). The pointers to a dropout's
/// seed and `first` come after those of the operands (without a `first`, the seed's pointer stands in its place).
enum class AttentionNumber : uint8_t {
  queries,
  keys,
  heads,
  keyHeads,
  group,   // heads / keyHeads
  units,   // what workers divide: blocks of queries (forward; with AMX parts of heads) or parts of key heads (backward)
  parts,   // of a key head, each with some of its blocks of queries and, if there are several, sums of its own; in the
           // forward function with AMX: of a head
  sums,    // bytes from the scratch's start to the sums of unit 0, where there are several parts
  workers, // the function's items: worker w runs units w, w + workers, …, back and forth
  scratch, // bytes for one worker
  diagonal, // clamped so that no sum of two numbers leaves 32 bits
  window,
  scale,     // the bits of an f32
  dropBelow, // random bits below it drop a probability
  keepScale, // the other probabilities are multiplied by it; the bits of an f32
  stream,    // the low word of the random bits' stream
  seedWords, // how many words of 32 bits the seed has: 1 or 2
  hasFirst,  // 1, or 0 where there is no `first`
  strides,
};

/// How the scratch of one worker is laid out. Places are in bytes from its start. A word is what one lane holds: an
/// f32, or a pair of bf16 where the target multiplies pairs.
struct AttentionBlocks {
  static constexpr int64_t queries = 64; // of a block
  int64_t keys = 64;                     // of a block
  int64_t rows = 4;                      // of a tile; dK and dV are padded to whole tiles
  bool byTiles;                          // whether the functions of attention_amx.h are emitted, which use AMX
  int64_t lanes, tileVectors;
  int64_t perWord; // elements of a word
  int64_t steps;   // words of a row
  int64_t words;   // words of a row, padded to whole vectors
  int64_t width;   // elements of a row, padded to whole vectors

  // Where each part begins:
  // - queryColumns, dOutColumns: queries and dOut, transposed;
  // - keyRows, valueRows: keys and values as rows;
  // - queryPairs, dOutPairs, keyPairs, valuePairs: the same rows as words that hold elements of two rows;
  // - scores, dP: their place is later taken by P and dS;
  // - weightPairs: P or dS as words that hold two keys (in the forward function with AMX it is the scores' place);
  // - sums: sums of out or dQ, transposed;
  // - top, total: one number for each query;
  // - kept: a bit for each pair of a query and a key, set where dropout keeps it, in rows that begin at a multiple of
  //   keptKeys.
  static constexpr int64_t keptKeys = 16;
  int64_t zeros, queryColumns, dOutColumns, queryPairs, dOutPairs, keyRows, valueRows, keyPairs, valuePairs, scores, dP,
      weightPairs, sums, top, total, kept;
  int64_t configuration, weights, dWeights; // with AMX alone: its configuration; rows of P; rows of dS

  int64_t bytes; // of all these; with AMX a head's keys follow, then a worker's own dK and dV of all keys

  AttentionBlocks(const AttentionForm &form, const VectorTarget &target);
  /// Elements of dK, or of dV: a row for each key, and rows that fill up the last tile.
  int64_t sumElements(int64_t allKeys) const { return (allKeys + rows) * width; }
  int64_t sumBytes(int64_t allKeys) const { return 2 * 4 * sumElements(allKeys); }
  /// Bytes of a head's packed keys: for each of its keys, and for all of them.
  int64_t bytesOfKey = 0;
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
