#include "models/batches.h"
#include "frontend/quotes.h"
#include "models/counter_random.h"

#include <algorithm>
#include <cassert>
#include <fmt/format.h>
#include <limits>

namespace tcc::models {

std::string_view describe(Order order) {
  constexpr std::string_view names[] = {"random", "sequential", "shuffled"};
  return names[size_t(order)];
}

static HeldOutSplit splitExamples(const TokenSource &source, double share) {
  const std::vector<int64_t> ends = source.exampleEnds();
  const auto count = int64_t(ends.size()), heldOut = std::max<int64_t>(1, int64_t(share * double(count)));
  if (count < 2)
    throw Error(fmt::format("{}: one example, but one to train on and one to evaluate are needed", source.name()));
  const int64_t first = ends[size_t(std::max<int64_t>(1, count - heldOut) - 1)];
  return {{0, first}, {first, source.size() - first}};
}

HeldOutSplit splitHeldOut(const TokenSource &source, double share, int64_t batch, int64_t sequence) {
  if (source.format() == TokenFormat::Examples)
    return splitExamples(source, share);
  const int64_t needed = batch * sequence + 1;
  const int64_t heldOut = std::max(int64_t(share * double(source.size())), needed);
  if (source.size() - heldOut < needed)
    throw Error(fmt::format("{}: {} tokens, but a batch of {} x {} to train on and one to evaluate need {}",
                            source.name(), source.size(), batch, sequence, 2 * needed));
  return {{0, source.size() - heldOut}, {source.size() - heldOut, heldOut}};
}

Batches::Batches(const TokenSource &source, TokenRange range, int64_t batch, int64_t sequence, Order order,
                 uint64_t seed, bool packs)
    : source(&source), range(range), rows(batch), columns(sequence), order(order), seed(seed) {
  if (batch < 1 || sequence < 1 || batch > std::numeric_limits<int32_t>::max() / sequence)
    throw Error(fmt::format("a batch of {} x {} tokens: both must be at least 1 and their product below 2^31", batch,
                            sequence));
  if (source.format() == TokenFormat::Examples) {
    exampleRows.emplace(source, range, sequence, packs);
    perPass = (exampleRows->size() + rows - 1) / rows;
    return;
  }
  if (range.count < batch * sequence + 1)
    throw Error(fmt::format("{}: {} tokens, but one batch of {} x {} needs {} (the last one is a target only)",
                            source.name(), range.count, batch, sequence, batch * sequence + 1));
  perPass = (range.count - 1) / (rows * columns);
  if (order != Order::Shuffled)
    return;
  perPass = 0;
  const std::vector<int64_t> &starts = source.boundaries();
  for (size_t file = 0; file + 1 < starts.size(); ++file) {
    const int64_t first = std::max(starts[file], range.first);
    const int64_t whole = (std::min(starts[file + 1], range.first + range.count) - first - 1) / (rows * columns);
    if (whole > 0) {
      parts.push_back({first, whole});
      perPass += whole;
    }
  }
  if (perPass == 0)
    throw Error(fmt::format("{}: no file holds one batch of {} x {}, {} tokens", source.name(), batch, sequence,
                            batch * sequence + 1));
}

/// The first token of a step's batch. Each pass has orders of its own.
int64_t Batches::shuffledStart(int64_t step) const {
  const auto pass = uint64_t(step / perPass);
  int64_t left = step % perPass;
  for (uint64_t place = 0;; ++place) {
    const uint64_t file = permuted(place, parts.size(), randomBits(seed, streamOf("files"), pass));
    const TokenRange &part = parts[file];
    if (left < part.count) {
      const uint64_t key = randomBits(randomBits(seed, streamOf("batches of a file"), pass), file, 0);
      return part.first + int64_t(permuted(uint64_t(left), uint64_t(part.count), key)) * rows * columns;
    }
    left -= part.count;
  }
}

void Batches::read(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  assert(int64_t(inputs.size()) == rows * columns && int64_t(targets.size()) == rows * columns && step >= 0);
  if (exampleRows)
    return readExamples(step, inputs, targets);
  if (order != Order::Random) {
    const int64_t first =
        order == Order::Shuffled ? shuffledStart(step) : range.first + (step % perPass) * rows * columns;
    source->read(first, inputs);
    source->read(first + 1, targets);
    return;
  }
  constexpr uint64_t stream = streamOf("batches");
  uint64_t starts = uint64_t(range.count - columns); // a row needs T + 1 tokens
  for (int64_t row = 0; row < rows; ++row) {
    int64_t first = range.first + int64_t(boundedBits(randomBits(seed, stream, uint64_t(step * rows + row)), starts));
    source->read(first, inputs.subspan(size_t(row * columns), size_t(columns)));
    source->read(first + 1, targets.subspan(size_t(row * columns), size_t(columns)));
  }
}

void Batches::readExamples(int64_t step, std::span<int32_t> inputs, std::span<int32_t> targets) const {
  std::ranges::fill(inputs, 0);
  std::ranges::fill(targets, -1);
  const int64_t count = exampleRows->size();
  for (int64_t row = 0; row < rows; ++row) {
    int64_t place = (step % perPass) * rows + row;
    if (order == Order::Sequential) {
      if (place >= count)
        return;
    } else {
      const int64_t index = step * rows + row;
      const uint64_t key = randomBits(seed, streamOf("examples"), uint64_t(index / count));
      place = int64_t(permuted(uint64_t(index % count), uint64_t(count), key));
    }
    int64_t out = row * columns;
    for (const ExamplePiece &piece : exampleRows->row(place)) {
      source->read(piece.first, inputs.subspan(size_t(out), size_t(piece.count)));
      source->readTargets(piece.first + 1, targets.subspan(size_t(out), size_t(piece.count)));
      out += piece.count;
    }
  }
}

PrefetchedBatches::PrefetchedBatches(const Batches &batches, runtime::Trace *timeLine)
    : batches(batches), timeLine(timeLine), inputs(size_t(batches.batch() * batches.sequence())),
      targets(inputs.size()) {}

PrefetchedBatches::~PrefetchedBatches() {
  if (next.valid())
    next.wait();
}

void PrefetchedBatches::begin(int64_t step) {
  begun = step;
  next = std::async(std::launch::async, [this, step] {
    const runtime::TraceScope traced(timeLine, "batch reading", "read batch", "data", {{"step", step}});
    batches.read(step, inputs, targets);
  });
}

void PrefetchedBatches::read(int64_t step, std::span<int32_t> stepInputs, std::span<int32_t> stepTargets) {
  if (next.valid() && begun != step)
    next.wait();
  if (!next.valid() || begun != step)
    begin(step);
  next.get();
  std::copy(inputs.begin(), inputs.end(), stepInputs.begin());
  std::copy(targets.begin(), targets.end(), stepTargets.begin());
  begin(step + 1);
}

} // namespace tcc::models
