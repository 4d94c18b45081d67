// Every function of runtime::Ranks, by whatever started this program with several ranks (tests/models/ranks_test.py).
#include "runtime/ranks/ranks.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

using namespace tcc::runtime;

namespace {

void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "error: %s\n", what);
  std::abort();
}

Ranks *ranks = nullptr;

void done(const Expected<RankWork> &work) {
  const Error error = work ? ranks->wait(*work) : work.error();
  require(!error, error.message().c_str());
}

/// What rank `from` sends to rank `to` at place i.
char byteOf(int64_t from, int64_t to, int64_t i) {
  return static_cast<char>(from * 31 + to * 17 + i * 7);
}

/// From rank i to rank j (i + 2 · j) · unit bytes; to itself nothing, where a rank keeps its own.
void exchange(int64_t unit, bool keepsOwn) {
  const int64_t own = ranks->rank(), count = ranks->count();
  std::vector<int64_t> sends, receives;
  std::vector<char> out, in, expected;
  for (int64_t other = 0; other < count; ++other) {
    const bool isKept = keepsOwn && other == own;
    sends.push_back(isKept ? 0 : (own + 2 * other) * unit);
    receives.push_back((other + 2 * own) * unit);
    for (int64_t i = 0; i < sends.back(); ++i)
      out.push_back(byteOf(own, other, i));
    for (int64_t i = 0; i < receives.back(); ++i)
      expected.push_back(byteOf(other, own, i));
    in.resize(expected.size());
    if (isKept)
      std::copy(expected.end() - receives.back(), expected.end(), in.end() - receives.back());
  }
  done(ranks->allToAll(out.data(), sends, in.data(), receives));
  require(in == expected, "all_to_all gives what was sent");
}

/// Exchanges that are under way together, and are over in any order.
void severalAtOnce() {
  const int64_t own = ranks->rank(), count = ranks->count(), bytes = 200000;
  constexpr size_t flights = 6;
  std::vector<int64_t> each(static_cast<size_t>(count), bytes);
  std::vector<std::vector<char>> out(flights), in(flights);
  std::vector<RankWork> works;
  for (size_t flight = 0; flight < flights; ++flight) {
    out[flight].assign(static_cast<size_t>(bytes * count), byteOf(own, static_cast<int64_t>(flight), 0));
    in[flight].resize(out[flight].size());
    const auto work = flight % 2 ? ranks->allGather(out[flight].data(), in[flight].data(), bytes)
                                 : ranks->allToAll(out[flight].data(), each, in[flight].data(), each);
    require(bool(work), "a collective starts while others are under way");
    works.push_back(*work);
  }
  std::vector<bool> isOver(flights);
  for (int round = 0; round < 1000; ++round)
    for (size_t flight = flights; flight-- > 0;)
      if (!isOver[flight]) {
        const Expected<bool> over = ranks->isOver(works[flight]);
        require(bool(over), "a collective can be asked whether it is over");
        isOver[flight] = *over;
      }
  for (size_t flight = 0; flight < flights; ++flight) {
    if (!isOver[flight])
      done(works[flight]);
    for (int64_t i = 0; i < bytes * count; ++i)
      require(in[flight][static_cast<size_t>(i)] == byteOf(i / bytes, static_cast<int64_t>(flight), 0),
              "each exchange gives its own bytes");
  }
}

} // namespace

int main() {
  const Expected<std::shared_ptr<Ranks>> joined = joinRanks();
  require(bool(joined), joined.error().message().c_str());
  require(*joined != nullptr, "a launcher starts this program");
  ranks = joined->get();
  const int64_t own = ranks->rank(), count = ranks->count();
  for (int64_t unit : {1, 3, 64, 4096, 100000})
    for (bool keepsOwn : {false, true})
      exchange(unit, keepsOwn);
  for (int64_t bytes : {1, 63, 64, 1 << 20}) {
    std::vector<char> mine(static_cast<size_t>(bytes), byteOf(own, 0, bytes)), all(static_cast<size_t>(bytes * count));
    done(ranks->allGather(mine.data(), all.data(), bytes));
    for (int64_t i = 0; i < bytes * count; ++i)
      require(all[static_cast<size_t>(i)] == byteOf(i / bytes, 0, bytes),
              "all_gather gives each rank's bytes in order");
    done(ranks->broadcast(mine.data(), bytes, count - 1));
    require(mine.back() == byteOf(count - 1, 0, bytes), "broadcast gives the root's bytes");
  }
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), static_cast<float>(own));
  done(ranks->allReduce(values.data(), 1000));
  for (int64_t i = 0; i < 1000; ++i)
    require(values[static_cast<size_t>(i)] == static_cast<float>(i * count + count * (count - 1) / 2),
            "all_reduce adds all ranks' values");
  severalAtOnce();
  done(ranks->barrier());
  if (own == 0)
    std::printf("%lld ranks by %s\n", static_cast<long long>(count), ranks->engine().c_str());
  ranks->finish();
  return 0;
}
