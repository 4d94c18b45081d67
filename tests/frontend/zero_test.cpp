// FunctionOptions::zero, by ranks as threads: whatever is shared out, losses, norms, parameters and states have the
// bits of one process, and each rank keeps what the plan says.
#include "frontend/state_parts.h"
#include "runtime/executable.h"
#include "tests/expect_text.h"
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/thread_ranks.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <iostream>
#include <map>
#include <tcc/tcc.h>

using namespace tcc;
using runtime::test::onThreads;
using runtime::test::ThreadRanks;
using runtime::test::Timing;

namespace {

constexpr int64_t lanesOfRun = 8, rows = 24, width = 20;

struct Case {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Parameter>)> make;
  DType parameters = DType::f32;
};

/// Norms are clipped far below what they are, so that clipping counts.
template <typename Optimizer, typename Settings>
Case caseOf(const std::string &name, Settings settings, DType parameters = DType::f32) {
  return {name,
          [settings](std::vector<Parameter> parameters) mutable {
            if constexpr (requires { settings.rest; })
              settings.rest.clip = 0.05;
            else
              settings.clip = 0.05;
            return std::make_unique<Optimizer>(std::move(parameters), settings);
          },
          parameters};
}

std::vector<Case> cases() {
  return {caseOf<optim::Adamw>("adamw", optim::AdamwSettings{}),
          caseOf<optim::Sgd>("sgd", optim::SgdSettings{.weightDecay = 0.1}),
          caseOf<optim::Lion>("lion", optim::LionSettings{}),
          caseOf<optim::Adafactor>("adafactor", optim::AdafactorSettings{}),
          caseOf<optim::Muon>("muon", optim::MuonSettings{}),
          caseOf<optim::Adamw>("adamw in bf16", optim::AdamwSettings{}, DType::bf16),
          caseOf<optim::Lion>("lion in bf16", optim::LionSettings{}, DType::bf16),
          caseOf<optim::Adafactor>("adafactor in bf16", optim::AdafactorSettings{}, DType::bf16),
          caseOf<optim::Muon>("muon in bf16", optim::MuonSettings{}, DType::bf16)};
}

/// What is tried every day: each optimizer with one type of parameters, which `seed` draws; all with TCC_FULL=1.
std::vector<Case> casesOf(int seed) {
  std::vector<Case> drawn;
  std::map<DType, int> places; // the optimizers that have both types stand in one order with each of them
  for (const Case &each : cases())
    if (std::getenv("TCC_FULL") || each.name == "sgd" ||
        (each.parameters == DType::bf16) == ((seed + places[each.parameters]++) % 2 != 0))
      drawn.push_back(each);
  return drawn;
}

Case caseNamed(const std::string &name) {
  const std::vector<Case> all = cases();
  return *std::ranges::find(all, name, &Case::name);
}

/// A net with sizes that few numbers of ranks divide, and all that it trains.
struct Net {
  std::vector<Parameter> weights; // two matrices, a table, a bias, and one that is too small for parts
  std::unique_ptr<optim::Optimizer> optimizer;

  explicit Net(const Case &chosen) {
    const auto add = [&](const char *name, Shape shape) {
      weights.emplace_back(name, shape, chosen.parameters);
      for (int64_t i = 0; i < shape.elements(); ++i) {
        const float value = 0.3f * std::sin(0.7f * float(i) + float(weights.size()));
        if (chosen.parameters == DType::bf16)
          weights.back().data<uint16_t>()[size_t(i)] = runtime::floatToBf16(value);
        else
          weights.back().data<float>()[size_t(i)] = value;
      }
    };
    add("first", {width, 33});
    add("second", {33, width});
    add("embed", {13, width});
    add("bias", {33});
    add("scale", {1});
    optimizer = chosen.make(weights);
    optimizer->setNormOrder(optim::NormOrder::rows);
  }

  Tensors step(const Tensor &x, const Tensor &lr, const Tensor &number) const {
    Tensors wide;
    for (const Parameter &weight : weights)
      wide.push_back(optim::inF32(weight));
    const Tensors sums =
        lanes(lanesOfRun, {reshape(x, {lanesOfRun, rows / lanesOfRun, width})}, [&](const Tensors &parts) {
          Tensor h = tanh(matmul(parts[0], wide[0]) + wide[3]) * wide[4];
          h = matmul(h, wide[1]) + matmul(parts[0], matmul(wide[2], wide[2], {.transposeA = true}));
          const Tensor loss = mean(h * h) * (1.0 / double(lanesOfRun));
          Tensors all = gradient(loss, wide);
          all.insert(all.begin(), loss);
          return all;
        });
    return {sums[0], optimizer->step(sums[0], std::span(sums).subspan(1), lr, number).norm};
  }
};

std::string bytesOf(const State &state) {
  return {static_cast<const char *>(state.rawForReading()), static_cast<size_t>(state.bytes())};
}

struct Outcome {
  std::vector<std::string> values; // losses and norms, parameters, states: by bytes; on other ranks without states
  int64_t stateBytes = 0, weightBytes = 0, planned = 0;
};

int64_t sizeOf(std::span<const State> states) {
  int64_t bytes = 0;
  for (const State &state : states)
    bytes += state.bytes();
  return bytes;
}

/// `steps` steps; `ranks` null: by one process.
Outcome train(const Case &chosen, FunctionOptions options, int steps = 3) {
  options.threads = 1;
  Net net(chosen);
  Function step = compile("step", [&](Tensor x, Tensor lr, Tensor number) { return net.step(x, lr, number); }, options);
  Outcome outcome;
  for (int number = 1; number <= steps; ++number) {
    for (const Array &result : step(sequence({rows, width}, -1 + 0.1f * float(number), 0.004f), 0.01f, float(number)))
      outcome.values.emplace_back(static_cast<const char *>(result.rawForReading()), size_t(result.bytes()));
    outcome.weightBytes = sizeOf(net.weights);
    const std::vector<StateParts> parts = makeWhole(net.weights, options.ranks.get(), WholeOn::allRanks);
    if (number == steps)
      for (const Parameter &parameter : net.weights)
        outcome.values.push_back(bytesOf(parameter));
    cutAgain(parts, options.ranks.get());
    EXPECT_EQ(sizeOf(net.weights), outcome.weightBytes);
  }
  outcome.stateBytes = sizeOf(net.optimizer->states());
  const bool isFirst = !options.ranks || options.ranks->rank() == 0;
  for (const State &state : wholeStates(net.optimizer->states(), options.ranks.get()))
    if (isFirst)
      outcome.values.push_back(bytesOf(state));
  outcome.planned = step.executable()->plannedBytes();
  return outcome;
}

/// Calls `run` on a thread for each rank, with its number and with the options of that rank; failures name `what`.
template <typename Run>
void onEachRank(const std::string &what, int64_t ranks, const FunctionOptions &options, Timing timing, Run &&run) {
  onThreads(ranks, timing, 23, [&](const std::shared_ptr<ThreadRanks> &own) {
    FunctionOptions given = options;
    given.ranks = own;
    try {
      run(own->rank(), given);
    } catch (const std::exception &error) {
      ADD_FAILURE() << what << ", rank " << own->rank() << " of " << ranks << ": " << error.what();
    }
  });
}

std::vector<Outcome> trainOnThreads(int64_t ranks, const Case &chosen, const FunctionOptions &options,
                                    Timing timing = Timing::random) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  onEachRank(chosen.name, ranks, options, timing,
             [&](int64_t rank, const FunctionOptions &given) { outcomes[size_t(rank)] = train(chosen, given); });
  return outcomes;
}

void expectTheBitsOfOne(const Case &chosen, const std::vector<Outcome> &outcomes, const Outcome &one,
                        const std::string &what) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    const std::vector<std::string> &values = outcomes[rank].values;
    ASSERT_GE(values.size(), rank ? size_t{11} : one.values.size()) << chosen.name << ", " << what;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_TRUE(values[i] == one.values[i]) << chosen.name << ", " << what << ", rank " << rank << ", value " << i;
  }
}

/// Pairs of a number of ranks and a stage: one for the optimizer of this number, which `seed` draws, every one with
/// TCC_FULL=1. Three ranks have no equal numbers of lanes, so they have no stage 3.
std::vector<std::pair<int64_t, int>> pairsOf(int number, int seed) {
  std::vector<std::pair<int64_t, int>> pairs;
  if (!std::getenv("TCC_FULL") && (number + seed) % 2)
    return {{3, 1 + number / 2 % 2}};
  if (!std::getenv("TCC_FULL"))
    return {{number % 4 < 2 ? 2 : 4, number % 3 ? 3 : number % 2 * 2}};
  for (const int64_t ranks : {2, 3, 4, 8})
    for (int stage = 0; stage <= (ranks == 3 ? 2 : 3); ++stage)
      pairs.emplace_back(ranks, stage);
  return pairs;
}

TEST(Zero, HasTheBitsOfOneProcess) {
  const char *given = std::getenv("TCC_SEED");
  const int seed = given ? std::atoi(given) : 1;
  std::cout << "seed " << seed << " (TCC_SEED)\n";
  int number = 0;
  for (const Case &chosen : casesOf(seed)) {
    const Outcome one = train(chosen, quiet());
    for (const auto &[ranks, stage] : pairsOf(number++, seed)) {
      FunctionOptions options = quiet();
      options.zero = stage;
      options.bucketBytes = ranks % 2 ? 1 : 2000;
      expectTheBitsOfOne(chosen, trainOnThreads(ranks, chosen, options), one,
                         "--zero=" + std::to_string(stage) + " on " + std::to_string(ranks) + " ranks");
    }
  }
}

TEST(Zero, HasTheBitsOfOneProcessInEveryMode) {
  const std::pair<const char *, std::function<void(FunctionOptions &)>> modes[] = {
      {"-O0", [](FunctionOptions &options) { options.level = 0; }},
      {"-O1", [](FunctionOptions &options) { options.level = 1; }},
      {"bf16", [](FunctionOptions &options) { options.products = DType::bf16; }},
      {"checked", [](FunctionOptions &options) { options.checked = true; }},
      {"separate", [](FunctionOptions &options) { options.separate = true; }},
      {"unscheduled", [](FunctionOptions &options) { options.passes["schedule-collectives"] = false; }}};
  int number = 0;
  for (const auto &[name, set] : modes) {
    const Case chosen = caseNamed(number++ % 2 ? "adamw in bf16" : "adamw");
    FunctionOptions options = quiet();
    set(options);
    const Outcome one = train(chosen, options);
    options.zero = 3;
    expectTheBitsOfOne(chosen, trainOnThreads(2, chosen, options), one, name);
  }
}

TEST(Zero, OneRankKeepsAll) {
  FunctionOptions options = quiet();
  const Outcome alone = train(caseNamed("adamw"), options);
  options.zero = 1;
  const Outcome one = train(caseNamed("adamw"), options);
  EXPECT_TRUE(one.values == alone.values);
  EXPECT_EQ(one.planned, alone.planned);
}

TEST(Zero, EachRankKeepsItsPart) {
  for (const Case &chosen : {caseNamed("adamw"), caseNamed("sgd"), caseNamed("adamw in bf16")}) {
    const Outcome one = train(chosen, quiet());
    constexpr int64_t ranks = 3;
    FunctionOptions options = quiet();
    options.zero = 1;
    int64_t all = 0;
    for (const Outcome &outcome : trainOnThreads(ranks, chosen, options)) {
      all += outcome.stateBytes;
      EXPECT_LE(outcome.stateBytes, one.stateBytes / ranks + one.stateBytes / 16) << chosen.name;
    }
    EXPECT_EQ(all, one.stateBytes) << "each row is kept once; `scale`, which is too small for parts, by an owner: "
                                   << chosen.name;
  }
}

TEST(Zero, EachRankKeepsItsPartOfParameters) {
  for (const char *name : {"muon", "lion in bf16"}) {
    const Case chosen = caseNamed(name);
    const Outcome one = train(chosen, quiet());
    constexpr int64_t ranks = 2;
    FunctionOptions options = quiet();
    options.bucketBytes = 2000;
    std::vector<Outcome> byStage[2];
    for (const int stage : {2, 3}) {
      options.zero = stage;
      byStage[stage - 2] = trainOnThreads(ranks, chosen, options);
    }
    int64_t all = 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      const Outcome &whole = byStage[0][rank], &own = byStage[1][rank];
      all += own.weightBytes;
      EXPECT_EQ(whole.weightBytes, one.weightBytes);
      EXPECT_EQ(own.stateBytes, whole.stateBytes) << chosen.name;
      // With Muon the owner of a matrix multiplies it whole, in scratch whose size follows from the CPU's instructions.
      if (chosen.name != "muon")
        EXPECT_LT(own.planned, whole.planned) << chosen.name << ", rank " << rank;
    }
    const int64_t scale = runtime::byteSize(chosen.parameters); // which has fewer rows than there are ranks
    EXPECT_EQ(all, one.weightBytes + (ranks - 1) * scale) << chosen.name;
  }
}

TEST(Zero, RanksNeedEqualLanesForPartsOfParameters) {
  FunctionOptions options = quiet();
  options.zero = 3;
  onEachRank("adamw", 3, options, Timing::early, [](int64_t, const FunctionOptions &given) {
    EXPECT_HAS(
        errorOf([&] { train(caseNamed("adamw"), given); }),
        "8 lanes for 3 ranks; with --zero=3 each rank computes 1, 2, 4, 8, … of them, all ranks equally many, as of "
        "12 lanes");
  });
}

/// A NaN in a row of a parameter that another rank keeps, or of a moment, is found where it is.
TEST(Zero, TheSearchForWhatIsNotFiniteReadsWholeStates) {
  constexpr int64_t ranks = 2;
  FunctionOptions all = quiet();
  all.threads = 1;
  all.zero = 3;
  onEachRank("adamw", ranks, all, Timing::early, [&](int64_t rank, const FunctionOptions &options) {
    Net net(caseNamed("adamw"));
    Function step =
        compile("step", [&](Tensor x, Tensor lr, Tensor number) { return net.step(x, lr, number); }, options);
    const std::vector<Array> arguments{sequence({rows, width}, -1, 0.004f), 0.01f, 1.0f};
    step.call(arguments);
    if (rank + 1 == ranks) { // of the second rank's rows
      net.weights[2].data<float>()[0] = std::nanf("");
      net.optimizer->states().front().data<float>()[0] = std::nanf("");
    }
    if (rank == 0)
      EXPECT_HAS(errorOf([&] { step.findNonFinite(arguments); }),
                 "state 'first' is one rank's part, and a look at the step needs it whole: makeWhole()");
    makeWhole(net.weights, options.ranks.get(), WholeOn::firstRank);
    makeWhole(net.optimizer->states(), options.ranks.get(), WholeOn::firstRank);
    if (rank > 0)
      return;
    EXPECT_HAS(step.findNonFinite(arguments),
               "state `embed`, before the step: 1 of 260 values are not finite, the first "
               "of them, value 120, is NaN");
    for (float &value : net.weights[2].data<float>())
      value = 0.1f;
    EXPECT_EQ(step.findNonFinite(arguments), "") << "losses and norms do not read moments";
  });
}

TEST(Zero, PartsAreNoWholeStates) {
  FunctionOptions all = quiet();
  all.threads = 1;
  all.zero = 1;
  onEachRank("adamw", 2, all, Timing::early, [&](int64_t, const FunctionOptions &options) {
    Net net(caseNamed("adamw"));
    Function step =
        compile("step", [&](Tensor x, Tensor lr, Tensor number) { return net.step(x, lr, number); }, options);
    step(sequence({rows, width}, -1, 0.004f), 0.01f, 1.0f);
    const State &state = net.optimizer->states().front();
    EXPECT_TRUE(state.isPart());
    EXPECT_EQ(state.data<float>().size(), size_t(10 * 33)) << "the part, not the whole";
    EXPECT_FALSE(net.weights[0].isPart());
    const auto save = [&] { saveStates("/nonexistent/file", net.optimizer->states()); };
    EXPECT_HAS(errorOf(save), "state 'first.m' is one rank's part");
    EXPECT_HAS(errorOf([&] { wholeStates(net.optimizer->states(), nullptr); }), "its ranks are needed");
    // A step that keeps all of it has no use for a part.
    FunctionOptions whole = options;
    whole.zero = 0;
    whole.ranks = nullptr;
    Function other =
        compile("other", [&](Tensor x, Tensor lr, Tensor number) { return net.step(x, lr, number); }, whole);
    EXPECT_HAS(errorOf([&] { other(sequence({rows, width}, -1, 0.004f), 0.01f, 2.0f); }), "bytes; the step takes");
  });
}

} // namespace
