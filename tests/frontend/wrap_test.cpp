// Arrays and states over memory of others: what is used where it lies, what is copied, what is refused, and when the
// memory is let go. No MLIR, as in users' files.
#include "runtime/executable.h"
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/remote_device.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <tcc/tcc.h>

using namespace tcc;

namespace {

/// Floats of someone else: 0, 1, 2, … from `offset` bytes after a multiple of 64.
struct Foreign {
  std::shared_ptr<void> owner;
  float *data;
  explicit Foreign(size_t count, size_t offset = 0)
      : owner(std::aligned_alloc(64, (count * 4 + offset + 127) / 64 * 64), std::free),
        data(reinterpret_cast<float *>(static_cast<char *>(owner.get()) + offset)) {
    std::iota(data, data + count, 0.f);
  }
};

std::vector<float> elements(const Array &array) {
  const auto read = array.read<float>();
  return {read.begin(), read.end()};
}

std::vector<float> counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}

TEST(Wrap, DenseAlignedMemoryIsUsedWhereItLies) {
  const Foreign memory(6);
  const Array array = Array::wrap(memory.data, {2, 3}, DType::f32, memory.owner);
  EXPECT_TRUE(array.sharesMemory());
  EXPECT_EQ(array.read<float>().data(), memory.data);
  EXPECT_EQ(array.raw(), memory.data);
  EXPECT_EQ(array.bytes(), 24);
  const std::vector<int64_t> dense = {3, 1}, anyOfOne = {77, 3, -5, 1};
  EXPECT_TRUE(Array::wrap(memory.data, {2, 3}, DType::f32, memory.owner, dense).sharesMemory());
  EXPECT_TRUE(Array::wrap(memory.data, {1, 2, 1, 3}, DType::f32, memory.owner, anyOfOne).sharesMemory())
      << "a dim of one element has any stride";
  EXPECT_FALSE(sequence({2}, 0, 1).sharesMemory());
}

/// The addresses that a step's own code sees are those of the owner.
TEST(Wrap, AStepReadsAndUpdatesTheOwnersMemory) {
  const Foreign input(256), weights(256), apart(256);
  std::vector<const void *> seen;
  const Custom spy = customOp({.name = "spy",
                               .body = [](std::span<const Tensor> in) { return std::vector{in[0] * in[1]}; },
                               .function =
                                   [&](const runtime::CustomArguments &call) {
                                     const auto a = call.input<float>(0), b = call.input<float>(1);
                                     seen = {a.data(), b.data()};
                                     for (size_t i = 0; i < 256; ++i)
                                       call.output<float>(0)[i] = a[i] * b[i];
                                   }});
  const State w = State::wrap("w", weights.data, {256}, DType::f32, weights.owner);
  const State out = State::wrap("out", apart.data, {256}, DType::f32, apart.owner);
  Function step = compile(
      "step",
      [&](Tensor x) {
        assign(w, w + 1.0);
        assign(out, x * 3.0);
        return spy(x, w);
      },
      quiet());
  const Array x = Array::wrap(input.data, {256}, DType::f32, input.owner);
  const int64_t counted = runtime::countedLiveBytes();
  const Array product = step(x)[0];
  EXPECT_EQ(runtime::countedLiveBytes() - counted, product.bytes()) << "the result alone has memory of ours";
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], input.data);
  EXPECT_EQ(seen[1], weights.data);
  for (size_t i = 0; i < 256; ++i) {
    const auto value = static_cast<float>(i);
    ASSERT_EQ(product.item(static_cast<int64_t>(i)), value * value);
    ASSERT_EQ(weights.data[i], value + 1);
    ASSERT_EQ(apart.data[i], 3 * value);
    ASSERT_EQ(input.data[i], value) << "an input is read alone";
  }
  EXPECT_EQ(w.read<float>().data(), weights.data);
  input.data[5] = weights.data[5] = 100; // seen without a word: it is the value
  EXPECT_EQ(step(x)[0].item(5), 10000);
  EXPECT_EQ(step.counters().cache.misses, 1);
}

TEST(Wrap, OtherLayoutsAreCopied) {
  const Foreign memory(24), shifted(24, 4);
  const auto wrapped = [&](float *data, Shape shape, std::vector<int64_t> strides) {
    return Array::wrap(data, shape, DType::f32, memory.owner, strides);
  };
  const Array transposed = wrapped(memory.data, {3, 2}, {1, 3});
  EXPECT_FALSE(transposed.sharesMemory());
  EXPECT_EQ(elements(transposed), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(elements(wrapped(memory.data, {2, 3}, {0, 1})), (std::vector<float>{0, 1, 2, 0, 1, 2})) << "expanded";
  EXPECT_EQ(elements(wrapped(memory.data + 5, {3}, {-2})), (std::vector<float>{5, 3, 1})) << "backwards";
  EXPECT_EQ(elements(wrapped(memory.data + 1, {2, 2, 2}, {12, 4, 2})),
            (std::vector<float>{1, 3, 5, 7, 13, 15, 17, 19}));
  const Array unaligned = Array::wrap(shifted.data, {24}, DType::f32, shifted.owner);
  EXPECT_FALSE(unaligned.sharesMemory());
  EXPECT_EQ(elements(unaligned), counting(24));
  shifted.data[0] = 7;
  EXPECT_EQ(unaligned.item(0), 0) << "the values are those of the time of wrapping";

  Function f = compile("f", [](Tensor x, Tensor y) { return x * 2.0 + y; }, quiet());
  EXPECT_EQ(f(transposed, Array::wrap(memory.data, {3, 2}, DType::f32, memory.owner))[0].item(1), 7);
}

TEST(Wrap, EveryWidthOfElements) {
  for (DType dtype :
       {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2, DType::i1, DType::i32, DType::i64}) {
    const auto width = static_cast<size_t>(runtime::byteSize(dtype));
    alignas(64) unsigned char bytes[48];
    std::iota(std::begin(bytes), std::end(bytes), static_cast<unsigned char>(1));
    const std::vector<int64_t> strides = {1, 2};
    const Array array = Array::wrap(bytes, {2, 3}, dtype, nullptr, strides);
    EXPECT_FALSE(array.sharesMemory());
    const auto *copied = static_cast<const unsigned char *>(array.rawForReading());
    for (size_t i = 0; i < 2; ++i)
      for (size_t j = 0; j < 3; ++j)
        EXPECT_EQ(std::memcmp(copied + (i * 3 + j) * width, bytes + (i + 2 * j) * width, width), 0)
            << runtime::name(dtype) << " " << i << " " << j;
    EXPECT_TRUE(Array::wrap(bytes, {6}, dtype, nullptr).sharesMemory());
  }
}

TEST(Wrap, ScalarsAndNothing) {
  alignas(64) float one[16] = {5};
  EXPECT_EQ(Array::wrap(one, {}, DType::f32, nullptr).item(), 5);
  EXPECT_EQ(Array::wrap(one + 1, {}, DType::f32, nullptr).item(), 0) << "a scalar anywhere";
  const Array none = Array::wrap(nullptr, {0, 3}, DType::f32, nullptr),
              odd = Array::wrap(one + 1, {0, 3}, DType::f32, nullptr);
  Function f = compile("f", [](Tensor x) { return concat({x, ones({2, 3})}, 0); }, quiet());
  EXPECT_EQ(f(none)[0].shape(), Shape({2, 3}));
  EXPECT_EQ(f(odd)[0].shape(), Shape({2, 3}));
}

TEST(Wrap, WhatIsNoTensorIsAnError) {
  const Foreign memory(8), shifted(8, 32);
  const std::vector<int64_t> one = {1}, columns = {1, 2};
  EXPECT_EQ(errorOf([&] { Array::wrap(nullptr, {2}, DType::f32, nullptr); }),
            "an array of shape [2] is wrapped at a null pointer; 8 bytes are expected there");
  EXPECT_EQ(errorOf([&] { Array::wrap(memory.data, {2, 2}, DType::f32, nullptr, one); }),
            "an array of shape [2, 2] is wrapped with 1 strides; one for each dim, or none, is expected");
  EXPECT_EQ(errorOf([&] { State::wrap("w", nullptr, {2}, DType::f32, nullptr); }),
            "state 'w' of shape [2] is wrapped at a null pointer; 8 bytes are expected there");
  const std::string rule = "; a state is updated where it lies, move it to memory that is dense, row-major and at a "
                           "multiple of 64 bytes";
  EXPECT_EQ(errorOf([&] { State::wrap("w", memory.data, {2, 2}, DType::f32, nullptr, columns); }),
            "the memory of state 'w' is not dense and row-major" + rule);
  EXPECT_EQ(errorOf([&] { State::wrap("w", shifted.data, {2, 2}, DType::f32, nullptr); }),
            "the memory of state 'w' starts at no multiple of 64 bytes" + rule);
  EXPECT_EQ(errorOf([&] { State::wrap("", memory.data, {2}, DType::f32, nullptr); }),
            "a state without a name; states are told apart by their names");
  EXPECT_EQ(errorOf([&] { Array::wrap(memory.data, {-2}, DType::f32, nullptr); }),
            "shape [-2] has a negative size; sizes are at least 0");
}

TEST(Wrap, WrittenMemoryOverlapsNothing) {
  const Foreign memory(32);
  const State w = State::wrap("w", memory.data, {16}, DType::f32, memory.owner);
  Function f = compile("f", [&](Tensor x) { assign(w, x + w); }, quiet());
  EXPECT_EQ(errorOf([&] { f(Array::wrap(memory.data, {16}, DType::f32, memory.owner)); }),
            "'f' cannot be run: `arg0` and `w` overlap in memory; outputs and states have memory of their own");
  EXPECT_EQ(memory.data[3], 3) << "nothing has run";
  f(Array::wrap(memory.data + 16, {16}, DType::f32, memory.owner));
  EXPECT_EQ(memory.data[3], 22);
  Function g = compile("g", [](Tensor x, Tensor y) { return x + y; }, quiet());
  const Array x = Array::wrap(memory.data, {16}, DType::f32, memory.owner);
  EXPECT_EQ(g(x, Array::wrap(memory.data, {16}, DType::f32, memory.owner))[0].item(3), 44) << "inputs may be the same";
}

TEST(Wrap, MemoryIsKeptAsLongAsAnythingUsesIt) {
  int released = 0;
  const auto counted = [&](Foreign memory) {
    return std::shared_ptr<void>(memory.data, [&released, memory](void *) { ++released; });
  };
  const Foreign input(4), weights(4), shifted(4, 4);
  {
    Array x = Array::wrap(input.data, {4}, DType::f32, counted(input));
    Array again = x;
    x = Array();
    EXPECT_EQ(released, 0);
    again = Array();
    EXPECT_EQ(released, 1);
    const Array copied = Array::wrap(shifted.data, {4}, DType::f32, counted(shifted));
    EXPECT_EQ(released, 2) << "what was copied is not kept";
    EXPECT_EQ(copied.item(3), 3);
  }
  released = 0;
  {
    auto w = std::make_unique<State>(State::wrap("w", weights.data, {4}, DType::f32, counted(weights)));
    auto f = std::make_unique<Function>(compile("f", [state = *w](Tensor x) { assign(state, state + x); }, quiet()));
    (*f)(sequence({4}, 1, 1));
    w.reset();
    EXPECT_EQ(released, 0) << "the function uses it";
    f.reset();
    EXPECT_EQ(released, 1);
  }
  EXPECT_EQ(weights.data[3], 7);
}

TEST(Wrap, ADeviceWithMemoryOfItsOwnMirrorsWrappedMemory) {
  auto device = std::make_shared<runtime::test::RemoteDevice>();
  FunctionOptions options = quiet();
  options.device = device;
  const Foreign input(16), weights(16);
  const State w = State::wrap("w", weights.data, {16}, DType::f32, weights.owner);
  Function f = compile("f", [&](Tensor x) { assign(w, w * 2.0 + x); }, options);
  const Array x = Array::wrap(input.data, {16}, DType::f32, input.owner);
  f(x);
  f(x);
  EXPECT_EQ(weights.data[3], 3) << "the newest value is on the device";
  EXPECT_EQ(w.read<float>().data(), weights.data);
  EXPECT_EQ(weights.data[3], 21) << "(3 · 2 + 3) · 2 + 3";
  w.data<float>()[3] = 1;
  f(x);
  EXPECT_EQ(w.read<float>()[3], 5) << "what was written after data() counts";
  EXPECT_EQ(device->bytesIn, 2 * 64) << "the state, once and once more; inputs go their own way";
}

} // namespace
