// The command line, by running the built program: exit statuses, messages, what goes to stdout.
#include "tests/frontend/run_tcc.h"
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

using namespace tcc::test;

namespace {

TEST(Driver, HelpBeginsWithExamples) {
  const Result help = runTcc("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_LT(help.out.find("Examples:"), help.out.find("USAGE:"));
  EXPECT_LACKS(help.out, "OVERVIEW");
  for (const char *option : {"-O", "--run", "--bench", "--shape=", "-fverify-each", "--print-pipeline", "--doctor"})
    EXPECT_HAS(help.out, option);
  EXPECT_EQ(runTcc("-h").out, help.out);
}

TEST(Driver, Versions) {
  EXPECT_HAS(runTcc("--version").out, "LLVM 22");
  EXPECT_EQ(runTcc("-dumpversion").out, TCC_VERSION "\n");
  const Result doctor = runTcc("--doctor");
  EXPECT_EQ(doctor.status, 0);
  EXPECT_HAS(doctor.out, "threads");
}

/// TCC_CPU hides features from code, matmuls and checks of artefacts alike. The levels that this CPU lacks are
/// skipped.
TEST(Driver, AnEnvironmentVariableHidesWhatTheCpuHas) {
  const std::string graph = model("layer_norm"), step = (folder() / "level.tcc").string();
  for (const std::string level : {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    const std::string environment = "TCC_CPU=" + level;
    const Result doctor = runTcc("--doctor", environment);
    if (doctor.status == 2) {
      EXPECT_HAS(doctor.err, "error: TCC_CPU=" + level + " asks for what this CPU lacks: ");
      EXPECT_EQ(runTcc(graph + " --run", environment).err, doctor.err) << "the same at every place";
      continue;
    }
    EXPECT_HAS(doctor.out, "TCC_CPU=" + level + " hides what else it has");
    EXPECT_EQ(doctor.out.find("avx2") != std::string::npos, level >= "x86-64-v3") << doctor.out;
    EXPECT_EQ(doctor.out.find("avx512f") != std::string::npos, level >= "x86-64-v4") << doctor.out;
    EXPECT_LACKS(doctor.out, "amx");
    EXPECT_HAS(runTcc(graph + " -v --run", environment).err, "-march=native (" + level + ")");
    EXPECT_EQ(runTcc(graph + " -emit=asm", environment).out, runTcc(graph + " -emit=asm -march=" + level).out) << level;
    EXPECT_EQ(runTcc(graph + " --run", environment).status, 0);
  }
  const Result native = runTcc("--doctor", "TCC_CPU=native");
  EXPECT_EQ(native.out, runTcc("--doctor").out);
  EXPECT_LACKS(native.out, "hides");

  // Code for more than what is shown is made, and not run.
  ASSERT_EQ(runTcc(graph + " -march=x86-64-v3 -o " + step, "TCC_CPU=x86-64").status, 0);
  const Result refused = runTcc(step + " --run", "TCC_CPU=x86-64");
  EXPECT_EQ(refused.status, 1);
  EXPECT_HAS(refused.err, "this CPU, shown as x86-64 by TCC_CPU, lacks sse4.2, popcnt, avx, avx2");

  const std::string all[] = {"--doctor", "--calibrate", "-fsyntax-only " + graph, graph + " --run"};
  for (const std::string &arguments : all) {
    const Result wrong = runTcc(arguments, "TCC_CPU=x86-64-v9");
    EXPECT_EQ(wrong.status, 2) << arguments;
    EXPECT_EQ(wrong.out, "");
    EXPECT_HAS(wrong.err, "error: TCC_CPU=x86-64-v9 is no level of x86-64; x86-64, x86-64-v2, x86-64-v3");
    EXPECT_EQ(lines(wrong.err), 1);
  }
  EXPECT_EQ(runTcc("--version", "TCC_CPU=x86-64-v9").status, 0);
}

/// The interpreter needs the first passes alone; what -fverify-each asks for is done for all of them all the same.
TEST(Driver, PassesAndCodeAreVerifiedBesideTheInterpreter) {
  const std::string graph = model("mlp") + " --shape=x:4x64 --no-cache -fdump-ir=plan-memory ";
  EXPECT_LACKS(runTcc(graph + "--run=reference").err, "plan-memory");
  const Result verified = runTcc(graph + "-fverify-each --run=reference");
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_HAS(verified.err, "plan-memory");
  EXPECT_EQ(verified.out, runTcc(model("mlp") + " --shape=x:4x64 --run=reference").out);
}

TEST(Driver, OnlyMatmulsOfF32MayBeRoundedToTf32) {
  const std::string graph = model("mlp") + " --shape=x:4x64 --no-cache -emit=json ";
  const auto rounded = [&](const std::string &arguments) {
    std::vector<bool> all;
    const nlohmann::json plan = nlohmann::json::parse(runTcc(graph + arguments).out);
    for (const nlohmann::json &instruction : plan["instructions"])
      if (instruction["op"] == "matmul")
        all.push_back(instruction["product"]["tf32"]);
    EXPECT_FALSE(all.empty()) << arguments;
    return std::ranges::count(all, true) == 0 ? "none" : std::ranges::count(all, false) == 0 ? "all" : "some";
  };
  EXPECT_STREQ(rounded("--target=cuda -march=sm_80 --dtype=tf32"), "all");
  EXPECT_STREQ(rounded("--target=cuda -march=sm_80"), "none");
  EXPECT_STREQ(rounded("--target=cuda -march=sm_80 --dtype=tf32 --dtype=bf16"), "none");
  EXPECT_STREQ(rounded("--target=cuda -march=sm_75 --dtype=tf32"), "none") << "it has no TF32";
  EXPECT_STREQ(rounded("--dtype=tf32"), "none");
}

TEST(Driver, ATypeThatGainsNothingIsSaidToGainNothing) {
  const std::string graph = model("mlp"), environment = "TCC_CPU=x86-64 XDG_CACHE_HOME='" + folder().string() + "'";
  for (const std::string type : {"bf16", "f16"}) {
    const std::string arguments = graph + " -fsyntax-only --dtype=" + type;
    const Result warned = runTcc(arguments, environment);
    EXPECT_EQ(warned.status, 0);
    EXPECT_EQ(warned.err, "tcc: warning: --dtype=" + type + " gains no speed: cpu has no instructions that multiply " +
                              type + ", its products are widened to f32 [-Wslow-dtype] [TCC0405]\n");
    EXPECT_EQ(runTcc(arguments + " -Wno-slow-dtype", environment).err, "");
    const Result refused = runTcc(arguments + " -Werror=slow-dtype", environment);
    EXPECT_EQ(refused.status, 1);
    EXPECT_HAS(refused.err, "f32 [-Werror=slow-dtype]");
  }
  EXPECT_HAS(runTcc(graph + " -fsyntax-only --dtype=bf16 -march=x86-64-v3").err,
             "speed: cpu:x86-64-v3 has no instructions");
  EXPECT_EQ(runTcc(graph + " -fsyntax-only --dtype=bf16 --target=cuda -Werror").err, "");
  EXPECT_HAS(runTcc(graph + " -fsyntax-only --dtype=tf32").err,
             "--dtype=tf32 changes nothing: cpu has no TF32, its products are those of f32 [-Wslow-dtype]");
  EXPECT_HAS(runTcc(graph + " -fsyntax-only --dtype=tf32 --target=cuda -march=sm_75").err, "cuda:sm_75 has no TF32");
  EXPECT_EQ(runTcc(graph + " -fsyntax-only --dtype=tf32 --target=cuda -march=sm_80 -Werror").err, "");
  EXPECT_EQ(runTcc(graph + " -fsyntax-only --dtype=auto", environment).err,
            "tcc: --dtype=auto is f32, since cpu multiplies neither bf16 nor f16 faster\n");

  const Result doctor = runTcc("--doctor", environment);
  EXPECT_HAS(doctor.out, "  ok       f32 products  ");
  EXPECT_HAS(doctor.out, "f16 products  widened to f32\n");
  EXPECT_LACKS(doctor.out, " 0.0 GFLOP/s");
  const size_t row = doctor.out.find("bf16 products ");
  ASSERT_NE(row, std::string::npos) << doctor.out;
  const std::string text = doctor.out.substr(row, doctor.out.find('\n', row) - row);
  if (doctor.out.find("  ok       bf16 products") != std::string::npos) {
    EXPECT_HAS(text, " GFLOP/s by ");
    EXPECT_HAS(text, ", no faster than f32");
  }
}

TEST(Driver, AGraphComesThroughAPipe) {
  const Result piped = runTcc("-emit=captured /dev/stdin", "cat '" + file("piped.graph", good) + "' |");
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_HAS(piped.out, "tcc.gelu");
}

TEST(Driver, UsageErrorsExitWith2) {
  const std::string path = file("good.graph", good);
  const std::pair<std::string, std::string> cases[] = {
      {"", "no input file"},
      {"--bensh " + path, "did you mean '--bench'"},
      {"-emit=fusd " + path, "did you mean 'fused'"},
      {"-fsimplfy " + path, "did you mean '-fsimplify'"},
      {"-fno-simplfy " + path, "did you mean '-fno-simplify'"},
      {"-O7 " + path, "-O7"},
      {"--shape=x " + path, "NAME:16x256"},
      {"--dtype=f64 " + path, "one of f32 tf32 bf16"},
      {"--shape=x:4xq " + path, "no number"},
      {"--run=soon " + path, "no number"},
      {"--target=tpu " + path, "unknown target 'tpu' (cpu or cuda)"},
      {"--target=cuda -march=x86-64-v3 " + path, "an architecture such as sm_90a is expected"},
      {"-march=sm_90a " + path, "names a GPU"},
      {"--target=cuda -emit=asm " + path, "-emit=cuda prints the kernels"},
      {"-x python " + path, "python"},
      {"-o", "needs a value"},
      {"-o out " + path + " " + path, "several inputs"},
      {"--run -emit=fused " + path, "do not go together"},
      {"--run -o a.tcc " + path, "-o with --run"},
      {"-o a -o b " + path, "-o is given twice: 'a' and 'b'"},
      {"-o '' " + path, "-o with an empty name"},
      {"-march= " + path, "-march= without a CPU"},
      {"-emit= " + path, "-emit= without a kind"},
      {"--run --profile=p.json " + path + " " + path, "--profile= with several inputs"},
      {"--run --output y=p.npy " + path + " " + path, "--output with several inputs"},
      {"--input x=a.npy " + path, "--run"},
      {"--output y=a.npy " + path, "--run"},
      {"--run --input x=a.npy --input=x=b.npy " + path, "'x' twice"},
      {"--run --output y=a.npy --output=y=b.npy " + path, "'y' twice"},
      {"--run --output y " + path, "NAME=FILE.npy"},
      {"-fdiagnostics-color=pink " + path, "pink"},
      {"-fdump-ir=simplfy " + path, "unknown pass 'simplfy' to dump after; 'all', 'changed' or a pass of"},
      {"--seed=3 " + path, "--seed= without --run, --bench, --ablate or --graph-breaks"},
  };
  for (const auto &[arguments, message] : cases) {
    const Result result = runTcc(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_HAS(result.err, "tcc: error: ");
    EXPECT_HAS(result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST(Driver, NoAbsurdGuesses) {
  const std::string path = file("good.graph", good);
  for (const std::string option : {"-q", "--zzz", "-j8"}) {
    const Result result = runTcc(option + " " + path);
    EXPECT_EQ(result.status, 2) << option;
    EXPECT_HAS(result.err, "unknown option '" + option + "' [");
  }
  const Result op = runTcc(file("foo.graph", "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %r = tcc.foo %x : "
                                             "tensor<4xf32>\n  func.return %r : tensor<4xf32>\n}\n"));
  EXPECT_HAS(op.err, "unknown op 'tcc.foo' [");
}

TEST(Driver, OtherFilesAreOneError) {
  for (const std::string text :
       {"import torch\n\nclass Model(torch.nn.Module):\n    pass\n",
        "#!/usr/bin/env python3\nx = {\"a\": 1}\nprint(x)\n", "{\"model_type\": \"gpt2\"}\n"}) {
    const Result result = runTcc(file("other.graph", text));
    EXPECT_EQ(result.status, 1);
    EXPECT_HAS(result.err, "other.graph:1:1: error: the text holds no func.func");
    EXPECT_EQ(result.err.find("error: "), result.err.rfind("error: ")) << result.err;
  }
  std::string bytes = "PK\3\4";
  for (int i = 0; i < 1000; ++i)
    bytes += static_cast<char>(i * 37 % 256);
  const Result binary = runTcc(file("other.graph", bytes));
  EXPECT_EQ(binary.status, 1);
  EXPECT_HAS(binary.err, "other.graph: error: the file is binary");
  // Bytes that are no text are not shown where a line is.
  const Result line = runTcc(file("line.graph", "func.func @f() {\n  \"\xff\xfe\x9b\" %x\n}\n"));
  EXPECT_EQ(line.status, 1);
  for (const Result &said : {binary, line})
    for (const char c : said.err)
      EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << said.err;
}

TEST(Driver, NumbersMayStandBehindRunAndBench) {
  const std::string path = file("good.graph", good);
  EXPECT_HAS(runTcc(path + " --threads=1 --bench 3").out, "of 3 runs");
  EXPECT_HAS(runTcc("--bench 3 --threads=1 " + path).out, "of 3 runs");
  EXPECT_EQ(runTcc(path + " --threads=1 --run 2").out, runTcc(path + " --threads=1 --run=2").out);
  EXPECT_EQ(runTcc(path + " --threads=1 --bench 0").status, 2);
}

TEST(Driver, DiagnosedErrorsExitWith1) {
  EXPECT_HAS(runTcc("@/no/such/file").err, "/no/such/file");
  const Result missing = runTcc("/no/such.graph");
  EXPECT_EQ(missing.status, 1);
  EXPECT_HAS(missing.err, "cannot read '/no/such.graph'");

  const std::string path =
      file("bad.graph", "func.func @f(%x: tensor<4xf32>) {\n  %r = tcc.gelo %x : tensor<4xf32>\n}\n");
  const Result unknown = runTcc(path);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_HAS(unknown.err, path + ":2:8: error: ");
  EXPECT_HAS(unknown.err, "\n  %r = tcc.gelo %x : tensor<4xf32>\n       ^~~~~~~~\n");
  EXPECT_HAS(unknown.err, "did you mean 'tcc.gelu'?");

  const Result deep = runTcc(file("deep.graph", std::string(100000, '(')));
  EXPECT_EQ(deep.status, 1);
  EXPECT_HAS(deep.err, ":1:257: error: brackets are nested deeper than 256");

  const Result open = runTcc(model("mlp") + " --threads=1 --run");
  EXPECT_EQ(open.status, 1) << "a '?' without --shape";
  EXPECT_HAS(open.err, "--shape=x:");
  EXPECT_LACKS(open.err, "see current operation");
  const Result shape = runTcc(model("mlp") + " --shape=xx:3x64");
  EXPECT_EQ(shape.status, 1);
  EXPECT_HAS(shape.err, "--shape=xx: there is no such argument; did you mean 'x'?");
  EXPECT_EQ(runTcc(path + " " + file("good.graph", good)).status, 1) << "one bad input of two";
  const Result name = runTcc(file("good.graph", good) + " --threads=1 --run --input w=a.npy");
  EXPECT_EQ(name.status, 1);
  EXPECT_HAS(name.err, "no such argument");
}

TEST(Driver, ColourIsAskedFor) {
  EXPECT_LACKS(runTcc("/no/such.graph").err, "\x1b[");
  EXPECT_HAS(runTcc("-fdiagnostics-color=always /no/such.graph").err, "\x1b[");
  EXPECT_LACKS(runTcc("/no/such.graph", "NO_COLOR=1").err, "\x1b[");
}

TEST(Driver, SyntaxOnlyAndEchoAreQuietOtherwise) {
  const std::string path = file("good.graph", good);
  const Result checked = runTcc("-fsyntax-only " + path);
  EXPECT_EQ(checked.status, 0);
  EXPECT_EQ(checked.out + checked.err, "");
  const Result echoed = runTcc("-E " + path);
  EXPECT_EQ(echoed.status, 0);
  EXPECT_HAS(echoed.out, "tcc.gelu");
  EXPECT_EQ(runTcc("-E " + file("again.graph", echoed.out)).out, echoed.out);
  EXPECT_EQ(runTcc("-E -x graph - <" + path).out, echoed.out);
  EXPECT_EQ(runTcc("@" + file("args", "-E\n" + path)).out, echoed.out);
  EXPECT_EQ(runTcc("-E -o " + (folder() / "echo").string() + " " + path).out, "");
  EXPECT_EQ(slurp(folder() / "echo"), echoed.out);
}

TEST(Driver, CompilesAndSummarises) {
  const Result result = runTcc(model("layer_norm") + " -O3");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, " kernels");
  EXPECT_HAS(result.out, "matrix products");
  EXPECT_HAS(result.out, "planned");
  const auto artefact = folder() / "model.tcc";
  EXPECT_EQ(runTcc(model("layer_norm") + " -o " + artefact.string()).status, 0);
  EXPECT_EQ(slurp(artefact).substr(0, 6), "tccart");
  const Result report =
      runTcc(model("layer_norm") + " -ftime-report -fdump-ir=changed -fdump-dir=" + folder().string());
  EXPECT_HAS(report.err, "fuse-kernels");
  EXPECT_HAS(slurp(folder() / "layer_norm.ir"), "fuse-kernels");
}

/// The numbers of "name: type[shape] … first a b c d" lines, by name.
double scalarOf(const std::string &text, const std::string &name) {
  const size_t at = text.find(name + ": ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + text.find("] ", at) + 2);
}

TEST(Driver, RunsLikeTheReference) {
  const Result compiled = runTcc(model("train_step") + " --threads=1 --run"),
               plain = runTcc(model("train_step") + " --threads=1 --run -O0"),
               reference = runTcc(model("train_step") + " --run=reference");
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_EQ(reference.status, 0) << reference.err;
  const double loss = scalarOf(reference.out, "loss");
  EXPECT_GT(loss, 1) << reference.out;
  EXPECT_NEAR(scalarOf(compiled.out, "loss"), loss, 1e-4 * loss);
  EXPECT_NEAR(scalarOf(plain.out, "loss"), loss, 1e-4 * loss);
  EXPECT_HAS(compiled.out, "table: f32[256, 32]");
  EXPECT_EQ(runTcc(model("train_step") + " --threads=1 --run").out, compiled.out) << "the same bits run to run";
  EXPECT_NE(runTcc(model("train_step") + " --threads=1 --run --seed=5").out, compiled.out);
}

TEST(Driver, TrainsAndTimes) {
  const Result trained = runTcc(model("train_step") + " --threads=1 --run=30");
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_LT(std::atof(trained.out.c_str() + trained.out.find("run 30: loss ") + 13),
            std::atof(trained.out.c_str() + trained.out.find("run 1: loss ") + 12));
  const auto profile = folder() / "profile.json";
  const Result timed = runTcc(model("attention") + " --threads=1 --bench=3 --profile=" + profile.string());
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_HAS(timed.out, "ms median");
  const std::string trace = slurp(profile);
  EXPECT_HAS(trace, "traceEvents");
  EXPECT_HAS(trace, "\"" + model("attention") + "\"");
  // What runs before it is left out: cold, it would show the first touch of the memory.
  EXPECT_EQ(runTcc(model("attention") + " --threads=1 --run=2 --bench=3 --profile=" + profile.string()).status, 0);
  const std::string again = slurp(profile);
  for (const char *category : {"\"cat\":\"step\"", "\"cat\":\"kernel\"", "\"cat\":\"matmul\""})
    EXPECT_EQ(countOf(again, category), countOf(trace, category)) << category;
  EXPECT_EQ(countOf(trace, "\"cat\":\"step\""), 3u);
}

TEST(Driver, EachPassKeepsTheMeaning) {
  const Result result = runTcc(model("attention") + " -fverify-each -emit=planned");
  EXPECT_EQ(result.status, 0) << result.err;
}

TEST(Driver, ACrashLeavesAReproducerAndExitsWith70) {
  const std::string log = (folder() / "err").string();
  // The signal comes once, when the summary says that the graph is compiled.
  const std::string command = "TMPDIR='" + folder().string() + "' '" TCC_PROGRAM "' " + model("train_step") +
                              " --threads=1 --bench=100000000 >/dev/null 2>'" + log +
                              "' & tcc=$!; for i in $(seq 600); do grep -q kernels '" + log +
                              "' && break; sleep 0.05; done; kill -SEGV $tcc; wait $tcc";
  const int status = std::system(command.c_str());
  EXPECT_EQ(WEXITSTATUS(status), 70);
  const std::string err = slurp(log);
  EXPECT_HAS(err, "internal error");
  const size_t at = err.find(folder().string());
  ASSERT_NE(at, std::string::npos) << err;
  const std::string path = err.substr(at, err.find('\n', at) - at), text = slurp(path);
  EXPECT_HAS(text, "--bench=100000000");
  EXPECT_EQ(runTcc("-fsyntax-only " + path).status, 0) << "the reproducer is a graph again";
}

/// A .npy file of format 1.0 as NumPy writes it: `header` padded, then `data`.
std::string npyText(std::string header, const std::string &data) {
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header + data;
}
std::string npyText(const std::string &descr, const std::string &shape, const std::string &data) {
  return npyText("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }", data);
}
template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

TEST(Driver, TakesInputsFromNpyFiles) {
  const std::string path = file("good.graph", good);
  const std::string npy = npyText("<f4", "(4, 8)", std::string(32 * 4, '\0'));
  const std::string zero = file("zero.npy", npy);
  const Result result = runTcc(path + " --threads=1 --run --input x=" + zero);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "y: f32[4, 8] mean 0 min 0 max 0");
  for (size_t length : {size_t{0}, size_t{5}, size_t{9}, size_t{60}, npy.size() - 1}) {
    const Result cut = runTcc(path + " --threads=1 --run --input x=" + file("cut.npy", npy.substr(0, length)));
    EXPECT_EQ(cut.status, 1) << length;
    EXPECT_HAS(cut.err, "cut.npy");
  }
}

TEST(Driver, WritesResultsAndStatesAsNpyFiles) {
  const std::string graph = file("types.graph", R"(func.func @f(%x: tensor<2x3xf32> {tcc.name = "x"},
               %n: tensor<3xi32> {tcc.name = "n", tcc.state}, %k: tensor<2xi64> {tcc.name = "k"})
    -> (tensor<2x3xf32> {tcc.name = "y"}, tensor<3xi32> {tcc.updates = "n"}, tensor<2x3xbf16> {tcc.name = "narrow"},
        tensor<2x3xf16> {tcc.name = "half"}, tensor<2x3xi1> {tcc.name = "flag"}, tensor<f32>, tensor<2xi64>) {
  %y = tcc.add %x, %x : tensor<2x3xf32>
  %next = tcc.add %n, %n : tensor<3xi32>
  %narrow = tcc.cast %x : tensor<2x3xf32> -> tensor<2x3xbf16>
  %half = tcc.cast %x : tensor<2x3xf32> -> tensor<2x3xf16>
  %flag = tcc.is_finite %x : tensor<2x3xf32> -> tensor<2x3xi1>
  %c = tcc.constant dense<2.5> : tensor<f32>
  func.return %y, %next, %narrow, %half, %flag, %c, %k
      : tensor<2x3xf32>, tensor<3xi32>, tensor<2x3xbf16>, tensor<2x3xf16>, tensor<2x3xi1>, tensor<f32>, tensor<2xi64>
}
)");
  const std::vector<float> x = {0.5f, -1, 2, 1e-3f, 7, INFINITY}, y = {1, -2, 4, 2e-3f, 14, INFINITY};
  const std::vector<int32_t> n = {3, -4, 1 << 20}, thrice = {24, -32, 1 << 23};
  const std::vector<int64_t> k = {(int64_t{1} << 40) + 1, -7};
  const std::string values = " --input x=" + file("x.npy", npyText("<f4", "(2, 3)", bytesOf(x))) +
                             " --input n=" + file("n.npy", npyText("<i4", "(3,)", bytesOf(n))) +
                             " --input k=" + file("k.npy", npyText("<i8", "(2,)", bytesOf(k)));
  const auto at = [](const std::string &name) { return (folder() / name).string(); };
  std::string outputs;
  for (const char *name : {"y", "n", "narrow", "half", "flag", "result4", "result5"})
    outputs += " --output " + std::string(name) + "=" + at(std::string(name) + ".out");
  for (const std::string mode : {" --threads=1 --run=3", " --run=reference"}) {
    const Result result = runTcc(graph + mode + values + outputs);
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_EQ(slurp(at("y.out")), npyText("<f4", "(2, 3)", bytesOf(y)));
    EXPECT_EQ(
        slurp(at("n.out")),
        npyText("<i4", "(3,)", bytesOf(mode == " --run=reference" ? std::vector<int32_t>{6, -8, 1 << 21} : thrice)))
        << "the state after the last run";
    EXPECT_EQ(slurp(at("narrow.out")).size(), npyText("<f4", "(2, 3)", bytesOf(y)).size()) << "bf16 is widened";
    EXPECT_EQ(slurp(at("half.out")).size(), npyText("<f2", "(2, 3)", std::string(12, 'x')).size());
    EXPECT_EQ(slurp(at("flag.out")), npyText("|b1", "(2, 3)", std::string("\1\1\1\1\1\0", 6)));
    EXPECT_EQ(slurp(at("result4.out")), npyText("<f4", "()", bytesOf(std::vector<float>{2.5f})));
    EXPECT_EQ(slurp(at("result5.out")), npyText("<i8", "(2,)", bytesOf(k)));
  }
  const Result unknown = runTcc(graph + " --threads=1 --run --output narow=" + at("no.out"));
  EXPECT_EQ(unknown.status, 1);
  EXPECT_HAS(unknown.err, "did you mean 'narrow'?");
  EXPECT_FALSE(std::filesystem::exists(at("no.out")));
  EXPECT_EQ(runTcc(graph + " --threads=1 --run --output y=" + at("no/such.npy")).status, 1);
}

TEST(Driver, AGivenInputFixesTheOpenSizes) {
  const std::string x = file("x.npy", npyText("<f4", "(3, 64)", std::string(3 * 64 * 4, '\0')));
  const Result run = runTcc(model("mlp") + " --threads=1 --run --input x=" + x);
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_HAS(run.out, "logits: f32[3, 10]");
  const Result against = runTcc(model("mlp") + " --shape=x:4x64 --run --input x=" + x);
  EXPECT_EQ(against.status, 1);
  EXPECT_HAS(against.err, "has shape [3, 64]; 'x' is 4x64 by --shape");
  const Result wrong =
      runTcc(model("mlp") + " --run --input x=" + file("y.npy", npyText("<f4", "(3, 63)", std::string(756, '\0'))));
  EXPECT_HAS(wrong.err, "has shape [3, 63]; 'x' is ?x64");
  EXPECT_LACKS(wrong.err, "compiled in");
  const std::string huge = file("huge.npy", npyText("<f8", "(4, 8)", bytesOf(std::vector<double>(32, 1e300))));
  const Result infinite = runTcc(file("good.graph", good) + " --run --input x=" + huge);
  EXPECT_EQ(infinite.status, 1);
  EXPECT_HAS(infinite.err, "element 0 is 1e+300, which is beyond the range of f32");
}

TEST(Driver, AnArtefactSaysWhatItHoldsAndRuns) {
  const std::string path = (folder() / "step.tcc").string(), out = (folder() / "loss.npy").string();
  ASSERT_EQ(runTcc(model("train_step") + " --threads=1 -o " + path).status, 0);
  const Result said = runTcc(path);
  EXPECT_EQ(said.status, 0) << said.err;
  for (const char *part : {"artefact for 1 target", "matrix products", "inputs: 4", "    tokens: i32[64]",
                           "    table: f32[256, 32]", "results: 1", "    loss: f32[]"})
    EXPECT_HAS(said.out, part);
  const Result run = runTcc(path + " --threads=1 --run=3 --output loss=" + out),
               direct = runTcc(model("train_step") + " --threads=1 --run=3");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, direct.out) << "the same random values for the same bits";
  EXPECT_EQ(slurp(out).substr(1, 5), "NUMPY");
  EXPECT_HAS(runTcc(path + " --threads=1 --bench=2").out, "ms median");
  EXPECT_HAS(runTcc(path + " -emit=json").out, "\"instructions\"");
  EXPECT_EQ(runTcc("-fsyntax-only " + path).out, "");

  EXPECT_HAS(runTcc(path + " --run --output los=" + out).err, "did you mean 'loss'?");
  EXPECT_HAS(runTcc(path + " --run --input token=x.npy").err, "did you mean 'tokens'?");
  const std::pair<std::string, std::string> refused[] = {{"-emit=fused", "only -emit=json"},
                                                         {"--run=reference", "not the reference interpreter"},
                                                         {"--shape=tokens:4", "its sizes are fixed"},
                                                         {"-o x.tcc", "-o for a library (.so, .a, .o)"}};
  for (const auto &[option, message] : refused) {
    const Result result = runTcc(path + " " + option);
    EXPECT_EQ(result.status, 1) << option;
    EXPECT_HAS(result.err, "is compiled already; it takes");
    EXPECT_HAS(result.err, message);
  }
  for (const std::string flag : {"-O0", "-O2", "-fno-simplify", "--dtype=bf16", "-Rpass-missed"}) {
    const Result result = runTcc(path + " --threads=1 --run " + flag);
    EXPECT_EQ(result.status, 1) << flag;
    EXPECT_HAS(result.err, "is compiled already; " + flag + " says how to compile");
  }
  const Result memory = runTcc(path + " -fmemory-report"),
               planned = runTcc(model("train_step") + " --threads=1 -emit=memory");
  EXPECT_EQ(memory.status, 0) << memory.err;
  EXPECT_EQ(memory.err, planned.out);
  const std::string bytes = slurp(path);
  const Result cut = runTcc(file("cut.tcc", bytes.substr(0, bytes.size() / 2)) + " --run");
  EXPECT_EQ(cut.status, 1);
  EXPECT_HAS(cut.err, "cut.tcc");
}

TEST(Driver, WarningsAreSwitchedAndBecomeErrors) {
  const std::string path =
      file("unused.graph", "func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
                           "  %r = tcc.exp %x : tensor<4xf32>\n  func.return %r : tensor<4xf32>\n}\n");
  const Result warned = runTcc("-fsyntax-only " + path);
  EXPECT_EQ(warned.status, 0);
  EXPECT_HAS(warned.err, path + ":1:33: warning: argument '%y' is never used [-Wunused-argument]");
  EXPECT_EQ(runTcc("-fsyntax-only -Wno-unused-argument " + path).err, "");
  const Result error = runTcc("-fsyntax-only -Werror " + path);
  EXPECT_EQ(error.status, 1);
  EXPECT_HAS(error.err, "error: argument '%y' is never used [-Werror=unused-argument]");
  EXPECT_EQ(runTcc("-fsyntax-only -Werror=unused-value " + path).status, 0);
  const Result unknown = runTcc("-Wunused-argment " + path);
  EXPECT_EQ(unknown.status, 2);
  EXPECT_HAS(unknown.err, "did you mean '-Wunused-argument'?");
  EXPECT_HAS(runTcc("--help").out, "-Wstale-state");
}

TEST(Driver, AnIndexThatMakesNanIsNamed) {
  const std::string graph = file("loss.graph", R"(func.func @loss(%x: tensor<2x3xf32> {tcc.name = "x"},
    %t: tensor<2xi32> {tcc.name = "t"}) -> (tensor<f32> {tcc.name = "loss"}) {
  %l = tcc.cross_entropy %x, %t : tensor<2x3xf32>, tensor<2xi32> -> tensor<f32>
  func.return %l : tensor<f32>
}
)");
  const std::string indices = file("t.npy", npyText("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }",
                                                    std::string("\xff\xff\xff\xff\x03\0\0\0", 8)));
  const Result result = runTcc(graph + " --run --input t=" + indices);
  EXPECT_EQ(result.status, 0);
  EXPECT_HAS(result.err, "tcc: warning: 't' element 1 is 3; an index of 0..2 is expected, others give NaN");
  EXPECT_HAS(result.out, "nan");
}

} // namespace
