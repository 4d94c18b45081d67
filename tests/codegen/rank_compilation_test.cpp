// Ranks that compile together: which one compiles a program, which one compiles a kernel, and what becomes of errors.
#include "codegen/cpu/shared_code.h"
#include "codegen/rank_compilation.h"
#include "kernel_runner.h"
#include "tests/expect_text.h"
#include "tests/runtime/thread_ranks.h"

using namespace tcc;
using namespace tcc::test;

namespace {

using runtime::test::Timing;

/// Calls `body` on a thread for each rank.
template <typename Body>
void onRanks(int64_t count, Body &&body) {
  runtime::test::onThreads(count, Timing::random, 11, [&](const auto &ranks) { body(*ranks); });
}

struct Program {
  std::string digest;
  bool isKept = false;
};

/// For each rank whose step it takes; '*' after those that compile.
std::string sourcesOf(const std::vector<Program> &programs) {
  std::vector<std::string> words(programs.size());
  onRanks(static_cast<int64_t>(programs.size()), [&](runtime::Ranks &ranks) {
    const auto rank = static_cast<size_t>(ranks.rank());
    const auto agreed = RankCompilation::agree(ranks, programs[rank].digest, programs[rank].isKept);
    ASSERT_TRUE(agreed) << agreed.error().message();
    words[rank] = std::to_string(agreed->source()) + (agreed->compiles() ? "*" : "") + (agreed->isSource() ? "!" : "") +
                  (agreed->isAnyCompiling() ? "" : " done");
  });
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

TEST(RankCompilation, OneOfThoseWithEqualProgramsCompiles) {
  EXPECT_EQ(sourcesOf({{"a"}, {"a"}, {"a"}}), "0*!, 0, 0");
  EXPECT_EQ(sourcesOf({{"a"}, {"b"}, {"a"}, {"b"}}), "0*!, 1*!, 0, 1");
  EXPECT_EQ(sourcesOf({{"a"}, {"b"}}), "0*, 1*");
  EXPECT_EQ(sourcesOf({{""}, {""}}), "0*, 1*") << "of unknown programs none is equal to another";
}

TEST(RankCompilation, WhoHasTheStepSendsIt) {
  EXPECT_EQ(sourcesOf({{"a"}, {"a", true}, {"a"}}), "1 done, 1! done, 1 done");
  EXPECT_EQ(sourcesOf({{"a", true}, {"b"}, {"a", true}}), "0, 1*, 2");
  EXPECT_EQ(sourcesOf({{"a", true}, {"a", true}}), "0 done, 1 done");
}

TEST(RankCompilation, AnErrorIsOneOfAllRanks) {
  onRanks(3, [](runtime::Ranks &ranks) {
    const auto agreed = RankCompilation::agree(ranks, "a", false);
    ASSERT_TRUE(agreed);
    EXPECT_FALSE(agreed->shareError({}, ""));
    const runtime::Error own = ranks.rank() == 1 ? runtime::Error("no memory") : runtime::Error();
    EXPECT_EQ(agreed->shareError(own, "").message(), ranks.rank() == 1 ? "no memory" : "rank 1: no memory");
    const runtime::Error explained = ranks.rank() == 2 ? runtime::Error("") : runtime::Error();
    EXPECT_EQ(agreed->shareError(explained, "'tcc.lanes' op is wrong").message(),
              ranks.rank() == 2 ? "" : "rank 2: 'tcc.lanes' op is wrong");
  });
}

TEST(RankCompilation, EntriesGoToThoseWithTheSameProgram) {
  onRanks(4, [](runtime::Ranks &ranks) {
    const auto agreed = RankCompilation::agree(ranks, ranks.rank() % 2 ? "odd" : "even", false);
    ASSERT_TRUE(agreed);
    const auto received = agreed->exchange(agreed->isSource() ? "of " + std::to_string(ranks.rank()) : "");
    ASSERT_TRUE(received) << received.error().message();
    EXPECT_EQ(*received, ranks.rank() < 2 ? "" : "of " + std::to_string(ranks.rank() - 2));
    const auto lost = agreed->exchange("");
    EXPECT_EQ(bool(lost), ranks.rank() < 2);
    if (ranks.rank() == 3) {
      EXPECT_HAS(lost.error().message(), "rank 1, which has the same program, could not compile it");
    }
  });
}

KernelSource layerNormOf(int64_t columns) {
  cpu::EmitOptions options;
  options.threads = 1;
  return FormKernel{"k" + std::to_string(columns), LoadedKernel(layerNorm(4, columns), options).info};
}

TEST(RankCompilation, EachKernelIsCompiledByOneRank) {
  cpu::EmitOptions options;
  options.threads = 1;
  const KernelSource a = layerNormOf(20), b = layerNormOf(21), c = layerNormOf(22), d = layerNormOf(23);
  const std::vector<std::vector<KernelSource>> lists{{a, b, c}, {b, d, a}, {}, {c, a, b}};
  std::map<std::string, std::string> alone; // code by symbol
  for (const KernelSource &kernel : {a, b, c, d}) {
    cpu::SharedCode::forget();
    cpu::SharedCode code(kernel, options);
    ASSERT_FALSE(code.compileMissing());
    alone[symbolOf(kernel)] = code.object(0);
  }
  cpu::SharedCode::forget();
  std::vector<cpu::SharedCode> codes; // all made while nothing is compiled
  for (const auto &list : lists)
    codes.emplace_back(list, options);
  onRanks(4, [&](runtime::Ranks &ranks) {
    const runtime::Error problem = codes[static_cast<size_t>(ranks.rank())].compileTogether(ranks, "build");
    EXPECT_FALSE(problem) << problem.message();
  });
  std::map<std::string, int> made; // by how many ranks
  std::vector<size_t> madeBy;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    EXPECT_TRUE(codes[rank].missing().empty());
    for (size_t i = 0; i < lists[rank].size(); ++i) {
      EXPECT_EQ(codes[rank].object(i), alone[symbolOf(lists[rank][i])]);
      made[symbolOf(lists[rank][i])] += !codes[rank].isReceived(i);
    }
    madeBy.push_back(lists[rank].size() - codes[rank].receivedCount());
  }
  for (const auto &[symbol, times] : made)
    EXPECT_EQ(times, 1) << symbol;
  EXPECT_EQ(madeBy[1] + madeBy[0] + madeBy[3], 4u);
  for (size_t rank : {0, 1, 3})
    EXPECT_GE(madeBy[rank], 1u) << "all who lack something have work, rank " << rank;
}

/// A kernel that cannot be compiled is an error of each rank that needs it, and of no other.
TEST(RankCompilation, WhatCannotBeCompiledIsAnErrorWhereItIsNeeded) {
  cpu::EmitOptions options;
  options.threads = 1;
  const KernelSource good = layerNormOf(24), bad = TextKernel{"bad", "no such kernel"};
  const std::vector<std::vector<KernelSource>> lists{{good}, {bad}, {bad, good}};
  cpu::SharedCode::forget();
  std::vector<cpu::SharedCode> codes;
  for (const auto &list : lists)
    codes.emplace_back(list, options);
  onRanks(3, [&](runtime::Ranks &ranks) {
    cpu::SharedCode &code = codes[static_cast<size_t>(ranks.rank())];
    const runtime::Error problem = code.compileTogether(ranks, "build");
    EXPECT_FALSE(problem) << problem.message();
    const runtime::Error own = code.compileMissing();
    EXPECT_EQ(bool(own), ranks.rank() > 0);
    if (own) {
      EXPECT_HAS(own.message(), "the CPU has no 'no such kernel'");
    }
  });
}

} // namespace
