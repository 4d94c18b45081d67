// Ranks as processes that a test forks, which share memory: what a launcher and an MPI are to a run. Only what hosts
// exchange beside their steps is here, and a collective is over when its start returns.
#pragma once
#include "runtime/ranks/ranks.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace tcc::runtime::test {

class ProcessRanks final : public Ranks {
public:
  static constexpr int64_t mostRanks = 8, mostBytes = int64_t{8} << 20; ///< that a rank sends at once
  struct Shared {
    std::atomic<uint64_t> turns[mostRanks]; ///< by rank: two a collective, one when it has come and one when it leaves
    std::atomic<bool> isEnded;
    char bytes[mostRanks][mostBytes];
  };

  ProcessRanks(Shared &shared, int64_t rank, int64_t count) : shared(shared), own(rank), all(count) {}
  int64_t rank() const override { return own; }
  int64_t count() const override { return all; }
  std::string engine() const override { return "processes"; }

  Expected<RankWork> allGather(const void *send, void *receive, int64_t bytes) override {
    return exchange(send, bytes, [&] {
      for (int64_t rank = 0; rank < all; ++rank)
        std::memcpy(static_cast<char *>(receive) + rank * bytes, shared.bytes[rank], static_cast<size_t>(bytes));
    });
  }
  Expected<RankWork> broadcast(void *data, int64_t bytes, int64_t root) override {
    return exchange(data, bytes, [&] { std::memcpy(data, shared.bytes[root], static_cast<size_t>(bytes)); });
  }
  Expected<RankWork> barrier() override {
    return exchange(nullptr, 0, [] {});
  }
  Expected<RankWork> allToAll(const void *send, std::span<const int64_t> sendBytes, void *receive,
                              std::span<const int64_t> receiveBytes) override {
    int64_t whole = 0;
    for (int64_t bytes : sendBytes)
      whole += bytes;
    std::string sent(reinterpret_cast<const char *>(sendBytes.data()), sendBytes.size_bytes()); // then what they are of
    sent.append(static_cast<const char *>(send), static_cast<size_t>(whole));
    bool isAsSent = true;
    const auto work = exchange(sent.data(), static_cast<int64_t>(sent.size()), [&] {
      auto *to = static_cast<char *>(receive);
      for (int64_t rank = 0; rank < all; ++rank) {
        std::vector<int64_t> sizes(static_cast<size_t>(all));
        std::memcpy(sizes.data(), shared.bytes[rank], sizes.size() * sizeof sizes[0]);
        const char *from = shared.bytes[rank] + sizes.size() * sizeof sizes[0];
        for (int64_t other = 0; other < own; ++other)
          from += sizes[static_cast<size_t>(other)];
        const int64_t bytes = receiveBytes[static_cast<size_t>(rank)], sentHere = sizes[static_cast<size_t>(own)];
        isAsSent &= bytes == sentHere || (rank == own && sentHere == 0);
        std::memcpy(to, from, static_cast<size_t>(std::min(bytes, sentHere)));
        to += bytes;
      }
    });
    return isAsSent ? work : Error("a rank receives another number of bytes than it is sent");
  }
  Expected<RankWork> allReduce(float *, int64_t) override { return Error("hosts add nothing here"); }
  Error wait(RankWork) override { return Error::success(); }
  Expected<bool> isOver(RankWork) override { return true; }
  [[noreturn]] void abort(int status) override {
    shared.isEnded = true;
    ::_exit(status);
  }
  void finish() override {}
  /// Lets no rank wait for this one from now on.
  void end() { shared.isEnded = true; }

private:
  template <typename Read>
  Expected<RankWork> exchange(const void *send, int64_t bytes, Read &&read) {
    if (bytes > mostBytes)
      return Error("too many bytes for a test");
    if (!comeTo(turn)) // all have read what was there
      return Error("another rank has ended");
    if (bytes > 0)
      std::memcpy(shared.bytes[own], send, static_cast<size_t>(bytes));
    shared.turns[own] = turn + 1;
    if (!comeTo(turn + 1))
      return Error("another rank has ended");
    read();
    shared.turns[own] = turn += 2;
    return RankWork{1};
  }
  bool comeTo(uint64_t expected) const {
    for (int64_t rank = 0; rank < all; ++rank)
      while (shared.turns[rank] < expected) {
        if (shared.isEnded)
          return false;
        ::usleep(50); // ranks may be more than CPUs
      }
    return true;
  }

  Shared &shared;
  const int64_t own, all;
  uint64_t turn = 0;
};

/// Runs `body` in `count` processes and expects that no expectation fails there. A rank that fails, or takes more than
/// `seconds`, ends the others.
inline void onRanks(int64_t count, const std::function<void(const std::shared_ptr<ProcessRanks> &)> &body,
                    unsigned seconds = 400) {
  void *memory = mmap(nullptr, sizeof(ProcessRanks::Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto &shared = *static_cast<ProcessRanks::Shared *>(memory);
  const auto failures = [] {
    return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  const int before = failures();
  std::vector<pid_t> children;
  for (int64_t rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ::alarm(seconds);
    try {
      body(std::make_shared<ProcessRanks>(shared, rank, count));
    } catch (const std::exception &error) {
      ADD_FAILURE() << error.what();
    }
    const bool hasFailed = failures() > before;
    if (hasFailed)
      shared.isEnded = true;
    std::fflush(nullptr);
    ::_exit(hasFailed ? 1 : 0);
  }
  for (size_t ended = 0; ended < children.size(); ++ended) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    EXPECT_EQ(status, 0) << "rank " << std::ranges::find(children, child) - children.begin() << " of " << count;
    if (status == 0 || shared.isEnded.exchange(true))
      continue;
    for (const pid_t other : children) // soon, for they may wait where they do not look at isEnded
      if (other != child)
        ::kill(other, SIGALRM);
  }
  munmap(memory, sizeof(ProcessRanks::Shared));
}

} // namespace tcc::runtime::test
