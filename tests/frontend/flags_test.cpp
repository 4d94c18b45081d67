// Flags that people bring from gcc and clang: taken as they take them, or refused with what to use instead.
#include "tests/frontend/run_tcc.h"
#include <nlohmann/json.hpp>
#include <regex>

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
      {"-g3", "-g3 has no effect to offer"},
      {"-ggdb", "-ggdb has no effect to offer"},
      {"-gdwarf-4", "-gdwarf-4 has no effect to offer"},
      {"-march=foo",
       "unknown CPU 'foo' of -march= with --target=cpu; a name that -march=help lists, such as x86-64-v3, is"},
      {"-march=x86-64,foo -c", "unknown CPU 'foo' of -march="},
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

/// -Os computes as much again as gives the smallest plan, with the same bits; --remat= goes before it.
TEST(Flags, OsNeedsLeastMemory) {
  std::string chain = "  %s0 = tcc.matmul %x, %w : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>\n";
  for (int i = 0; i < 6; ++i) {
    const std::string from = "%s" + std::to_string(i), to = "%s" + std::to_string(i + 1),
                      act = "%a" + std::to_string(i);
    chain += "  " + act + " = tcc.gelu " + from + " : tensor<256x64xf32>\n  " + to + " = tcc.matmul " + act +
             ", %w : tensor<256x64xf32>, tensor<64x64xf32> -> tensor<256x64xf32>\n";
  }
  const std::string path = file(
      "chain.graph", "func.func @chain(%x: tensor<256x64xf32> {tcc.name = \"x\"}, %w: tensor<64x64xf32> {tcc.name = "
                     "\"w\"}) -> (tensor<f32> {tcc.name = \"loss\"}, tensor<64x64xf32> {tcc.name = \"dw\"}) {\n" +
                         chain +
                         "  %sum = tcc.reduce_sum %s6 axes [0, 1] : tensor<256x64xf32> -> tensor<1x1xf32>\n"
                         "  %loss = tcc.reshape %sum : tensor<1x1xf32> -> tensor<f32>\n"
                         "  %dw = tcc.gradient %loss wrt %w : tensor<f32>, tensor<64x64xf32>\n"
                         "  func.return %loss, %dw : tensor<f32>, tensor<64x64xf32>\n}\n");
  const auto planned = [&](const std::string &flags) {
    const nlohmann::json plan = nlohmann::json::parse(runTcc(path + " -emit=json " + flags).out);
    return plan.at("arena_bytes").get<int64_t>();
  };
  const int64_t least = planned("-Os");
  EXPECT_LT(least, planned("-O2"));
  for (const char *remat : {"none", "auto", "block", "full"})
    EXPECT_LE(least, planned(std::string("--remat=") + remat)) << remat;
  EXPECT_EQ(planned("-Oz"), least);
  EXPECT_HAS(runTcc("-### -Os " + path).err, "\"-Os\"");
  EXPECT_EQ(planned("-Os -O2"), planned("-O2")) << "the last level counts";
  EXPECT_EQ(planned("-Os --remat=none"), planned("-O2"));
  const std::string run = " --run --seed=4 --threads=2 --output dw=";
  ASSERT_EQ(runTcc(path + " -Os" + run + (folder() / "small.npy").string()).status, 0);
  ASSERT_EQ(runTcc(path + " -O2" + run + (folder() / "fast.npy").string()).status, 0);
  EXPECT_TRUE(slurp(folder() / "small.npy") == slurp(folder() / "fast.npy"));
}

/// What --dtype=auto measured is read again; a file that is damaged is one error and stays as it is.
TEST(Flags, TuningIsKept) {
  const std::string path = file("good.graph", good), tuning = (folder() / "project.tcctune").string();
  std::filesystem::remove(tuning);
  const auto run = [&](const std::string &flags) { return runTcc(path + " --tuning=" + tuning + " " + flags); };
  ASSERT_EQ(run("").status, 0);
  const nlohmann::json fresh = nlohmann::json::parse(slurp(tuning));
  EXPECT_EQ(fresh.at("version"), 1);
  EXPECT_TRUE(fresh.at("choices").empty());
  const Result first = run("--dtype=auto");
  ASSERT_EQ(first.status, 0) << first.err;
  nlohmann::json kept = nlohmann::json::parse(slurp(tuning));
  ASSERT_EQ(kept.at("choices").size(), 1u);
  const std::string key = kept["choices"].begin().key(), type = kept["choices"].begin()->at("choice");
  EXPECT_HAS(first.err, "--dtype=auto is " + type);
  EXPECT_HAS(run("--dtype=auto").err, "--dtype=auto is " + type + ", which " + tuning + " has for ");
  // Another choice by the checksum of its own, as another day's measurement would have made it.
  const std::string before = slurp(tuning);
  kept["choices"][key]["choice"] = type == "f32" ? "bf16" : "f32";
  std::ofstream(tuning) << kept.dump();
  for (const char *flags : {"", "--dtype=auto"}) {
    const Result damaged = run(flags);
    EXPECT_EQ(damaged.status, 1) << flags;
    EXPECT_HAS(damaged.err,
               "tuning file `" + tuning + "` is damaged: the checksum of its entry `" + key + "` does not fit");
  }
  EXPECT_EQ(slurp(tuning), kept.dump()) << "it stays for its owner to look at";
  std::ofstream(tuning) << std::regex_replace(before, std::regex("\"version\": 1"), "\"version\": 7");
  EXPECT_HAS(run("").err, "version 7; this runtime reads version 1");
  std::ofstream(tuning) << "no JSON";
  EXPECT_EQ(run("").status, 1);
  EXPECT_EQ(slurp(tuning), "no JSON");
  // Entries for another machine say nothing for this one, and stay in the file.
  std::ofstream(tuning) << std::regex_replace(before, std::regex("on cpu"), "on other");
  EXPECT_EQ(run("").status, 1) << "the checksum is of the key too";
  std::filesystem::remove(tuning);
  EXPECT_EQ(runTcc(path + " --tuning=").status, 2);
  EXPECT_HAS(runTcc(path + " --tuning=/no/such/folder/f").err, "/no/such/folder/f");
  EXPECT_HAS(runTcc(path + " --tuning=" + path).err, "is the same file as");
}

TEST(Flags, OtherSpellingsMeanTheSame) {
  const std::string path = file("good.graph", good);
  for (const std::string flag : {"-fPIC", "-fpic", "-fPIE", "-fpie"})
    EXPECT_TRUE(runTcc(flag + " -emit=asm " + path).out == runTcc("-emit=asm " + path).out) << flag;
  EXPECT_EQ(runTcc("-g0 -ggdb0 -fsyntax-only " + path).status, 0) << "no line tables are what there is";
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
