// What attention's two functions share: their arguments, the division of units among workers, which pairs of a block
// the mask shows, and which ones dropout keeps.
#pragma once
#include "codegen/cpu/attention_tiles.h"
#include <limits>

namespace tcc::cpu {

/// A block of queries of one head, or the block of keys that stands against it.
struct AttentionBlock {
  mlir::Value batch, head, keyHead;
  mlir::Value firstQuery, queryCount;
  mlir::Value firstKey, keyCount;
  mlir::Value isBorder; // whether the mask hides a pair of it
};

class AttentionFunction {
public:
  /// `operands` without those of a bias and a dropout.
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
  const bool hasBias;              // its operand is the last before a dropout's
  mlir::Value allScratch, scratch; // of all workers, and of this one
  mlir::Value scale;               // a vector
  mlir::Value keepScale;           // likewise, with dropout alone

  void loadArguments(mlir::Value args);
  virtual void runUnit(mlir::Value unit) = 0;
  /// Emits what runs before a worker's first unit, and after its last one.
  virtual void beginWorker() {}
  virtual void endWorker() {}

  /// The number that has position `place` of `count` in a round; every other round counts from the other end.
  mlir::Value backAndForth(mlir::Value round, mlir::Value place, mlir::Value count);

  mlir::Value number(AttentionNumber which) const { return numbers[static_cast<size_t>(which)]; }
  mlir::Value operand(unsigned i) const { return pointers[i]; }
  mlir::Value result(unsigned i) const { return pointers[operandCount + (dropout ? 2 : 0) + i]; }
  mlir::Value stride(unsigned operand, unsigned dim) const { return strides[3 * operand + dim]; }
  mlir::Value place(int64_t bytes) { return b.offset(scratch, b.builder.getI8Type(), b.i64(bytes)); }

  /// Rows first.. of a head of an operand [batch, row, head, width].
  HeadRows rowsOf(unsigned operand, mlir::Value batch, mlir::Value head, mlir::Value first, mlir::Value count);
  /// The same of a dense result with `rows` rows and `heads` heads.
  HeadRows rowsOfResult(unsigned result, mlir::Value rows, mlir::Value heads, mlir::Value batch, mlir::Value head,
                        mlir::Value first, mlir::Value count);

  /// dK and then dV of a unit, where units have sums of their own.
  mlir::Value sumsOfUnit(mlir::Value unit);

  /// The head and the block of queries of a number that counts blocks, then heads.
  void chooseQueries(AttentionBlock &block, mlir::Value queryBlock);
  /// body for each block of keys that a query of the block sees, in ascending order; by tiles from a whole one on.
  void forKeyBlocks(AttentionBlock block, llvm::function_ref<void(const AttentionBlock &)> body);
  /// Runs the body for each block of queries of a gradient's unit; a unit has a part of the blocks of queries of one
  /// key head's group.
  void forQueriesOfKeys(mlir::Value unit, AttentionBlock block, llvm::function_ref<void(const AttentionBlock &)> body);
  /// to[query] = x's row · y's row.
  void sumProducts(const AttentionBlock &block, const HeadRows &x, const HeadRows &y, mlir::Value to);
  /// to[query] = log-sum-exp, times `factor` unless that is null; +inf of queries that are not there, so that their P
  /// is 0, and of those from which a bias hides every key.
  void loadLogarithms(const AttentionBlock &block, unsigned operand, mlir::Value factor, mlir::Value to);

  /// Queries of the block, from its first one, that see one of `count` keys from `key` of it on: [first, second).
  std::pair<mlir::Value, mlir::Value> queriesThatSee(const AttentionBlock &block, mlir::Value key, mlir::Value count);
  /// Vectors of them.
  std::pair<mlir::Value, mlir::Value> vectorsThatSee(const AttentionBlock &block, mlir::Value key, mlir::Value count);

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

  /// to[key][query] = factor · keys' row · query's column, for the pairs that are seen, in whole tiles.
  void multiplyRows(const AttentionBlock &block, mlir::Value rows, mlir::Value columns, mlir::Value to,
                    mlir::Value factor);
  /// Adds the bias to the block's scores [key][query], where the form has one.
  void addBias(const AttentionBlock &block, mlir::Value scores);
  /// to[element][query] += sum over keys of pairs[key][element] · weights[key][query].
  void addWeighted(const AttentionBlock &block, mlir::Value pairs, mlir::Value weights, mlir::Value to);

private:
  unsigned operandCount, resultCount;
  bool dropout;
  llvm::SmallVector<mlir::Value> numbers, strides, pointers;
  mlir::Value seedLow, seedHigh, firstBatch; // of the dropout, 32 bits as 64

  void loadDropout();
};

/// The body of a form's function; called by emitAttention.
void emitAttentionForward(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitAttentionBackward(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitForwardByTiles(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitBackwardByTiles(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);
void emitAttentionSums(LaneBuilder &b, const AttentionForm &form, mlir::ValueRange arguments);

} // namespace tcc::cpu
