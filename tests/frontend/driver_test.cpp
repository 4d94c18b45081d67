// The command line, by running the built program: exit statuses, messages, what goes to stdout.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Result {
  int status = -1;
  std::string out, err;
};

/// A folder of this test process, removed at its end.
const std::filesystem::path &folder() {
  static const struct Folder {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("tcc_driver_test." + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() { std::filesystem::remove_all(path); }
  } made;
  return made.path;
}

std::string slurp(const std::filesystem::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string file(const std::string &name, const std::string &text) {
  const auto path = folder() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

/// Runs tcc with shell-quoted arguments.
Result tcc(const std::string &arguments, const std::string &environment = "") {
  const auto out = folder() / "out", err = folder() / "err";
  const std::string command =
      environment + " '" TCC_PROGRAM "' " + arguments + " >" + out.string() + " 2>" + err.string();
  Result result;
  const int status = std::system(command.c_str());
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = slurp(out);
  result.err = slurp(err);
  return result;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define EXPECT_LACKS(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

const std::string good =
    "func.func @f(%x: tensor<4x8xf32> {tcc.name = \"x\"}) -> (tensor<4x8xf32> {tcc.name = \"y\"}) {\n"
    "  %r = tcc.gelu %x : tensor<4x8xf32>\n  func.return %r : tensor<4x8xf32>\n}\n";
const std::string model(const std::string &name) {
  return TCC_SOURCE "/models/" + name + ".graph";
}

TEST(Driver, HelpBeginsWithExamples) {
  const Result help = tcc("--help");
  EXPECT_EQ(help.status, 0);
  EXPECT_LT(help.out.find("Examples:"), help.out.find("USAGE:"));
  EXPECT_LACKS(help.out, "OVERVIEW");
  for (const char *option : {"-O", "--run", "--bench", "--shape=", "-fverify-each", "--print-pipeline", "--doctor"})
    EXPECT_HAS(help.out, option);
  EXPECT_EQ(tcc("-h").out, help.out);
}

TEST(Driver, Versions) {
  EXPECT_HAS(tcc("--version").out, "oneDNN");
  EXPECT_EQ(tcc("-dumpversion").out, "0.1.0\n");
  const Result doctor = tcc("--doctor");
  EXPECT_EQ(doctor.status, 0);
  EXPECT_HAS(doctor.out, "threads");
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
      {"--dtype=f64 " + path, "one of f32 bf16"},
      {"--shape=x:4xq " + path, "no number"},
      {"--run=soon " + path, "no number"},
      {"--target=cuda " + path, "cuda"},
      {"-x python " + path, "python"},
      {"-o", "needs a value"},
      {"-o out " + path + " " + path, "several inputs"},
      {"--run -emit=fused " + path, "do not go together"},
      {"--input x=a.npy " + path, "--run"},
      {"-fdiagnostics-color=pink " + path, "pink"},
  };
  for (const auto &[arguments, message] : cases) {
    const Result result = tcc(arguments);
    EXPECT_EQ(result.status, 2) << arguments;
    EXPECT_HAS(result.err, "tcc: error: ");
    EXPECT_HAS(result.err, message);
    EXPECT_EQ(result.out, "") << arguments;
  }
}

TEST(Driver, DiagnosedErrorsExitWith1) {
  EXPECT_HAS(tcc("@/no/such/file").err, "/no/such/file");
  const Result missing = tcc("/no/such.graph");
  EXPECT_EQ(missing.status, 1);
  EXPECT_HAS(missing.err, "cannot read '/no/such.graph'");

  const std::string path =
      file("bad.graph", "func.func @f(%x: tensor<4xf32>) {\n  %r = tcc.gelo %x : tensor<4xf32>\n}\n");
  const Result unknown = tcc(path);
  EXPECT_EQ(unknown.status, 1);
  EXPECT_HAS(unknown.err, path + ":2:8: error: ");
  EXPECT_HAS(unknown.err, "\n  %r = tcc.gelo %x : tensor<4xf32>\n       ^\n");
  EXPECT_HAS(unknown.err, "did you mean 'tcc.gelu'?");

  const Result deep = tcc(file("deep.graph", std::string(100000, '(')));
  EXPECT_EQ(deep.status, 1);
  EXPECT_HAS(deep.err, ":1:257: error: brackets are nested deeper than 256");

  const Result open = tcc(model("mlp") + " --threads=1 --run");
  EXPECT_EQ(open.status, 1) << "a '?' without --shape";
  EXPECT_HAS(open.err, "--shape=x:");
  EXPECT_LACKS(open.err, "see current operation");
  const Result shape = tcc(model("mlp") + " --shape=xx:3x64");
  EXPECT_EQ(shape.status, 1);
  EXPECT_HAS(shape.err, "--shape=xx: the graph has no such argument; did you mean 'x'?");
  EXPECT_EQ(tcc(path + " " + file("good.graph", good)).status, 1) << "one bad input of two";
  const Result name = tcc(file("good.graph", good) + " --threads=1 --run --input w=a.npy");
  EXPECT_EQ(name.status, 1);
  EXPECT_HAS(name.err, "no such argument");
}

TEST(Driver, ColourIsAskedFor) {
  EXPECT_LACKS(tcc("/no/such.graph").err, "\x1b[");
  EXPECT_HAS(tcc("-fdiagnostics-color=always /no/such.graph").err, "\x1b[");
  EXPECT_LACKS(tcc("/no/such.graph", "NO_COLOR=1").err, "\x1b[");
}

TEST(Driver, SyntaxOnlyAndEchoAreQuietOtherwise) {
  const std::string path = file("good.graph", good);
  const Result checked = tcc("-fsyntax-only " + path);
  EXPECT_EQ(checked.status, 0);
  EXPECT_EQ(checked.out + checked.err, "");
  const Result echoed = tcc("-E " + path);
  EXPECT_EQ(echoed.status, 0);
  EXPECT_HAS(echoed.out, "tcc.gelu");
  EXPECT_EQ(tcc("-E " + file("again.graph", echoed.out)).out, echoed.out);
  EXPECT_EQ(tcc("-E -x graph - <" + path).out, echoed.out);
  EXPECT_EQ(tcc("@" + file("args", "-E\n" + path)).out, echoed.out);
  EXPECT_EQ(tcc("-E -o " + (folder() / "echo").string() + " " + path).out, "");
  EXPECT_EQ(slurp(folder() / "echo"), echoed.out);
}

TEST(Driver, PrintsEachPhase) {
  const std::string path = model("train_step");
  EXPECT_HAS(tcc(path + " -emit=captured").out, "tcc.gradient");
  const Result joint = tcc(path + " -emit=joint");
  EXPECT_LACKS(joint.out, "tcc.gradient");
  EXPECT_LACKS(joint.out, "tcc.cross_entropy");
  EXPECT_HAS(tcc(path + " -emit=fused").out, "tcc.kernel");
  EXPECT_HAS(tcc(path + " -emit=planned").out, "tcc.kernel");
  EXPECT_HAS(tcc(path + " -emit=json").out, "\"instructions\"");
  EXPECT_HAS(tcc(path + " -emit=llvm").out, "define ");
  EXPECT_HAS(tcc(path + " -S").out, ".text");
  EXPECT_HAS(tcc(model("mlp") + " --shape=x:3x64 -emit=shaped").out, "tensor<3x10xf32>");
  const Result pipeline = tcc("--print-pipeline");
  for (const char *pass : {"decompose", "autodiff", "simplify", "fuse-kernels", "plan-memory"})
    EXPECT_HAS(pipeline.out, pass);
}

TEST(Driver, CompilesAndSummarises) {
  const Result result = tcc(model("layer_norm") + " -O3");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, " kernels");
  EXPECT_HAS(result.out, "matrix products");
  EXPECT_HAS(result.out, "planned");
  const auto artefact = folder() / "model.tcc";
  EXPECT_EQ(tcc(model("layer_norm") + " -o " + artefact.string()).status, 0);
  EXPECT_EQ(slurp(artefact).substr(0, 6), "tccart");
  const Result report = tcc(model("layer_norm") + " -ftime-report -fdump-ir=changed -fdump-dir=" + folder().string());
  EXPECT_HAS(report.err, "fuse-kernels");
  EXPECT_HAS(slurp(folder() / "layer_norm.ir"), "fuse-kernels");
}

/// The numbers of "name: type[shape] … first a b c d" lines, by name.
double scalarOf(const std::string &text, const std::string &name) {
  const size_t at = text.find(name + ": ");
  return at == std::string::npos ? -1 : std::atof(text.c_str() + text.find("] ", at) + 2);
}

TEST(Driver, RunsLikeTheReference) {
  const Result compiled = tcc(model("train_step") + " --threads=1 --run"),
               plain = tcc(model("train_step") + " --threads=1 --run -O0"),
               reference = tcc(model("train_step") + " --run=reference");
  EXPECT_EQ(compiled.status, 0) << compiled.err;
  EXPECT_EQ(reference.status, 0) << reference.err;
  const double loss = scalarOf(reference.out, "loss");
  EXPECT_GT(loss, 1) << reference.out;
  EXPECT_NEAR(scalarOf(compiled.out, "loss"), loss, 1e-4 * loss);
  EXPECT_NEAR(scalarOf(plain.out, "loss"), loss, 1e-4 * loss);
  EXPECT_HAS(compiled.out, "table: f32[256, 32]");
  EXPECT_EQ(tcc(model("train_step") + " --threads=1 --run").out, compiled.out) << "the same bits run to run";
  EXPECT_NE(tcc(model("train_step") + " --threads=1 --run --seed=5").out, compiled.out);
}

TEST(Driver, TrainsAndTimes) {
  const Result trained = tcc(model("train_step") + " --threads=1 --run=30");
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_LT(std::atof(trained.out.c_str() + trained.out.find("run 30: loss ") + 13),
            std::atof(trained.out.c_str() + trained.out.find("run 1: loss ") + 12));
  const auto profile = folder() / "profile.json";
  const Result timed = tcc(model("attention") + " --threads=1 --bench=3 --profile=" + profile.string());
  EXPECT_EQ(timed.status, 0) << timed.err;
  EXPECT_HAS(timed.out, "ms median");
  EXPECT_HAS(slurp(profile), "traceEvents");
}

TEST(Driver, EachPassKeepsTheMeaning) {
  const Result result = tcc(model("attention") + " -fverify-each -emit=planned");
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
  EXPECT_EQ(tcc("-fsyntax-only " + path).status, 0) << "the reproducer is a graph again";
}

TEST(Driver, TakesInputsFromNpyFiles) {
  const std::string path = file("good.graph", good);
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8), }";
  header.resize(117, ' ');
  header += '\n';
  std::string npy = std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header;
  npy += std::string(32 * 4, '\0');
  const std::string zero = file("zero.npy", npy);
  const Result result = tcc(path + " --threads=1 --run --input x=" + zero);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_HAS(result.out, "y: f32[4, 8] mean 0 min 0 max 0");
  for (size_t length : {size_t{0}, size_t{5}, size_t{9}, size_t{60}, npy.size() - 1}) {
    const Result cut = tcc(path + " --threads=1 --run --input x=" + file("cut.npy", npy.substr(0, length)));
    EXPECT_EQ(cut.status, 1) << length;
    EXPECT_HAS(cut.err, "cut.npy");
  }
}

} // namespace
