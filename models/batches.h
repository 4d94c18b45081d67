// Batches: which tokens of the data each training step reads.
#pragma once
#include "models/examples.h"
#include "runtime/trace.h"

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <vector>

namespace tcc::models {

enum class Order {
  Random,     ///< each row starts at a random token
  Sequential, ///< step i reads tokens[i*B*T : (i+1)*B*T + 1]
  Shuffled,   ///< a pass has each file's whole batches once: files in a random order, and so the batches of each file
};

/// "random", "sequential" or "shuffled".
std::string_view describe(Order order);

/// A source divided into the tokens that are trained on and its last `share` (at least one batch of B x T, or one
/// example), which is for evaluation. Throws Error if one of the two would be shorter than a batch, or have no example.
struct HeldOutSplit {
  TokenRange training, heldOut;
};
HeldOutSplit splitHeldOut(const TokenSource &source, double share, int64_t batch, int64_t sequence);

/// The batches of a run. They depend only on source, range, B, T, order, seed and step, so that a run can resume at any
/// step. If the source has examples, a row holds whole examples (models/examples.h), and a pass has each row once, in a
/// random order unless that is Order::Sequential.
class Batches {
public:
  /// `source` must outlive this object. Throws Error where the range holds fewer than B*T + 1 tokens, or no example
  /// with a token to learn. With `packs` false, each row has one example.
  Batches(const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence, Order order, uint64_t seed,
          bool packs = true);
  /// The batches of the whole source.
  Batches(const TokenSource &source, int64_t batch, int64_t sequence, Order order, uint64_t seed)
      : Batches(source, {0, source.size()}, batch, sequence, order, seed) {}

  int64_t batch() const { return rows; }
  int64_t sequence() const { return columns; }
  /// The number of whole batches in a pass through the range. What is left over at its end (Order::Shuffled: at the end
  /// of each file) is not read. Order::Random has no passes; the number is that of Order::Sequential. With examples,
  /// the last batch of a pass may also hold the first rows of the next pass; in Order::Sequential it has empty rows
  /// instead.
  int64_t batchesPerPass() const { return perPass; }
  /// What the rows hold, if the source has examples.
  const std::optional<ExampleRows> &examples() const { return exampleRows; }

  /// The batch of `step` >= 0: inputs[b*T + t] and targets[b*T + t] = the token after it. Both hold B*T values. A
  /// target is -1 where nothing is learned: for the tokens of a prompt, and after the examples, where inputs are 0.
  void read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const;

private:
  int64_t shuffledStart(int64_t step) const;
  void readExamples(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const;

  const TokenSource *source;
  TokenRange range;
  int64_t rows, columns;
  Order order;
  uint64_t seed;
  int64_t perPass = 0;
  std::vector<TokenRange> parts; // for Order::Shuffled: the whole batches of each file
  std::optional<ExampleRows> exampleRows;
};

/// Reads a step's batch in a thread of its own while the step before it runs, so that no step waits for the disk.
class PrefetchedBatches {
public:
  /// `timeLine` gets an event for each batch that the thread reads; it may be null. Both must outlive this object.
  explicit PrefetchedBatches(const Batches &batches, runtime::Trace *timeLine = nullptr);
  PrefetchedBatches(const PrefetchedBatches &) = delete;
  PrefetchedBatches &operator=(const PrefetchedBatches &) = delete;
  ~PrefetchedBatches();

  /// As Batches::read(); then begins to read the batch of the next step. An error of the thread is thrown by the call
  /// that needs its batch.
  void read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets);

private:
  void begin(int64_t step);

  const Batches &batches;
  runtime::Trace *timeLine;
  std::vector<int32_t> inputs, targets;
  int64_t begun = -1; // the step that is in `next`
  std::future<void> next;
};

} // namespace tcc::models
