// Outputs that cannot be written, or that must not be: one clear message, status 1, and what was there before is still
// there.
#include "tests/frontend/run_tcc.h"
#include <sys/stat.h>
#include <vector>

using namespace tcc::test;

namespace {

/// Ways to write a file named by %.
const std::vector<std::string> writers = {"-o %",
                                          "-emit=fused -o %",
                                          "-S -o %",
                                          "-c -o %",
                                          "-ftime-trace=%",
                                          "-foptimization-record-file=%",
                                          "--run --threads=1 --output y=%",
                                          "--run --threads=1 --profile=%"};

std::string with(std::string writer, const std::string &path) {
  return writer.replace(writer.find('%'), 1, path);
}

void expectOneLine(const Result &result, const std::string &what) {
  EXPECT_EQ(result.status, 1) << what;
  EXPECT_EQ(countOf(result.err, "error: "), 1u) << what << "\n" << result.err;
  EXPECT_HAS(result.err, "[TCC0004]\n");
}

TEST(Outputs, AFolderOrAMissingOneIsOneError) {
  const std::string path = file("good.graph", good), place = (folder() / "place.o").string();
  std::filesystem::create_directories(place);
  for (const std::string &writer : writers)
    for (const std::string &output : {place, place + "/no/such/file.o"}) {
      const Result result = runTcc(path + " " + with(writer, output));
      expectOneLine(result, with(writer, output));
      EXPECT_HAS(result.err, output);
    }
  EXPECT_TRUE(std::filesystem::is_empty(place)) << "no temporary file is left";
}

/// The linker works in memory, so a process that is killed leaves nothing behind.
TEST(Outputs, LinkingMakesNoFiles) {
  const std::string path = file("good.graph", good), library = (folder() / "linked.so").string();
  const Result result =
      runTcc(path + " -o " + library, "env TCC_CACHE_DIR=off TMPDIR=/no/such/folder TMP= TEMP= TEMPDIR=");
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_GT(slurp(library).size(), 1000u);
}

/// A pipe that nobody reads is an error, one with a reader is written.
TEST(Outputs, APipeNeedsAReader) {
  const std::string path = file("good.graph", good), pipe = (folder() / "pipe.o").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string &writer : writers) {
    const Result result = runTcc(path + " " + with(writer, pipe), "timeout 20 env TCC_CACHE_DIR=off");
    expectOneLine(result, with(writer, pipe));
    EXPECT_HAS(result.err, "it is a pipe that no process reads");
  }
  const Result read = runTcc(path + " -emit=fused -o " + pipe,
                             "cat " + pipe + " > " + pipe + ".got & timeout 20 env TCC_CACHE_DIR=off");
  EXPECT_EQ(read.status, 0) << read.err;
  std::filesystem::remove(pipe);
}

/// A limit on files' sizes is a disk that is full after so many bytes.
TEST(Outputs, AFullDiskLeavesTheOldFile) {
  const std::string path = model("train_step"), place = (folder() / "full").string(), old = place + "/old.o";
  std::filesystem::create_directories(place);
  for (const std::string &writer : writers) {
    if (writer.find("y=%") != std::string::npos)
      continue; // its results are smaller than the limit
    file("full/old.o", "precious");
    const Result result = runTcc(path + " " + with(writer, old), "ulimit -f 1; TCC_CACHE_DIR=off");
    expectOneLine(result, writer);
    EXPECT_EQ(slurp(old), "precious") << writer;
    int entries = 0;
    for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(place))
      ++entries;
    EXPECT_EQ(entries, 1) << writer << " leaves a temporary file";
  }
}

TEST(Outputs, AReaderThatIsGoneIsOneLine) {
  for (const std::string flags : {"--help", "--man-page", "--explain TCC0201", "--print-targets", "--autocomplete=-"}) {
    const std::string err = (folder() / "err").string(), status = (folder() / "status").string();
    ASSERT_EQ(
        std::system(
            ("{ sleep 0.1; '" TCC_PROGRAM "' " + flags + " 2>" + err + "; echo $? >" + status + "; } | true").c_str()),
        0);
    EXPECT_EQ(slurp(status), "1\n") << flags;
    EXPECT_EQ(lines(slurp(err)), 1) << slurp(err);
  }
}

TEST(Outputs, AFailedInputLeavesTheOutputOfBefore) {
  const std::string bad = file("bad.graph", "func.func @f() {"), old = file("old.tcc", "precious");
  EXPECT_EQ(runTcc(bad + " -o " + old).status, 1);
  EXPECT_EQ(slurp(old), "precious");
}

TEST(Outputs, NoOutputIsAFileThatIsReadOrAnotherOutput) {
  const std::string path = file("precious.graph", good), link = (folder() / "link").string(),
                    hard = (folder() / "hard").string(), input = file("x.npy", "precious too"),
                    args = file("args", "-E " + path), other = (folder() / "other").string();
  std::filesystem::remove(link);
  std::filesystem::remove(hard);
  std::filesystem::create_symlink(path, link);
  std::filesystem::create_hard_link(path, hard);
  std::filesystem::create_directories(folder() / "again");
  const std::string twin = file("again/precious.graph", good), x = " --run --input x=" + input + " ";
  const std::pair<std::string, std::string> cases[] = {
      {"-E " + path + " -o " + path, "which is read"},
      {"-E " + path + " -o " + link, "which is read"},
      {"-E " + path + " -o " + hard, "which is read"},
      {"-E - <" + path + " -o " + path, "is the same file as stdin"},
      {"@" + args + " -o " + args, "is the same file as @"},
      {path + x + "--output y=" + input, "is the same file as --input x="},
      {path + " --run --profile=" + path, "which is read"},
      {path + " --run --output y=" + other + " --profile=" + other, "another output"},
      {"-c " + path + " " + twin, "precious.o of -c"},
      {"-fdump-ir=all -fdump-dir=" + folder().string() + " " + path + " " + twin, "precious.ir of -fdump-dir="},
      {path + " --run --output y=" + other + " >" + other, "is the same file as stdout"},
  };
  for (const auto &[arguments, message] : cases) {
    const bool redirected = arguments.find('>') != std::string::npos;
    const Result result = runTcc(arguments + (redirected ? " #" : ""));
    EXPECT_EQ(result.status, 1) << arguments;
    const std::string said = result.err;
    if (!redirected) {
      EXPECT_HAS(said, message);
      EXPECT_EQ(lines(said), 1) << said;
    }
    EXPECT_EQ(slurp(path), good) << arguments;
    EXPECT_EQ(slurp(input), "precious too");
  }
  EXPECT_EQ(runTcc(path + " -E -o " + other).status, 0) << "other files are written";
  EXPECT_EQ(runTcc("-E " + path + " -o /dev/null").status, 0);
}

TEST(Outputs, OutputsThatCannotBeWrittenAreSaidBeforeTheRun) {
  const std::string graph = file("good.graph", good);
  for (const std::string option :
       {"--run --profile=/proc/x.json", "--bench=2 --json=/proc/x.json", "--run --output y=/proc/x.npy",
        "--ablate=1 --plot=/proc/x.svg", "--run --tuning=/proc/x.tcctune", "--run --report=/proc/x"}) {
    const Result result = runTcc(graph + " --threads=1 " + option);
    EXPECT_EQ(result.status, 1) << option;
    EXPECT_EQ(result.out, "") << option;
    EXPECT_EQ(lines(result.err), 1) << result.err;
    EXPECT_HAS(result.err, option.substr(option.find(" --") + 1));
    EXPECT_HAS(result.err, ": cannot ");
  }
  EXPECT_EQ(runTcc(graph + " --threads=1 --bench=2 --json=/dev/null").status, 0);
  EXPECT_FALSE(std::filesystem::exists(folder() / "never.json"));
  EXPECT_EQ(runTcc(graph + " --run=0 --profile=" + (folder() / "never.json").string()).status, 2);
  EXPECT_FALSE(std::filesystem::exists(folder() / "never.json"));
}

TEST(Outputs, AStdoutThatCannotBeWrittenIsOneLineAndStatus1) {
  const std::string path = file("good.graph", good), out = (folder() / "status").string();
  for (const std::string &arguments :
       std::vector<std::string>{"--help", "-E " + path, "-emit=llvm " + path, path + " --threads=1 --run",
                                path + " -o -", "--print-pipeline", "--version"})
    for (const std::string closed : {">/dev/full", ">&-", "| true"}) {
      const bool pipe = closed == "| true";
      const std::string err = (folder() / "err").string(),
                        run = "'" TCC_PROGRAM "' " + arguments + " 2>" + err + (pipe ? "" : " " + closed),
                        command = pipe ? "{ sleep 0.1; " + run + "; echo $? >" + out + "; } | true"
                                       : run + "; echo $? >" + out;
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
      EXPECT_EQ(slurp(out), "1\n") << command;
      const std::string text = slurp(err);
      EXPECT_HAS(text, "tcc: error: cannot write to stdout: ");
      EXPECT_LACKS(text, "LLVM ERROR");
    }
  const std::string saved = (folder() / "kept.tcc").string();
  EXPECT_EQ(std::system(("'" TCC_PROGRAM "' " + path + " -o " + saved + " >&- 2>&-").c_str()) >> 8, 1);
  EXPECT_EQ(slurp(saved).substr(0, 6), "tccart") << "its bytes go to no other file's number";
}

} // namespace
