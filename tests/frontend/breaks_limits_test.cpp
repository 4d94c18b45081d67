// Graph breaks on bad input and at their limits: ways that never repeat, loops that never end, handles of another call,
// what is kept and for how long. Each mistake is one message, and the states keep their bits.
#include "runtime/memory.h"
#include "tests/frontend/quiet_functions.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <string>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

int64_t countOf(const std::vector<std::string> &said, std::string_view start) {
  return std::ranges::count_if(said, [&](const std::string &text) { return text.starts_with(start); });
}

/// A weight whose value nothing may change but a whole step.
struct Weight {
  Parameter w{"w", {4}};
  Weight() { std::ranges::fill(w.data<float>(), 0.5f); }
  bool isUntouched() const {
    return std::ranges::all_of(w.read<float>(), [](float value) { return value == 0.5f; });
  }
};

TEST(BreakLimits, ABranchThatNeverRepeatsIsSaidOnceAndTrainsAllTheSame) {
  std::vector<std::string> said;
  Weight state, plain;
  const auto deep = [](Weight &held, int turns, const Tensor &x) {
    Tensor y = x * held.w;
    for (int i = 0; i < turns; ++i)
      y = tanh(y);
    const Tensor loss = mean(y * y);
    assign(held.w, held.w - 0.1 * gradient(loss, {held.w}));
    return loss;
  };
  Function f = compile("deep", [&](Tensor x) { return deep(state, static_cast<int>(max(x).item()), x); }, quiet(&said));
  for (int turns = 1; turns <= 12; ++turns) {
    Function known = compile("known", [&](Tensor x) { return deep(plain, turns, x); }, quiet());
    const Array x = sequence({4}, static_cast<float>(turns), -0.1f);
    EXPECT_NEAR(f(x)[0].item(), known(x)[0].item(), 1e-6);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(state.w.read<float>()[i], plain.w.read<float>()[i], 1e-6);
  }
  EXPECT_EQ(f.counters().cache.misses, 13) << "what is looked at, and a step for each call";
  EXPECT_EQ(countOf(said, "warning: 'deep' has compiled at each of its last 8 calls; the last one recompiled: another "
                          "way than the last call's, `tanh` at breaks_limits_test.cpp:"),
            1);
  EXPECT_EQ(countOf(said, "warning"), 1);
  EXPECT_EQ(countOf(said, "recompiled: another way than the last call's, `tanh` at "), 11);
  ASSERT_EQ(f.report().recompiles.size(), 1u) << f.report().text();
  EXPECT_EQ(f.report().recompiles[0].times, 11);
}

TEST(BreakLimits, AWayThatNeverRepeatsIsRefusedAtItsLineWhereItIsAnError) {
  FunctionOptions strict = quiet();
  strict.recompilesAreErrors = true;
  Weight state;
  uint32_t line = 0;
  Function f = compile(
      "f",
      [&](Tensor x) {
        const auto at = static_cast<int64_t>(sum(x).item());
        assign(state.w, state.w + 1.0);
        line = __LINE__ + 1;
        return slice(x, 0, at, at + 1);
      },
      strict);
  f(sequence({4}, 0, 0));
  std::ranges::fill(state.w.data<float>(), 0.5f);
  for (int again = 0; again < 2; ++again) {
    const Error error = thrownBy([&] { f(sequence({4}, 0.25f, 0)); });
    EXPECT_EQ(error.line(), line);
    EXPECT_EQ(error.message(), "'f' recompiled: other operands or attributes than in the last call of `slice` at "
                               "breaks_limits_test.cpp:" +
                                   std::to_string(line) + " [-Werror=recompile]");
    EXPECT_TRUE(state.isUntouched());
    f(sequence({4}, 0, 0));
    std::ranges::fill(state.w.data<float>(), 0.5f);
  }
}

TEST(BreakLimits, AConstantThatBecomesAnInputIsSaidInTheseWords) {
  std::vector<std::string> said;
  Function f = compile("f", [](Tensor x) { return x * sum(x).item(); }, quiet(&said));
  for (int i = 1; i <= 20; ++i)
    EXPECT_EQ(f(sequence({2}, static_cast<float>(i), 0))[0].item(1), 2.0 * i * i);
  EXPECT_EQ(f.counters().cache.misses, 3) << "the sum, and the product with a constant and with an input";
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].rfind("recompiled: constant 2 → 4 at breaks_limits_test.cpp:", 0), 0u) << said[0];
  EXPECT_NE(said[0].find(", computed from a value that was read, is an input from now on"), std::string::npos);
}

TEST(BreakLimits, LoopsThatDoNotEndAreErrorsAndLeaveTheStates) {
  std::vector<std::string> said;
  Weight state;
  const auto expectRefused = [&](const char *what, auto body, const std::string &expected, int64_t warnings) {
    said.clear();
    Function f = compile(
        what,
        [&](Tensor x) {
          assign(state.w, state.w + 1.0);
          return body(x);
        },
        quiet(&said));
    const Error error = thrownBy([&] { f(sequence({1}, 1, 0)); });
    EXPECT_NE(error.message().find(expected), std::string::npos) << what << ": " << error.message();
    EXPECT_GT(error.line(), 0u);
    EXPECT_NE(error.file().find("breaks_limits_test.cpp"), std::string::npos);
    EXPECT_EQ(countOf(said, "warning"), warnings) << what;
    EXPECT_TRUE(state.isUntouched()) << what;
  };
  expectRefused(
      "equal turns",
      [](Tensor x) {
        while (sum(x) > 0.0)
          x = x * 1.0;
        return x;
      },
      "for the 16385th time in one call; a loop that ends by data must end", 0);
  expectRefused(
      "other constants",
      [](Tensor x) {
        for (int i = 0; sum(x) > 0.0; ++i)
          x = x + static_cast<double>(i);
        return x;
      },
      "for the 16385th time in one call; a loop that ends by data must end", 0);
}

TEST(BreakLimits, ALoopWhoseTurnsAllCompileSaysSoOnce) {
  std::vector<std::string> said;
  Function f = compile(
      "grows",
      [](Tensor x) {
        const Tensor one = slice(x, 0, 0, 1);
        while (sum(x) < 80.0)
          x = concat({x, one}, 0);
        return x;
      },
      quiet(&said));
  for (int call = 0; call < 2; ++call)
    EXPECT_EQ(f(sequence({1}, 1, 0))[0].shape()[0], 80);
  EXPECT_EQ(countOf(said, "warning"), 1);
  EXPECT_EQ(countOf(said, "warning: 'grows' has compiled 64 segments in one call for a condition at "
                          "breaks_limits_test.cpp:"),
            1);
}

TEST(BreakLimits, HandlesOfAnotherCallAndEmptyOnesAreErrors) {
  Weight state;
  Tensor old;
  int use = -1;
  Function f = compile(
      "f",
      [&](Tensor x) {
        const Tensor loss = sum(x * state.w), none;
        static_cast<void>(loss.item());
        assign(state.w, state.w - 0.1 * gradient(loss, {state.w}));
        switch (use) {
        case 0:
          return loss + old;
        case 1:
          return loss * old.item();
        case 2:
          print("old", old);
          return loss;
        case 3:
          return loss > old ? loss : x;
        case 4:
          return gradient(old, Tensor(state.w));
        case 5:
          return old;
        case 6:
          return old ? loss : x;
        case 7:
          return loss + none;
        case 8:
          return none ? loss : x;
        case 9:
          return none;
        default:
          old = x * 2.0;
          return loss;
        }
      },
      quiet());
  const Array x = sequence({4}, 0, 1);
  f(x);
  std::ranges::fill(state.w.data<float>(), 0.5f);
  for (use = 0; use < 10; ++use) {
    const Error error = thrownBy([&] { f(x); });
    const char *expected = use == 8 ? "a condition on an empty tensor; defined() asks whether a handle holds one"
                           : use == 5 || use == 9
                               ? "the traced function returns a tensor that is empty or of an earlier call"
                           : use == 7 ? "an empty tensor is used"
                                      : "a tensor of an earlier call is used";
    EXPECT_EQ(error.message().rfind(expected, 0), 0u) << use << ": " << error.message();
    EXPECT_EQ(std::string(error.what()).find(":0:0"), std::string::npos) << error.what();
    EXPECT_TRUE(state.isUntouched()) << use;
  }
  EXPECT_EQ(thrownBy([&] { static_cast<void>(bool(old)); }).what(),
            std::string("an op outside of a traced function; ops only record, so they stand in what tcc::compile() "
                        "calls"));
  use = -1;
  EXPECT_EQ(f(x)[0].item(), 3);
}

TEST(BreakLimits, WhatTheLoopHasLetGoOfIsNotKept) {
  constexpr int64_t bytes = int64_t{4} << 20, turns = 100;
  int64_t most = 0;
  Weight state;
  Function f = compile(
      "f",
      [&](Tensor x) {
        Tensor y = x * 1.0, first = y * 2.0;
        assign(state.w, slice(first, 0, 0, 4)); // nobody holds it: only the assignment does
        const Tensor half = first * 0.5;
        first = Tensor();
        for (int64_t i = 0; i < turns && max(y) > 0.0; ++i) {
          y = y * 1.0;
          most = std::max(most, runtime::countedLiveBytes());
        }
        return sum(y - half);
      },
      quiet());
  const Array x = sequence({bytes / 4}, 1, 0);
  for (int call = 0; call < 2; ++call) {
    const int64_t before = runtime::countedLiveBytes();
    most = 0;
    EXPECT_EQ(f(x)[0].item(), 0);
    EXPECT_EQ(state.w.read<float>()[3], 2);
    EXPECT_LT(most - before, turns * bytes / 3) << "of 100 values that the loop has had one after another";
  }
}

} // namespace
