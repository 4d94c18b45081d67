// compile(): values, training, guards and their reasons. No MLIR: it also shows that users' files compile without it.
#include "runtime/plan.h"
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/remote_device.h"
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <tcc/tcc.h>
#include <thread>

using namespace tcc;

namespace {

TEST(Compile, ValuesAreThoseOfThePlainFormula) {
  Function f = compile("f", [](Tensor x, Tensor y) { return std::pair{x * y + 2.0, sum(x * x, 1)}; }, quiet());
  const Array x = sequence({3, 5}, -1, 0.25f), y = sequence({5}, 1, 1);
  const auto results = f(x, y);
  ASSERT_EQ(results.size(), 2u);
  for (int64_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < 5; ++j) {
      const double value = x.item(i * 5 + j);
      EXPECT_NEAR(results[0].item(i * 5 + j), value * y.item(j) + 2, 1e-6);
      sum += value * value;
    }
    EXPECT_NEAR(results[1].item(i), sum, 1e-5);
  }
}

TEST(Compile, AMatrixProductWithBiasAndGelu) {
  Parameter w("w", {4, 6}), b("b", {6});
  for (size_t i = 0; i < 24; ++i)
    w.data<float>()[i] = 0.1f * static_cast<float>(static_cast<int>(i % 7) - 3);
  for (size_t i = 0; i < 6; ++i)
    b.data<float>()[i] = 0.05f * static_cast<float>(i);
  Function f = compile("f", [&](Tensor x) { return gelu(linear(x, w, b)); }, quiet());
  const Array x = sequence({3, 4}, -0.5f, 0.1f), y = f(x)[0];
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      double z = b.data<float>()[static_cast<size_t>(j)];
      for (int64_t k = 0; k < 4; ++k)
        z += x.item(i * 4 + k) * w.data<float>()[static_cast<size_t>(k * 6 + j)];
      EXPECT_NEAR(y.item(i * 6 + j), 0.5 * z * (1 + std::tanh(std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z))), 1e-5);
    }
}

/// The place that a search names is the op that made the first value from finite ones, wherever it shows.
TEST(FindNonFinite, NamesTheOpThatMadeTheFirstValueThatIsNotFinite) {
  int line = 0;
  const auto found = [&](auto fn, const std::vector<Array> &arguments, bool eachOp = true) {
    Function f = compile("f", fn, quiet());
    return f.findNonFinite(arguments, eachOp);
  };
  const auto expect = [&](const std::string &text, const std::string &op, const std::string &values) {
    EXPECT_EQ(text, "`" + op + "` (" + __FILE__ + ":" + std::to_string(line) + "): " + values);
  };
  const Array small = sequence({4, 6}, -1, 0.1f), large = sequence({4, 6}, 77, 1); // e^89 is above the largest f32
  const auto quotient = [&](Tensor x) {
    line = __LINE__ + 1;
    const Tensor power = exp(x);
    return sum(reshape(transpose(power / (power + 1.0)), {4, 6})); // inf / inf
  };
  EXPECT_EQ(found(quotient, {small}), "");
  expect(found(quotient, {large}), "exp", "12 of 24 values are not finite, the first of them, value 12, is inf");
  EXPECT_NE(found(quotient, {large}, false).find("exp"), std::string::npos) << "the kernel's name has its ops";

  // A mask's infinities are no fault, nor is a NaN that a condition leaves out.
  const auto masked = [&](Tensor x) {
    const Tensor seen = softmax(select(x < 0.0, x, -INFINITY));
    const Tensor chosen = select(x < 0.5, Tensor(x), sqrt(-x));
    line = __LINE__ + 1;
    const Tensor bad = log(x - 0.25);
    return sum(seen * chosen * bad);
  };
  const Array ones = sequence({2, 3}, 1, 0);
  expect(found(masked, {sequence({4, 6}, -2, 0.1f)}), "log",
         "23 of 24 values are not finite, the first of them, value 0, is NaN");

  // Matmuls, gradients, states.
  const auto product = [&](Tensor x) {
    line = __LINE__ + 1;
    const Tensor y = matmul(x, transpose(x));
    return sum(y - y);
  };
  EXPECT_EQ(found(product, {large}), "");
  const std::string overflow = found(product, {sequence({4, 6}, 1e20f, 0)});
  EXPECT_NE(overflow.find(": 16 of 16 values are not finite, the first of them, value 0, is inf"), std::string::npos)
      << overflow;
  EXPECT_NE(overflow.find("matmul"), std::string::npos) << overflow;
  const auto slope = [&](Tensor x) { return gradient(sum(sqrt(x * x)), std::vector{x})[0]; };
  EXPECT_NE(found(slope, {sequence({3}, 0, 0)}), "") << "0 times the slope of a root at 0";
  Parameter w("layer.w", {6});
  w.data<float>()[2] = NAN;
  EXPECT_EQ(found([&](Tensor x) { return sum(x * w); }, {small}),
            "state `layer.w`, before the step: 1 of 6 values are not finite, the first of them, value 2, is NaN");
  EXPECT_TRUE(std::isnan(w.data<float>()[2]));
  EXPECT_EQ(found([&](Tensor x) { return sum(x + 1.0); }, {sequence({3}, INFINITY, 0)}),
            "input `arg0`, before the step: 3 of 3 values are not finite, the first of them, value 0, is inf");
}

TEST(Compile, ScopesNameKernelsAndRemarksPointToTheUsersLine) {
  std::vector<std::string> said;
  FunctionOptions options = quiet(&said);
  options.remarksPassed = "^fuse";
  options.remarksAnalysis = "cost";
  int line = 0;
  Function f = compile(
      "f",
      [&](Tensor x) {
        const Scope block("h.3");
        const Scope mlp("h.3.mlp."); // goes on from h.3, as names of parameters do
        line = __LINE__ + 1;
        return gelu(x + 1.0);
      },
      options);
  const Array x = sequence({64, 64}, -1, 0.001f);
  EXPECT_NE(f.graph(std::vector{x}).find("%h.3.mlp.gelu = tcc.gelu %h.3.mlp.add"), std::string::npos)
      << f.graph(std::vector{x});
  f(x);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("compile_test.cpp:" + std::to_string(line) + ":"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("ops (gelu, add) into h.3.mlp.gelu+add: saves "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("remark: h.3.mlp.gelu+add: "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find(", bound by "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find(" [-Rpass-analysis=cost]"), std::string::npos) << said[0];
  f(x);
  EXPECT_EQ(said.size(), 1u) << "a call that compiles nothing says nothing";
  EXPECT_EQ(Scope::current(), nullptr);
}

TEST(Compile, LayersAreOneRemarkAndOneRecord) {
  std::vector<std::string> said;
  FunctionOptions options = quiet(&said);
  options.remarksPassed = options.remarksMissed = ".";
  options.saveRemarks = true;
  options.remarksFile = testing::TempDir() + "tcc_layers.opt.yaml";
  const Parameter w("w", {64, 64});
  Function f = compile(
      "f",
      [&](Tensor x) {
        for (int layer = 0; layer < 3; ++layer) {
          const Scope scope("h." + std::to_string(layer));
          x = gelu(matmul(x, w) + 1.0);
        }
        return x;
      },
      options);
  f(sequence({64, 64}, -1, 0.001f));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("ops (gelu, add) into h.*.gelu+add ×3: saves "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("h.*.gelu+add is apart from h.*.matmul, whose result it reads: expected an op that can join "
                         "a kernel, and `matmul` runs by itself ×3; costs 98.3 kB a step [-Rpass-missed=fuse-kernels]"),
            std::string::npos)
      << said[0];
  std::ifstream file(options.remarksFile);
  const std::string record{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(record.find("--- !Passed\nPass:            fuse-kernels\nName:            FuseKernels\nDebugLoc: "),
            std::string::npos)
      << record;
  EXPECT_NE(record.find("--- !Missed\n"), std::string::npos) << record;
  EXPECT_NE(record.find("  - Bytes:           '98304'\n"), std::string::npos) << record;
  EXPECT_NE(record.find("--- !Analysis\nPass:            cost\n"), std::string::npos) << record;
  std::remove(options.remarksFile.c_str());
}

TEST(Compile, StatesAreUpdatedInPlaceAndReadsSeeTheOldValue) {
  State counter("counter", {2});
  Function f = compile(
      "count",
      [&](Tensor x) {
        assign(counter, counter + x);
        return Tensor(counter) * 1.0;
      },
      quiet());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(f(sequence({2}, 1, 1))[0].item(1), 2.0 * i);
  EXPECT_EQ(counter.data<float>()[0], 3);
  EXPECT_EQ(counter.data<float>()[1], 6);
  EXPECT_EQ(f.counters().cache.misses, 1);
  EXPECT_EQ(f.counters().cache.hits, 2);
}

TEST(Compile, AnMlpLearnsAndALearningRateNeverRecompiles) {
  Parameter w1("w1", {2, 16}), b1("b1", {16}), w2("w2", {16, 2}), b2("b2", {2});
  for (size_t i = 0; i < 32; ++i) {
    w1.data<float>()[i] = std::sin(static_cast<float>(3 * i + 1));
    w2.data<float>()[i] = std::cos(static_cast<float>(5 * i + 2)) * 0.5f;
  }
  optim::Adamw optimizer({w1, b1, w2, b2}, {.weightDecay = 0});
  FunctionOptions options = quiet();
  options.inputs = {"x", "targets", "lr", "step"};
  options.outputs = {"loss", "norm"};
  Function train = compile(
      "train",
      [&](Tensor x, Tensor targets, Tensor lr, Tensor step) {
        const Tensor loss = crossEntropy(nn::mlp(x, {w1, b1}, {w2, b2}), targets);
        return std::pair{loss, optimizer.step(loss, gradient(loss, optimizer.parameters()), lr, step).norm};
      },
      options);
  const std::vector<float> points = {0, 0, 0, 1, 1, 0, 1, 1};
  const std::vector<int32_t> parity = {0, 1, 1, 0};
  const Array x = Array::of(points, {4, 2}), targets = Array::of(parity, {4});
  double first = 0, last = 0;
  for (int step = 1; step <= 300; ++step) {
    last = train(x, targets, 0.02f + 0.0001f * static_cast<float>(step % 7), static_cast<float>(step))[0].item();
    if (step == 1)
      first = last;
  }
  EXPECT_GT(first, 0.4);
  EXPECT_LT(last, 0.05) << "exclusive or is learnt";
  EXPECT_EQ(train.counters().cache.misses, 1);
  EXPECT_EQ(train.lastCompile().matmuls, 5)
      << "two forward; backward two for the weights, one for the activation, none for x";
}

// Sizes that parts divide and sizes that they do not, small and large, of one size and of many, 16 bits and none.
TEST(Compile, TheGlobalNormIsThatOfAllElements) {
  const std::vector<std::vector<Shape>> cases = {{{}, {1}, {7}, {1009}, {768}, {4, 768}, {50, 768}, {768, 64}, {0, 3}},
                                                 {{1009}, {31, 37}},
                                                 {{512}, {1024}, {512}, {600, 512}, {600, 512}, {4096}},
                                                 std::vector<Shape>(80, {192}),
                                                 std::vector<Shape>(77, {64, 192}),
                                                 {}};
  for (const std::vector<Shape> &shapes : cases) {
    std::vector<Array> arguments;
    double squares = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      arguments.push_back(sequence(shapes[i], -1 - 0.25f * static_cast<float>(i % 5), 0.001f));
      for (const float value : arguments.back().read<float>())
        squares += static_cast<double>(value) * value;
    }
    Function f = compile(
        "f", [](std::span<const Tensor> gradients) { return std::vector{optim::globalNorm(gradients)}; }, quiet());
    const double norm = f.call(arguments)[0].item();
    EXPECT_NEAR(norm, std::sqrt(squares), 4e-6 * std::sqrt(squares)) << shapes.size() << " tensors";
  }
}

// Equal layers add calls of the same kernels, and few other ones.
TEST(Compile, TheGlobalNormOfMoreLayersHasFewMoreKernelsToCompile) {
  const auto compiledKernels = [](int layers) {
    std::vector<Array> arguments{Array({1024, 768}), Array({768})};
    for (int layer = 0; layer < layers; ++layer)
      for (const Shape &shape : {Shape{768, 96}, Shape{96, 768}, Shape{768, 32}, Shape{768}, Shape{1536}, Shape{768}})
        arguments.emplace_back(shape);
    Function f = compile(
        "f", [](std::span<const Tensor> gradients) { return std::vector{optim::globalNorm(gradients)}; }, quiet());
    return f.plan(arguments).kernels.size();
  };
  EXPECT_LE(compiledKernels(48), compiledKernels(12) + 2);
  EXPECT_LE(compiledKernels(96), compiledKernels(12) + 4);
}

TEST(Compile, ANonFiniteLossLeavesEveryBitOfTheStates) {
  Parameter w("w", {4});
  for (size_t i = 0; i < 4; ++i)
    w.data<float>()[i] = static_cast<float>(i) + 1;
  optim::Adamw optimizer({w});
  Function train = compile(
      "train",
      [&](Tensor x, Tensor lr, Tensor step) {
        const Tensor loss = sum(x * w);
        return optimizer.step(loss, gradient(loss, optimizer.parameters()), lr, step).applied;
      },
      quiet());
  EXPECT_EQ(train(sequence({4}, NAN, 1), 0.1f, 1.f)[0].item(), 0);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(w.data<float>()[i], static_cast<float>(i) + 1);
  EXPECT_EQ(train(sequence({4}, 1, 1), 0.1f, 1.f)[0].item(), 1);
  EXPECT_NE(w.data<float>()[0], 1);
}

TEST(Compile, EveryMissHasAReason) {
  std::vector<std::string> reasons;
  FunctionOptions options = quiet(&reasons);
  options.inputs = {"tokens"};
  double factor = 2;
  Function f = compile("f", [&](Tensor x) { return x * factor; }, options);
  f(sequence({16, 8}, 0, 1));
  EXPECT_TRUE(reasons.empty()) << "the first compilation is no recompilation";
  f(sequence({16, 4}, 0, 1));
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("tokens"), std::string::npos) << reasons[0];
  EXPECT_NE(reasons[0].find("16x8"), std::string::npos) << reasons[0];
  EXPECT_NE(reasons[0].find("16x4"), std::string::npos) << reasons[0];
  factor = 3;
  EXPECT_EQ(f(sequence({16, 4}, 0, 1))[0].item(1), 3) << "a changed constant is never stale";
  ASSERT_EQ(reasons.size(), 2u);
  EXPECT_NE(reasons[1].find("compile_test.cpp"), std::string::npos) << reasons[1];
  EXPECT_NE(reasons[1].find("make it an input"), std::string::npos) << reasons[1];
  EXPECT_EQ(f.counters().cache.recompiles, 2);
  f(sequence({16, 8}, 0, 1));
  factor = 2;
  f(sequence({16, 8}, 0, 1));
  EXPECT_TRUE(f.missReason().empty()) << "both are cached";
}

TEST(Compile, FrozenFunctionsAreTracedOnce) {
  int traces = 0;
  std::vector<std::string> said;
  FunctionOptions options = quiet(&said);
  options.frozen = true;
  Function f = compile(
      "f",
      [&](Tensor x) {
        ++traces;
        return x + 1;
      },
      options);
  for (int i = 0; i < 5; ++i)
    f(sequence({3}, 0, 1));
  EXPECT_EQ(traces, 1);
  EXPECT_TRUE(said.empty());
  EXPECT_EQ(f(sequence({4}, 0, 1))[0].item(3), 4) << "another shape is traced again";
  EXPECT_EQ(traces, 2);
  ASSERT_FALSE(said.empty());
  EXPECT_NE(said[0].find("'f' is frozen"), std::string::npos) << said[0];
}

TEST(Compile, ALookAtAStepLeavesTheExecutableOfTheLastCall) {
  for (const bool frozen : {false, true}) {
    int traces = 0;
    FunctionOptions options = quiet();
    options.frozen = frozen;
    Function f = compile(
        "f",
        [&](Tensor x) {
          ++traces;
          return x + traces;
        },
        options);
    const Array x = sequence({3}, 0, 1);
    EXPECT_EQ(f(x)[0].item(0), 1);
    const auto executable = f.executable();
    ASSERT_TRUE(executable);
    f.plan(std::array{sequence({4}, 0, 1)});
    EXPECT_EQ(f.executable(), executable) << frozen;
    EXPECT_EQ(f(x)[0].item(0), 3) << "what was traced for the plan is not what is run";
    EXPECT_EQ(traces, 3) << frozen;
  }
}

TEST(Compile, AFunctionThatWasMovedFromIsAnError) {
  Function f = compile("f", [](Tensor x) { return x + 1; }, quiet());
  Function g = std::move(f);
  EXPECT_EQ(g(sequence({2}, 0, 1))[0].item(1), 2);
  EXPECT_THROW(f(sequence({2}, 0, 1)), Error);
  EXPECT_THROW(f.prepare({}), Error);
  EXPECT_THROW(f.graph({}), Error);
  EXPECT_THROW(f.lastCompile(), Error);
  EXPECT_THROW(f.counters(), Error);
  EXPECT_THROW(f.missReason(), Error);
  EXPECT_THROW(f.executable(), Error);
  EXPECT_THROW(f.profile(nullptr), Error);
  f = std::move(g);
  EXPECT_EQ(f(sequence({2}, 0, 1))[0].item(1), 2);
}

TEST(Compile, ASecondCallAtTheSameTimeIsAnError) {
  // The traced function waits until another thread's call has been refused.
  std::atomic<bool> tracing = false, refused = false;
  Function f = compile(
      "slow",
      [&](Tensor x) {
        tracing = true;
        for (int i = 0; i < 1000 && !refused; ++i)
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
        return x + 1;
      },
      quiet());
  std::string message;
  std::thread other([&] {
    while (!tracing)
      std::this_thread::yield();
    try {
      f(sequence({2}, 0, 1));
    } catch (const Error &error) {
      message = error.what();
    }
    refused = true;
  });
  EXPECT_EQ(f(sequence({2}, 0, 1))[0].item(1), 2);
  other.join();
  EXPECT_NE(message.find("'slow' is used while a call of it runs"), std::string::npos) << message;
  EXPECT_EQ(f(sequence({2}, 0, 1))[0].item(1), 2) << "still usable";
}

TEST(Compile, MistakesAreErrors) {
  Function f = compile("f", [](Tensor x) { return x + 1; }, quiet());
  const Array x({2});
  EXPECT_THROW(f(x, x), Error);
  EXPECT_THROW(f(Array()), Error);
  EXPECT_THROW(Array({-1}), Error);
  EXPECT_THROW(Array({int64_t{1} << 40, 1 << 20}), Error);
  EXPECT_THROW(x.data<int32_t>(), Error);
  EXPECT_THROW(x.item(), Error);
  Function nested = compile(
      "nested",
      [&](Tensor y) {
        f(x);
        return y;
      },
      quiet());
  EXPECT_THROW(nested(x), Error);
  EXPECT_EQ(f(x)[0].item(0), 1) << "still usable";
  FunctionOptions options = quiet();
  options.passes = {{"no-such-pass", true}};
  Function unknownPass = compile("f", [](Tensor y) { return y + 1; }, options);
  EXPECT_THROW(unknownPass(x), Error);
}

struct Descent {
  Parameter w{"w", {6, 4}};
  Function step;
  explicit Descent(FunctionOptions options)
      : step(compile(
            "descent",
            [this](Tensor x, Tensor rate) {
              Tensor y = matmul(x, w);
              Tensor loss = mean(y * y);
              assign(w, w - rate * gradient(loss, {w}));
              return std::pair{loss, y};
            },
            std::move(options))) {
    for (size_t i = 0; i < 24; ++i)
      w.data<float>()[i] = 0.1f * static_cast<float>(static_cast<int>(i % 7) - 3);
  }
  std::vector<Array> operator()(int number) { return step(sequence({3, 6}, -0.5f, 0.01f * float(number)), 0.1f); }
};

TEST(CompileOnADevice, SameBitsAndNoCopyTooMany) {
  auto device = std::make_shared<runtime::test::RemoteDevice>();
  FunctionOptions there = quiet();
  there.device = device;
  there.checked = true;
  Descent here(quiet()), remote(there);
  std::vector<std::vector<Array>> kept;
  for (int i = 0; i < 4; ++i) {
    const auto expected = here(i);
    kept.push_back(remote(i));
    EXPECT_EQ(kept.back()[0].item(), expected[0].item());
    EXPECT_TRUE(std::ranges::equal(kept.back()[1].read<float>(), expected[1].read<float>()));
  }
  EXPECT_EQ(device->bytesIn, 96) << "the weights went there once";
  EXPECT_EQ(device->bytesOut, 0);
  EXPECT_TRUE(std::ranges::equal(remote.w.read<float>(), here.w.read<float>()));
  EXPECT_EQ(device->bytesOut, 96);
  remote(4), here(4); // reading has changed nothing
  EXPECT_EQ(device->bytesIn, 96);
  for (Parameter *w : {&remote.w, &here.w})
    w->data<float>()[3] = 1.5f;
  EXPECT_EQ(remote(5)[0].item(), here(5)[0].item()) << "a written weight must reach the device";
  EXPECT_EQ(device->bytesIn, 192);
  EXPECT_TRUE(std::ranges::equal(remote.w.read<float>(), here.w.read<float>()));
}

// What a weight that is out of date on either side would look like.
TEST(CompileOnADevice, AStaleCopyOfAWeightShows) {
  for (const bool checked : {false, true})
    for (const bool inward : {true, false}) {
      auto device = std::make_shared<runtime::test::RemoteDevice>();
      FunctionOptions there = quiet();
      there.device = device;
      there.checked = checked;
      Descent here(quiet()), remote(there);
      for (int i = 0; i < 2; ++i)
        EXPECT_EQ(remote(i)[0].item(), here(i)[0].item());
      if (inward) {
        for (Parameter *w : {&remote.w, &here.w})
          w->data<float>()[3] = 1.5f;
        device->forgetsIn = true;
        EXPECT_NE(remote(2)[0].item(), here(2)[0].item());
      } else {
        device->forgetsOut = true;
        EXPECT_FALSE(std::ranges::equal(remote.w.read<float>(), here.w.read<float>()));
      }
    }
}

TEST(CompileOnADevice, StatesGoBetweenDeviceAndHostFunctions) {
  FunctionOptions there = quiet();
  there.device = std::make_shared<runtime::test::RemoteDevice>();
  Descent remote(there), here(quiet());
  Function total = compile("total", [&] { return sum(remote.w); }, quiet());
  Function expected = compile("total", [&] { return sum(here.w); }, quiet());
  for (int i = 0; i < 3; ++i) {
    remote(i), here(i);
    EXPECT_EQ(total()[0].item(), expected()[0].item());
  }
}

TEST(CompileOnADevice, AResultIsAnInputOfTheNextCall) {
  FunctionOptions there = quiet();
  there.device = std::make_shared<runtime::test::RemoteDevice>();
  Function twice = compile("twice", [](Tensor x) { return x + x; }, there);
  Array x = sequence({5}, 1, 1);
  for (int i = 0; i < 3; ++i)
    x = twice(x)[0];
  EXPECT_EQ(x.item(4), 40);
}

TEST(CompileOnADevice, WhatIsLostIsNamedAndTheHostGoesOn) {
  auto device = std::make_shared<runtime::test::RemoteDevice>();
  FunctionOptions there = quiet();
  there.device = device;
  Descent remote(there);
  remote(0);
  const float before = remote.w.read<float>()[0];
  remote(1);
  device->lost = "remote is closed after: a fault";
  auto refused = [&](auto action, const char *expected) {
    try {
      action();
      ADD_FAILURE() << "no error";
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  };
  refused([&] { remote(2); }, "lost: the values of states `w` since they were last read");
  refused([&] { remote.w.read<float>(); }, "state 'w': remote is closed after: a fault");
  remote.w.fallBack();
  EXPECT_EQ(remote.w.read<float>()[0], before);
  Function total = compile("total", [&] { return sum(remote.w); }, quiet());
  EXPECT_TRUE(std::isfinite(total()[0].item()));
}

TEST(Compile, TheCacheCountsNoArenas) {
  FunctionOptions options = quiet();
  options.cacheBytes = 1 << 20; // each step's arena is larger
  Function f = compile("f", [](Tensor x, Tensor y) { return sum(matmul(x, y)); }, options);
  for (int round = 0; round < 2; ++round)
    for (int64_t rows : {1024, 2048})
      f(Array({rows, 512}), Array({512, 512}));
  EXPECT_EQ(f.counters().cache.evictions, 0);
  EXPECT_EQ(f.counters().cache.misses, 2);
}

TEST(Compile, ACheckedFunctionNamesTheFirstIndexThatMakesNan) {
  FunctionOptions options = quiet();
  options.inputs = {"logits", "targets"};
  auto loss = [](Tensor logits, Tensor targets) { return crossEntropy(logits, targets); };
  const std::vector<int32_t> labels = {1, -1, 5};
  Array logits({3, 5}), targets = Array::of(labels, {3}); // of 5 classes; a negative target does not count
  EXPECT_TRUE(std::isnan(compile("loss", loss, options)(logits, targets)[0].item()));
  options.checked = true;
  Function checked = compile("loss", loss, options);
  try {
    checked(logits, targets);
    ADD_FAILURE() << "no error";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("'targets' element 2 is 5; an index of 0..4 is expected"),
              std::string::npos)
        << error.what();
  }
  targets.setItem(2, 4);
  EXPECT_NEAR(checked(logits, targets)[0].item(), std::log(5.0), 1e-6);
}

} // namespace
