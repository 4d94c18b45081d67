// Tests cond and repeat in C++: values, gradients, what runs, what is planned, and every mistake. Like the files of
// users, this one includes no MLIR.
#include "runtime/executable.h"
#include "runtime/profiler.h"
#include "tests/frontend/quiet_functions.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

/// Loss and gradients of a small net; its activation is chosen by the data.
std::vector<Tensor> chosenNet(const Tensor &x, const Tensor &w, const std::function<Tensor(const Tensor &)> &activate) {
  const Tensor h = activate(matmul(x, w));
  const Tensor loss = mean(h * h);
  const Tensor wrt[] = {x, w};
  std::vector<Tensor> results = gradient(loss, wrt);
  results.push_back(loss);
  return results;
}

TEST(Cond, ValuesAndGradientsAreThoseOfTheChosenBody) {
  auto smooth = [](const Tensor &h) { return gelu(h) * 2.0; };
  auto other = [](const Tensor &h) { return softmax(h) + h; };
  Function chosen = compile(
      "chosen",
      [&](Tensor x, Tensor w, Tensor level) {
        return chosenNet(x, w, [&](const Tensor &h) {
          return cond(level > 0.5, [&] { return smooth(h); }, [&] { return other(h); });
        });
      },
      quiet());
  Function first = compile("first", [&](Tensor x, Tensor w) { return chosenNet(x, w, smooth); }, quiet());
  Function second = compile("second", [&](Tensor x, Tensor w) { return chosenNet(x, w, other); }, quiet());
  const Array x = sequence({5, 6}, -1, 0.07f), w = sequence({6, 9}, 0.8f, -0.03f);
  for (float level : {1.0f, 0.0f, 1.0f, NAN}) { // a comparison with NaN is false
    const auto results = chosen(x, w, level), expected = level > 0.5f ? first(x, w) : second(x, w);
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(results[i], expected[i], 1e-6f);
  }
  EXPECT_EQ(chosen.counters().cache.misses, 1);
}

TEST(Cond, OnlyTheChosenBodyIsComputed) {
  Function step = compile(
      "step",
      [](Tensor x, Tensor level) { return cond(level > 0, [&] { return matmul(x, x); }, [&] { return x + 1.0; }); },
      quiet());
  const Array x = sequence({8, 8}, 0, 0.1f);
  for (float level : {1.0f, -1.0f}) {
    step(x, level);
    runtime::Profiler profiler;
    step.profile(&profiler);
    step(x, level);
    step.profile(nullptr);
    int products = 0;
    for (const runtime::Profiler::Event &event : profiler.all())
      products += event.category == "matmul";
    EXPECT_EQ(products, level > 0 ? 1 : 0);
  }
}

TEST(Cond, TheBodyThatIsNotChosenGivesNoNaN) {
  Function step = compile(
      "step",
      [](Tensor x) {
        const Tensor y = cond(less(sum(x), 0), [&] { return log(x); }, [&] { return sqrt(-x) * x; });
        return std::pair{sum(y), gradient(sum(y), x)};
      },
      quiet());
  const auto results = step(sequence({4}, -1, -0.5f)); // log is NaN here, and so would be 0 times its gradient
  EXPECT_TRUE(std::isnan(results[0].item()));
  const auto others = step(sequence({4}, 1, 0.5f)); // the square root is NaN
  EXPECT_TRUE(std::isnan(others[0].item()));
  Function safe = compile(
      "safe",
      [](Tensor x) {
        const Tensor y = cond(less(sum(x), 0), [&] { return sin(x); }, [&] { return log(x); });
        return std::pair{sum(y), gradient(sum(y), x)};
      },
      quiet());
  const auto sines = safe(sequence({4}, -1, -0.5f));
  for (int i = 0; i < 4; ++i)
    EXPECT_NEAR(sines[1].item(i), std::cos(-1 - 0.5 * i), 1e-6);
}

TEST(Cond, BodiesReadStatesLiteralsAndOtherBodies) {
  State counter("counter", Shape{}), table("table", {3});
  table.data<float>()[1] = 2;
  double factor = 3;
  std::vector<std::string> said;
  Function step = compile(
      "step",
      [&](Tensor x) {
        const Tensor next = cond(
            Tensor(counter) < 2.0,
            [&] {
              return cond(x > 0, [&] { return Tensor(counter) + 1.0; }, [&] { return Tensor(counter) + sum(table); });
            },
            [&] { return Tensor(counter) * factor; });
        assign(counter, next);
        return next;
      },
      quiet(&said));
  EXPECT_EQ(step(1.0f)[0].item(), 1);
  EXPECT_EQ(step(-1.0f)[0].item(), 3);
  EXPECT_EQ(step(1.0f)[0].item(), 9);
  factor = 5;
  EXPECT_EQ(step(1.0f)[0].item(), 45);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("constant 3 → 5"), std::string::npos) << said[0];
}

/// Loss and gradients of a batch, one micro-batch at a time.
struct Accumulation {
  Parameter w{"w", {6, 4}}, b{"b", {4}};
  Function step;

  Tensor lossOf(const Tensor &x, const Tensor &target) const {
    const Tensor y = nn::linear(gelu(x), {w, b}) - target;
    return mean(y * y);
  }

  Accumulation(int64_t count, bool unrolled, FunctionOptions options)
      : step(compile(
            "accumulate",
            [=, this](Tensor x, Tensor target) { // [count, rows, 6] and [count, rows, 4]
              const Tensors start = {zeros({6, 4}), zeros({4}), zeros({})};
              auto turn = [&](const Tensors &sums, const Tensors &parts) {
                const Tensor loss = lossOf(parts[0], parts[1]);
                const Tensor wrt[] = {w, b};
                const Tensors gradients = gradient(loss, wrt);
                return Tensors{sums[0] + gradients[0], sums[1] + gradients[1], sums[2] + loss};
              };
              Tensors sums = start;
              if (unrolled)
                for (int64_t i = 0; i < count; ++i)
                  sums = turn(sums, {reshape(slice(x, 0, i, i + 1), {x.dim(1), 6}),
                                     reshape(slice(target, 0, i, i + 1), {x.dim(1), 4})});
              else
                sums = repeat(count, start, {x, target}, turn);
              assign(w, w - 0.1 / double(count) * sums[0]);
              assign(b, b - 0.1 / double(count) * sums[1]);
              return sums[2] / double(count);
            },
            std::move(options))) {
    for (size_t i = 0; i < 24; ++i)
      w.data<float>()[i] = 0.1f * static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  std::vector<Array> operator()(int64_t count) {
    return step(sequence({count, 5, 6}, -1, 0.013f), sequence({count, 5, 4}, 1, -0.017f));
  }
};

TEST(Repeat, AccumulatesGradientsAsTheUnrolledStepDoes) {
  Accumulation loop(4, false, quiet()), unrolled(4, true, quiet());
  for (int i = 0; i < 10; ++i)
    EXPECT_NEAR(loop(4)[0].item(), unrolled(4)[0].item(), 1e-6) << i;
  for (size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(loop.w.read<float>()[i], unrolled.w.read<float>()[i], 1e-6);
}

TEST(Repeat, CodeAndPlanDoNotGrowWithTheCount) {
  Accumulation few(2, false, quiet()), many(1000, false, quiet());
  few(2);
  many(1000);
  const runtime::Plan &small = few.step.executable()->plan(), &large = many.step.executable()->plan();
  EXPECT_EQ(small.kernels.size(), large.kernels.size());
  EXPECT_EQ(small.instructions.size(), large.instructions.size());
  EXPECT_EQ(small.buffers.size(), large.buffers.size());
  EXPECT_EQ(small.arenaBytes, large.arenaBytes);
}

TEST(Repeat, TheArenaIsUsedAsPlanned) {
  FunctionOptions options = quiet();
  options.checked = true; // then the 64-byte lines that a step has changed are counted
  Function loop = compile(
      "loop",
      [](Tensor x, Tensor s) {
        return repeat(3, x, s, [](const Tensor &h, const Tensor &part) { return softmax(h) + part; });
      },
      options);
  loop(sequence({8, 64}, 0, 0.01f), sequence({3, 64}, 0, 0.1f));
  const auto executable = loop.executable();
  EXPECT_GT(executable->plan().arenaBytes, 0);
  EXPECT_EQ(executable->memory().arenaTouched, executable->plan().arenaBytes);
}

TEST(Repeat, BitsAreEqualForEveryThreadCountAndInCheckedMemory) {
  std::vector<std::vector<Array>> all;
  for (auto [threads, checked, separate] :
       {std::tuple{1, false, false}, {2, false, false}, {1, true, false}, {1, false, true}}) {
    FunctionOptions options = quiet();
    options.threads = threads;
    options.checked = checked;
    options.separate = separate;
    Function step = compile(
        "step",
        [](Tensor x, Tensor w, Tensor s) {
          const Tensor y = repeat(5, x, s, [&](const Tensor &h, const Tensor &part) {
            return cond(sum(part) > 1.0, [&] { return softmax(matmul(h, w)) + part; }, [&] { return tanh(h) * part; });
          });
          const Tensor wrt[] = {x, w, s};
          Tensors results = gradient(mean(y * y), wrt);
          results.push_back(y);
          return results;
        },
        options);
    all.push_back(
        step(sequence({64, 64}, -1, 0.0007f), sequence({64, 64}, 1, -0.0005f), sequence({5, 64}, -0.02f, 0.0003f)));
  }
  for (size_t i = 1; i < all.size(); ++i)
    for (size_t result = 0; result < all[0].size(); ++result)
      EXPECT_TRUE(sameBits(all[0][result], all[i][result])) << i << ", result " << result;
}

TEST(Repeat, GradientsThroughAFewTurnsEqualTheUnrolledOnes) {
  auto program = [](bool unrolled) {
    return compile(
        "program",
        [=](Tensor x, Tensor w, Tensor s) {
          auto turn = [&](const Tensor &h, const Tensor &part) { return tanh(matmul(h, w)) + part; };
          Tensor y = x;
          if (unrolled)
            for (int i = 0; i < 3; ++i)
              y = turn(y, reshape(slice(s, 0, i, i + 1), {4}));
          else
            y = repeat(3, x, s, turn);
          const Tensor wrt[] = {x, w, s};
          Tensors results = gradient(sum(y * y), wrt);
          results.push_back(y);
          return results;
        },
        quiet());
  };
  Function loop = program(false), plain = program(true);
  const Array x = sequence({3, 4}, -1, 0.1f), w = sequence({4, 4}, 0.5f, -0.06f), s = sequence({3, 4}, 0, 0.05f);
  const auto results = loop(x, w, s), expected = plain(x, w, s);
  for (size_t i = 0; i < expected.size(); ++i)
    expectNear(results[i], expected[i], 2e-6f);
}

TEST(Control, AStateThatALoopCarriesIsUpdatedInPlace) {
  State total("total", {256});
  Function step = compile(
      "step", [&](Tensor x) { assign(total, repeat(3, Tensor(total), [&](const Tensor &t) { return t + x; })); },
      quiet());
  const Array x = sequence({256}, 0, 1);
  step(x);
  step(x);
  EXPECT_EQ(total.read<float>()[7], 42);
  EXPECT_EQ(step.executable()->plan().arenaBytes, 0);
}

TEST(Control, AStepWithBreaksMayHaveACondAndARepeat) {
  double seen = 0;
  Function step = compile(
      "step",
      [&](Tensor x) {
        const Tensor y = repeat(4, x, [&](const Tensor &h) { return h * 0.5 + 1.0; });
        const Tensor loss = cond(sum(y) > 0, [&] { return mean(y * y); }, [&] { return mean(y); });
        seen = loss.item();
        return gradient(loss, x);
      },
      quiet());
  for (float first : {1.0f, -90.0f, 2.0f}) {
    const auto results = step(sequence({3}, first, 1));
    double sum = 0, squares = 0, y[3];
    for (int i = 0; i < 3; ++i) {
      y[i] = (first + i) / 16 + 1.875;
      sum += y[i];
      squares += y[i] * y[i];
    }
    EXPECT_NEAR(seen, sum > 0 ? squares / 3 : sum / 3, 1e-6);
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(results[0].item(i), (sum > 0 ? 2 * y[i] : 1) / 3 / 16, 1e-6);
  }
}

//===- mistakes ------------------------------------------------------------------------------------------------===//

/// The message of the error that recording `fn` gives, with an f32 [3] and a scalar as arguments.
template <typename Fn>
std::string refusalOf(Fn fn, uint32_t *line = nullptr) {
  Function step = compile("step", [=](Tensor x, Tensor s) { return fn(x, s); }, quiet());
  return errorOf([&] { step(sequence({3}, 1, 1), 1.0f); }, line);
}

TEST(Control, MistakesAreOneClearErrorEach) {
  auto same = [](const Tensor &x) { return [x] { return x; }; };
  EXPECT_EQ(refusalOf([&](Tensor x, Tensor s) { return cond(s, same(x), same(x)); }),
            "`cond` predicate is f32[]; it must be one i1, as comparisons of scalars give");
  EXPECT_EQ(refusalOf([&](Tensor x, Tensor) { return cond(x > 0, same(x), same(x)); }),
            "`cond` predicate is i1[3]; it must be one i1, as comparisons of scalars give");
  EXPECT_EQ(refusalOf([&](Tensor x, Tensor s) { return cond(s > 0, same(x), same(s)); }),
            "`cond` bodies give f32[3] and f32[] for value 0; both give the same dtypes and shapes (cond_c2)");
  EXPECT_EQ(refusalOf([&](Tensor x, Tensor s) {
              return cond(s > 0, [&] { return Tensors{x, x}; }, [&] { return Tensors{x}; });
            }),
            "`cond` bodies give 2 and 1 values; both give as many (cond_c2)");
  EXPECT_EQ(refusalOf([](Tensor x, Tensor) { return repeat(0, x, [](const Tensor &h) { return h; }); }),
            "`repeat` count is 0; it must be 1 or more (repeat_c1)");
  EXPECT_EQ(refusalOf([](Tensor x, Tensor s) {
              return repeat(2, s, x, [](const Tensor &h, const Tensor &part) { return h + part; });
            }),
            "`repeat` scans f32[3]; its first size must be the count 2 (repeat_c2)");
  EXPECT_EQ(refusalOf([](Tensor x, Tensor) { return repeat(2, x, [](const Tensor &h) { return sum(h); }); }),
            "`repeat` body gives f32[] for value 0, which starts as f32[3]; a carried value keeps dtype and shape "
            "(repeat_c4)");
  EXPECT_EQ(refusalOf([](Tensor x, Tensor) {
              return repeat(2, Tensors{x, x}, [](const Tensors &h) { return Tensors{h[0]}; })[0];
            }),
            "`repeat` body gives 1 values for 2 that are carried; it gives as many (repeat_c4)");
}

TEST(Control, WhatNeedsTheHostIsAnErrorAtItsLine) {
  State state("state", {3});
  uint32_t line = 0;
  const std::string rule = ", which is not run while it is recorded; return the value";
  const auto in = [&](auto action) {
    return refusalOf(
        [&](Tensor x, Tensor s) { return cond(s > 0, [&] { return action(x, s), x; }, [&] { return x; }); }, &line);
  };
  EXPECT_EQ(in([](Tensor, Tensor s) { s.item(); }), "item() in a body of `cond`" + rule);
  EXPECT_EQ(line, uint32_t{__LINE__ - 1});
  EXPECT_EQ(in([](Tensor x, Tensor) { x.toHost(); }), "toHost() in a body of `cond`" + rule);
  EXPECT_EQ(in([](Tensor x, Tensor) { print("x", x * 2.0); }), "print() in a body of `cond`" + rule);
  uint32_t asked = 0;
  const auto asks = [&](Tensor, Tensor s) {
    asked = __LINE__ + 1;
    if (s * 2.0 > 1.0)
      return;
  };
  EXPECT_EQ(in(asks), "a condition in a body of `cond`" + rule);
  EXPECT_EQ(line, asked);
  EXPECT_EQ(in([&](Tensor x, Tensor) { assign(state, x); }),
            "a state is assigned in a body of `cond`" + rule + ", and assign it outside");
  EXPECT_EQ(refusalOf([&](Tensor x, Tensor) {
              return repeat(2, x, [](const Tensor &h) {
                sum(h).item();
                return h;
              });
            }),
            "item() in a body of `repeat`" + rule);
  EXPECT_EQ(refusalOf([](Tensor x, Tensor s) {
              Tensor kept;
              cond(s > 0, [&] { return kept = x * 2.0; }, [&] { return x; });
              return kept + 1.0;
            }),
            "a value of a body of `cond` or `repeat` is used outside of it; return the value");
  EXPECT_EQ(refusalOf([](Tensor x, Tensor s) {
              Tensor kept;
              cond(s > 0, [&] { return kept = x * 2.0; }, [&] { return x; });
              return kept;
            }),
            "the traced function returns a value of a body of `cond` or `repeat`; return it from the body");
}

TEST(Control, AGradientInABodySeesAllThatItsLossReads) {
  uint32_t line = 0, asked = 0;
  const auto traced = [&](Tensor x, Tensor s) {
    const Tensor h = x * x; // computed from x out of the body's sight
    asked = __LINE__ + 1;
    return cond(s > 0, [&] { return gradient(sum(h * x), x); }, [&] { return x; });
  };
  EXPECT_EQ(refusalOf(traced, &line),
            "`gradient` in a body of `cond` or `repeat` with respect to a value from which another one was computed "
            "outside that the loss reads; compute that one inside of the body, or detach it");
  EXPECT_EQ(line, asked);
  Function fine = compile(
      "fine",
      [](Tensor x, Tensor s) {
        const Tensor h = x * x;
        return cond(s > 0, [&] { return gradient(sum(detach(h) * x), x); }, [&] { return x; });
      },
      quiet());
  EXPECT_EQ(fine(sequence({3}, 1, 1), 1.0f)[0].item(2), 9);
}

TEST(Control, AGradientThroughManyTurnsIsRefused) {
  const std::string message = refusalOf(
      [](Tensor x, Tensor) { return gradient(sum(repeat(33, x, [](const Tensor &h) { return h * 0.9; })), x); });
  EXPECT_NE(message.find("has 33 turns; a gradient through 'tcc.repeat' is known for up to 32"), std::string::npos)
      << message;
}

/// The mean loss and gradient of a linear model over the rows of x, in `count` lanes.
std::vector<Tensor> lanesOfRows(const Tensor &x, const Tensor &w, int64_t count) {
  const Tensors sums = lanes(count, {reshape(x, {count, x.dim(0) / count, x.dim(1)})}, [&](const Tensors &parts) {
    const Tensor h = matmul(parts[0], w);
    const Tensor loss = mean(h * h) * (1.0 / double(count));
    return Tensors{loss, gradient(loss, std::vector{w})[0]};
  });
  return {sums[0], sums[1]};
}

TEST(Lanes, SumsAreThoseOfTheWhole) {
  Function whole = compile("whole", [](Tensor x, Tensor w) { return lanesOfRows(x, w, 1); }, quiet());
  const Array x = sequence({24, 6}, -1, 0.01f), w = sequence({6, 9}, 0.8f, -0.03f);
  const auto expected = whole(x, w);
  for (int64_t count : {2, 3, 8, 24}) {
    Function shared = compile("shared", [&](Tensor x, Tensor w) { return lanesOfRows(x, w, count); }, quiet());
    const auto results = shared(x, w);
    for (size_t i = 0; i < expected.size(); ++i)
      expectNear(results[i], expected[i], 1e-5f);
  }
}

TEST(Lanes, MistakesAreNamed) {
  const Array x = sequence({24, 6}, -1, 0.01f);
  const auto messageOf = [&](auto fn) { return errorOf([&] { compile("mistake", fn, quiet())(x); }); };
  const auto asIs = [](const Tensors &parts) { return parts; };
  EXPECT_NE(messageOf([&](Tensor x) { return lanes(0, {x}, asIs); }).find("(lanes_c1)"), std::string::npos);
  EXPECT_NE(messageOf([&](Tensor x) { return lanes(4097, {x}, asIs); }).find("(lanes_c1)"), std::string::npos);
  EXPECT_NE(messageOf([&](Tensor x) { return lanes(5, {x}, asIs); }).find("(lanes_c2)"), std::string::npos);
  EXPECT_NE(
      messageOf([&](Tensor x) { return lanes(4, {cast(reshape(x, {4, 36}), DType::i32)}, asIs); }).find("(lanes_c4)"),
      std::string::npos);
}

} // namespace
