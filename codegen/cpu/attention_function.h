// AttentionFunction: what attention's forward and backward function share. It has their arguments, divides units among
// workers, and says which pairs of a block the mask shows and which ones dropout keeps.
#pragma once
#include "codegen/cpu/attention_tiles.h"
#include <limits>

namespace tcc::cpu {

/// A block of queries of one head, together with the block of keys that it is multiplied with.
struct AttentionBlock {
  mlir::Value batch, head, keyHead;
  mlir::Value firstQuery, queryCount;
  mlir::Value firstKey, keyCount;
  mlir::Value isBorder;             // whether the mask hides a pair of the block
  mlir::Value number, blocksOfKeys; // which block of keys it is for these queries, of how many
};

class AttentionFunction {
public:
  /// `operands` is the number of operands, without those of a bias and a dropout.
  AttentionFunction(LaneBuilder &b, const AttentionForm &form, const AttentionBlocks &blocks, unsigned operands,
                    unsigned results)
      : b(b), blocks(blocks), t(b, form, blocks), hasBias(form.bias && form.kind != AttentionKind::sums),
        operandCount(operands + (hasBias ? 1 : 0)), resultCount(results), dropout(form.dropout) {}
  virtual ~AttentionFunction() = default;

  void run(mlir::Value begin, mlir::Value end, mlir::Value args);

protected:
  using Number = AttentionNumber;
  using Predicate = mlir::arith::CmpIPredicate;
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr int64_t queries = AttentionBlocks::queries;
  /// Operands and results of the gradient, in their order.
  enum Operand : uint8_t { q, k, v, out, lse, dOut };
  enum Result : uint8_t { dQ, dK, dV };

  LaneBuilder &b;
  const AttentionBlocks &blocks;
  AttentionTiles t;
  const bool hasBias;              // the bias is the last operand, except for those of a dropout
  mlir::Value allScratch, scratch; // the scratch of all workers, and of this one
  mlir::Value nextUnit;            // what this worker computes after the unit; after its last one any unit
  mlir::Value scale;               // a vector
  mlir::Value keepScale;           // a vector; only with dropout

  void loadArguments(mlir::Value args);
  virtual void runUnit(mlir::Value unit) = 0;
  /// Emits what runs before a worker's first unit, and after its last one.
  virtual void beginWorker() {}
  virtual void endWorker() {}

  /// The number at position `place` of a round over `count` numbers. Every other round counts down instead of up.
  mlir::Value backAndForth(mlir::Value round, mlir::Value place, mlir::Value count);

  mlir::Value number(AttentionNumber which) const { return numbers[static_cast<size_t>(which)]; }
  mlir::Value operand(unsigned i) const { return pointers[i]; }
  mlir::Value result(unsigned i) const { return pointers[operandCount + (dropout ? 2 : 0) + i]; }
  mlir::Value stride(unsigned operand, unsigned dim) const { return strides[3 * operand + dim]; }
  mlir::Value place(int64_t bytes) { return b.offset(scratch, b.builder.getI8Type(), b.i64(bytes)); }

  /// The rows from `first` on of one head of an operand [batch, row, head, width].
  HeadRows rowsOf(unsigned operand, mlir::Value batch, mlir::Value head, mlir::Value first, mlir::Value count);
  /// The rows of an operand for the queries of a block.
  HeadRows rowsOfQueries(unsigned operand, const AttentionBlock &block);
  /// Rows of an operand that has one for each key: those keys that causal masks show to no block of queries before.
  HeadRows rowsOfNewKeys(unsigned operand, const AttentionBlock &block);
  /// The keys of a head that at least one query sees. No other key is read.
  HeadRows seenRows(unsigned operand, const AttentionBlock &block);
  /// The rows of a dense result: those for the queries of a block; those of all keys of its head; and those of the keys
  /// that causal masks show to no block of queries before.
  HeadRows resultOfQueries(unsigned result, const AttentionBlock &block);
  HeadRows resultOfKeys(unsigned result, const AttentionBlock &block);
  HeadRows resultOfNewKeys(unsigned result, const AttentionBlock &block);

  /// The sums of dK and then dV of a unit, if each unit has sums of its own.
  mlir::Value sumsOfUnit(mlir::Value unit);

  /// The scratch after a worker's blocks and after `bytesOfKey` bytes for each key of a head (whole tiles of keys).
  mlir::Value packedKeys(int64_t bytesOfKey);
  /// To be called before the first block of a head's keys, which are packed as the blocks need them.
  void beginKeys(const AttentionBlock &block);
  /// body(begin, end): the head's keys that the block needs and that are not packed yet.
  void forNewKeys(const AttentionBlock &block, llvm::function_ref<void(mlir::Value, mlir::Value)> body);

  /// Sets the head and the block of queries for number `queryBlock`, which counts through the blocks of one head after
  /// another.
  void chooseQueries(AttentionBlock &block, mlir::Value queryBlock);
  /// Runs the body for each block of keys that a query of the block sees, in ascending order. The first block begins at
  /// a whole tile.
  void forKeyBlocks(AttentionBlock block, llvm::function_ref<void(const AttentionBlock &)> body);
  /// The key head of a unit that has a part of its queries.
  AttentionBlock keyHeadOf(mlir::Value unit);
  /// Runs the body for each block of queries of a unit, which has a part of those of one key head's group. `later` is
  /// the block of queries that the worker takes next; it has no keys.
  void forQueriesOfKeys(mlir::Value unit,
                        llvm::function_ref<void(const AttentionBlock &block, const AttentionBlock &later)> body);
  /// to[query] = x's row · y's row.
  void sumProducts(const AttentionBlock &block, const HeadRows &x, const HeadRows &y, mlir::Value to);
  /// to[query] = log-sum-exp, times `factor` unless that is null. It is +inf for queries that do not exist, so that
  /// their P is 0, and for queries from which a bias hides every key.
  void loadLogarithms(const AttentionBlock &block, unsigned operand, mlir::Value factor, mlir::Value to);

  /// The queries of the block that see at least one of its `count` keys from `key` on, as [first, second), counted from
  /// the block's first query.
  std::pair<mlir::Value, mlir::Value> queriesThatSee(const AttentionBlock &block, mlir::Value key, mlir::Value count);
  /// The vectors that hold these queries.
  std::pair<mlir::Value, mlir::Value> vectorsThatSee(const AttentionBlock &block, mlir::Value key, mlir::Value count);

  /// The first `all` keys of the block without those at its ends that no query of the `count` from `query` on sees, as
  /// [first, second) and in whole groups of fewKeys. Where the mask hides a part of the block, no product reads a
  /// weight of these queries for another key.
  std::pair<mlir::Value, mlir::Value> keysSeenBy(const AttentionBlock &block, mlir::Value query, int64_t count,
                                                 mlir::Value all);

  /// Which of a vector's queries see key `key` of the block.
  struct SeenKeys {
    mlir::Value last, before; // i32 lanes: the last key that each query sees, and the last one hidden before its window
  };
  SeenKeys seenKeys(const AttentionBlock &block, mlir::Value firstQuery);
  mlir::Value isSeen(const SeenKeys &seen, const AttentionBlock &block, mlir::Value key);

  /// Finds the pairs of the block that dropout keeps, where the form has one.
  void findKept(const AttentionBlock &block);
  /// Which of a vector's queries from `query` on keep key `key` of the block; null without dropout.
  mlir::Value isKept(const AttentionBlock &block, mlir::Value key, mlir::Value query);
  /// x where it is kept, else 0.
  mlir::Value whereKept(mlir::Value kept, mlir::Value x);

  /// Rows that are read soon: as many of each as a block has keys.
  struct UpcomingRows {
    llvm::ArrayRef<HeadRows> rows;
    mlir::Value pass; // of `passes` over each block of keys
    int64_t passes = 1;
  };
  /// to[key][query] = factor · (key's row · query's column), in whole tiles, for the pairs that are seen. Meanwhile
  /// `soon` is prefetched, over all passes and all blocks of keys of these queries.
  void multiplyRows(const AttentionBlock &block, mlir::Value rows, mlir::Value columns, mlir::Value to,
                    mlir::Value factor, const UpcomingRows &soon);
  /// Adds the bias to the block's scores [key][query], where the form has one.
  void addBias(const AttentionBlock &block, mlir::Value scores);
  /// to[element][query] += sum over keys of pairs[key][element] · weights[key][query].
  void addWeighted(const AttentionBlock &block, mlir::Value pairs, mlir::Value weights, mlir::Value to);

private:
  unsigned operandCount, resultCount;
  bool dropout;
  llvm::SmallVector<mlir::Value> numbers, strides, pointers;
  mlir::Value seedLow, seedHigh, firstBatch; // of the dropout: 32 bits each, in values of 64 bits

  void loadDropout();
  mlir::Value firstNewKey(const AttentionBlock &block);
  HeadRows rowsOfResult(unsigned result, mlir::Value rows, mlir::Value heads, mlir::Value batch, mlir::Value head,
                        mlir::Value first, mlir::Value count);
};

/// The body of a form's function; called by emitAttention.
void emitAttentionForward(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitAttentionBackward(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitForwardByTiles(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitBackwardByTiles(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitAttentionSums(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);

} // namespace tcc::cpu
