// Batches: which tokens of the data each training step reads.
#pragma once
#include "models/data.h"

#include <cstdint>
#include <future>
#include <span>
#include <vector>

namespace tcc::models {

enum class Order {
  Random,     ///< each row starts at a random token
  Sequential, ///< step i reads tokens[i*B*T : (i+1)*B*T + 1]
  Shuffled,   ///< each file's whole batches once a pass: files in a random order, and the batches of each
};

/// "random", "sequential" or "shuffled".
std::string_view describe(Order order);

/// Tokens of a source: first, first + 1, …
struct TokenRange {
  int64_t first = 0, count = 0;
};

/// Divides a source into the tokens that are trained on and its last `share` (at least one batch of B x T) for
/// evaluation. Throws Error where one of the two would be shorter than a batch.
struct HeldOutSplit {
  TokenRange training, heldOut;
};
HeldOutSplit splitHeldOut(const TokenSource &source, double share, int64_t batch, int64_t sequence);

/// The batches of a run: a pure function of (source, range, B, T, order, seed, step), so that a run resumes at any
/// step.
class Batches {
public:
  /// `source` must outlive this object. Throws Error where the range holds fewer than B*T + 1 tokens.
  Batches(const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence, Order order, uint64_t seed);
  /// The batches of the whole source.
  Batches(const TokenSource &source, int64_t batch, int64_t sequence, Order order, uint64_t seed)
      : Batches(source, {0, source.size()}, batch, sequence, order, seed) {}

  int64_t batch() const { return rows; }
  int64_t sequence() const { return columns; }
  /// The number of whole batches in a pass through the range. What is left over at its end (Order::Shuffled: at the end
  /// of each file) is not read. Order::Random has no passes; the number is that of Order::Sequential.
  int64_t batchesPerPass() const { return perPass; }

  /// The batch of `step` >= 0: inputs[b*T + t] and targets[b*T + t] = the token after it. Both hold B*T values.
  void read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const;

private:
  int64_t shuffledStart(int64_t step) const;

  const TokenSource *source;
  TokenRange range;
  int64_t rows, columns;
  Order order;
  uint64_t seed;
  int64_t perPass = 0;
  std::vector<TokenRange> parts; // by file, of Order::Shuffled: its whole batches
};

/// Reads a step's batch in a thread of its own while the step before it runs, so that no step waits for the disk.
class PrefetchedBatches {
public:
  /// `batches` must outlive this object.
  explicit PrefetchedBatches(const Batches &batches);
  PrefetchedBatches(const PrefetchedBatches &) = delete;
  PrefetchedBatches &operator=(const PrefetchedBatches &) = delete;
  ~PrefetchedBatches();

  /// As Batches::read; then begins to read the next step's. An error of a thread is thrown by the step that needs its
  /// batch.
  void read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets);

private:
  void begin(int64_t step);

  const Batches &batches;
  std::vector<int32_t> inputs, targets;
  int64_t begun = -1; // the step that is in `next`
  std::future<void> next;
};

} // namespace tcc::models
