// States in safetensors files: beside a reader and writer of another hand (safetensors_oracle.py); what does not fit
// changes nothing. No MLIR, as in users' files.
#include "tests/files.h"
#include "tests/frontend/quiet_functions.h"
#include "tests/runtime/remote_device.h"
#include "tests/state_bytes.h"
#include <array>
#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <tcc/tcc.h>
#include <unistd.h>

using namespace tcc;
using test::bytesOf;
using test::readAll;
using test::TemporaryFolder;

namespace {

/// What the oracle prints.
std::string oracle(const std::string &arguments) {
  std::string text;
  FILE *pipe = ::popen((TCC_SAFETENSORS_ORACLE " " + arguments).c_str(), "r");
  for (std::array<char, 4096> part; const size_t count = std::fread(part.data(), 1, part.size(), pipe);)
    text.append(part.data(), count);
  EXPECT_EQ(::pclose(pipe), 0);
  return text;
}

/// A state of each dtype and a few shapes; byte i of state number n is 16 n + i, of i1 its lowest bit.
std::vector<State> everyDtype() {
  std::vector<State> states = {{"f32", {2, 1}},
                               {"bf16", {3}, DType::bf16},
                               {"f16", {2}, DType::f16},
                               {"e4m3", {5}, DType::f8e4m3},
                               {"e5m2", {1, 3}, DType::f8e5m2},
                               {"i1", {4}, DType::i1},
                               {"i32", {}, DType::i32},
                               {"i64", {2}, DType::i64},
                               {"none", {0, 3}}};
  for (size_t n = 0; n < states.size(); ++n)
    for (int64_t i = 0; i < states[n].bytes(); ++i) {
      const auto byte = static_cast<unsigned char>(16 * n + static_cast<size_t>(i));
      static_cast<unsigned char *>(states[n].raw())[i] = states[n].dtype() == DType::i1 ? byte & 1 : byte;
    }
  return states;
}

const std::string everyLine = "bf16 BF16 [3] 101112131415\n"
                              "e4m3 F8_E4M3 [5] 3031323334\n"
                              "e5m2 F8_E5M2 [1,3] 404142\n"
                              "f16 F16 [2] 20212223\n"
                              "f32 F32 [2,1] 0001020304050607\n"
                              "i1 BOOL [4] 00010001\n"
                              "i32 I32 [] 60616263\n"
                              "i64 I64 [2] 707172737475767778797a7b7c7d7e7f\n"
                              "none F32 [0,3] -\n";

void clear(const std::vector<State> &states) {
  for (const State &state : states)
    std::fill_n(static_cast<char *>(state.raw()), state.bytes(), char{1});
}

TEST(StateFiles, AnotherReaderSeesEachDtype) {
  const TemporaryFolder folder;
  saveStates(folder / "s.safetensors", everyDtype());
  EXPECT_EQ(oracle("dump " + folder / "s.safetensors"), everyLine);
  EXPECT_EQ(folder.count(), 1u) << "no temporary file is left";
}

TEST(StateFiles, AnotherWritersFileIsRead) {
  const TemporaryFolder folder;
  std::ofstream(folder / "lines") << everyLine;
  oracle("make " + folder / "s.safetensors" + " < " + folder / "lines");
  const std::vector<State> states = everyDtype();
  const std::string expected = bytesOf(states);
  clear(states);
  ASSERT_NE(bytesOf(states), expected);
  loadStates(folder / "s.safetensors", states);
  EXPECT_EQ(bytesOf(states), expected);
}

/// A little model with momentum.
struct Model {
  Parameter w{"w", {4, 3}}, m{"w.m", {4, 3}};
  Function step, look;
  explicit Model(FunctionOptions options = quiet())
      : step(compile(
            "step",
            [this](Tensor x) {
              const Tensor loss = mean(matmul(x, w) * 2.0 + 1.0);
              const Tensor next = m * 0.9 + gradient(loss * loss, std::vector{Tensor(w)})[0];
              assign(m, next);
              assign(w, w - next * 0.1);
              return loss;
            },
            options)),
        look(compile("look", [this](Tensor x) { return matmul(x, w); }, options)) {}
  double operator()() { return step(sequence({2, 4}, 1, 0.25f))[0].item(); }
};

TEST(StateFiles, AFunctionGoesOnWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  Model first;
  for (int i = 0; i < 3; ++i)
    first();
  first.step.save(path);
  const double expected = first();
  EXPECT_NE(first(), expected);

  Model second;
  EXPECT_EQ(
      errorOf([&] { second.step.load(path); }),
      "'step' was not traced yet, so its states are not known; call it or prepare() it first, or use saveStates() "
      "and loadStates() with a list of them");
  second.step.prepare(std::vector{sequence({2, 4}, 1, 0.25f)});
  second.step.load(path);
  EXPECT_EQ(second(), expected);

  first.step.load(path);
  EXPECT_EQ(first(), expected) << "back where it was";
  const std::vector<State> both = first.step.states();
  ASSERT_EQ(both.size(), 2u);
  Model third;
  loadStates(path, std::vector{third.m, third.w});
  EXPECT_EQ(third(), expected) << "before the first call";
}

TEST(StateFiles, OthersInTheFileAreAllowedWhereOneSaysSo) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  Model trained, used;
  trained();
  trained.step.save(path);
  const Array x = sequence({2, 4}, 1, 0.25f);
  used.look.prepare(std::vector{x});
  EXPECT_EQ(errorOf([&] { used.look.load(path); }),
            path + " does not fit the states, and nothing is loaded: its tensor 'w.m' is no state");
  used.look.load(path, Others::ignored);
  EXPECT_TRUE(sameBits(used.look(x)[0], trained.look(x)[0]));
}

TEST(StateFiles, LossScalingIsKept) {
  const TemporaryFolder folder;
  FunctionOptions options = quiet();
  options.products = DType::f16;
  Model model(options);
  model();
  model.step.save(folder / "s.safetensors");
  EXPECT_NE(oracle("dump " + folder / "s.safetensors").find(model.step.lossScaling()[0].name() + " F32 [] "),
            std::string::npos);
}

TEST(StateFiles, StatesOfForgottenShapesAreKnown) {
  std::vector<State> states;
  for (int i = 0; i < 12; ++i)
    states.emplace_back("s" + std::to_string(i), Shape{});
  Function f = compile("f", [&](Tensor x) { return x * states[static_cast<size_t>(x.dim(0) - 1)]; }, quiet());
  for (int64_t i = 1; i <= 12; ++i)
    f(Array({i}));
  EXPECT_EQ(f.states().size(), 12u);
}

TEST(StateFiles, OnADeviceTheNewestValuesCount) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.safetensors";
  FunctionOptions options = quiet();
  options.device = std::make_shared<runtime::test::RemoteDevice>();
  Model there(options), here;
  there();
  there.step.save(path);
  here();
  EXPECT_EQ(std::vector(here.w.read<float>().begin(), here.w.read<float>().end()),
            std::vector(there.w.read<float>().begin(), there.w.read<float>().end()));
  const double expected = there();
  there.step.load(path);
  EXPECT_EQ(there(), expected) << "sent there again";
}

TEST(StateFiles, WhatDoesNotFitChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "s.safetensors";
  const auto refused = [&](const std::string &lines, const std::vector<State> &states) {
    std::ofstream(folder / "lines") << lines;
    oracle("make " + path + " < " + folder / "lines");
    clear(states);
    const std::string before = bytesOf(states), text = errorOf([&] { loadStates(path, states); });
    EXPECT_EQ(bytesOf(states), before) << text;
    const std::string head = path + " does not fit the states, and nothing is loaded: ";
    EXPECT_EQ(text.substr(0, head.size()), head);
    return text.substr(std::min(text.size(), head.size()));
  };
  const State a("a", {2}), b("b", {1, 2}), flags("flags", {2}, DType::i1);
  const std::string good = "a F32 [2] 0000000000000000\n";
  EXPECT_EQ(refused(good, {a, b}), "state 'b' is not in the file");
  EXPECT_EQ(refused(good + "b F32 [2] 0000000000000000\n", {a, b}), "state 'b' is F32 [1, 2], in the file F32 [2]");
  EXPECT_EQ(refused(good + "b I64 [1] 0000000000000000\n", {a, b}), "state 'b' is F32 [1, 2], in the file I64 [1]");
  EXPECT_EQ(refused(good + "b F32 [1,1,1,1,1,1,1,1,1] 00000000\n", {a, b}),
            "state 'b' is F32 [1, 2], in the file of rank 9");
  EXPECT_EQ(refused(good + "c F32 [0] -\nd F32 [0] -\n", {a, b}),
            "state 'b' is not in the file; its tensor 'c' is no state; its tensor 'd' is no state");
  EXPECT_EQ(refused(good + "flags BOOL [2] 0102\n", {a, flags}),
            "state 'flags' has in the file BOOL elements that are neither 0 nor 1");
  EXPECT_EQ(refused(good, {a, State("a", {2})}), "two states are named 'a'");
  std::vector<State> many;
  for (int i = 0; i < 9; ++i)
    many.emplace_back("s" + std::to_string(i), Shape{});
  EXPECT_EQ(refused("", many), "state 's0' is not in the file; state 's1' is not in the file; state 's2' is not in the "
                               "file; state 's3' is not in the file; and 5 more");
}

TEST(StateFiles, ABrokenFileIsAnErrorBeforeMemoryIsTaken) {
  const TemporaryFolder folder;
  const std::string path = folder / "s.safetensors";
  const std::vector<State> states = everyDtype();
  saveStates(path, states);
  const std::string whole = readAll(path), before = bytesOf(states);
  for (size_t length = 0; length < whole.size(); ++length) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    const std::string text = errorOf([&] { loadStates(path, states); });
    ASSERT_EQ(text.find(path), 0u) << length << ": " << text;
    ASSERT_EQ(bytesOf(states), before);
  }
  EXPECT_EQ(errorOf([&] { loadStates(folder / "nothing", states); }),
            folder / "nothing" + ": cannot open: No such file or directory");
}

TEST(StateFiles, AFailedSaveLeavesTheOlderFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "s.safetensors";
  const std::vector<State> states = everyDtype();
  saveStates(path, states);
  const std::string before = readAll(path);
  std::vector<State> twice = states;
  twice.push_back(State("f32", {7}));
  EXPECT_NE(errorOf([&] { saveStates(path, twice); }).find("stands twice"), std::string::npos);
  EXPECT_EQ(readAll(path), before);
  EXPECT_EQ(folder.count(), 1u);
  EXPECT_NE(errorOf([&] { saveStates(folder / "none/s.safetensors", states); }).find("No such file"),
            std::string::npos);
}

} // namespace
