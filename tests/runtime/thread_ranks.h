// Ranks as threads of one process, for tests. It is no kinder than an engine may be: a collective reads what it sends
// when it starts and refuses if that has changed before it is over; what it writes is filled with 0xA5 until then; it
// is over as late or as early as its timing says; and it names what other ranks do differently.
#pragma once
#include "runtime/ranks/ranks.h"
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace tcc::runtime::test {

enum class Timing { late, early, random }; ///< over when waited for, when first asked about, or at any time between

/// What the ranks of one run share: by the number of a collective, what each rank came to.
struct ThreadRun {
  explicit ThreadRun(int64_t count) : count(count) {}

  struct Part {
    std::string what;              ///< op and bytes, as all ranks must have it
    std::vector<std::string> sent; ///< to each rank, or one for all
  };
  const int64_t count;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<uint64_t, std::vector<std::optional<Part>>> meetings; ///< by number: each rank's part
};

class ThreadRanks final : public Ranks {
public:
  ThreadRanks(std::shared_ptr<ThreadRun> run, int64_t rank, Timing timing, uint64_t seed)
      : run(std::move(run)), own(rank), timing(timing), generator(seed) {}

  int64_t started = 0, mostInFlight = 0; ///< collectives

  int64_t rank() const override { return own; }
  int64_t count() const override { return run->count; }
  std::string engine() const override { return "threads"; }

  Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                              std::span<const int64_t> receiveBytes) override {
    std::vector<std::string> sent;
    const auto *from = static_cast<const char *>(send);
    int64_t whole = 0;
    for (int64_t bytes : sendBytes) {
      sent.emplace_back(from + whole, static_cast<size_t>(bytes));
      whole += bytes;
    }
    Target target{static_cast<char *>(receive), 0};
    for (size_t rank = 0; rank < receiveBytes.size(); ++rank) {
      if (static_cast<int64_t>(rank) == own && sendBytes[rank] == 0)
        sent[rank].assign(target.data + target.count, static_cast<size_t>(receiveBytes[rank]));
      target.count += receiveBytes[rank];
    }
    return start("all_to_all", std::move(sent), {from, whole}, target);
  }
  Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) override {
    const auto *from = static_cast<const char *>(send);
    return start("all_gather of " + std::to_string(bytes), {std::string(from, static_cast<size_t>(bytes))},
                 {from, bytes}, {static_cast<char *>(receive), bytes * count()});
  }
  Expected<RankWork> allReduce(float *values, int64_t number) override {
    auto *bytes = reinterpret_cast<char *>(values);
    return start("all_reduce of " + std::to_string(number), {std::string(bytes, static_cast<size_t>(number) * 4)}, {},
                 {bytes, number * 4});
  }
  Expected<RankWork> broadcast(void *, int64_t, int64_t) override { return Error("steps have no broadcast"); }
  Expected<RankWork> barrier() override { return start("barrier", {""}, {}, {}); }

  Error wait(RankWork work) override {
    {
      std::unique_lock lock(run->mutex);
      if (!run->changed.wait_for(lock, std::chrono::seconds(60), [&] { return haveAllCome(work); }))
        return Error("rank " + std::to_string(own) + " waits for " + flights.at(work).what + " alone");
    }
    return end(work);
  }
  Expected<bool> isOver(RankWork work) override {
    {
      const std::lock_guard lock(run->mutex);
      if (timing == Timing::late || !haveAllCome(work) || (timing == Timing::random && generator() % 4))
        return false;
    }
    if (Error error = end(work))
      return error;
    return true;
  }
  [[noreturn]] void abort(int status) override { std::_Exit(status); }
  void finish() override {}

private:
  struct Bytes {
    const char *data = nullptr;
    int64_t count = 0;
  };
  struct Flight {
    std::string what, sent; ///< `sent`: the source as it was
    Bytes source;
    char *target = nullptr;
    int64_t targetBytes = 0;
  };
  struct Target {
    char *data = nullptr;
    int64_t count = 0;
  };

  Expected<RankWork> start(const std::string &what, std::vector<std::string> sent, Bytes source, Target target) {
    const auto number = static_cast<uint64_t>(++started);
    flights[number] = {what, std::string(source.data, static_cast<size_t>(source.count)), source, target.data,
                       target.count};
    mostInFlight = std::max(mostInFlight, static_cast<int64_t>(flights.size()));
    std::fill_n(target.data, target.count, static_cast<char>(0xA5));
    const std::lock_guard lock(run->mutex);
    auto &parts = run->meetings[number];
    parts.resize(static_cast<size_t>(count()));
    for (const auto &other : parts)
      if (other && other->what != what)
        return Error("rank " + std::to_string(own) + " comes to " + what + " as its collective " +
                     std::to_string(number) + ", another rank to " + other->what);
    parts[static_cast<size_t>(own)] = {what, std::move(sent)};
    run->changed.notify_all();
    return number;
  }

  bool haveAllCome(uint64_t number) const {
    return std::ranges::all_of(run->meetings.at(number), [](const auto &part) { return part.has_value(); });
  }

  Error end(uint64_t number) {
    const Flight flight = flights.extract(number).mapped();
    if (std::string_view(flight.source.data, static_cast<size_t>(flight.source.count)) != flight.sent)
      return Error("what " + flight.what + " sends was written in flight");
    if (!std::all_of(flight.target, flight.target + flight.targetBytes,
                     [](char byte) { return byte == static_cast<char>(0xA5); }))
      return Error("what " + flight.what + " writes was written in flight");
    const std::lock_guard lock(run->mutex);
    const auto &parts = run->meetings.at(number);
    std::string received;
    if (flight.what.starts_with("all_reduce")) {
      std::vector<float> sums(static_cast<size_t>(flight.targetBytes) / 4);
      for (const auto &part : parts)
        for (size_t i = 0; i < sums.size(); ++i) {
          float value = 0;
          std::memcpy(&value, part->sent[0].data() + 4 * i, 4);
          sums[i] += value;
        }
      received.assign(reinterpret_cast<const char *>(sums.data()), sums.size() * 4);
    } else {
      for (const auto &part : parts)
        received += part->sent[part->sent.size() == 1 ? 0 : static_cast<size_t>(own)];
    }
    if (static_cast<int64_t>(received.size()) != flight.targetBytes)
      return Error(flight.what + " gives " + std::to_string(received.size()) + " bytes for " +
                   std::to_string(flight.targetBytes));
    std::ranges::copy(received, flight.target);
    return Error::success();
  }

  std::shared_ptr<ThreadRun> run;
  const int64_t own;
  const Timing timing;
  std::mt19937_64 generator;
  std::map<uint64_t, Flight> flights;
};

/// Calls `body` with each of `count` ranks (a std::shared_ptr<ThreadRanks>), each on a thread of its own. Their chances
/// follow from `seed` and their numbers.
template <typename Body>
void onThreads(int64_t count, Timing timing, uint64_t seed, Body &&body) {
  const auto run = std::make_shared<ThreadRun>(count);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < count; ++rank)
    threads.emplace_back(
        [&, rank] { body(std::make_shared<ThreadRanks>(run, rank, timing, seed + static_cast<uint64_t>(rank))); });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace tcc::runtime::test
