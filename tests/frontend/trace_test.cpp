// The tracer: shapes, broadcasting, replay and hashes, errors with labels and the user's line, and the modules built.
#include "frontend/capture.h"
#include "frontend/trace.h"
#include "ir/dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include <chrono>
#include <gtest/gtest.h>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

using Traced = std::function<std::vector<Tensor>(std::span<const Tensor>)>;
using Inputs = std::span<const Tensor>;

std::vector<std::string> namesFor(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back("x" + std::to_string(i));
  return names;
}

/// Types of what `fn` returns for inputs of these types.
std::vector<ValueType> trace(const std::vector<ValueType> &inputs, const Traced &fn) {
  Tracer tracer;
  const Recorded recorded = tracer.record(fn, inputs, namesFor(inputs.size()));
  std::vector<ValueType> results;
  for (uint32_t output : recorded.record->outputs)
    results.push_back(recorded.record->values[output]);
  return results;
}

std::string text(const Record &record, const std::string &name) {
  auto module = buildModule(record, name, {}, threadContext());
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  std::string result;
  llvm::raw_string_ostream stream(result);
  module->print(stream);
  return result;
}

ValueType f32(std::initializer_list<int64_t> shape) {
  return {DType::f32, shape};
}

/// The message of the Error that tracing throws, which must name this file.
std::string errorOf(const std::vector<ValueType> &inputs, const Traced &fn, uint32_t *line = nullptr) {
  try {
    trace(inputs, fn);
  } catch (const Error &error) {
    EXPECT_NE(error.file().find("trace_test.cpp"), std::string::npos) << error.what();
    if (line)
      *line = error.line();
    return error.message();
  }
  ADD_FAILURE() << "no error";
  return {};
}

TEST(Trace, ShapesOfEveryKindOfOp) {
  const auto types = trace({f32({4, 8}), f32({8, 16}), {DType::i32, {4}}}, [](Inputs in) {
    const Tensor &x = in[0], &w = in[1], &index = in[2];
    return std::vector<Tensor>{
        matmul(x, w),
        matmul(cast(w, DType::bf16), cast(x, DType::bf16),
               {.transposeA = true, .transposeB = true, .dtype = DType::f32}),
        transpose(x),
        reshape(x, {2, -1, 4}),
        slice(x, -1, 2, 5),
        pad(x, {1, 0}, {0, 2}),
        concat({x, x, x}, -1),
        sum(x, 1),
        sum(x, {-1}, KeepDims::yes),
        mean(x),
        max(x, {0, 1}),
        gather(x, index),
        softmax(gelu(x)),
        crossEntropy(x, index),
        greater(x, 0.0),
        cast(x, DType::f16),
        iota(1, {3, 5}),
        select(greater(x, 0), x, 0.0),
    };
  });
  const std::vector<ValueType> expected = {f32({4, 16}),
                                           f32({16, 4}),
                                           f32({8, 4}),
                                           f32({2, 4, 4}),
                                           f32({4, 3}),
                                           f32({5, 10}),
                                           f32({4, 24}),
                                           f32({4}),
                                           f32({4, 1}),
                                           f32({}),
                                           f32({}),
                                           f32({4, 8}),
                                           f32({4, 8}),
                                           f32({}),
                                           {DType::i1, {4, 8}},
                                           {DType::f16, {4, 8}},
                                           {DType::i32, {3, 5}},
                                           f32({4, 8})};
  ASSERT_EQ(types.size(), expected.size());
  for (size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(types[i].dtype, expected[i].dtype) << i;
    EXPECT_EQ(types[i].shape.text(), expected[i].shape.text()) << i;
  }
}

TEST(Trace, BroadcastingStretchesBothSides) {
  const auto types = trace({f32({4, 1, 8}), f32({3, 1}), f32({})}, [](Inputs in) {
    return std::vector<Tensor>{in[0] + in[1], in[2] * in[0], 2.0 - in[1], in[1] / 4, -in[0]};
  });
  EXPECT_EQ(types[0].shape.text(), "[4, 3, 8]");
  EXPECT_EQ(types[1].shape.text(), "[4, 1, 8]");
  EXPECT_EQ(types[2].shape.text(), "[3, 1]");
  EXPECT_EQ(types[3].shape.text(), "[3, 1]");
  EXPECT_EQ(types[4].shape.text(), "[4, 1, 8]");
}

TEST(Trace, RefusesSizesAndLiteralsOutOfRange) {
  const int64_t huge = int64_t{1} << 62;
  const std::vector<ValueType> empty = {f32({0, 3})};
  EXPECT_NE(errorOf(empty, [&](Inputs in) { return std::vector{reshape(in[0], {huge, 4})}; }).find("2^40"),
            std::string::npos);
  EXPECT_NE(errorOf(empty, [&](Inputs in) { return std::vector{broadcast(in[0], {huge, 0, 3})}; }).find("2^40"),
            std::string::npos);
  EXPECT_NE(errorOf(empty, [&](Inputs) { return std::vector{full(1, {1 << 20, 1 << 21})}; }).find("2^40"),
            std::string::npos);
  for (double value : {3e9, -3e9, 0.5, double(NAN), double(INFINITY)}) {
    const auto one = [&](Inputs) { return std::vector{full(value, {4}, DType::i32)}; };
    const auto list = [&](Inputs) { return std::vector{literal(std::vector<double>{value}, {1}, DType::i32)}; };
    EXPECT_NE(errorOf(empty, one).find("must be an integer of that type"), std::string::npos) << value;
    EXPECT_NE(errorOf(empty, list).find("must be an integer of that type"), std::string::npos) << value;
  }
}

TEST(Trace, ErrorsCarryTheLabelAndTheUsersLine) {
  uint32_t line = 0;
  const uint32_t here = __LINE__ + 1;
  const Traced product = [](Inputs in) { return std::vector{matmul(in[0], in[1])}; };
  EXPECT_EQ(errorOf({f32({4, 768}), f32({512, 8})}, product, &line),
            "`matmul` contraction sizes 768 and 512 differ (matmul_c1)");
  EXPECT_EQ(line, here);
  EXPECT_NE(
      errorOf({f32({4, 2}), f32({3, 2})}, [](Inputs in) { return std::vector{in[0] + in[1]}; }).find("broadcast_c2"),
      std::string::npos);
  EXPECT_NE(errorOf({f32({4, 6})}, [](Inputs in) { return std::vector{reshape(in[0], {5, -1})}; }).find("reshape_c1"),
            std::string::npos);
  EXPECT_NE(errorOf({f32({4, 6})}, [](Inputs in) { return std::vector{slice(in[0], 1, 4, 9)}; }).find("slice_c2"),
            std::string::npos);
  EXPECT_NE(errorOf({f32({4, 6}), f32({4})}, [](Inputs in) { return std::vector{layerNorm(in[0], in[1], in[1])}; })
                .find("layer_norm_c1"),
            std::string::npos);
  EXPECT_NE(
      errorOf({f32({4}), {DType::bf16, {4}}}, [](Inputs in) { return std::vector{in[0] * in[1]}; }).find("cast one"),
      std::string::npos);
  EXPECT_NE(errorOf({{DType::i32, {4}}}, [](Inputs in) { return std::vector{exp(in[0])}; }).find("`exp`"),
            std::string::npos);
  EXPECT_NE(errorOf({{DType::i32, {4}}}, [](Inputs in) { return std::vector{in[0] + 0.5}; }).find("integer"),
            std::string::npos);
}

TEST(Trace, OpsOutsideOfATracedFunctionAreErrors) {
  EXPECT_THROW(zeros({2}), Error);
  Tensor kept;
  trace({f32({2})}, [&](Inputs in) { return std::vector{kept = in[0] + 1}; });
  EXPECT_THROW(trace({f32({2})}, [&](Inputs in) { return std::vector{in[0] + kept}; }), Error);
  EXPECT_THROW(trace({f32({2})}, [&](Inputs) { return std::vector{Tensor()}; }), Error);
}

/// A function with a switch, recorded repeatedly by one tracer.
struct Repeated {
  Tracer tracer;
  Parameter w{"w", {8, 8}}, u{"u", {8, 8}};
  bool extra = false, other = false;
  double factor = 2;

  Recorded operator()(int64_t rows = 4) {
    const std::vector<ValueType> inputs = {f32({rows, 8})};
    return tracer.record(
        [&](Inputs in) {
          Tensor y = matmul(in[0], w) * factor;
          if (other)
            y = tanh(y);
          y = matmul(y, u);
          if (extra)
            y = exp(y);
          assign(w, Tensor(w) * 0.5);
          return std::vector{y};
        },
        inputs, namesFor(1));
  }
};

TEST(Trace, AnEqualCallIsReplayed) {
  Repeated call;
  const uint64_t first = call().hash;
  const int64_t ops = call.tracer.opsRecorded();
  const Recorded second = call();
  EXPECT_TRUE(second.replayed);
  EXPECT_EQ(second.hash, first);
  EXPECT_EQ(call.tracer.opsRecorded(), ops) << "a replay records nothing";
}

TEST(Trace, EveryDifferenceChangesTheHashAndComesBack) {
  Repeated call;
  const uint64_t first = call().hash;
  const std::string before = text(*call().record, "f");
  for (auto change : {+[](Repeated &c) { c.extra = true; }, +[](Repeated &c) { c.other = true; }}) {
    change(call);
    const Recorded changed = call();
    EXPECT_FALSE(changed.replayed);
    EXPECT_NE(changed.hash, first);
    call.extra = call.other = false;
    const Recorded back = call();
    EXPECT_EQ(back.hash, first);
    EXPECT_EQ(text(*back.record, "f"), before);
  }
  EXPECT_NE(call(5).hash, first) << "a shape";
  EXPECT_EQ(call(4).hash, first);
}

TEST(Trace, AChangedLiteralIsSeenButKeepsTheStructure) {
  Repeated call;
  const Recorded first = call();
  ASSERT_EQ(first.record->literals.size(), 2u);
  EXPECT_EQ(first.record->literals[0].value, 2);
  const uint64_t hash = first.hash;
  call.factor = 3;
  const Recorded second = call();
  EXPECT_TRUE(second.replayed);
  EXPECT_EQ(second.hash, hash) << "literals are guards of their own";
  EXPECT_EQ(second.record->literals[0].value, 3);
  EXPECT_NE(text(*second.record, "f").find("dense<3.0"), std::string::npos);
}

TEST(Trace, AFailedCallLeavesTheTracerUsable) {
  Repeated call;
  const uint64_t first = call().hash;
  const std::vector<ValueType> inputs = {f32({4, 8})};
  EXPECT_THROW(call.tracer.record([&](Inputs in) { return std::vector{matmul(in[0], in[0])}; }, inputs, namesFor(1)),
               Error);
  EXPECT_EQ(call().hash, first);
}

TEST(Trace, StatesAreArgumentsAndUpdatesAreResults) {
  Parameter w("w", {2, 2});
  Tracer tracer;
  const std::vector<ValueType> inputs = {f32({2, 2})};
  const Recorded recorded = tracer.record(
      [&](Inputs in) {
        assign(w, w + in[0]);
        return std::vector{matmul(in[0], w)};
      },
      inputs, namesFor(1));
  const std::string module = text(*recorded.record, "step");
  EXPECT_NE(
      module.find("@step(%arg0: tensor<2x2xf32> {tcc.name = \"x0\"}, %arg1: tensor<2x2xf32> {tcc.name = \"w\", "
                  "tcc.state}) -> (tensor<2x2xf32> {tcc.name = \"result0\"}, tensor<2x2xf32> {tcc.updates = \"w\"})"),
      std::string::npos)
      << module;
  EXPECT_THROW(tracer.record(
                   [&](Inputs in) {
                     assign(w, in[0]);
                     assign(w, in[0]);
                     return std::vector<Tensor>{};
                   },
                   inputs, namesFor(1)),
               Error);
  EXPECT_THROW(tracer.record(
                   [&](Inputs in) {
                     assign(w, sum(in[0], 0));
                     return std::vector<Tensor>{};
                   },
                   inputs, namesFor(1)),
               Error);
  Parameter twin("w", {2, 2});
  EXPECT_THROW(tracer.record([&](Inputs) { return std::vector{w + twin}; }, inputs, namesFor(1)), Error);
}

TEST(Trace, AWholeTrainingStepOfAnMlp) {
  Parameter w1("w1", {8, 16}), b1("b1", {16}), w2("w2", {16, 4}), b2("b2", {4});
  optim::Adamw optimizer({w1, b1, w2, b2});
  Tracer tracer;
  const std::vector<ValueType> inputs = {f32({3, 8}), {DType::i32, {3}}, f32({}), f32({})};
  const std::vector<std::string> names = {"x", "targets", "lr", "step"};
  const Recorded recorded = tracer.record(
      [&](Inputs in) {
        const Tensor logits = nn::mlp(in[0], {w1, b1}, {w2, b2});
        const Tensor loss = crossEntropy(logits, in[1]);
        const auto gradients = gradient(loss, optimizer.parameters());
        const auto [norm, applied] = optimizer.step(loss, gradients, in[2], in[3]);
        return std::vector{loss, norm};
      },
      inputs, names);
  const std::string module = text(*recorded.record, "train");
  EXPECT_NE(module.find("tcc.gelu"), std::string::npos);
  EXPECT_NE(module.find("tcc.gradient"), std::string::npos);
  EXPECT_NE(module.find("weight_decay = 1.000000e-01"), std::string::npos) << "matrices decay\n" << module;
  EXPECT_NE(module.find("weight_decay = 0.000000e+00"), std::string::npos) << "biases do not\n" << module;
  EXPECT_EQ(recorded.record->updates.size(), 12u);
  EXPECT_EQ(recorded.record->literals.size(), 3u) << "clip, 1e-6 and one; the learning rate is no literal";
}

TEST(Trace, CausalSelfAttentionHasTheShapeOfItsInput) {
  Parameter qkv("qkv", {8, 24}), bias("bias", {24}), out("out", {8, 8}), outBias("outBias", {8});
  const auto types = trace({f32({2, 5, 8})}, [&](Inputs in) {
    return std::vector{nn::causalSelfAttention(in[0], {qkv, bias}, {out, outBias}, 2)};
  });
  EXPECT_EQ(types[0].shape.text(), "[2, 5, 8]");
  EXPECT_NE(
      errorOf({f32({2, 5, 8})},
              [&](Inputs in) { return std::vector{nn::causalSelfAttention(in[0], {qkv, bias}, {out, outBias}, 3)}; })
          .find("multiple of the heads"),
      std::string::npos);
}

TEST(Trace, AReplayedOpCostsLessThanAMicrosecond) {
  Parameter w("w", {64, 64}), b("b", {64});
  Tracer tracer;
  const std::vector<ValueType> inputs = {f32({8, 64})};
  const Traced deep = [&](Inputs in) {
    Tensor x = in[0];
    for (int layer = 0; layer < 200; ++layer)
      x = x + gelu(linear(x, w, b)) * 0.5;
    return std::vector{x};
  };
  const auto names = namesFor(1);
  tracer.record(deep, inputs, names);
  double best = 1e9; // the best of several, since the machine may be busy
  for (int round = 0; round < 50; ++round) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(tracer.record(deep, inputs, names).replayed);
    best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(best / 1000, 1000) << "ns an op";
  RecordProperty("nanosecondsAnOp", std::to_string(best / 1000));
  std::printf("replay: %.1f ns an op\n", best / 1000);
}

TEST(Trace, KnowsEveryOpOfTheDialect) {
  std::set<std::string> traced;
  for (const TracedOp &op : tracedOps())
    traced.insert("tcc." + std::string(op.name));
  // Passes write these; what users write instead is an op of its own or a computation.
  const std::set<std::string> ofPasses = {"tcc.kernel",
                                          "tcc.flash_attention",
                                          "tcc.flash_attention_backward",
                                          "tcc.flash_attention_packed_gradient",
                                          "tcc.matmul_gelu_gradient",
                                          "tcc.gelu_gradient",
                                          "tcc.sigmoid_gradient",
                                          "tcc.silu_gradient",
                                          "tcc.cast_by_bits",
                                          "tcc.shard",
                                          "tcc.all_to_all",
                                          "tcc.all_gather",
                                          "tcc.all_reduce",
                                          "tcc.unpack",
                                          "tcc.wait"};
  // A call of the tensor's asks the host; Function::graph() writes these for it.
  const std::set<std::string> ofHost = {"tcc.item", "tcc.print"};
  for (mlir::RegisteredOperationName name : threadContext().getRegisteredOperations())
    if (name.getDialectNamespace() == "tcc" && !name.hasTrait<mlir::OpTrait::IsTerminator>() &&
        !ofPasses.count(name.getStringRef().str()) && !ofHost.count(name.getStringRef().str())) {
      EXPECT_TRUE(traced.count(name.getStringRef().str())) << name.getStringRef().str() << " cannot be traced";
    }
}

} // namespace
