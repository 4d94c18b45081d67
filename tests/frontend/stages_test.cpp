// What can be seen of a compilation: its phases, -v, -###, -save-temps, -ftime-report, -ftime-trace, remarks, help by
// category, completion, response files.
#include "tests/frontend/run_tcc.h"
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

using namespace tcc::test;

namespace {

TEST(Stages, CommandLinesAreShownAndDoTheSame) {
  const std::string path = file("good.graph", good), two = file("two.graph", good);
  const auto place = folder() / "shown";
  const Result shown = runTccIn(place, "-### -S -O1 -fno-simplify " + path);
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out, "");
  EXPECT_EQ(lines(shown.err), 1) << shown.err;
  for (const char *word :
       {"\"-O1\"", "\"--target=cpu\"", "\"-march=native\"", "\"-fno-simplify\"", "\"--threads=", "\"-o\" \"good.s\""})
    EXPECT_HAS(shown.err, word);
  EXPECT_EQ(shown.err.find("\"-O", shown.err.find("\"-O") + 1), std::string::npos) << "each choice once: " << shown.err;
  EXPECT_FALSE(std::filesystem::exists(place / "good.s")) << "nothing is done";
  ASSERT_EQ(runTccIn(place, "-S -O1 -fno-simplify " + path).status, 0);
  const std::string direct = slurp(place / "good.s");
  std::filesystem::remove(place / "good.s");
  ASSERT_EQ(std::system(("cd '" + place.string() + "' && " + shown.err).c_str()), 0) << shown.err;
  EXPECT_TRUE(slurp(place / "good.s") == direct);
  EXPECT_EQ(lines(runTccIn(place, "-### -c " + path + " " + two).err), 2) << "a line an input";
  EXPECT_HAS(runTcc("-### '" + file("a $b.graph", good) + "'").err, "/a \\$b.graph\"");
  EXPECT_HAS(runTcc("-### --bench 7 " + path).err, "\"--bench=7\"");
  EXPECT_HAS(runTcc("-### -Ofast --target=cuda -fno-fast-math -O1 " + path).err,
             "\"-O1\" \"--target=cuda\" \"-march=native\" \"-ffast-math\" \"-fno-fast-math\" \"--threads=");
}

TEST(Stages, TemporaryFilesAreSaved) {
  const std::string path = file("good.graph", good);
  const auto place = folder() / "temps";
  const Result saved = runTccIn(place, "-save-temps -O1 " + path);
  EXPECT_EQ(saved.status, 0) << saved.err;
  for (const char *stage : {"captured", "joint", "shaped", "fused", "planned"}) {
    const std::string text = slurp(place / ("good." + std::string(stage) + ".graph"));
    EXPECT_TRUE(text == runTcc("-O1 -emit=" + std::string(stage) + " " + path).out) << stage;
    EXPECT_HAS(text, "func.func");
  }
  EXPECT_TRUE(slurp(place / "good.s") == runTcc("-O1 -emit=asm " + path).out);
  EXPECT_TRUE(slurp(place / "good.ll") == runTcc("-O1 -emit=llvm " + path).out);
  EXPECT_TRUE(slurp(place / "good.plan.json") == runTcc("-O1 -emit=json " + path).out);
  EXPECT_EQ(runTccIn(place, "--save-temps=deep/er " + path + " -S -o " + (place / "x.s").string()).status, 0);
  EXPECT_HAS(slurp(place / "deep/er/good.s"), ".text");
  const Result own = runTccIn(place, "-save-temps good.captured.graph -emit=fused -o good.captured.captured.graph");
  EXPECT_EQ(own.status, 1);
  EXPECT_HAS(own.err, "is the same file as");
}

TEST(Stages, TimeIsTraced) {
  const auto place = folder() / "trace";
  const Result traced = runTccIn(place, "-ftime-trace " + model("train_step"));
  ASSERT_EQ(traced.status, 0) << traced.err;
  const nlohmann::json trace = nlohmann::json::parse(slurp(place / "train_step.json"));
  std::set<std::string> passes, names;
  for (const nlohmann::json &event : trace.at("traceEvents")) {
    names.insert(event.at("name"));
    if (event.at("name") == "pass")
      passes.insert(event.at("args").at("detail").get<std::string>());
    if (event.at("ph") == "X") {
      EXPECT_GE(event.at("dur").get<int64_t>(), 0);
    }
  }
  for (const char *name : {"passes", "plan", "code generation", "kernels", "optimize", "machine code", "link"})
    EXPECT_TRUE(names.count(name)) << name;
  EXPECT_TRUE(passes.count("fuse-kernels") && passes.count("autodiff"));
  EXPECT_EQ(runTccIn(place, "-ftime-trace=own.json " + model("layer_norm")).status, 0);
  EXPECT_HAS(slurp(place / "own.json"), "traceEvents");
  const Result both = runTcc("-ftime-trace=a.json " + model("layer_norm") + " " + model("train_step"));
  EXPECT_EQ(both.status, 2);
  EXPECT_HAS(both.err, "-ftime-trace= with several inputs");
}

TEST(Stages, TimesAreJsonToo) {
  const Result result = runTcc("-ftime-report=json -S -o /dev/null " + model("layer_norm"));
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json times = nlohmann::json::parse(result.err);
  EXPECT_EQ(times["input"], model("layer_norm"));
  double all = 0;
  for (const nlohmann::json &pass : times["passes"])
    all += pass["ms"].get<double>();
  EXPECT_GT(all, 0);
  EXPECT_GT(times["passes"].size(), 5u);
  EXPECT_EQ(runTcc("-ftime-report=xml x").status, 2);
}

TEST(Stages, HelpHasCategories) {
  const std::string all = runTcc("--help").out;
  for (const std::string name : {"what", "how", "flags", "targets", "run", "look", "warnings", "about"}) {
    const Result part = runTcc("--help=" + name);
    EXPECT_EQ(part.status, 0) << name;
    EXPECT_GT(lines(part.out), 2) << name;
    EXPECT_HAS(all, part.out);
  }
  const Result unknown = runTcc("--help=warning");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_HAS(unknown.err, "did you mean 'warnings'?");
}

TEST(Stages, WordsAreCompleted) {
  const auto complete = [](const std::string &word) { return "\n" + runTcc("--autocomplete=" + word).out; };
  EXPECT_HAS(complete("--be"), "\n--bench\n--bench=\n");
  EXPECT_EQ(complete("-fno-simp"), "\n-fno-simplify\n");
  EXPECT_EQ(complete("-emit=fu"), "\n-emit=fused\n");
  EXPECT_HAS(complete("-march=x86"), "\n-march=x86-64-v3\n");
  EXPECT_HAS(complete("-Wno-"), "\n-Wno-stale-state\n");
  EXPECT_EQ(complete("-zzz"), "\n");
  EXPECT_EQ(complete("-gg"), "\n-ggdb0\n") << "what is refused is not offered";
  std::istringstream each(runTcc("--autocomplete=-").out);
  int count = 0;
  for (std::string word; std::getline(each, word); ++count)
    EXPECT_EQ(word.rfind("-", 0), 0u) << word;
  EXPECT_GT(count, 100);
}

/// Every option that help shows is one: what is refused has another reason than that it is unknown.
TEST(Stages, EveryOptionOfHelpExists) {
  const std::string path = file("good.graph", good);
  std::istringstream help(runTcc("--help").out);
  int seen = 0;
  for (std::string line; std::getline(help, line);) {
    if (line.rfind("  -", 0) != 0)
      continue;
    const std::string word = line.substr(2, line.find(' ', 2) - 2);
    if (word == "--cache-clear" || word == "--calibrate" || word == "--doctor" || word == "--cache-stats" ||
        word == "-f[no-]PASS")
      continue; // they act on the machine, with tests of their own; a form
    const std::string said = runTccIn(folder() / "help", "-fsyntax-only '" + word + "' " + path).err; // it may write
    EXPECT_LACKS(said, "unknown option");
    ++seen;
  }
  EXPECT_GT(seen, 70);
}

TEST(Stages, ResponseFilesAreRead) {
  const std::string path = file("good.graph", good), inner = file("inner.args", "-emit=fused\n"),
                    spaces = file("a b.graph", good);
  const std::string direct = runTcc("-O1 -emit=fused " + path).out;
  EXPECT_HAS(direct, "tcc.kernel");
  EXPECT_TRUE(runTcc("@" + file("outer.args", "-O1 @" + inner + "\n" + path)).out == direct) << "one within another";
  EXPECT_EQ(runTcc("@" + file("quoted.args", "-fsyntax-only '" + spaces + "'")).status, 0);
  EXPECT_EQ(runTcc("@" + file("escaped.args", "-fsyntax-only \"" + spaces + "\"")).status, 0);
  const Result loop = runTcc("@" + file("loop.args", "@" + (folder() / "loop.args").string()));
  EXPECT_EQ(loop.status, 2);
  EXPECT_EQ(lines(loop.err), 1) << loop.err;
  const Result none = runTcc("@/no/such.args " + path);
  EXPECT_EQ(none.status, 2);
  EXPECT_HAS(none.err, "cannot read response file '/no/such.args'");
}

TEST(Stages, PrintsEachPhase) {
  const std::string path = model("train_step");
  EXPECT_HAS(runTcc(path + " -emit=captured").out, "tcc.gradient");
  const Result joint = runTcc(path + " -emit=joint");
  EXPECT_LACKS(joint.out, "tcc.gradient");
  EXPECT_LACKS(joint.out, "tcc.cross_entropy");
  EXPECT_HAS(runTcc(path + " -emit=fused").out, "tcc.kernel");
  EXPECT_HAS(runTcc(path + " -emit=planned").out, "tcc.kernel");
  EXPECT_HAS(runTcc(path + " -emit=json").out, "\"instructions\"");
  EXPECT_HAS(runTcc(path + " -emit=llvm").out, "define ");
  EXPECT_HAS(runTcc(path + " -emit=asm").out, ".text");
  EXPECT_HAS(runTcc(model("mlp") + " --shape=x:3x64 -emit=shaped").out, "tensor<3x10xf32>");
  const Result pipeline = runTcc("--print-pipeline");
  for (const char *pass : {"decompose", "autodiff", "simplify", "fuse-kernels", "plan-memory"})
    EXPECT_HAS(pipeline.out, pass);
}

TEST(Stages, SaysWhatItDoesAndHowLongItTakes) {
  const Result verbose = runTcc("-v " + model("layer_norm") + " --threads=1 --run");
  for (const char *part : {"ms  read ", "parsed @layer_norm: 4 arguments", "target cpu, -march=native (",
                           "-O2, 1 threads", " passes in ", "made code for ", "loaded for 1 threads"})
    EXPECT_HAS(verbose.err, part);
  const Result times = runTcc("-ftime-report " + model("layer_norm"));
  for (const char *part : {"all passes", "code generation", "%    plan\n", "%    machine code of 2 kernels\n"})
    EXPECT_HAS(times.err, part);
  EXPECT_HAS(runTcc("-emit=asm " + model("layer_norm")).out, "# fuses ") << "what each kernel is";
  const std::string json = runTcc("-emit=json " + model("layer_norm")).out;
  EXPECT_HAS(json, "\n  \"");
  size_t longest = 0, begin = 0;
  for (size_t at = json.find('\n'); at != std::string::npos; begin = at + 1, at = json.find('\n', begin))
    longest = std::max(longest, at - begin);
  EXPECT_LT(longest, 200u) << "a line an element";
}

TEST(Stages, ADearRemarkIsShownAndTheRestCounted) {
  std::string text = "func.func @f(%x: tensor<8x8xf32>) -> (", results, types;
  for (int i = 0; i < 13; ++i) {
    types += std::string(i ? ", " : "") + "tensor<8x8xf32>";
    results += std::string(i ? ", " : "") + "%b" + std::to_string(i);
  }
  text += types + ") {\n";
  for (int i = 0; i < 13; ++i) {
    const std::string n = std::to_string(i), type = "tensor<8x8xf32>";
    text += "  %a" + n + " = tcc.matmul %x, %x : " + type + ", " + type + " -> " + type + "\n  %b" + n +
            " = tcc.gelu %a" + n + " : " + type + "\n";
  }
  const std::string path = file("many.graph", text + "  func.return " + results + " : " + types + "\n}\n");
  const std::string dearest = runTcc(path + " -O1 -fno-simplify -Rpass-missed").err;
  const std::string each = runTcc(path + " -O1 -fno-simplify -Rpass-missed=all").err;
  const size_t all = countOf(each, ": remark: ");
  EXPECT_GE(all, 13u) << each;
  EXPECT_EQ(countOf(dearest, ": remark: "), 10u) << dearest;
  EXPECT_HAS(dearest, "note: " + std::to_string(all - 10) + " more, which together cost ");
  EXPECT_HAS(dearest, "; -Rpass-missed=all shows each\n");
  EXPECT_LACKS(each, " more, which");
}

} // namespace
