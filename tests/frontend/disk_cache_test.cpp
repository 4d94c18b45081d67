// Steps on disk as users meet them: tcc's flags and what it says, and compile()'s.
#include "runtime/cpu.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include "tests/frontend/quiet_functions.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sys/wait.h>

using namespace tcc;

namespace {

namespace fs = std::filesystem;

struct Result {
  int status = -1;
  std::string out, err;
};

class DiskCache : public ::testing::Test {
protected:
  DiskCache() {
    std::ofstream(graph())
        << R"(func.func @main(%x: tensor<4x?xf32> {tcc.name = "x"}) -> (tensor<4x?xf32> {tcc.name = "y"}) {
  %e = tcc.exp %x : tensor<4x?xf32>
  %s = tcc.mul %e, %e : tensor<4x?xf32>
  return %s : tensor<4x?xf32>
}
)";
  }

  std::string graph() const { return base / "step.graph"; }
  std::string place() const { return base / "cache"; }

  /// tcc with this cache, in an environment that has none.
  Result tcc(const std::string &arguments, bool withCache = true, const std::string &environment = "") const {
    const std::string out = base / "out", err = base / "err";
    const std::string command = "TCC_CACHE_DIR=off " + environment + " '" TCC_PROGRAM "' " +
                                (withCache ? "--cache-dir=" + place() : "") + " " + arguments + " >" + out + " 2>" +
                                err;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::readAll(out), test::readAll(err)};
  }
  Result compileGraph(const std::string &arguments = "", bool withCache = true) const {
    return tcc(graph() + " --shape=x:4x5 " + arguments, withCache);
  }

  const test::TemporaryFolder base;
};

TEST_F(DiskCache, TheSecondRunTakesTheFirstOnesStep) {
  const std::string first = base / "first.tcc", second = base / "second.tcc";
  const Result cold = compileGraph("-v -o " + first), warm = compileGraph("-v -o " + second);
  EXPECT_EQ(cold.status, 0) << cold.err;
  EXPECT_HAS(cold.err, "cache: miss: no step was kept before");
  EXPECT_HAS(cold.out, "compiled in ");
  EXPECT_EQ(warm.status, 0) << warm.err;
  EXPECT_HAS(warm.err, "cache: hit: " + place());
  EXPECT_LACKS(warm.err, "ran ");
  EXPECT_HAS(warm.out, "1 kernels");
  EXPECT_HAS(warm.out, "from the cache in ");
  EXPECT_EQ(test::readAll(first), test::readAll(second));
  EXPECT_HAS(compileGraph("--run --seed=1").err, "from the cache in ");
  EXPECT_EQ(compileGraph("--run --seed=1").out, compileGraph("--run --seed=1 --no-cache").out);
}

TEST_F(DiskCache, AMissSaysWhy) {
  compileGraph();
  EXPECT_HAS(compileGraph("-v -O1").err, "cache: miss: flags differ: -O2 → -O1\n");
  EXPECT_HAS(tcc(graph() + " --shape=x:4x6 -v").err, "cache: miss: flags differ: --shape=x:4x5 → --shape=x:4x6\n");
  EXPECT_HAS(compileGraph("-v --threads=1 -march=x86-64").err, "cache: miss: target differs: cpu → cpu:x86-64, cpu ");
  EXPECT_HAS(compileGraph("-v --threads=1 -march=x86-64-v2").err,
             "cache: miss: target differs: cpu:x86-64 → cpu:x86-64-v2, cpu x86-64 → x86-64-v2\n");
  EXPECT_HAS(compileGraph("-v --threads=1 -march=x86-64-v2 -ffast-math").err,
             "cache: miss: target differs: fast math 0 → 1\n");
}

/// Of code for several machines, each part has its own.
TEST_F(DiskCache, EachMachineHasItsHitOrMiss) {
  compileGraph("-march=x86-64");
  const std::string arguments = "-v -march=x86-64,x86-64-v2 -o " + base / "both.so";
  const Result half = compileGraph(arguments), whole = compileGraph(arguments);
  EXPECT_EQ(half.status, 0) << half.err;
  EXPECT_HAS(half.err, "cache of cpu:x86-64: hit: " + place());
  EXPECT_HAS(half.err, "cache of cpu:x86-64-v2: miss: target differs: cpu:x86-64 → cpu:x86-64-v2");
  EXPECT_HAS(half.out, "), 1 of 2 targets from the cache\n");
  EXPECT_HAS(whole.err, "cache of cpu:x86-64: hit: " + place());
  EXPECT_HAS(whole.err, "cache of cpu:x86-64-v2: hit: " + place());
  EXPECT_HAS(whole.out, "from the cache in ");
}

TEST_F(DiskCache, ADamagedEntryIsSaidToBeThat) {
  compileGraph();
  for (const fs::directory_entry &entry : fs::directory_iterator(place() + "/steps"))
    fs::resize_file(entry.path(), entry.file_size() - 5);
  const Result again = compileGraph("-v --run --seed=1");
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_HAS(again.err, "cache: miss: the entry was damaged and is removed\n");
  EXPECT_EQ(again.out, compileGraph("--run --seed=1 --no-cache").out);
  EXPECT_HAS(compileGraph("-v").err, "cache: hit: ");
}

/// -v and --cache-stats say why nothing is kept.
TEST_F(DiskCache, ACacheThatIsOffSaysWhy) {
  const std::string nowhere = "env -u TCC_CACHE_DIR -u XDG_CACHE_HOME -u HOME";
  const std::pair<std::string, std::string> cases[] = {
      {"", "off, by TCC_CACHE_DIR=off"},
      {nowhere, "off, since none of TCC_CACHE_DIR, XDG_CACHE_HOME and HOME names its folder"}};
  for (const auto &[environment, why] : cases) {
    EXPECT_HAS(tcc(graph() + " --shape=x:4x5 -v", false, environment).err, "cache: not used: " + why + "\n");
    for (const char *asked : {"--cache-stats", "--cache-clear"}) {
      const Result refused = tcc(asked, false, environment);
      EXPECT_EQ(refused.status, 2);
      EXPECT_HAS(refused.err, "tcc: error: the cache is " + why + "; --cache-dir= names a folder for it");
    }
  }
  EXPECT_HAS(compileGraph("-v --no-cache").err, "cache: not used: off, by --no-cache\n");
  EXPECT_HAS(compileGraph("-v -ftime-report").err, "cache: not used: off, by -ftime-report\n");
}

/// Variables that hide what the CPU has change what is made, or at least who may use it.
TEST_F(DiskCache, TheEnvironmentIsInTheKey) {
  compileGraph();
  auto with = [&](const std::string &environment) { return tcc(graph() + " --shape=x:4x5 -v", true, environment).err; };
  EXPECT_HAS(with("TCC_CPU=native"), "cache: hit: ");
  EXPECT_HAS(with("TCC_CPU=x86-64"), "cache: miss: target differs: ");
  EXPECT_HAS(with("TCC_CPU=x86-64-v2"), "cache: miss: target differs: ");
  EXPECT_HAS(with("TCC_CPU=x86-64"), "cache: hit: ");
  EXPECT_EQ(with("TCC_TILES=0").find("cache: hit: ") == std::string::npos, tcc::runtime::hasTiles());
}

/// Inputs, outputs and labels are those of the graph at hand.
TEST_F(DiskCache, NamesAreTheGraphsOwn) {
  compileGraph();
  std::string text = test::readAll(graph());
  for (const auto &[from, to] :
       {std::pair("\"x\"", "\"tokens\""), {"\"y\"", "\"loss\""}, {"%s", "%ended"}, {"%e\\b", "%squashed"}})
    text = std::regex_replace(text, std::regex(from), to);
  const std::string renamed = base.write("renamed.graph", text);
  const Result run = tcc(renamed + " --shape=tokens:4x5 -v --run --seed=1");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_HAS(run.err, "cache: hit: ");
  EXPECT_HAS(run.out, "loss");
  EXPECT_EQ(run.out, tcc(renamed + " --shape=tokens:4x5 --run --seed=1 --no-cache").out);
  const std::string artefact = base / "renamed.tcc", alone = base / "alone.tcc";
  EXPECT_HAS(tcc(renamed + " --shape=tokens:4x5 -v -o " + artefact).err, "cache: hit: ");
  tcc(renamed + " --shape=tokens:4x5 --no-cache -o " + alone);
  EXPECT_EQ(test::readAll(artefact), test::readAll(alone));
  EXPECT_HAS(test::readAll(artefact), "ended+squashed");
}

TEST_F(DiskCache, IsLeftOutWhereItIsNotWanted) {
  compileGraph();
  for (const char *alone : {"--no-cache", "-ftime-report", "-fverify-each", "-fdump-ir=all", "-Rpass"})
    EXPECT_LACKS(compileGraph(alone).out, "from the cache") << alone;
  EXPECT_HAS(compileGraph("-ftime-report").err, "simplify");
  EXPECT_HAS(tcc("--cache-stats").out, "      1 steps ");
}

TEST_F(DiskCache, IsCountedAndCleared) {
  EXPECT_EQ(tcc("--cache-stats").out, place() + ", at most 1073.7 MB\n"
                                                "      0 kernels  0 B        0 hits, 0 misses, 0 evictions\n"
                                                "      0 steps    0 B        0 hits, 0 misses, 0 evictions\n");
  compileGraph();
  compileGraph("-O1");
  for (int i = 0; i < 3; ++i)
    compileGraph();
  const Result counted = tcc("--cache-stats --cache-size=2MiB");
  EXPECT_EQ(counted.status, 0);
  EXPECT_HAS(counted.out, place() + ", at most 2097.2 kB\n");
  EXPECT_HAS(counted.out, "      2 steps ");
  EXPECT_HAS(counted.out, " 3 hits, 2 misses, 0 evictions\n");
  const Result cleared = tcc("--cache-clear");
  EXPECT_EQ(cleared.status, 0);
  EXPECT_HAS(cleared.out, "removed 2 entries, ");
  EXPECT_HAS(cleared.out, " from " + place() + "\n");
  EXPECT_HAS(tcc("--cache-stats").out, "      0 steps    0 B        0 hits, 0 misses");
  EXPECT_LACKS(compileGraph().out, "from the cache");
}

TEST_F(DiskCache, ASizeBoundsTheCache) {
  for (int columns = 1; columns <= 12; ++columns)
    EXPECT_EQ(tcc(graph() + " --cache-size=30KiB --shape=x:4x" + std::to_string(columns)).status, 0);
  int64_t bytes = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(place() + "/steps"))
    bytes += static_cast<int64_t>(entry.file_size());
  EXPECT_LE(bytes, 30 << 10);
  EXPECT_GT(bytes, 0);
}

TEST_F(DiskCache, WrongFlagsAreUsageErrors) {
  for (const char *wrong :
       {"--cache-size=", "--cache-size=0", "--cache-size=12parsecs", "--cache-size=-1", "--cache-size=99999999GiB"}) {
    const Result refused = compileGraph(wrong);
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_HAS(refused.err, "--cache-size=");
  }
  const Result nowhere = tcc("--cache-stats", false);
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_HAS(nowhere.err, "--cache-dir=");
  // What is asked for beside them is not dropped without a word.
  compileGraph();
  EXPECT_HAS(tcc("--cache-clear " + graph()).err, "--cache-clear takes no input, and '" + graph() + "' is one");
  EXPECT_HAS(tcc("--cache-stats -fsyntax-only " + graph()).err, "--cache-stats takes no input");
  const std::pair<std::string, std::string> both[] = {{"--cache-stats", "--cache-clear"},
                                                      {"--cache-clear", "--cache-stats"}};
  for (const auto &[one, other] : both) {
    const Result refused = tcc(one + " " + other);
    EXPECT_EQ(refused.status, 2);
    EXPECT_HAS(refused.err, one + " and " + other + " contradict each other; give one of them");
  }
  const std::pair<std::string, std::string> works[] = {{"-fsyntax-only", "-fsyntax-only"},
                                                       {"-E", "-E"},
                                                       {"-S", "-S"},
                                                       {"-c", "-c"},
                                                       {"-o x.tcc", "-o"},
                                                       {"-emit=fused", "-emit="},
                                                       {"--run", "--run"},
                                                       {"--run=2", "--run"},
                                                       {"--run=reference", "--run"},
                                                       {"--bench", "--bench"},
                                                       {"--ablate", "--ablate"},
                                                       {"--graph-breaks", "--graph-breaks"},
                                                       {"-###", "-###"}};
  for (const auto &[work, name] : works)
    for (const std::string &words : {"--cache-clear " + work, work + " --cache-clear"}) {
      const Result refused = tcc(words);
      EXPECT_EQ(refused.status, 2) << words;
      EXPECT_HAS(refused.err, "--cache-clear and " + name + " contradict each other; give one of them");
    }
  EXPECT_HAS(tcc("--doctor -fsyntax-only").err, "--doctor and -fsyntax-only contradict each other");
  EXPECT_HAS(tcc("--compare a b --report=x -fsyntax-only").err, "--compare and -fsyntax-only contradict each other");
  EXPECT_EQ(tcc("--version -fsyntax-only").status, 0) << "what only prints goes before all else, as gcc has it";
  EXPECT_EQ(tcc("--cache-stats --cache-stats").status, 0) << "twice the same is no contradiction";
  EXPECT_HAS(tcc("--cache-stats").out, "      1 steps ") << "nothing was cleared";
}

/// Neither fails the job, nor is anything taken from there.
TEST_F(DiskCache, AFolderThatCannotBeUsedIsSaid) {
  std::ofstream(place()) << "a file";
  for (int i = 0; i < 2; ++i) {
    const Result made = compileGraph("-v");
    EXPECT_EQ(made.status, 0) << made.err;
    EXPECT_HAS(made.err, "cache: miss: no step was kept before; not kept: ");
  }
  fs::remove(place());
  compileGraph();
  fs::permissions(place(), fs::perms::all);
  const Result open = compileGraph("-v");
  EXPECT_EQ(open.status, 0);
  EXPECT_HAS(open.err, "is no folder that its user alone can write to");
  EXPECT_HAS(open.out, "compiled in ");
}

FunctionOptions optionsAt(const std::string &place) {
  FunctionOptions options = quiet();
  options.diskCacheFolder = place;
  return options;
}

TEST_F(DiskCache, CompileTakesStepsToo) {
  const auto step = [](Tensor x, Tensor y) { return sum(x * y + exp(x)); };
  const Array x = sequence({3, 5}, -1, 0.25f), y = sequence({3, 5}, 1, 1);
  Function first = compile("step", step, optionsAt(place())), second = compile("step", step, optionsAt(place()));
  const Array made = first(x, y)[0];
  EXPECT_FALSE(first.lastCompile().fromCache);
  EXPECT_HAS(first.lastCompile().cache, "miss: no step was kept before");
  const Array taken = second(x, y)[0];
  EXPECT_TRUE(second.lastCompile().fromCache) << second.lastCompile().cache;
  EXPECT_TRUE(sameBits(made, taken));
  EXPECT_EQ(second.lastCompile().kernels, first.lastCompile().kernels);
  EXPECT_EQ(second.lastCompile().plannedBytes, first.lastCompile().plannedBytes);
  second(sequence({2, 5}, 0, 1), sequence({2, 5}, 0, 1));
  EXPECT_HAS(second.lastCompile().cache, "miss: arguments differ: ");
}

TEST_F(DiskCache, AFunctionOfTheProgramIsNotKept) {
  CustomOptions given;
  given.name = "twice";
  given.body = [](const Tensor &x) { return x + x; };
  given.function = [](const runtime::CustomArguments &call) {
    const auto in = call.input<float>(0);
    for (size_t i = 0; i < in.size(); ++i)
      call.output<float>(0)[i] = 2 * in[i];
  };
  const Custom twice = customOp(std::move(given));
  for (int i = 0; i < 2; ++i) {
    Function f = compile("f", [&](Tensor x) { return twice(x); }, optionsAt(place()));
    EXPECT_EQ(f(sequence({6}, 1, 1))[0].item(2), 6);
    EXPECT_EQ(f.lastCompile().cache, "not used: a custom op is a function of this program");
  }
}

} // namespace
