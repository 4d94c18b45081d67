// Custom ops in .graph files, by running the built program: what must be allowed, what is saved, what is refused.
#include "tests/cuda_machine/run_command.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include <filesystem>
#include <gtest/gtest.h>

namespace {

using tcc::CommandResult;
using tcc::runCommand;

class CustomProgram : public testing::Test {
protected:
  tcc::test::TemporaryFolder folder;

  CommandResult tcc(const std::string &arguments) const {
    return runCommand("cd '" + folder / "" + "' && '" TCC_PROGRAM "' " + arguments);
  }
  /// models/custom_library.graph with another function.
  std::string squares(const std::string &library, const std::string &symbol) const {
    std::string graph = tcc::test::readAll(TCC_SOURCE "/models/custom_library.graph");
    auto replace = [&](const std::string &from, const std::string &to) {
      const size_t at = graph.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      graph.replace(at, from.size(), to);
    };
    replace("build/lib/libcustom_square.so", library);
    replace("\"custom_square\"", "\"" + symbol + "\"");
    return folder.write(symbol + ".graph", graph);
  }
};

const std::string shape = " --shape=x:2x8";

TEST_F(CustomProgram, aGraphRunsIsCheckedAndComesBackAsItWas) {
  const std::string model = TCC_SOURCE "/models/softcap.graph";
  const CommandResult run = tcc(model + " --run -fverify-each -Rpass=fuse-kernels");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_HAS(run.output, "capped.softcap");
  EXPECT_EQ(tcc(model + " --run=reference").status, 0);
  const CommandResult first = tcc(model + " -emit=captured -o again.graph");
  EXPECT_EQ(first.status, 0) << first.output;
  EXPECT_EQ(tcc("again.graph -emit=captured -o third.graph").status, 0);
  EXPECT_EQ(runCommand("cmp '" + folder / "again.graph" + "' '" + folder / "third.graph" + "'").status, 0);
  for (const char *phase : {"joint", "fused", "planned"}) {
    const CommandResult emitted = tcc(std::string("again.graph -emit=") + phase + " -o phase.graph");
    EXPECT_EQ(emitted.status, 0) << emitted.output;
    EXPECT_EQ(tcc("phase.graph -fsyntax-only").status, 0) << phase;
  }
}

TEST_F(CustomProgram, codeThatAFileNamesMustBeAllowed) {
  const std::string graph = squares(TCC_CUSTOM_SQUARE, "custom_square");
  const CommandResult refused = tcc(graph + shape + " --run");
  EXPECT_EQ(refused.status, 1);
  EXPECT_HAS(refused.output,
             "custom op 'square' has code of its own, in '" TCC_CUSTOM_SQUARE "'; --allow-custom-code lets it run");
  const CommandResult run = tcc(graph + shape + " --run --allow-custom-code");
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(tcc(graph + shape + " --run=reference").status, 0);
  EXPECT_EQ(tcc(graph + shape + " -emit=planned -o planned.graph").status, 0);
  EXPECT_EQ(tcc("planned.graph -fsyntax-only").status, 0);
  const CommandResult verified = tcc(graph + shape + " --run --allow-custom-code -fverify-each");
  EXPECT_EQ(verified.status, 0) << verified.output;
}

TEST_F(CustomProgram, anArtefactNamesThePath) {
  std::filesystem::copy_file(TCC_CUSTOM_SQUARE, folder / "mine.so");
  const std::string graph = squares("mine.so", "custom_square");
  const CommandResult made = tcc(graph + shape + " --allow-custom-code -o step.tcc");
  ASSERT_EQ(made.status, 0) << made.output;
  const CommandResult run = tcc("step.tcc --run");
  EXPECT_EQ(run.status, 0) << run.output;
  std::filesystem::remove(folder / "mine.so");
  const CommandResult gone = tcc("step.tcc --run");
  EXPECT_EQ(gone.status, 1);
  EXPECT_HAS(gone.output, "custom op `square` has its code in '" + folder / "mine.so" + "', which is not there");
}

TEST_F(CustomProgram, whatALibraryDoesWrongIsOneMessage) {
  const std::pair<const char *, const char *> wrong[] = {
      {"beyond", "custom op `square` writes out of bounds: 0 bytes after its end of result 0 (f32 [2, 8])"},
      {"cube", "custom op 'square' is not what its reference says: result 0 at index [1, 1] is "},
      {"refuses", "custom op `square` failed: it is Sunday"},
      {"silent", "custom op `square` failed: status 1"},
      {"nothing", "which has no symbol 'nothing'"}};
  for (auto [symbol, message] : wrong) {
    const CommandResult run = tcc(squares(TCC_CUSTOM_LIES, symbol) + shape + " --run --allow-custom-code");
    EXPECT_EQ(run.status, 1) << symbol;
    EXPECT_HAS(run.output, message);
  }
  const CommandResult absent = tcc(squares("/not/there.so", "f") + shape + " --run --allow-custom-code");
  EXPECT_EQ(absent.status, 1);
  EXPECT_HAS(absent.output, "custom op `square` has its code in '/not/there.so', which is not there");
  const CommandResult text = tcc(squares(TCC_SOURCE "/README.md", "f") + shape + " --run --allow-custom-code");
  EXPECT_EQ(text.status, 1);
  EXPECT_HAS(text.output, "custom op `square` cannot load its code: ");
}

/// A library's content is part of what a kept step depends on, and its function is checked again whenever one is found.
TEST_F(CustomProgram, stepsWithLibrariesAreKept) {
  std::filesystem::copy_file(TCC_CUSTOM_LIES, folder / "mine.so");
  const std::string arguments =
      squares("mine.so", "moody") + shape + " --run --seed=3 --allow-custom-code -v --cache-dir=kept";
  const CommandResult cold = tcc(arguments), warm = tcc(arguments);
  EXPECT_EQ(cold.status, 0) << cold.output;
  EXPECT_HAS(cold.output, "cache: miss: no step was kept before\n");
  EXPECT_EQ(warm.status, 0) << warm.output;
  EXPECT_HAS(warm.output, "cache: hit: ");
  const CommandResult wrong = runCommand("cd '" + folder / "" + "' && TCC_TEST_MOOD=1 '" TCC_PROGRAM "' " + arguments);
  EXPECT_EQ(wrong.status, 1);
  EXPECT_HAS(wrong.output, "custom op 'square' is not what its reference says: result 0 at index [1, 1] is ");
  EXPECT_EQ(runCommand("printf x >> '" + folder / "mine.so" + "'").status, 0);
  const CommandResult changed = tcc(arguments);
  EXPECT_EQ(changed.status, 0) << changed.output;
  EXPECT_HAS(changed.output, "cache: miss: libraries differ: ");
  const CommandResult refused = tcc(squares("mine.so", "moody") + shape + " --run --cache-dir=kept");
  EXPECT_HAS(refused.output, "--allow-custom-code lets it run");
}

TEST_F(CustomProgram, textsHaveNoFunctionsOfAProcess) {
  const std::string graph =
      folder.write("host.graph", "func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
                                 "  %y = tcc.custom \"twice\" (%a = %x : tensor<2xf32>) -> tensor<2xf32> "
                                 "attributes {host_function = 1 : i64} {\n"
                                 "    %b = tcc.add %a, %a : tensor<2xf32>\n"
                                 "    tcc.yield %b : tensor<2xf32>\n  }\n"
                                 "  func.return %y : tensor<2xf32>\n}\n");
  const CommandResult run = tcc(graph + " --run --allow-custom-code");
  EXPECT_EQ(run.status, 1);
  EXPECT_HAS(run.output, "custom op 'twice' names a function of a process, which a text cannot have");
}

} // namespace
