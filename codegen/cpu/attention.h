// Attention as emitted kernels: blocks of queries against blocks of keys with a running softmax, after Dao (2023).
// Which functions there are, what they read when they run, and the memory that they work in.
#pragma once
#include "codegen/cpu/lane_builder.h"

namespace tcc::cpu {

/// `sums` adds up dK and dV where several units have parts of them.
enum class AttentionKind : uint8_t { forward, backward, sums };

/// What a function is compiled for. Sizes, strides, bounds of the mask and the scale are read when it runs.
struct AttentionForm {
  AttentionKind kind = AttentionKind::forward;
  ElementType element = ElementType::f32;
  int64_t width = 0;    // of a head
  bool dropout = false; // of probabilities; never of `sums`

  /// "attention_forward f32 64", with " dropout" behind it or not: what the table of kernels has for its text.
  std::string text() const;
  /// Nothing for another text.
  static std::optional<AttentionForm> of(llvm::StringRef text);
  /// Nothing for another op, or one that is not emitted: other element types than f32 and bf16, heads wider than 256.
  static std::optional<AttentionForm> of(mlir::Operation *op);
};

/// The numbers of 64 bits that a function's first argument points to, in this order; then three strides of each
/// operand, in elements: of batch, row and head (log-sum-exp: of batch, head and row). A dropout's seed and `first` are
/// pointers behind the operands' (`first` the seed again where there is none).
enum class AttentionNumber : uint8_t {
  queries,
  keys,
  heads,
  keyHeads,
  group,   // heads / keyHeads
  units,   // what workers divide: blocks of queries (forward; by tiles parts of heads) or parts of key heads (backward)
  parts,   // of a key head: each has some of its blocks of queries, and sums of its own unless there is one; forward
           // by tiles of a head
  sums,    // bytes from the scratch's start to the sums of unit 0, where there are several parts
  workers, // the function's items: worker w runs units w, w + workers, …, back and forth
  scratch, // bytes of a worker
  diagonal, // clamped so that no sum of two numbers leaves 32 bits
  window,
  scale,     // the bits of an f32
  dropBelow, // random bits below it drop a probability
  keepScale, // what the others are multiplied by, the bits of an f32
  stream,    // of the random bits, its low word
  seedWords, // of 32 bits: 1 or 2
  hasFirst,  // 1, or 0 where there is no `first`
  strides,
};

/// The scratch of one worker, in bytes from its start. Words are what one lane holds: an f32, or a pair of bf16 where
/// the target multiplies those.
struct AttentionBlocks {
  static constexpr int64_t queries = 64; // of a block
  int64_t keys = 64, rows = 4;           // of a block; of a tile, by which dK and dV are padded
  bool byTiles;                          // AMX's: the functions of attention_amx.h
  int64_t lanes, tileVectors;
  int64_t perWord; // elements
  int64_t steps;   // words of a row
  int64_t words;   // and padded to whole vectors
  int64_t width;   // elements of a row, padded to whole vectors

  // Transposed queries (and dOut), keys and values as rows; those of which a pair has two rows; scores and dP, P and dS
  // in their place; a pair's P or dS of two keys (forward by tiles in the scores' place); sums of out or dQ,
  // transposed; rows of numbers, one a query; a bit for each pair of a query and a key, set where dropout keeps it, by
  // rows from the last multiple of keptKeys on.
  static constexpr int64_t keptKeys = 16;
  int64_t zeros, queryColumns, dOutColumns, queryPairs, dOutPairs, keyRows, valueRows, keyPairs, valuePairs, scores, dP,
      weightPairs, sums, top, total, kept;
  int64_t configuration, weights, dWeights; // by tiles: that of AMX; rows of P and dS

  int64_t bytes; // of all these; by tiles the keys of a head lie behind them, then a worker's own dK and dV of all keys

  AttentionBlocks(const AttentionForm &form, const VectorTarget &target);
  /// Elements of dK, or of dV: as many rows as there are keys, and those that fill up the last tile.
  int64_t sumElements(int64_t allKeys) const { return (allKeys + rows) * width; }
  int64_t sumBytes(int64_t allKeys) const { return 2 * 4 * sumElements(allKeys); }
  /// Bytes of a head's packed keys for each of its keys, and for all of them.
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
