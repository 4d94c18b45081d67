// Outputs that cannot be written: one clear message, status 1, and what was there before is still there.
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
  int errors = 0;
  for (size_t at = result.err.find("error: "); at != std::string::npos; at = result.err.find("error: ", at + 1))
    ++errors;
  EXPECT_EQ(errors, 1) << what << "\n" << result.err;
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

} // namespace
