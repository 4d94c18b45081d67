// An operation on a stream, in two pieces, so that other work may come between them. It begins: what is sent is read,
// and what is received is filled with NaN. It ends: all ranks have come, what they came with is compared, what was sent
// is still the same, and what was received is there.
#include "tests/cuda_machine/nccl/communicator.h"
#include "tests/cuda_machine/stream_hook.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tcc::nccl {
namespace {

constexpr char poison = static_cast<char>(0xff);

bool isExchange(Kind kind) {
  return kind == Kind::send || kind == Kind::receive;
}

std::string textOf(const PartFacts &facts) {
  constexpr const char *types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                   "uint64", "float16", "float32", "float64", "bfloat16"};
  std::string text = std::string(nameOf(facts.kind)) + " of " + std::to_string(facts.count) + " " + types[facts.type];
  if (facts.kind == Kind::allReduce)
    text += " by op " + std::to_string(facts.op);
  if (facts.kind == Kind::broadcast)
    text += " from rank " + std::to_string(facts.peer);
  return text;
}

struct Operation {
  std::shared_ptr<Communicator> communicator;
  std::vector<Part> parts;
  std::uint64_t call = 0;
  bool captured = false, begun = false;
  std::uint64_t number = 0; // of the run under way

  void begin();
  void end();

private:
  std::string name() const { return "NCCL operation " + std::to_string(number + 1); }
  static void fault(const std::string &text) { tccStreamHook()->fault(text.c_str()); }
  bool waitFor(std::atomic<std::uint64_t> Slot::*what, std::uint64_t value);
  std::string memoryProblem() const;
  std::vector<PartFacts> factsOf(int rank, bool exchanges) const;
  std::string difference(int other) const;
  std::string differenceOfExchanges(int from, int to) const;
  std::string touched() const;
  const PartFacts &counterpart(std::size_t index, int rank) const;
  void deliver(std::size_t index);
};

/// Until the number of all ranks is at least `value`. False: the communicator was aborted, or nobody came in time.
bool Operation::waitFor(std::atomic<std::uint64_t> Slot::*what, std::uint64_t value) {
  using Clock = std::chrono::steady_clock;
  Clock::duration waited{};
  Clock::time_point before = Clock::now();
  for (int rank = 0; rank < communicator->ranks; ++rank)
    for (int turn = 0; communicator->meeting->slot(rank).*what < value; ++turn) {
      if (communicator->isAborted)
        return false;
      if (communicator->meeting->slot(rank).failed && communicator->state == success)
        communicator->state = remoteError;
      if (turn > 100)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      const Clock::time_point now = Clock::now();
      waited += std::min<Clock::duration>(now - before, std::chrono::milliseconds(100)); // this process may be stopped
      before = now;
      if (waited > std::chrono::seconds(communicator->settings.seconds)) {
        fault(name() + ": rank " + std::to_string(communicator->rank) + " waits for rank " + std::to_string(rank) +
              ", which has not come for " + std::to_string(communicator->settings.seconds) + " s");
        return false;
      }
    }
  return !communicator->isAborted;
}

std::string Operation::memoryProblem() const {
  for (const Part &part : parts) {
    if (part.source && !tccStreamHook()->isDeviceMemory(part.source, part.sourceBytes))
      return name() + ": what " + textOf(part.facts) + " sends is no live memory of the device";
    if (part.target && !tccStreamHook()->isDeviceMemory(part.target, part.targetBytes))
      return name() + ": what " + textOf(part.facts) + " writes is no live memory of the device";
  }
  return "";
}

void Operation::begin() {
  begun = false;
  if (communicator->isAborted)
    return;
  number = communicator->begun++;
  Slot &own = communicator->own();
  if (own.collected != number)
    return fault(name() + " begins before the one before it has ended: its streams are in no order");
  if (communicator->has(communicator->settings.hang, number + 1)) {
    waitFor(&Slot::posted, UINT64_MAX);
    return;
  }
  if (std::string problem = memoryProblem(); !problem.empty())
    return fault(problem);
  if (!waitFor(&Slot::collected, number)) // what this rank has sent before was read
    return;
  own.call = call;
  own.captured = captured;
  own.parts = static_cast<int>(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    own.facts[i] = parts[i].facts;
    if (parts[i].source)
      std::memcpy(communicator->meeting->sent(communicator->rank) + parts[i].facts.offset, parts[i].source,
                  parts[i].sourceBytes);
  }
  for (const Part &part : parts)
    if (part.target)
      std::memset(part.target, poison, part.targetBytes);
  begun = true;
  own.posted = number + 1;
  if (communicator->has(communicator->settings.broken, number + 1))
    communicator->state = communicator->settings.code;
}

std::vector<PartFacts> Operation::factsOf(int rank, bool exchanges) const {
  const Slot &slot = communicator->meeting->slot(rank);
  std::vector<PartFacts> facts;
  for (int i = 0; i < slot.parts; ++i)
    if (isExchange(slot.facts[i].kind) == exchanges)
      facts.push_back(slot.facts[i]);
  return facts;
}

/// What rank `from` sends to `to`, and what that receives, in order.
std::string Operation::differenceOfExchanges(int from, int to) const {
  std::vector<PartFacts> sent = factsOf(from, true), received = factsOf(to, true);
  std::erase_if(sent, [&](const PartFacts &part) { return part.kind != Kind::send || part.peer != to; });
  std::erase_if(received, [&](const PartFacts &part) { return part.kind != Kind::receive || part.peer != from; });
  const std::string ranks = "rank " + std::to_string(from) + " to rank " + std::to_string(to);
  if (sent.size() != received.size())
    return name() + ": " + ranks + ": " + std::to_string(sent.size()) + " sends and " +
           std::to_string(received.size()) + " receives";
  for (std::size_t i = 0; i < sent.size(); ++i)
    if (sent[i].count != received[i].count || sent[i].type != received[i].type)
      return name() + ": " + ranks + ": " + textOf(sent[i]) + " and " + textOf(received[i]);
  return "";
}

/// What a rank came with that does not fit.
std::string Operation::difference(int other) const {
  const Slot &own = communicator->own(), &slot = communicator->meeting->slot(other);
  const std::string they = "rank " + std::to_string(other), we = "rank " + std::to_string(communicator->rank);
  const std::vector<PartFacts> theirs = factsOf(other, false), ours = factsOf(communicator->rank, false);
  for (std::size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
    const auto textAt = [&](const std::vector<PartFacts> &list) {
      return i < list.size() ? textOf(list[i]) : "nothing";
    };
    if (textAt(theirs) != textAt(ours))
      return name() + ": " + we + " has " + textAt(ours) + ", " + they + " " + textAt(theirs);
  }
  for (const auto &[from, to] : {std::pair(communicator->rank, other), {other, communicator->rank}})
    if (std::string text = differenceOfExchanges(from, to); !text.empty())
      return text;
  if (slot.captured != own.captured)
    return name() + ": " + (own.captured ? we : they) + " runs it in a graph, " + (own.captured ? they : we) +
           " does not";
  if (slot.call != own.call)
    return name() + ": it is call " + std::to_string(own.call) + " of " + we + " and call " +
           std::to_string(slot.call) + " of " + they + ": a rank has captured more than the other";
  return "";
}

/// What was written in flight.
std::string Operation::touched() const {
  for (const Part &part : parts) {
    const bool inPlace = part.source && part.target && part.source < part.target + part.targetBytes &&
                         part.target < part.source + part.sourceBytes;
    const char *sent = communicator->meeting->sent(communicator->rank) + part.facts.offset;
    if (part.source && !inPlace && std::memcmp(part.source, sent, part.sourceBytes) != 0)
      return name() + ": what " + textOf(part.facts) + " sends was written in flight";
    if (part.target &&
        !std::all_of(part.target, part.target + part.targetBytes, [](char byte) { return byte == poison; }))
      return name() + ": what " + textOf(part.facts) + " writes was written in flight";
  }
  return "";
}

/// The part of another rank that belongs to part `index` of this one.
const PartFacts &Operation::counterpart(std::size_t index, int rank) const {
  const Part &part = parts[index];
  const Slot &slot = communicator->meeting->slot(rank);
  const auto belongs = [&](const PartFacts &mine, const PartFacts &theirs) {
    return isExchange(mine.kind) ? theirs.kind == Kind::send && theirs.peer == communicator->rank
                                 : !isExchange(theirs.kind);
  };
  const auto isLike = [&](const PartFacts &other) {
    return isExchange(part.facts.kind) ? other.kind == Kind::receive && other.peer == rank : !isExchange(other.kind);
  };
  std::ptrdiff_t place = std::count_if(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(index),
                                       [&](const Part &before) { return isLike(before.facts); });
  return *std::find_if(slot.facts, slot.facts + slot.parts,
                       [&](const PartFacts &theirs) { return belongs(part.facts, theirs) && place-- == 0; });
}

void Operation::deliver(std::size_t index) {
  const Part &part = parts[index];
  const auto from = [&](int rank) { return communicator->meeting->sent(rank) + counterpart(index, rank).offset; };
  const int ranks = communicator->ranks;
  const std::size_t bytes = static_cast<std::size_t>(part.facts.count) * bytesOf(part.facts.type);
  switch (part.facts.kind) {
  case Kind::send:
    return;
  case Kind::receive:
  case Kind::broadcast:
    std::memcpy(part.target, from(part.facts.peer), bytes);
    return;
  case Kind::allGather:
    for (int rank = 0; rank < ranks; ++rank)
      std::memcpy(part.target + static_cast<std::size_t>(rank) * bytes, from(rank), bytes);
    return;
  case Kind::allReduce:
    for (std::size_t i = 0; i < part.facts.count; ++i) { // each element in another order, the same on all ranks
      float sum = 0;
      for (int turn = 0; turn < ranks; ++turn) {
        float value = 0;
        std::memcpy(&value, from((static_cast<int>(i % 7) + turn) % ranks) + 4 * i, 4);
        sum = turn == 0 ? value : sum + value;
      }
      std::memcpy(part.target + 4 * i, &sum, 4);
    }
    return;
  }
}

void Operation::end() {
  if (!begun || !waitFor(&Slot::posted, number + 1))
    return;
  for (int rank = 0; rank < communicator->ranks; ++rank) // itself too: what it sends itself
    if (std::string text = difference(rank); !text.empty())
      return fault(text);
  if (std::string text = touched(); !text.empty())
    return fault(text);
  for (std::size_t i = 0; i < parts.size(); ++i)
    deliver(i);
  communicator->own().collected = number + 1;
}

using Held = std::shared_ptr<Operation>;

template <void (Operation::*piece)()>
int put(const Held &operation, void *stream) {
  return tccStreamHook()->enqueue(
      stream, [](void *held) { (static_cast<Held *>(held)->get()->*piece)(); }, new Held(operation),
      [](void *held) { delete static_cast<Held *>(held); });
}

} // namespace

int enqueue(const std::shared_ptr<Communicator> &communicator, std::vector<Part> parts, void *stream) {
  const auto operation = std::make_shared<Operation>();
  operation->communicator = communicator;
  operation->call = communicator->calls++;
  std::size_t offset = 0;
  for (Part &part : parts) {
    part.facts.offset = offset;
    offset += (part.sourceBytes + 63) / 64 * 64;
  }
  if (offset > mostSent || parts.size() > mostParts)
    return refuse(communicator.get(), internalError, "the stand-in takes no operation of this size");
  operation->parts = std::move(parts);
  operation->captured = tccStreamHook()->isCapturing(stream) != 0;
  for (const int result : {put<&Operation::begin>(operation, stream), put<&Operation::end>(operation, stream)})
    if (result != 0)
      return refuse(communicator.get(), unhandledCudaError,
                    "the stream took no operation: CUresult " + std::to_string(result));
  return success;
}

} // namespace tcc::nccl
