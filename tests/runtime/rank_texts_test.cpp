// Texts of any length between ranks.
#include "tests/runtime/thread_ranks.h"
#include <gtest/gtest.h>

namespace tcc::runtime {
namespace {

using test::Timing;

/// Calls `body` on a thread for each rank.
template <typename Body>
void onRanks(int64_t count, Body &&body) {
  test::onThreads(count, Timing::random, 3, [&](const auto &ranks) { body(*ranks); });
}

/// What rank `from` sends to rank `to`; nothing for some.
std::string textOf(int64_t from, int64_t to) {
  const auto letter = static_cast<char>('a' + from * 5 + to);
  return std::string(static_cast<size_t>((from * 7 + to * 3) % 5), letter);
}

TEST(RankTexts, AreGatheredByRank) {
  constexpr int64_t count = 4;
  std::vector<std::string> expected;
  for (int64_t rank = 0; rank < count; ++rank)
    expected.push_back(textOf(rank, 0));
  EXPECT_EQ(expected.front(), "") << "an empty text is one of them";
  onRanks(count, [&](Ranks &ranks) {
    const auto texts = gatherTexts(ranks, textOf(ranks.rank(), 0));
    ASSERT_TRUE(texts) << texts.error().message();
    EXPECT_EQ(*texts, expected);
    const auto none = gatherTexts(ranks, "");
    ASSERT_TRUE(none) << none.error().message();
    EXPECT_EQ(*none, std::vector<std::string>(count));
  });
}

TEST(RankTexts, AreExchanged) {
  for (int64_t count : {1, 3, 5})
    onRanks(count, [&](Ranks &ranks) {
      std::vector<std::string> sent, expected;
      for (int64_t other = 0; other < count; ++other) {
        sent.push_back(textOf(ranks.rank(), other));
        expected.push_back(textOf(other, ranks.rank()));
      }
      const auto received = exchangeTexts(ranks, sent);
      ASSERT_TRUE(received) << received.error().message();
      EXPECT_EQ(*received, expected);
    });
}

} // namespace
} // namespace tcc::runtime
