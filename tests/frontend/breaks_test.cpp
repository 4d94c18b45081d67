// Graph breaks: values asked for in the middle of a traced function. No MLIR, as in users' files.
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/remote_device.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

/// A step of gradient descent whose loss the host may look at before the gradients.
struct Descent {
  Parameter w{"w", {6, 4}}, b{"b", {4}};
  double seen = NAN;
  int between =
      0; // 0: nothing; 1: item; 2: item, then throw; 3: branch; 4: item of two values; 5: a factor of it; 6: half
  Function step;
  explicit Descent(FunctionOptions options)
      : step(compile(
            "descent",
            [this](Tensor x, Tensor rate) {
              const Tensor y = nn::linear(gelu(x), {w, b});
              Tensor loss = mean(y * y);
              if (between == 1 || between == 2 || between == 4)
                seen = loss.item();
              if (between == 2)
                throw Error("stop here");
              if (between == 4)
                seen += max(y).item();
              if (between == 3 && loss > 0.2)
                loss = loss * 0.5;
              if (between == 6)
                loss = loss * 0.5;
              if (between == 5)
                loss = loss * (1 + loss.item());
              const std::vector<Tensor> wanted{w, b}, gradients = gradient(loss, wanted);
              assign(w, w - rate * gradients[0]);
              assign(b, b - rate * gradients[1]);
              return std::pair{loss, y};
            },
            std::move(options))) {
    for (size_t i = 0; i < 24; ++i)
      w.data<float>()[i] = 0.1f * static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  std::vector<Array> operator()(int number) { return step(sequence({3, 6}, -0.5f, 0.01f * float(number)), 0.1f); }
};

/// The loss of a step, alone.
Function lossOf(const Descent &descent) {
  return compile(
      "look",
      [&](Tensor x) {
        const Tensor y = nn::linear(gelu(x), {descent.w, descent.b});
        return mean(y * y);
      },
      quiet());
}

void expectSameStates(const Descent &a, const Descent &b, float tolerance = 0) {
  for (auto [one, other] : {std::pair{&a.w, &b.w}, {&a.b, &b.b}})
    for (size_t i = 0; i < one->read<float>().size(); ++i)
      EXPECT_NEAR(one->read<float>()[i], other->read<float>()[i], tolerance);
}

TEST(Breaks, ALossThatIsLookedAtTrainsAsOneThatIsNot) {
  Descent plain(quiet()), asked(quiet());
  asked.between = 1;
  for (int i = 0; i < 20; ++i) {
    const auto expected = plain(i), results = asked(i);
    EXPECT_NEAR(results[0].item(), expected[0].item(), 1e-6);
    EXPECT_EQ(static_cast<float>(asked.seen), static_cast<float>(results[0].item())) << "it is not computed again";
    expectNear(results[1], expected[1], 1e-6f);
  }
  expectSameStates(asked, plain, 1e-6f);
  EXPECT_EQ(asked.step.counters().cache.misses, 2) << "the loss alone, and the step";
  const BreakReport report = asked.step.report();
  ASSERT_EQ(report.sites.size(), 1u);
  EXPECT_EQ(report.sites[0].times, 20);
  EXPECT_EQ(report.sites[0].inStep, 19) << "from the second call on the step waits";
  EXPECT_EQ(report.sites[0].segments, 1);
  EXPECT_GT(report.sites[0].opsAgain, 0) << "of the first call";
  EXPECT_EQ(report.sites[0].bytesToHost, 80);
  EXPECT_NE(report.sites[0].file.find("breaks_test.cpp"), std::string::npos);
  EXPECT_EQ(report.sites[0].source, "seen = loss.item();");
  EXPECT_EQ(report.calls, 20);
  EXPECT_EQ(report.callsWithBreaks, 20);
  EXPECT_EQ(report.compiled, 2);
  EXPECT_NE(report.text().find("breaks_test.cpp:" + std::to_string(report.sites[0].line) + ":"), std::string::npos);
  EXPECT_NE(report.text().find("graph break: `item()` asks for a value"), std::string::npos) << report.text();
  EXPECT_NE(report.json().find("\"in_step\":19"), std::string::npos) << report.json();
}

TEST(Breaks, AnInputThatIsLookedAtFirstDoesNotKeepTheStepFromWaiting) {
  Parameter w("w", {3});
  double seen = 0;
  Function f = compile(
      "f",
      [&](Tensor x) {
        seen = x.toHost().item(0);
        const Tensor loss = sum(exp(x * w));
        seen = loss.item();
        assign(w, w - 0.1 * gradient(loss, {w}));
        return loss;
      },
      quiet());
  for (int i = 0; i < 4; ++i) {
    const double loss = f(sequence({3}, 0, 1))[0].item();
    EXPECT_EQ(loss, seen);
  }
  for (const BreakSite &site : f.report().sites)
    EXPECT_EQ(site.inStep, site.why.find("toHost") == std::string::npos ? 3 : 0) << site.why;
}

TEST(Breaks, CallsAlongOnePathHaveEqualBits) {
  Descent one(quiet()), other(quiet());
  one.between = other.between = 4;
  for (int i = 0; i < 6; ++i) {
    other.between = 4;
    const auto a = one(i), b = other(i);
    EXPECT_EQ(one.seen, other.seen);
    EXPECT_EQ(a[0].item(), b[0].item());
    if (i == 3) { // another path, and back
      Descent copy(quiet());
      copy.between = 0;
      copy(0);
    }
  }
  expectSameStates(one, other);
}

TEST(Breaks, TheFirstCallAlongAPathHasTheBitsOfLaterOnes) {
  for (const int between : {1, 3, 4, 5}) {
    Descent descent(quiet());
    descent.between = between;
    std::map<int, std::vector<double>> first;
    const std::vector<float> w(descent.w.read<float>().begin(), descent.w.read<float>().end());
    for (const int number : {0, 30, 1, 0, 0, 30, 1, 30, 0}) { // with other literals and on other paths between
      std::copy(w.begin(), w.end(), descent.w.data<float>().begin());
      std::fill_n(descent.b.data<float>().begin(), 4, 0.0f);
      std::vector<double> bits{descent(number)[0].item(), descent.seen};
      bits.insert(bits.end(), descent.w.read<float>().begin(), descent.w.read<float>().end());
      if (between == 3 || between == 5)
        bits[1] = 0; // not asked for by item()
      const auto [known, isNew] = first.try_emplace(number, bits);
      EXPECT_EQ(known->second, bits) << between << " " << number;
    }
  }
}

TEST(Breaks, ThousandBreaksInOneCall) {
  Parameter w("w", {});
  w.data<float>()[0] = 1;
  int turns = 0;
  Function f = compile(
      "f",
      [&](Tensor x) {
        Tensor sum = x * w;
        for (int i = 0; i < turns; ++i)
          sum = sum + (sum.item() < 100 ? 0.5 : -0.5);
        assign(w, w - 0.0 * gradient(sum, {w}));
        return sum;
      },
      quiet());
  for (turns = 3; turns <= 1000; turns += 997)
    for (int again = 0; again < 3; ++again)
      EXPECT_EQ(f(Array(1.0f))[0].item(), turns == 3 ? 2.5 : 100) << turns;
  EXPECT_EQ(f.report().sites[0].times, 3 * 1003);
}

TEST(Breaks, WhatBreaksCostIsMeasuredAndChangesNothing) {
  Descent descent(quiet()), untouched(quiet());
  descent.between = untouched.between = 1;
  for (int i = 0; i < 3; ++i)
    descent(i), untouched(i);
  const std::vector<Array> arguments{sequence({3, 6}, -0.5f, 0.01f), Array(0.1f)};
  const BreakReport measured = descent.step.measureBreaks(arguments, 3);
  EXPECT_GT(measured.withBreaksMs, 0);
  EXPECT_GT(measured.oneStepMs, 0);
  ASSERT_EQ(measured.sites.size(), 1u);
  EXPECT_NEAR(measured.sites[0].measuredMs, measured.withBreaksMs - measured.oneStepMs, 1e-9);
  EXPECT_EQ(measured.sites[0].times, 3);
  EXPECT_EQ(measured.calls, 3);
  EXPECT_NE(measured.text().find("a call takes "), std::string::npos) << measured.text();
  expectSameStates(descent, untouched);
  EXPECT_EQ(descent(5)[0].item(), untouched(5)[0].item());
  EXPECT_EQ(descent.step.report().compiled, untouched.step.report().compiled);
}

TEST(Breaks, AnExceptionBehindABreakLeavesEveryBitOfTheStates) {
  Descent descent(quiet()), untouched(quiet());
  for (int i = 0; i < 5; ++i) {
    descent.between = untouched.between = 1;
    if (i < 4)
      descent(i), untouched(i);
    descent.between = 2;
    EXPECT_EQ(errorOf([&] { descent(i); }), "stop here");
    expectSameStates(descent, untouched);
  }
  descent.between = untouched.between = 1;
  EXPECT_EQ(descent(9)[0].item(), untouched(9)[0].item());
  expectSameStates(descent, untouched);
}

TEST(Breaks, ABranchTakesAnotherCachedContinuation) {
  Descent descent(quiet()), oracle(quiet()); // of the oracle the host decides, between calls
  Function look = lossOf(oracle);
  descent.between = 3;
  int64_t taken = 0, steps = 0;
  const auto step = [&](int number) {
    const bool isLarge = look(sequence({3, 6}, -0.5f, 0.01f * float(number)))[0].item() > 0.2;
    oracle.between = isLarge ? 6 : 0;
    taken += isLarge;
    ++steps;
    EXPECT_NEAR(oracle(number)[0].item(), descent(number)[0].item(), 1e-6);
    expectSameStates(descent, oracle, 1e-5f);
  };
  for (int round = 0; round < 3; ++round)
    for (int number : {30, 1, 30, 2, 25})
      step(number);
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, steps);
  const int64_t compiled = descent.step.counters().cache.misses;
  EXPECT_EQ(compiled, 3) << "the condition, and two ways to go on";
  for (int round = 0; round < 20; ++round)
    for (int number : {30, 1})
      step(number);
  EXPECT_EQ(descent.step.counters().cache.misses, compiled);
  EXPECT_NE(descent.step.report().text().find("a condition needs its value"), std::string::npos);
}

TEST(Breaks, ALiteralComputedFromAReadValueIsARunTimeScalar) {
  Descent descent(quiet());
  descent.between = 5;
  Function look = lossOf(descent);
  for (int i = 0; i < 12; ++i) {
    const double plain = look(sequence({3, 6}, -0.5f, 0.01f * float(i)))[0].item();
    EXPECT_NEAR(descent(i)[0].item(), plain * (1 + plain), 1e-6) << i;
  }
  EXPECT_LE(descent.step.counters().cache.misses, 3) << "the loss, the step, and the step with a run-time scalar";
}

TEST(Breaks, ALoopThatEndsByDataReusesItsSegment) {
  Function halve = compile(
      "halve",
      [](Tensor x) {
        int64_t turns = 0;
        while (max(x) > 1.0) {
          x = x * 0.5;
          ++turns;
        }
        return x + double(turns) * 0.0;
      },
      quiet());
  const auto turns = [&](float most) {
    const double result = halve(sequence({8}, most - 7, 1))[0].item(7);
    EXPECT_LE(result, 1);
    EXPECT_GT(result, 0.5);
  };
  turns(8);
  const int64_t afterThree = halve.counters().cache.misses;
  turns(100);
  turns(128);
  EXPECT_LE(halve.counters().cache.misses, afterThree + 1) << "seven iterations need no other code than three";
  const int64_t warm = halve.counters().cache.misses;
  for (int i = 0; i < 1000; ++i)
    turns(i % 2 ? 8.f : 100.f);
  EXPECT_EQ(halve.counters().cache.misses, warm);
}

TEST(Breaks, PrintedDigitsReadBackToTheSameBits) {
  Function f = compile(
      "f",
      [](Tensor x) {
        print("x", x * 1.0);
        print("sum", sum(x));
        return x;
      },
      quiet());
  const Array x = sequence({2, 2}, 0.1f, 1.0f / 3);
  testing::internal::CaptureStdout();
  f(x);
  const std::string text = testing::internal::GetCapturedStdout();
  ASSERT_EQ(text.rfind("x [2, 2] = ", 0), 0u) << text;
  const char *at = text.c_str() + std::strlen("x [2, 2] =");
  for (int64_t i = 0; i < 4; ++i) {
    char *end = nullptr;
    EXPECT_EQ(std::strtof(at, &end), static_cast<float>(x.item(i)));
    at = end;
  }
  EXPECT_NE(text.find("\nsum = "), std::string::npos) << text;
}

TEST(Breaks, ValuesOfArgumentsAndStatesAreThoseBeforeTheCall) {
  State counter("counter", {2});
  std::vector<double> seen;
  Function f = compile(
      "f",
      [&](Tensor x) {
        assign(counter, counter + x);
        seen = {Tensor(counter).toHost().item(1), sum(x).item(), x.toHost().item(0)};
        return Tensor(counter) * 1.0;
      },
      quiet());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(f(sequence({2}, 1, 1))[0].item(1), 2.0 * i);
    EXPECT_EQ(seen, (std::vector<double>{2.0 * i, 3, 1}));
  }
  EXPECT_EQ(counter.read<float>()[1], 8);
}

TEST(Breaks, NoGradientFlowsThroughAnItem) {
  Parameter w("w", {});
  w.data<float>()[0] = 3;
  Function f = compile(
      "f",
      [&] {
        const Tensor square = Tensor(w) * w;
        return gradient(Tensor(w) * square.item(), {w});
      },
      quiet());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f()[0].item(), 9);
}

TEST(Breaks, AFunctionOfTensorsIsInlined) {
  Parameter w("w", {3});
  for (float &value : w.data<float>())
    value = 2;
  Function inner = compile("inner", [&](Tensor x) { return x * w; }, quiet());
  Function outer = compile("outer", [&](Tensor x) { return sum(inner(x + 1.0)[0]); }, quiet());
  EXPECT_EQ(outer(sequence({3}, 0, 1))[0].item(), 12);
  EXPECT_EQ(outer.counters().cache.misses, 1);
  EXPECT_EQ(inner(sequence({3}, 0, 1))[0].item(2), 4);
}

TEST(Breaks, OnADeviceWithMemoryOfItsOwn) {
  FunctionOptions there = quiet();
  there.device = std::make_shared<runtime::test::RemoteDevice>();
  Descent here(quiet()), remote(there);
  here.between = remote.between = 4;
  for (int i = 0; i < 5; ++i) {
    const auto expected = here(i), results = remote(i);
    EXPECT_NEAR(remote.seen, here.seen, 1e-6);
    EXPECT_NEAR(results[0].item(), expected[0].item(), 1e-6);
  }
  expectSameStates(remote, here, 1e-6f);
  EXPECT_EQ(remote.step.counters().cache.misses, 3);
  const BreakReport expected = here.step.report(), report = remote.step.report();
  ASSERT_EQ(report.sites.size(), expected.sites.size());
  int64_t waited = 0;
  for (size_t i = 0; i < report.sites.size(); ++i) {
    EXPECT_EQ(report.sites[i].inStep, expected.sites[i].inStep) << i;
    EXPECT_EQ(report.sites[i].opsAgain, expected.sites[i].opsAgain) << i;
    waited += report.sites[i].inStep;
  }
  EXPECT_GT(waited, 0) << "it waits there, too";
}

TEST(Breaks, AnotherFunctionOnTheDeviceMeanwhileChangesNothing) {
  auto device = runtime::makeCpuDevice();
  FunctionOptions shared = quiet();
  shared.device = device;
  Descent plain(quiet()), asked(shared);
  Function other = compile("other", [](Tensor x) { return sum(matmul(x, x)); }, shared);
  const Array large = sequence({64, 64}, 0, 0.001f);
  asked.between = plain.between = 1;
  for (int i = 0; i < 6; ++i) {
    plain(i);
    asked(i);
    other(large);
  }
  expectSameStates(asked, plain);
}

TEST(Breaks, CheckedModeFindsNothing) {
  FunctionOptions checked = quiet();
  checked.checked = true;
  Descent plain(quiet()), asked(checked);
  plain.between = asked.between = 4;
  for (int i = 0; i < 5; ++i) {
    plain(i);
    asked(i);
  }
  expectSameStates(asked, plain);
}

TEST(Breaks, MistakesAreErrorsAtTheirLine) {
  uint32_t line = 0, expected = 0;
  const auto asks = [&](Tensor x) {
    expected = __LINE__ + 1;
    return x * sum(x).item();
  };
  FunctionOptions frozen = quiet();
  frozen.frozen = true;
  Function f = compile("f", asks, frozen);
  EXPECT_NE(errorOf([&] { f(sequence({2}, 0, 1)); }, &line).find("'f', which is frozen"), std::string::npos);
  EXPECT_EQ(line, expected);
  FunctionOptions whole = quiet();
  whole.fullGraph = true;
  Function g = compile("g", asks, whole);
  EXPECT_NE(errorOf([&] { g(sequence({2}, 0, 1)); }, &line).find("graph break: `item()` asks for a value"),
            std::string::npos);
  EXPECT_EQ(line, expected);
  Function many = compile("many", [](Tensor x) { return x * x.item(); }, quiet());
  EXPECT_NE(errorOf([&] { many(sequence({2}, 0, 1)); }).find("item() of shape [2]"), std::string::npos);
  Function condition = compile("condition", [](Tensor x) { return x > 0 ? x : x + 1; }, quiet());
  EXPECT_NE(errorOf([&] { condition(sequence({2}, 0, 1)); }).find("a condition of shape [2]"), std::string::npos);
  Tensor old;
  Function keeps = compile(
      "keeps",
      [&](Tensor x) {
        if (old.defined())
          static_cast<void>(old.item());
        old = x * 2.0;
        return x;
      },
      quiet());
  keeps(sequence({}, 1, 1));
  EXPECT_NE(errorOf([&] { keeps(sequence({}, 1, 1)); }).find("a tensor of an earlier call is used"), std::string::npos);
  Function endless = compile(
      "endless",
      [](Tensor x) {
        while (x < 1.0)
          x = x * 1.0;
        return x;
      },
      quiet());
  EXPECT_NE(errorOf([&] { endless(sequence({}, 0, 1)); }).find("a loop that ends by data must end"), std::string::npos);
}

TEST(Breaks, PrepareCompilesAllThatACallNeedsAndChangesNoState) {
  std::vector<std::string> said;
  Descent descent(quiet(&said)), untouched(quiet());
  descent.between = 1;
  const std::vector<Array> arguments{sequence({3, 6}, -0.5f, 0.01f), Array(0.1f)};
  descent.step.prepare(arguments);
  EXPECT_EQ(descent.step.counters().cache.misses, 2); // up to the break, and the step
  expectSameStates(descent, untouched);
  descent.step.prepare(arguments);
  expectSameStates(descent, untouched);
  descent.step.call(arguments);
  untouched.between = 1;
  untouched.step.call(arguments);
  expectSameStates(descent, untouched);
  EXPECT_EQ(descent.step.counters().cache.misses, 2);
  EXPECT_EQ(said, std::vector<std::string>());
}

TEST(Breaks, AFunctionThatCompilesAtEveryCallSaysSoOnce) {
  std::vector<std::string> said;
  int64_t size = 1;
  Function f = compile("f", [&](Tensor x) { return reshape(x, {size, 1}); }, quiet(&said));
  for (size = 1; size <= 20; ++size)
    f(sequence({size}, 0, 1));
  EXPECT_EQ(std::count_if(said.begin(), said.end(),
                          [](const std::string &text) { return text.find("warning: 'f' has compiled") == 0; }),
            1);
  EXPECT_EQ(f.report().recompiles.size(), 19u);
  FunctionOptions strict = quiet();
  strict.recompilesAreErrors = true;
  Function g = compile("g", [](Tensor x) { return x + 1.0; }, strict);
  g(sequence({2}, 0, 1));
  EXPECT_NE(errorOf([&] { g(sequence({3}, 0, 1)); }).find("arg0 2 → 3 [-Werror=recompile]"), std::string::npos);
}

} // namespace
