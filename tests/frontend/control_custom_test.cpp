// Custom ops in bodies of cond and repeat, and cond in bodies of custom ops.
#include "tests/frontend/quiet_functions.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <stdexcept>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

using Call = runtime::CustomArguments;

void cube(const Call &call) {
  for (size_t i = 0; i < call.output<float>(0).size(); ++i)
    call.output<float>(0)[i] = call.input<float>(0)[i] * call.input<float>(0)[i] * call.input<float>(0)[i];
}

Tensor cubeGraph(const Tensor &x) {
  return x * x * x;
}

Custom cubes(std::function<void(const Call &)> function) {
  return customOp({.name = "cube",
                   .body = cubeGraph,
                   .gradient = [](Tensor x, Tensor, Tensor dy) { return 3.0 * x * x * dy; },
                   .function = std::move(function)});
}

/// Loss and the gradient of x of a step that chooses.
Function chosen(const std::string &name, std::function<Tensor(const Tensor &)> op) {
  return compile(
      name,
      [op = std::move(op)](Tensor x, Tensor level) {
        const Tensor y = cond(level > 0, [&] { return op(x + 1.0) * 2.0; }, [&] { return -x; });
        const Tensor loss = sum(y * y);
        return std::pair(loss, gradient(loss, x));
      },
      quiet());
}

TEST(ControlCustom, AnOpInABranchIsItsGraph) {
  int calls = 0;
  const Custom asGraph = customOp({.name = "cube", .body = cubeGraph});
  const Custom asFunction = cubes([&](const Call &call) {
    ++calls;
    cube(call);
  });
  Function plain = chosen("plain", cubeGraph), graph = chosen("graph", [&](const Tensor &x) { return asGraph(x); }),
           function = chosen("function", [&](const Tensor &x) { return asFunction(x); });
  const Array x = sequence({4, 5}, -0.8F, 0.07F);
  for (float level : {1.0F, -1.0F}) {
    function(x, level);
    calls = 0;
    const std::vector<Array> wanted = plain(x, level), graphs = graph(x, level), functions = function(x, level);
    EXPECT_EQ(calls > 0, level > 0) << "code of a branch that was not taken";
    for (size_t i = 0; i < wanted.size(); ++i)
      for (int64_t k = 0; k < wanted[i].shape().elements(); ++k) {
        const double bound = 1e-5 * std::max(1.0, std::fabs(wanted[i].item(k)));
        EXPECT_NEAR(graphs[i].item(k), wanted[i].item(k), bound) << i << ' ' << k;
        EXPECT_NEAR(functions[i].item(k), wanted[i].item(k), bound) << i << ' ' << k;
      }
  }
}

TEST(ControlCustom, AnOpIsCheckedInABodyToo) {
  const Custom wrong = cubes([](const Call &call) {
    cube(call);
    call.output<float>(0)[2] += 0.5F;
  });
  Function step = compile(
      "step", [&](Tensor x) { return repeat(3, x, [&](const Tensor &each) { return wrong(each) * 0.5; }); }, quiet());
  try {
    step(sequence({4}, 0.1F, 0.2F));
    FAIL() << "no error";
  } catch (const Error &error) {
    EXPECT_NE(error.message().find("custom op 'cube' is not what its reference says: result 0 at index [2]"),
              std::string::npos)
        << error.message();
  }
}

TEST(ControlCustom, AFailureInALoopLeavesStatesAsTheyWere) {
  int calls = 0, failsAt = -1;
  const Custom op = cubes([&](const Call &call) {
    if (++calls == failsAt)
      throw std::runtime_error("no more room");
    cube(call);
  });
  State carried("carried", {3}), other("other", {2});
  for (float &value : carried.data<float>())
    value = 0.5F;
  Function step = compile(
      "step",
      [&](Tensor x) {
        assign(other, other + 1.0);
        assign(carried, repeat(4, Tensor(carried), [&](const Tensor &each) { return op(each) + x; }));
        return sum(carried);
      },
      quiet());
  const Array x = sequence({3}, 0.1F, 0.1F);
  step(x);
  const std::vector<float> before(carried.read<float>().begin(), carried.read<float>().end());
  calls = 0;
  failsAt = 3;
  try {
    step(x);
    FAIL() << "no error";
  } catch (const Error &error) {
    EXPECT_NE(error.message().find("custom op `cube` threw: no more room"), std::string::npos) << error.message();
  }
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(std::vector<float>(carried.read<float>().begin(), carried.read<float>().end()), before);
  EXPECT_EQ(other.read<float>()[1], 1.0F);
  failsAt = -1;
  step(x);
  EXPECT_EQ(other.read<float>()[1], 2.0F);
  for (int i = 0; i < 3; ++i) {
    float wanted = before[i];
    for (int turn = 0; turn < 4; ++turn)
      wanted = wanted * wanted * wanted + x.read<float>()[i];
    EXPECT_NEAR(carried.read<float>()[i], wanted, 1e-6F);
  }
}

TEST(ControlCustom, AnOpsBodyMayChoose) {
  const Custom op = customOp({.name = "chooses", .body = [](Tensor x) {
                                return cond(sum(x) > 0, [&] { return x * x; }, [&] { return exp(x); });
                              }});
  Function step = compile(
      "step",
      [&](Tensor x) {
        const Tensor loss = sum(op(x));
        return std::pair(loss, gradient(loss, x));
      },
      quiet());
  const auto squares = step(sequence({3}, 1, 1)), powers = step(sequence({3}, -3, 1));
  EXPECT_EQ(squares[0].item(), 14);
  EXPECT_NEAR(powers[0].item(), std::exp(-3.) + std::exp(-2.) + std::exp(-1.), 1e-6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(squares[1].item(i), 2 * (i + 1));
    EXPECT_NEAR(powers[1].item(i), std::exp(i - 3.), 1e-6);
  }
}

} // namespace
