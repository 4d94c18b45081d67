// Several threads trace, compile and run at once: functions of their own over states, custom ops and a device that they
// share.
#include "frontend/trace.h"
#include "runtime/device/device.h"
#include "tests/frontend/quiet_functions.h"
#include <gtest/gtest.h>
#include <latch>
#include <tcc/tcc.h>
#include <thread>

using namespace tcc;

namespace {

constexpr int threadCount = 4;

/// `work(thread)` in several threads that begin together.
template <typename Work>
void inThreads(Work work) {
  std::latch start(threadCount);
  std::vector<std::thread> threads;
  std::vector<std::string> problems(threadCount);
  for (int i = 0; i < threadCount; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (const std::exception &problem) {
        problems[static_cast<size_t>(i)] = problem.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &problem : problems)
    EXPECT_EQ(problem, "");
}

/// What the threads share.
struct Shared {
  Parameter w{"w", {8, 8}}, b{"b", {8}}, m{"m", {8, 8}};
  Custom softcap = customOp(
      {.name = "softcap", .body = [](std::span<const Tensor> in) { return std::vector{tanh(in[0] / 30.0) * 30.0}; }});

  /// A step that uses the states in an order of its own, so that each has another place in each thread's record.
  std::vector<Tensor> step(int order, const Tensor &x) const {
    const Scope scope("thread." + std::to_string(order));
    Tensor y = x;
    if (order % 2)
      y = y + b;
    for (int layer = 0; layer <= order; ++layer)
      y = gelu(nn::linear(y, {w, b}));
    y = cond(
        max(y) < 4.0, [&] { return y * 2.0; }, [&] { return y - b; },
        Loc::at("model.py", uint32_t(order + 1), 0, "cond"));
    const Tensor loss = mean(softcap(y));
    const std::vector<Tensor> wanted = order % 2 ? std::vector<Tensor>{b, w} : std::vector<Tensor>{w, b};
    const std::vector<Tensor> gradients = gradient(loss, wanted);
    return {loss, gradients[0], gradients[1], Tensor(m)};
  }
};

/// Another thread uses the state between two uses of it here.
TEST(Threads, ARecordingIsNotDisturbedByAnother) {
  const Parameter w("w", {8, 8});
  const std::vector<ValueType> inputs = {{DType::f32, {4, 8}}};
  const std::vector<std::string> names = {"x"};
  const auto record = [&](Tracer &tracer, const std::function<void()> &between) {
    return tracer.record(
        [&](std::span<const Tensor> in) {
          const Tensor y = exp(in[0]);
          const Tensor z = matmul(y, w);
          between();
          assign(w, w * 0.5);
          return std::vector{matmul(z, w)};
        },
        inputs, names);
  };
  Tracer undisturbed, disturbed;
  const uint64_t expected = record(undisturbed, [] {}).hash;
  const auto recordElsewhere = [&] {
    std::thread([&] {
      Tracer other;
      other.record([&](std::span<const Tensor> in) { return std::vector{matmul(in[0], w)}; }, inputs, names);
    }).join();
  };
  for (int turn = 0; turn < 3; ++turn) { // recorded, then replayed
    const Recorded recorded = record(disturbed, recordElsewhere);
    EXPECT_EQ(recorded.hash, expected);
    EXPECT_EQ(recorded.replayed, turn > 0);
    EXPECT_EQ(recorded.record->arguments.size(), 2u);
  }
}

TEST(Threads, RecordAtOnce) {
  const Shared shared;
  const auto recordOf = [&](Tracer &tracer, int order, int64_t rows) {
    const std::vector<ValueType> inputs = {{DType::f32, {rows, 8}}};
    const std::vector<std::string> names = {"x"};
    return tracer.record([&](std::span<const Tensor> in) { return shared.step(order, in[0]); }, inputs, names).hash;
  };
  std::vector<uint64_t> alone;
  for (int order = 0; order < threadCount; ++order) {
    Tracer tracer;
    alone.push_back(recordOf(tracer, order, 4));
  }
  inThreads([&](int order) {
    Tracer tracer;
    for (int turn = 0; turn < 100; ++turn) {
      ASSERT_EQ(recordOf(tracer, order, 4), alone[static_cast<size_t>(order)]) << "thread " << order;
      if (turn % 10 == 9)
        recordOf(tracer, order, 5); // recorded anew, and so is the next one
    }
  });
}

/// Each thread compiles and calls a function of its own, which reads the shared states and updates its own.
void callAtOnce(const std::shared_ptr<runtime::Device> &device) {
  const Shared shared;
  std::vector<State> counters;
  for (int i = 0; i < threadCount; ++i)
    counters.emplace_back("counter", Shape{});
  for (size_t i = 0; i < 64; ++i)
    shared.w.data<float>()[i] = 0.01f * static_cast<float>(i % 11);
  const auto made = [&](int order, const State &counter) {
    FunctionOptions options = quiet();
    options.device = device;
    return compile(
        "step",
        [&shared, order, counter](Tensor x) {
          assign(counter, counter + 1.0);
          return shared.step(order, x);
        },
        options);
  };
  std::vector<std::vector<Array>> alone;
  for (int order = 0; order < threadCount; ++order)
    alone.push_back(made(order, State("counter", Shape{}))(sequence({4, 8}, -1, 0.125f)));
  inThreads([&](int order) {
    const State &counter = counters[static_cast<size_t>(order)];
    Function step = made(order, counter);
    for (int turn = 0; turn < 20; ++turn) {
      const std::vector<Array> results = step(sequence({4, 8}, -1, 0.125f));
      for (size_t i = 0; i < results.size(); ++i)
        ASSERT_TRUE(sameBits(results[i], alone[static_cast<size_t>(order)][i]))
            << "thread " << order << ", result " << i;
      if (turn % 10 == 9)
        step(sequence({turn, 8}, 0, 0.5f)); // another shape, compiled while others run
    }
    EXPECT_EQ(counter.read<float>()[0], 22);
  });
}

TEST(Threads, CompileAndRunAtOnceOnDevicesOfTheirOwn) {
  callAtOnce(nullptr);
}

TEST(Threads, CompileAndRunAtOnceOnOneDevice) {
  callAtOnce(runtime::makeCpuDevice());
}

} // namespace
