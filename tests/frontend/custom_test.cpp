// Custom ops: as graphs they are the graph, to the bit and to the kernel; as functions they are checked; what they do
// wrong is one message, and states keep their values.
#include "frontend/custom.h"
#include "runtime/artefact.h"
#include "runtime/executable.h"
#include "runtime/plan.h"
#include "tests/frontend/quiet_functions.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace tcc;

namespace {

Tensor capped(const Tensor &x) {
  return 30.0 * tanh(x / 30.0);
}
Tensor capGradient(const Tensor &, const Tensor &y, const Tensor &dy) {
  return dy * (1.0 - (y / 30.0) * (y / 30.0));
}

const Custom softcap = customOp({.name = "softcap", .body = capped});
const Custom softcapWithGradient = customOp({.name = "softcap", .body = capped, .gradient = capGradient});

std::vector<float> floats(const Array &array) {
  const std::span<const float> values = array.read<float>();
  return {values.begin(), values.end()};
}

/// A step that uses the op in front of a sum, with the gradient of its input.
Function step(const std::string &name, std::function<Tensor(const Tensor &)> op, FunctionOptions options = quiet()) {
  return compile(
      name,
      [op = std::move(op)](const Tensor &x, const Tensor &w) {
        const Tensor y = op(matmul(x, w) * 7.0);
        const Tensor loss = sum(y * y);
        return std::pair(loss, gradient(loss, w));
      },
      std::move(options));
}

void expectPart(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected '" << part << "' in:\n" << text;
}

bool hasLabel(Function &function, const std::string &word) {
  for (const runtime::Instruction &instruction : function.executable()->plan().instructions)
    if (instruction.label.find(word) != std::string::npos)
      return true;
  return false;
}

const Array x = sequence({5, 6}, -1, 0.07F), w = sequence({6, 9}, 0.5F, -0.02F);

TEST(CustomGraph, isTheGraphItself) {
  Function plain = step("plain", capped), custom = step("custom", [](const Tensor &t) { return softcap(t); });
  const std::vector<Array> wanted = plain(x, w), seen = custom(x, w);
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_TRUE(sameBits(seen[i], wanted[i])) << i;
  EXPECT_EQ(custom.lastCompile().kernels, plain.lastCompile().kernels);
  EXPECT_TRUE(hasLabel(custom, "softcap"));
  EXPECT_FALSE(hasLabel(plain, "softcap"));
}

TEST(CustomGraph, equalBitsWithTwoThreads) {
  FunctionOptions two = quiet();
  two.threads = 2;
  auto op = [](const Tensor &t) { return softcapWithGradient(t); };
  Function one = step("one", op), other = step("two", op, std::move(two));
  const std::vector<Array> a = one(x, w), b = other(x, w);
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(sameBits(a[i], b[i])) << i;
}

TEST(CustomGraph, aCallReplaysAndANewShapeIsAnotherInstance) {
  Function custom = step("custom", [](const Tensor &t) { return softcapWithGradient(t); });
  custom(x, w);
  const int64_t recorded = custom.counters().opsRecorded;
  custom(x, w);
  EXPECT_EQ(custom.counters().opsRecorded, recorded);
  EXPECT_EQ(custom.counters().cache.misses, 1);
  custom(sequence({2, 6}, 0, 0.1F), w);
  EXPECT_EQ(custom.counters().cache.misses, 2);
}

TEST(CustomGraph, aLiteralOfTheBodyThatChangesIsSeen) {
  double factor = 2;
  const Custom scaled = customOp({.name = "scaled", .body = [&](const Tensor &t) { return t * factor; }});
  Function function = compile("f", [&](const Tensor &t) { return scaled(t); }, quiet());
  EXPECT_EQ(floats(function(sequence({2}, 1, 1))[0]), (std::vector<float>{2, 4}));
  factor = 3;
  EXPECT_EQ(floats(function(sequence({2}, 1, 1))[0]), (std::vector<float>{3, 6}));
  factor = 2;
  EXPECT_EQ(floats(function(sequence({2}, 1, 1))[0]), (std::vector<float>{2, 4}));
  EXPECT_EQ(function.counters().cache.misses, 2);
}

/// The loss for w with one element moved.
double lossAt(Function &function, int64_t element, float by) {
  Array moved(w.shape());
  std::memcpy(moved.raw(), w.rawForReading(), static_cast<size_t>(w.bytes()));
  moved.data<float>()[static_cast<size_t>(element)] += by;
  return function(x, moved)[0].item();
}

TEST(CustomGradient, isTheOneGivenAndThatOfDifferences) {
  Function given = step("given", [](const Tensor &t) { return softcapWithGradient(t); });
  Function derived = step("derived", [](const Tensor &t) { return softcap(t); });
  const std::vector<float> a = floats(given(x, w)[1]), b = floats(derived(x, w)[1]);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i], b[i], 1e-4 * std::abs(b[i]) + 1e-4) << i;
    const double slope =
        (lossAt(derived, static_cast<int64_t>(i), 0.01F) - lossAt(derived, static_cast<int64_t>(i), -0.01F)) / 0.02;
    EXPECT_NEAR(a[i], slope, 2e-3 * std::abs(slope) + 0.5) << i;
  }
  // A wrong one is taken as it is: it is the user's.
  const Custom wrong =
      customOp({.name = "wrong", .body = capped, .gradient = [](const Tensor &, const Tensor &, const Tensor &dy) {
                  return dy * 2.0;
                }});
  Function doubled = compile("doubled", [&](const Tensor &t) { return gradient(sum(wrong(t)), t); }, quiet());
  EXPECT_EQ(floats(doubled(sequence({2}, 0, 40))[0]), (std::vector<float>{2, 2}));
}

TEST(CustomGradient, ofAFunctionIsAnotherCustomOp) {
  const Custom slope = customOp({.name = "square_slope",
                                 .body = [](const Tensor &t, const Tensor &dy) { return t * dy * 2.0; },
                                 .function =
                                     [](const runtime::CustomArguments &call) {
                                       const auto in = call.input<float>(0), dy = call.input<float>(1);
                                       for (size_t i = 0; i < in.size(); ++i)
                                         call.output<float>(0)[i] = 2 * in[i] * dy[i];
                                     }});
  const Custom square =
      customOp({.name = "square",
                .body = [](const Tensor &t) { return t * t; },
                .gradient = [&](const Tensor &t, const Tensor &, const Tensor &dy) { return slope(t, dy); },
                .function =
                    [](const runtime::CustomArguments &call) {
                      for (size_t i = 0; i < call.input<float>(0).size(); ++i)
                        call.output<float>(0)[i] = call.input<float>(0)[i] * call.input<float>(0)[i];
                    }});
  Function function = compile("f", [&](const Tensor &t) { return gradient(sum(square(t)), t); }, quiet());
  EXPECT_EQ(floats(function(sequence({3}, 1, 1))[0]), (std::vector<float>{2, 4, 6}));
  EXPECT_TRUE(hasLabel(function, "square_slope"));
}

TEST(CustomGradient, missingIsOneErrorAtTheLine) {
  const Custom opaque = customOp({.name = "opaque",
                                  .body = [](const Tensor &t) { return t * t; },
                                  .function = [](const runtime::CustomArguments &) {}});
  const uint32_t line = __LINE__ + 1;
  Function function = compile("f", [&](const Tensor &t) { return gradient(sum(opaque(t)), t); }, quiet());
  const std::string text = thrownBy([&] { function(sequence({2}, 0, 1)); }).what();
  expectPart(text, "'opaque' has no gradient; give it one");
  expectPart(text, "custom_test.cpp:" + std::to_string(line));
}

//===- functions -----------------------------------------------------------------------------------------------===//

using Call = runtime::CustomArguments;

/// An op that doubles, as `function` does it.
Custom doubling(runtime::HostFunction function) {
  return customOp(
      {.name = "doubling", .body = [](const Tensor &t) { return t * 2.0; }, .function = std::move(function)});
}

void doubles(const Call &call) {
  const auto in = call.input<float>(0);
  for (size_t i = 0; i < in.size(); ++i)
    call.output<float>(0)[i] = 2 * in[i];
}

/// What a step with the op says, and whether its state kept its bits.
struct Trial {
  std::string text;
  bool stateIsIntact = false;
};

Trial tryOp(const Custom &op, FunctionOptions options = quiet(), Shape shape = {3, 4}) {
  Parameter state("state", shape);
  for (float &value : state.data<float>())
    value = 0.5F;
  Function function = compile(
      "f",
      [&](const Tensor &t) {
        assign(state, state * 3.0); // a write that does not wait for the op
        return op(Tensor(state) + t);
      },
      std::move(options));
  Trial trial;
  trial.text = errorOf([&] { function(sequence(shape, 1, 1)); });
  trial.stateIsIntact = true;
  for (float value : state.read<float>())
    trial.stateIsIntact &= value == 0.5F;
  return trial;
}

FunctionOptions checkedOptions() {
  FunctionOptions options = quiet();
  options.checked = true;
  return options;
}

TEST(CustomFunction, runsInPlaceOfItsBody) {
  int calls = 0;
  const Custom op = doubling([&](const Call &call) {
    ++calls;
    doubles(call);
  });
  for (FunctionOptions options : {quiet(), checkedOptions()}) {
    Function function = compile("f", [&](const Tensor &t) { return op(transpose(t)) + 1.0; }, std::move(options));
    calls = 0;
    EXPECT_EQ(floats(function(sequence({2, 3}, 1, 1))[0]), (std::vector<float>{3, 9, 5, 11, 7, 13}));
    EXPECT_GT(calls, 0);
    EXPECT_TRUE(hasLabel(function, "doubling"));
  }
}

TEST(CustomFunction, isCheckedOnFirstUseAlone) {
  int calls = 0;
  const Custom op = doubling([&](const Call &call) {
    ++calls;
    doubles(call);
  });
  auto traced = [&](const Tensor &t) { return op(t); };
  Function first = compile("first", traced, quiet()), second = compile("second", traced, quiet());
  first(sequence({3}, 1, 1));
  EXPECT_EQ(calls, 2);
  second(sequence({3}, 1, 1));
  EXPECT_EQ(calls, 3);
}

TEST(CustomFunction, thatDiffersFromItsBodyIsFound) {
  const Trial trial = tryOp(doubling([](const Call &call) {
    doubles(call);
    call.output<float>(0)[6] += 0.5F;
  }));
  expectPart(trial.text, "custom op 'doubling' is not what its reference says: result 0 at index [1, 2] is ");
  expectPart(trial.text, ", the reference gives ");
  EXPECT_TRUE(trial.stateIsIntact);
}

TEST(CustomFunction, thatLiesAboutItsShapeIsFound) {
  const Trial shorter =
      tryOp(doubling([](const Call &call) { call.output<float>(0)[0] = 2 * call.input<float>(0)[0]; }));
  expectPart(shorter.text, "custom op `doubling` leaves result 0 (f32 [3, 4]) unwritten at index [0, 1]");
  const Trial longer = tryOp(doubling([](const Call &call) {
    doubles(call);
    call.output<float>(0).data()[12 + 5] = 1; // as if it had two more rows
  }));
  expectPart(longer.text, "custom op `doubling` writes out of bounds: 20 bytes after its end of result 0 (f32 [3, 4])");
  const Trial before = tryOp(doubling([](const Call &call) {
    doubles(call);
    const_cast<float *>(call.input<float>(0).data())[-1] = 1;
  }));
  expectPart(before.text, "writes out of bounds: 1 bytes before its beginning of operand 0 (f32 [3, 4])");
  const Trial operand = tryOp(doubling([](const Call &call) {
    doubles(call);
    const_cast<float *>(call.input<float>(0).data())[2] = 1;
  }));
  expectPart(operand.text, "custom op `doubling` writes into operand 0 (f32 [3, 4]); it may only read it");
  const Trial kind = tryOp(doubling([](const Call &call) { call.output<int32_t>(0)[0] = 1; }));
  expectPart(kind.text, "it reads or writes elements of f32 as a C++ type of another size or kind");
  for (const Trial *trial : {&shorter, &longer, &before, &operand, &kind})
    EXPECT_TRUE(trial->stateIsIntact);
}

/// Behaves while it is checked, and then no more.
Custom turning(std::function<void(const Call &)> wrong) {
  auto calls = std::make_shared<int>(0);
  return doubling([calls, wrong = std::move(wrong)](const Call &call) {
    doubles(call);
    if (++*calls > 1)
      wrong(call);
  });
}

TEST(CustomFunction, thatFailsInAStepLeavesStatesAsTheyWere) {
  const Trial thrown = tryOp(turning([](const Call &) { throw std::runtime_error("no more room"); }));
  expectPart(thrown.text, "'f' cannot be run: ");
  expectPart(thrown.text, "custom op `doubling` threw: no more room");
  const Trial odd = tryOp(turning([](const Call &) { throw 3; }));
  expectPart(odd.text, "custom op `doubling` threw something that is no std::exception");
  const Trial bounds = tryOp(turning([](const Call &call) { call.output<float>(0).data()[12] = 1; }), checkedOptions());
  expectPart(bounds.text, "custom op `doubling` writes out of bounds: 0 bytes after its end of result 0");
  for (const Trial *trial : {&thrown, &odd, &bounds})
    EXPECT_TRUE(trial->stateIsIntact) << trial->text;
  EXPECT_EQ(tryOp(turning([](const Call &) {})).text, "no error");
}

TEST(CustomFunction, withAReferenceInCpp) {
  const Custom op = customOp({.name = "row_sums",
                              .shapes = [](ValueTypes in) -> std::vector<ValueType> {
                                if (in.size() != 1 || in[0].shape.rank() != 2)
                                  throw std::invalid_argument("one matrix is expected");
                                return {{in[0].dtype, {in[0].shape[0]}}};
                              },
                              .reference = [](std::span<const Array> in) -> std::vector<Array> {
                                Array sums({in[0].shape()[0]});
                                for (int64_t i = 0; i < in[0].shape().elements(); ++i)
                                  sums.data<float>()[static_cast<size_t>(i / in[0].shape()[1])] +=
                                      in[0].read<float>()[static_cast<size_t>(i)];
                                return {sums};
                              },
                              .function =
                                  [](const Call &call) {
                                    for (int64_t row = 0; row < call.inputShape(0)[0]; ++row) {
                                      float sum = 0;
                                      for (int64_t i = 0; i < call.inputShape(0)[1]; ++i)
                                        sum +=
                                            call.input<float>(0)[static_cast<size_t>(row * call.inputShape(0)[1] + i)];
                                      call.output<float>(0)[static_cast<size_t>(row)] = sum;
                                    }
                                  }});
  Function function = compile("f", [&](const Tensor &t) { return op(t) * 10.0; }, quiet());
  EXPECT_EQ(floats(function(sequence({2, 3}, 1, 1))[0]), (std::vector<float>{60, 150}));
  uint32_t line = 0;
  expectPart(errorOf([&] { function(sequence({2}, 1, 1)); }, &line),
             "the rule of shapes of custom op `row_sums` refuses (f32[2]): one matrix is expected");
  EXPECT_GT(line, 0U);
}

TEST(CustomFunction, aReferenceThatLiesAboutItsShapeIsFound) {
  const Custom op = customOp({.name = "liar",
                              .shapes = [](ValueTypes in) { return std::vector<ValueType>{in[0]}; },
                              .reference = [](std::span<const Array>) { return std::vector<Array>{Array({7})}; },
                              .function = doubles});
  expectPart(tryOp(op).text, "'liar': its reference gives f32[7] as result 0; the rule of shapes says f32[3, 4]");
}

TEST(CustomFunction, cannotBeSaved) {
  const Custom op = doubling(doubles);
  Function function = compile("f", [&](const Tensor &t) { return op(t); }, quiet());
  const Array input = sequence({2}, 1, 1);
  expectPart(errorOf([&] { function.graph({&input, 1}); }),
             "'f' has no text: custom op `doubling` is a function of this process");
  function(input);
  runtime::Artefact artefact;
  artefact.targets.push_back({"cpu", {}, function.executable()->plan(), {"code"}});
  const auto bytes = runtime::serializeArtefact(artefact);
  ASSERT_FALSE(bytes);
  expectPart(bytes.error().message(),
             "custom op `doubling` is a function of this process, which an artefact cannot hold");
}

//===- mistakes ------------------------------------------------------------------------------------------------===//

TEST(CustomMistakes, ofOptions) {
  auto made = [](CustomOptions options) { return errorOf([&] { customOp(std::move(options)); }); };
  expectPart(made({.name = "2x", .body = capped}), "begins with a letter (custom_c6)");
  expectPart(made({.name = "f"}), "custom op `f` has no body; without one it needs a reference and a rule of shapes");
  expectPart(made({.name = "f", .body = capped, .function = doubles, .sharedObject = {"a.so", "f"}}),
             "has a function and a shared object for the CPU");
  expectPart(made({.name = "f", .body = capped, .sharedObject = {"a.so", ""}}), "has half of its code");
}

TEST(CustomMistakes, ofBodiesAreErrorsAtTheirLines) {
  Parameter state("state", {2});
  uint32_t line = 0;
  auto traced = [&](const Custom &op) {
    Function function = compile("f", [&](const Tensor &t) { return op(t); }, quiet());
    const Error error = thrownBy([&] { function(sequence({2}, 1, 1)); });
    expectPart(error.file(), "custom_test.cpp");
    line = error.line();
    return error.message();
  };
  const uint32_t base = __LINE__;
  expectPart(traced(customOp({.name = "f", .body = [](const Tensor &t) { return t * sum(t).item(); }})),
             "the body of custom op `f` asks for a value, and is computed in one piece; return the value");
  EXPECT_EQ(line, base + 1);
  expectPart(traced(customOp({.name = "f", .body = [](const Tensor &t) { return print("t", t), t; }})),
             "asks for a value");
  expectPart(traced(customOp({.name = "f", .body = [&](const Tensor &t) { return assign(state, t), t; }})),
             "the body of custom op `f` assigns state 'state'; return the value");
  expectPart(traced(customOp({.name = "f", .body = [&](const Tensor &t) { return t + state; }})),
             "the body of custom op `f` uses state 'state'; it is a function of its operands alone");
  expectPart(traced(customOp({.name = "f", .body = [](const Tensor &a, const Tensor &b) { return a + b; }})),
             "the body of custom op `f`: 'the body' is called with 1 arguments; it takes 2");
  expectPart(traced(customOp({.name = "f",
                              .body = capped,
                              .gradient = [](const Tensor &, const Tensor &, const Tensor &dy) { return sum(dy); }})),
             "the gradient of custom op `f` gives (f32[]); those of its float operands, (f32[2]), are expected");
  expectPart(traced(customOp({.name = "f",
                              .body = capped,
                              .shapes = [](ValueTypes) { return std::vector<ValueType>{{DType::f32, {9}}}; }})),
             "the rule of shapes of custom op `f` gives (f32[9]) and its body (f32[2]); they are the same");
  Tensor outside;
  Function function = compile(
      "f",
      [&](const Tensor &t) {
        outside = t;
        return customOp({.name = "f", .body = [&](const Tensor &inner) { return inner + outside; }})(t);
      },
      quiet());
  expectPart(errorOf([&] { function(sequence({2}, 1, 1)); }),
             "the body of custom op `f` uses a tensor of outside; it is a function of its operands alone, add one");
}

} // namespace
