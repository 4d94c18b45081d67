// Flags that people bring from gcc and clang: taken as they take them, or refused with what to use instead.
#include "tests/frontend/run_tcc.h"

using namespace tcc::test;

namespace {

TEST(Flags, AssemblyGoesToAFileAsWithGcc) {
  const std::string path = file("good.graph", good);
  const auto place = folder() / "assembly";
  const Result plain = runTccIn(place, "-S " + path);
  EXPECT_EQ(plain.status, 0) << plain.err;
  EXPECT_EQ(plain.out + plain.err, "");
  const std::string text = slurp(place / "good.s");
  EXPECT_HAS(text, ".text");
  EXPECT_HAS(text, "# fuses ");
  EXPECT_EQ(runTccIn(place, "-S " + path + " -o other.asm").out, "");
  EXPECT_TRUE(slurp(place / "other.asm") == text);
  EXPECT_TRUE(runTcc("-S -o - " + path).out == text);
  EXPECT_TRUE(runTcc("-emit=asm " + path).out == text) << "-emit= prints";
  const std::string two = file("two.graph", good);
  EXPECT_EQ(runTccIn(place, "-S " + path + " " + two).status, 0);
  EXPECT_HAS(slurp(place / "two.s"), "two.graph:2") << "several inputs have a file each";
  const Result gpu = runTccIn(place, "-S --target=cuda -march=sm_80 " + path);
  if (gpu.status == 0)
    EXPECT_HAS(slurp(place / "good.ptx"), ".version");
  else
    EXPECT_HAS(gpu.err, "NVRTC");
}

TEST(Flags, WhatContradictsIsRefused) {
  const std::string path = file("good.graph", good);
  const std::pair<std::string, std::string> cases[] = {
      {"-c -S", "-c and -S contradict each other"},
      {"-E -fsyntax-only", "-E and -fsyntax-only contradict each other"},
      {"-S --run", "-S stops before anything could run"},
      {"-fsyntax-only --bench", "-fsyntax-only stops before anything could run"},
      {"-g", "-g has no effect to offer"},
      {"-O7", "one of -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast"},
  };
  for (const auto &[flags, message] : cases) {
    const Result result = runTcc(flags + " " + path);
    EXPECT_EQ(result.status, 2) << flags;
    EXPECT_HAS(result.err, message);
    EXPECT_EQ(lines(result.err), 1) << result.err;
  }
  EXPECT_EQ(runTcc("-E -E " + path).status, 0) << "twice the same is no contradiction";
}

TEST(Flags, LevelsOfGccAreTaken) {
  const std::string path = model("layer_norm");
  const auto passes = [&](const std::string &level) { return runTcc("--print-pipeline " + level).out; };
  EXPECT_EQ(passes("-Og"), passes("-O1"));
  EXPECT_EQ(passes("-O"), passes("-O1"));
  EXPECT_EQ(passes("-Oz"), passes("-Os"));
  EXPECT_NE(passes("-O0"), passes("-O2"));
  EXPECT_TRUE(runTcc(path + " -Ofast -emit=asm").out == runTcc(path + " -O3 -ffast-math -emit=asm").out);
  EXPECT_FALSE(runTcc(path + " -Ofast -emit=asm").out == runTcc(path + " -O3 -emit=asm").out);
  EXPECT_TRUE(runTcc(path + " -Ofast -fno-fast-math -emit=asm").out == runTcc(path + " -O3 -emit=asm").out);
}

TEST(Flags, OtherSpellingsMeanTheSame) {
  const std::string path = file("good.graph", good);
  for (const std::string flag : {"-fPIC", "-fpic", "-fPIE", "-fpie"})
    EXPECT_TRUE(runTcc(flag + " -emit=asm " + path).out == runTcc("-emit=asm " + path).out) << flag;
  EXPECT_HAS(runTcc("--verbose " + path).err, "ms  read ");
  EXPECT_HAS(runTcc("-fcolor-diagnostics /no/such.graph").err, "\x1b[");
  EXPECT_LACKS(runTcc("-fcolor-diagnostics -fno-color-diagnostics /no/such.graph").err, "\x1b[");
}

TEST(Flags, NoWarningIsSaid) {
  const std::string path = file("unused.graph", "func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> "
                                                "{\n  %r = tcc.exp %x : tensor<4xf32>\n  func.return %r : "
                                                "tensor<4xf32>\n}\n");
  EXPECT_HAS(runTcc("-fsyntax-only " + path).err, "never used");
  for (const std::string flags : {"-w", "-Wall -w", "-w -Wall", "-w -Werror"}) {
    const Result silent = runTcc("-fsyntax-only " + flags + " " + path);
    EXPECT_EQ(silent.status, 0) << flags;
    EXPECT_EQ(silent.err, "") << flags;
  }
}

TEST(Flags, MachinesAreListed) {
  const Result triple = runTcc("-dumpmachine");
  EXPECT_EQ(triple.status, 0);
  EXPECT_EQ(triple.out.rfind("x86_64", 0), 0u) << triple.out;
  EXPECT_EQ(lines(triple.out), 1);
  const Result targets = runTcc("--print-targets");
  EXPECT_EQ(targets.status, 0);
  for (const char *name : {" native ", " x86-64-v3 ", " znver4", " sm_90a "})
    EXPECT_HAS(targets.out, name);
  EXPECT_EQ(runTcc("-march=help").out, targets.out);
  EXPECT_EQ(runTcc("-march=help --target=cuda").out, targets.out);
}

} // namespace
