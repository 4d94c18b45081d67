// --remat= where a step has more than plain ops: bodies of a repeat, and custom ops of every kind.
#include "tests/frontend/recomputed_steps.h"
#include <cmath>

using namespace tcc;

namespace {

FunctionOptions alone() {
  return quiet();
}

TEST(Recomputation, PlainBlocksAreComputedAgain) {
  expectSameBits([](const BlockModel &model, const Tensor &x) { return plainStep(model, x); }, alone);
}

TEST(Recomputation, BlocksInABodyToo) {
  expectSameBits(repeatedStep, alone);
}

TEST(Recomputation, OpsAroundARepeatThatIsABlock) {
  expectSameBits(
      [](const BlockModel &model, const Tensor &x) {
        return plainStep(model, x, [](const Tensor &t) {
          return repeat(2, gelu(t), [](const Tensor &each) { return tanh(each); });
        });
      },
      alone, /*saves=*/false);
}

/// softcap as a graph, with a gradient of its own.
Tensor capped(const Tensor &t) {
  return tanh(t * 0.5) * 2.0;
}
Tensor cappedSlope(const Tensor &t, const Tensor &y, const Tensor &dy) {
  return dy * (1.0 - y * y * 0.25) + t * 0.0;
}

TEST(Recomputation, CustomGraphsAreOpsLikeOthers) {
  const Custom op = customOp({.name = "capped", .body = capped, .gradient = cappedSlope});
  expectSameBits([&](const BlockModel &model,
                     const Tensor &x) { return plainStep(model, x, [&](const Tensor &t) { return op(t); }); },
                 alone);
}

/// A function may count or write somewhere: it runs once, and what it gives is kept.
TEST(Recomputation, CustomFunctionsRunOnce) {
  int calls = 0;
  const Custom op = customOp({.name = "capped",
                              .body = capped,
                              .gradient = cappedSlope,
                              .function = [&](const runtime::CustomArguments &call) {
                                ++calls;
                                const auto in = call.input<float>(0);
                                for (size_t i = 0; i < in.size(); ++i)
                                  call.output<float>(0)[i] = std::tanh(in[i] * 0.5f) * 2.0f;
                              }});
  const RecomputedStep step = [&](const BlockModel &model, const Tensor &x) {
    return plainStep(model, x, [&](const Tensor &t) { return op(gelu(t)); });
  };
  expectSameBits(step, alone);
  for (const Remat remat : {Remat::none, Remat::full}) {
    recomputed(step, remat, quiet()); // checks the op, which calls it
    calls = 0;
    recomputed(step, remat, quiet());
    EXPECT_EQ(calls, 3 * BlockModel::blocks) << static_cast<int>(remat);
  }
}

TEST(Recomputation, CustomFunctionsInABody) {
  const Custom op = customOp(
      {.name = "capped", .body = capped, .gradient = cappedSlope, .function = [](const runtime::CustomArguments &call) {
         const auto in = call.input<float>(0);
         for (size_t i = 0; i < in.size(); ++i)
           call.output<float>(0)[i] = std::tanh(in[i] * 0.5f) * 2.0f;
       }});
  expectSameBits(
      [&](const BlockModel &model, const Tensor &x) {
        const std::vector<Tensor> weights = model.weights();
        const Tensor start = full(0.0, {});
        const Tensor loss = repeat(2, start, [&](const Tensor &sum) {
          return sum + model.loss(x, [&](const Tensor &t) { return op(gelu(t)); });
        });
        return plainStep(model, x, [&](const Tensor &t) { return op(t); }) + loss;
      },
      alone);
}

} // namespace
