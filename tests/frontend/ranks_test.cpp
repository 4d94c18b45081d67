// Ranks as threads: whatever the number of ranks, the size of buckets and the moments at which collectives end, a step
// has the bits of one process; and with `schedule-collectives` they are in flight beside other ops.
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/thread_ranks.h"
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <tcc/tcc.h>

using namespace tcc;
using runtime::test::onThreads;
using runtime::test::ThreadRanks;
using runtime::test::Timing;

namespace {

constexpr int64_t rows = 24, width = 20;

/// Loss and gradients of a net of four layers, one of which has its weights twice, and the first gradient again; then
/// what reads them all.
Tensors netStep(const Tensor &x, const Tensors &weights, int64_t count) {
  Tensors sums = lanes(count, {reshape(x, {count, rows / count, width})}, [&](const Tensors &parts) {
    Tensor h = parts[0];
    for (const Tensor &weight : weights)
      h = tanh(matmul(h, weight)) + h;
    h = matmul(h, weights[1]);
    const Tensor loss = mean(h * h) * (1.0 / double(count));
    Tensors all = gradient(loss, weights);
    all.insert(all.begin(), loss);
    all.push_back(all[1]);
    return all;
  });
  Tensor norm = sum(sums[1] * sums[1]);
  for (size_t i = 2; i < sums.size(); ++i)
    norm = norm + sum(sums[i] * sums[i]);
  sums.push_back(norm);
  return sums;
}

std::vector<std::string> bytesOf(std::span<const Array> arrays) {
  std::vector<std::string> all;
  for (const Array &array : arrays)
    all.emplace_back(static_cast<const char *>(array.rawForReading()), static_cast<size_t>(array.bytes()));
  return all;
}

/// Three steps' results, by bytes. `inspect` is called after each step.
std::vector<std::string> stepsOf(FunctionOptions options, int64_t count,
                                 const std::function<void(const Function &)> &inspect = {}) {
  options.threads = 1;
  Function step =
      compile("step", [&](Tensor x, Tensor a, Tensor b, Tensor c) { return netStep(x, {a, b, c}, count); }, options);
  std::vector<std::string> all;
  for (int number = 0; number < 3; ++number) {
    const float first = 0.1f * float(number);
    const auto results = step(sequence({rows, width}, -1 + first, 0.004f), sequence({width, width}, -0.3f, 0.0017f),
                              sequence({width, width}, 0.2f, -0.0011f), sequence({width, width}, -0.1f, 0.0007f));
    for (const std::string &bytes : bytesOf(results))
      all.push_back(bytes);
    if (inspect)
      inspect(step);
  }
  return all;
}

struct Outcome {
  std::vector<std::vector<std::string>> results; // by rank
  std::vector<std::string> caches;               // by rank: CompileSummary::cache
  int64_t mostInFlight = 0;
  int64_t collectives = 0; // of the last two steps; in the first one the ranks compile, too
};

Outcome runOnThreads(int64_t ranks, int64_t count, Timing timing, FunctionOptions options) {
  Outcome run;
  run.results.resize(static_cast<size_t>(ranks));
  run.caches.resize(static_cast<size_t>(ranks));
  std::mutex mutex;
  onThreads(ranks, timing, 17, [&](const std::shared_ptr<ThreadRanks> &own) {
    const int64_t rank = own->rank();
    FunctionOptions given = options;
    given.ranks = own;
    std::vector<std::string> results;
    std::string cache;
    int64_t ofFirst = 0;
    try {
      results = stepsOf(given, count, [&](const Function &step) {
        cache = step.lastCompile().cache;
        ofFirst = ofFirst ? ofFirst : own->started;
      });
    } catch (const std::exception &error) {
      ADD_FAILURE() << "rank " << rank << " of " << ranks << ": " << error.what();
    }
    const std::lock_guard lock(mutex);
    run.results[static_cast<size_t>(rank)] = std::move(results);
    run.mostInFlight = std::max(run.mostInFlight, own->mostInFlight);
    run.caches[static_cast<size_t>(rank)] = cache;
    run.collectives = own->started - ofFirst;
  });
  return run;
}

constexpr int64_t weightBytes = width * width * 4;

TEST(RanksAsThreads, HaveTheBitsOfOneProcess) {
  const std::pair<int64_t, int64_t> shapes[] = {{8, 2}, {8, 3}, {4, 4}, {3, 2}, {2, 2}};
  int number = 0;
  for (const auto &[count, ranks] : shapes) {
    const std::vector<std::string> expected = stepsOf(quiet(), count);
    for (const int64_t bucket : {int64_t{1}, weightBytes + 64, int64_t{25} << 20}) {
      FunctionOptions options = quiet();
      options.bucketBytes = bucket;
      const auto timing = static_cast<Timing>(number++ % 3);
      const Outcome run = runOnThreads(ranks, count, timing, options);
      for (const auto &results : run.results)
        EXPECT_TRUE(results == expected) << count << " lanes on " << ranks << " ranks, buckets of " << bucket;
    }
  }
}

TEST(RanksAsThreads, HaveTheBitsOfOneProcessInEveryMode) {
  const std::pair<const char *, std::function<void(FunctionOptions &)>> modes[] = {
      {"-O0", [](FunctionOptions &options) { options.level = 0; }},
      {"-O1", [](FunctionOptions &options) { options.level = 1; }},
      {"-Os", [](FunctionOptions &options) { options.remat = Remat::full; }},
      {"--remat=block", [](FunctionOptions &options) { options.remat = Remat::block; }},
      {"bf16", [](FunctionOptions &options) { options.products = DType::bf16; }},
      {"checked", [](FunctionOptions &options) { options.checked = true; }},
      {"separate", [](FunctionOptions &options) { options.separate = true; }}};
  for (const auto &[name, set] : modes) {
    FunctionOptions options = quiet();
    set(options);
    const std::vector<std::string> expected = stepsOf(options, 8);
    options.bucketBytes = weightBytes;
    const Outcome run = runOnThreads(3, 8, Timing::random, options);
    for (const auto &results : run.results)
      EXPECT_TRUE(results == expected) << name;
    EXPECT_GE(run.mostInFlight, options.level > 0 ? 2 : 1) << name;
  }
}

/// The gradient of a weight without elements is a bucket of no bytes.
TEST(RanksAsThreads, ExchangeEmptyValues) {
  FunctionOptions options = quiet();
  options.bucketBytes = 1;
  options.threads = 1;
  const auto lossAndGradients = [](Tensor x, Tensor a, Tensor empty) {
    return lanes(4, {reshape(x, {4, rows / 4, width})}, [&](const Tensors &parts) {
      const Tensor loss = mean(tanh(matmul(parts[0], a))) + sum(empty * empty);
      Tensors all = gradient(loss, Tensors{a, empty});
      all.push_back(loss);
      return all;
    });
  };
  const auto results = [&](const FunctionOptions &given) {
    Function step = compile("step", lossAndGradients, given);
    return bytesOf(step(sequence({rows, width}, -1, 0.004f), sequence({width, width}, -0.3f, 0.0017f),
                        sequence({0, width}, 0, 1)));
  };
  const std::vector<std::string> expected = results(options);
  onThreads(2, Timing::random, 5, [&](const std::shared_ptr<ThreadRanks> &own) {
    FunctionOptions given = options;
    given.ranks = own;
    EXPECT_TRUE(results(given) == expected) << "rank " << own->rank();
  });
}

/// Of ranks with equal programs one compiles. Of 6 lanes four ranks add up 1, then 1 and 1, then 1, then 2 together.
TEST(RanksAsThreads, TakeTheStepOfARankWithTheSameProgram) {
  const std::string off = "not used: off, by TCC_CACHE_DIR=off", taken = off + "; taken from rank 0";
  const std::pair<int64_t, std::vector<std::string>> cases[] = {{8, {off, taken, taken, taken}},
                                                                {6, {off, off, taken, off}}};
  for (const auto &[count, caches] : cases) {
    const Outcome run = runOnThreads(4, count, Timing::random, quiet());
    EXPECT_EQ(run.caches, caches) << count << " lanes";
    const std::vector<std::string> expected = stepsOf(quiet(), count);
    for (const auto &results : run.results)
      EXPECT_TRUE(results == expected) << count << " lanes";
  }
}

TEST(RanksAsThreads, AreInFlightBesideOtherOpsUnlessThePassIsOff) {
  FunctionOptions options = quiet();
  options.bucketBytes = 1; // a bucket a value: loss and four gradients
  const Outcome flying = runOnThreads(2, 8, Timing::late, options);
  EXPECT_GE(flying.mostInFlight, 2);
  EXPECT_EQ(flying.collectives, 2 * 2 * 5); // two steps of an all_to_all and an all_gather for each
  options.passes["schedule-collectives"] = false;
  const Outcome alone = runOnThreads(2, 8, Timing::late, options);
  EXPECT_EQ(alone.mostInFlight, 1);
  EXPECT_TRUE(alone.results == flying.results);
}

TEST(RanksAsThreads, MayAddInTheOrderOfTheEngine) {
  FunctionOptions options = quiet();
  options.bucketBytes = 1;
  const std::vector<std::string> expected = stepsOf(options, 8);
  options.fastReduce = true;
  const Outcome run = runOnThreads(3, 8, Timing::random, options);
  ASSERT_EQ(run.results[0].size(), expected.size());
  EXPECT_TRUE(run.results[0] == run.results[1] && run.results[1] == run.results[2]);
  for (size_t i = 0; i < expected.size(); ++i)
    for (size_t at = 0; at < expected[i].size(); at += 4) {
      float fast = 0, exact = 0;
      std::memcpy(&fast, run.results[0][i].data() + at, 4);
      std::memcpy(&exact, expected[i].data() + at, 4);
      EXPECT_NEAR(fast, exact, 1e-5f * std::max(1.0f, std::abs(exact)));
    }
}

} // namespace
