// Places: C++ callers give theirs by themselves, bindings of other languages say where their users' lines are; both
// come out in errors, labels, remarks, graph breaks and reasons. No MLIR, as in users' files.
#include "runtime/executable.h"
#include "tests/frontend/quiet_functions.h"
#include <fstream>
#include <gtest/gtest.h>
#include <tcc/tcc.h>
#include <thread>
#include <unistd.h>

using namespace tcc;

namespace {

static_assert(sizeof(Loc) == sizeof(void *) && std::is_trivially_copyable_v<Loc>, "a record has one for each op");

Loc given(int, Loc loc = Loc::current()) {
  return loc;
}
struct Takes {
  Takes(double, Loc loc = Loc::current()) : loc(loc) {}
  Loc loc;
};
Loc converted(Takes takes) {
  return takes.loc;
}

TEST(Loc, IsTheCallersByDefault) {
  const Loc here = given(1);
  EXPECT_EQ(here.line(), __LINE__ - 1u);
  EXPECT_NE(here.file().find("loc_test.cpp"), std::string::npos);
  EXPECT_EQ(converted(1.0).line(), uint32_t{__LINE__});
  const Loc native = std::source_location::current();
  EXPECT_EQ(native.line(), __LINE__ - 1u);
  EXPECT_TRUE(here.isKnown());
  EXPECT_FALSE(Loc().isKnown());
  EXPECT_EQ(here.scope(), nullptr);
}

TEST(Loc, OfRunTimeKeepsItsTexts) {
  std::string file = "model.py", scope = "h.3.mlp.";
  const Loc loc = Loc::at(file, 41, 9, scope), again = Loc::at("model.py", 41, 9, "h.3.mlp");
  file = scope = "overwritten";
  EXPECT_EQ(loc.file(), "model.py");
  EXPECT_EQ(loc.line(), 41u);
  EXPECT_EQ(loc.column(), 9u);
  ASSERT_NE(loc.scope(), nullptr);
  EXPECT_EQ(*loc.scope(), "h.3.mlp");
  EXPECT_EQ(again.file().data(), loc.file().data()) << "equal texts are kept once";
  EXPECT_EQ(again.scope(), loc.scope());
  EXPECT_EQ(Loc::at("model.py", 42).scope(), nullptr);
}

TEST(Loc, IsMadeByManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::vector<Loc>> made(4);
  for (auto &list : made)
    threads.emplace_back([&list] {
      for (uint32_t line = 1; line <= 2000; ++line)
        list.push_back(Loc::at("file" + std::to_string(line % 7) + ".py", line, 0, "h." + std::to_string(line % 12)));
    });
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < 2000; ++i)
    for (const auto &list : made) {
      EXPECT_EQ(list[i].line(), i + 1);
      EXPECT_EQ(list[i].file().data(), made[0][i].file().data());
      EXPECT_EQ(*list[i].scope(), "h." + std::to_string((i + 1) % 12));
    }
}

/// What an error says of a matmul of sizes that do not fit, at `loc`.
std::string refusedAt(Loc loc) {
  Function f = compile("f", [&](Tensor x) { return matmul(x, x, loc); }, quiet());
  return thrownBy([&] { f(sequence({2, 3}, 0, 1)); }).what();
}

TEST(Loc, StandsInErrors) {
  const std::string message = "`matmul` contraction sizes 3 and 2 differ (matmul_c1)";
  EXPECT_EQ(refusedAt(Loc::at("model.py", 41, 9)), "model.py:41:9: " + message);
  EXPECT_EQ(refusedAt(Loc::at("model.py", 41)), "model.py:41: " + message) << "no column where none is known";
  EXPECT_EQ(refusedAt(Loc::at("model.py", 0)), message) << "nor a file alone";
  EXPECT_EQ(refusedAt({}), message);
}

/// A file of a few lines, removed with it.
struct Source {
  std::string path = testing::TempDir() + "tcc_loc_" + std::to_string(::getpid()) + ".py";
  explicit Source(const std::string &text) { std::ofstream(path) << text; }
  ~Source() { std::remove(path.c_str()); }
};

TEST(Loc, StandsInLabelsRemarksAndPlans) {
  const Source source("def forward(x):\n  y = x + 1\n  return gelu(y)\n");
  std::vector<std::string> said;
  FunctionOptions options = quiet(&said);
  options.remarksPassed = "^fuse";
  const auto in = [&](uint32_t column) {
    return [&, column](Tensor x) {
      const Scope outer("outer"); // not theirs: the places say where they belong
      const Tensor y = x + Operand(1.0, Loc::at(source.path, 2, 0, "h.3.mlp"));
      return gelu(y, Loc::at(source.path, 3, column, "h.3.mlp"));
    };
  };
  const Array x = sequence({64, 64}, -1, 0.001f);
  Function f = compile("f", in(10), options);
  EXPECT_NE(f.graph(std::vector{x}).find("%h.3.mlp.gelu = tcc.gelu %h.3.mlp.add"), std::string::npos)
      << f.graph(std::vector{x});
  f(x);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find(source.path + ":3:10: remark: "), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("\n  return gelu(y)\n         ^"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("ops (gelu, add) into h.3.mlp.gelu+add: saves "), std::string::npos) << said[0];
  const auto &instruction = f.executable()->plan().instructions.at(0);
  EXPECT_EQ(runtime::firstSource(instruction), source.path + ":3");

  said.clear();
  Function g = compile("g", in(0), options);
  g(x);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].find(source.path + ":3: remark: "), 0u) << said[0];
}

TEST(Loc, WithoutAScopeIsInTheOpenOne) {
  Function f = compile(
      "f",
      [](Tensor x) {
        const Scope scope("h.0");
        return tanh(x, Loc::at("model.py", 7));
      },
      quiet());
  const std::string graph = f.graph(std::vector{sequence({2}, 0, 1)});
  EXPECT_NE(graph.find("%h.0.tanh = tcc.tanh"), std::string::npos) << graph;
}

TEST(Loc, StandsInBodiesOfControlFlow) {
  const auto inBody = [](auto op) {
    return compile(
        "f",
        [op](Tensor x) {
          return repeat(3, x, [&](const Tensor &y) { return op(y, Loc::at("model.py", 12, 5, "loop")); });
        },
        quiet());
  };
  Function good = inBody([](const Tensor &y, Loc loc) { return exp(y, loc); });
  const std::vector<Array> x = {sequence({2, 3}, 0, 1)};
  EXPECT_NE(good.graph(x).find("%loop.exp = tcc.exp"), std::string::npos) << good.graph(x);
  Function bad = inBody([](const Tensor &y, Loc loc) { return matmul(y, y, loc); });
  EXPECT_EQ(std::string(thrownBy([&] { bad.call(x); }).what()).find("model.py:12:5: `matmul` contraction"), 0u);
}

TEST(Loc, StandsInGraphBreaks) {
  const Source source("loss = mean(y)\nprint(loss.item())\n");
  Function f = compile(
      "f",
      [&](Tensor x) {
        (void)mean(x).item(Loc::at(source.path, 2));
        return x + 1.0;
      },
      quiet());
  f(sequence({4}, 1, 1));
  const BreakReport report = f.report();
  ASSERT_EQ(report.sites.size(), 1u);
  EXPECT_EQ(report.sites[0].file, source.path);
  EXPECT_EQ(report.sites[0].line, 2u);
  EXPECT_EQ(report.sites[0].source, "print(loss.item())");
  EXPECT_NE(
      report.text().find("\n" + source.path + ":2: graph break: `item()` asks for a value\n    print(loss.item())"),
      std::string::npos)
      << report.text();
}

TEST(Loc, StandsInReasonsOfRecompiling) {
  std::vector<std::string> said;
  double factor = 2;
  bool exponential = false;
  Function f = compile(
      "f",
      [&](Tensor x) {
        const Tensor y = x * Operand(factor, Loc::at("model.py", 7, 3));
        return exponential ? exp(y, Loc::at("model.py", 8, 3)) : tanh(y, Loc::at("model.py", 9));
      },
      quiet(&said));
  const Array x = sequence({4}, 1, 1);
  f(x);
  factor = 3;
  f(x);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("2 → 3 at model.py:7"), std::string::npos) << said[0];
  exponential = true;
  f(x);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_NE(said[1].find("`exp` at model.py:8 instead of `tanh` at model.py:9"), std::string::npos) << said[1];
}

} // namespace
