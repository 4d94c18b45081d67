// Programs in C over what tcc and train_gpt write, and what tcc says where it cannot write it.
#include "tests/cuda_machine/run_command.h"
#include "tests/expect_text.h"
#include "tests/files.h"
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tcc {
namespace {

using test::TemporaryFolder;

/// A model small enough to be compiled again and again, and a text for it.
const std::string model = " --model baby --layers 1 --heads 5 --width 40 --seq 40 --batch 3 ";

class StepProgram : public testing::Test {
protected:
  TemporaryFolder folder;

  void SetUp() override {
    std::string text;
    uint32_t seed = 1;
    for (int i = 0; i < 2000; ++i) {
      seed = seed * 1664525u + 1013904223u;
      text += "abcdefgh \n"[(seed >> 16) % 10];
    }
    folder.write("book.txt", text);
  }

  /// In the folder; the output where the command ends well.
  std::string run(const std::string &command, int expected = 0) const {
    const CommandResult result = runCommand("cd '" + folder.path("") + "' && " + command);
    EXPECT_EQ(result.status, expected) << command << "\n" << result.output;
    return result.output;
  }
  std::string tcc(const std::string &arguments, int expected = 0) const {
    return run("'" TCC_PROGRAM "' " + arguments, expected);
  }
  std::string trainGpt(const std::string &arguments, int expected = 0) const {
    return run("'" TCC_TRAIN_GPT "'" + model + arguments, expected);
  }
};

/// "step 0 loss 5.5 norm 1.2" of the C program, or the same of train_gpt's log.
std::vector<std::pair<float, float>> lossesOf(const std::string &output) {
  std::vector<std::pair<float, float>> losses;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    float loss = 0, norm = 0;
    int step = 0;
    if (std::sscanf(line.c_str(), "step %d loss %f norm %f", &step, &loss, &norm) == 3)
      losses.emplace_back(loss, norm);
  }
  return losses;
}

std::vector<std::pair<float, float>> lossesOfLog(const std::string &log) {
  std::vector<std::pair<float, float>> losses;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (const auto record = nlohmann::json::parse(line); record.contains("loss") && record.contains("norm"))
      losses.emplace_back(record["loss"].get<double>(), record["norm"].get<double>());
  return losses;
}

const std::string compileC =
    "'" TCC_CC "' -std=c99 -Wall -Wextra -pedantic -Wconversion -Werror -I. '" TCC_SOURCE "/models/train_step.c' ";
/// Linked with the library, which is looked for where the program lies.
const std::string besideProgram = "./step.so -Wl,-rpath,'$ORIGIN'";
const std::string ofRun = "--data book.txt --order sequential --schedule constant --warmup 0 --lr 3e-4 --steps 4 ";

/// A graph whose function is called `name`, over `shape`, such as "4xf32".
std::string geluGraph(const std::string &name, const std::string &shape = "4xf32") {
  const std::string type = "tensor<" + shape + ">";
  return "func.func @" + name + "(%x: " + type + ") -> " + type + " {\n  %r = tcc.gelu %x : " + type +
         "\n  func.return %r : " + type + "\n}\n";
}

TEST_F(StepProgram, CTrainerHasTheBitsOfTrainGptOverEveryKindOfLibrary) {
  trainGpt(ofRun + "--quiet --json=log.jsonl");
  const auto expected = lossesOfLog(test::readAll(folder / "log.jsonl"));
  ASSERT_EQ(expected.size(), 4u);
  const std::string runtime = std::string("-L'") + TCC_LIBRARIES + "' -Wl,-rpath,'" + TCC_LIBRARIES + "' -ltcc_runtime";
  const std::string inside = std::string("'") + TCC_LIBRARIES + "/libtcc_step.a' -lstdc++ -lm -lgomp";
  const std::tuple<const char *, const char *, std::string> kinds[] = {
      {"step.so", "", besideProgram},      {"step.so", " --static", besideProgram}, {"step.o", "", "step.o " + runtime},
      {"step.a", "", "step.a " + runtime}, {"step.o", "", "step.o " + inside},
  };
  for (const auto &[library, flags, libraries] : kinds) {
    SCOPED_TRACE(library + (flags + (" with " + libraries)));
    trainGpt(std::string("--compile-only=") + library + flags + " --initial-states=step.safetensors");
    run(compileC + libraries + " -o train");
    const std::string output = run("./train book.txt 4 step.safetensors saved.safetensors");
    EXPECT_EQ(lossesOf(output), expected);
    size_t planned = 0, counted = 1;
    const size_t at = output.find("cpu, ");
    ASSERT_NE(at, std::string::npos) << output;
    EXPECT_EQ(std::sscanf(output.c_str() + at, "cpu, %zu bytes planned, %zu counted", &planned, &counted), 2);
    EXPECT_EQ(planned, counted);
    EXPECT_HAS(run("./train book.txt 4 book.txt", 1), "book.txt: ");
    EXPECT_HAS(run("./train book.txt 1 step.safetensors nowhere/saved", 1), "cannot write `nowhere/saved`");
  }
  EXPECT_HAS(trainGpt("--data book.txt --step=step.so --steps=1"), "loading the training step");
  EXPECT_HAS(trainGpt("--data book.txt --step=step.so --steps=1 --optimizer=lion", 1), "holds another step");
  EXPECT_HAS(trainGpt("--data book.txt --step=book.txt --steps=1", 1), "not an artefact");
  for (const char *flag : {"-O0", "-ffast-math", "-march=x86-64", "--remat=full", "-fmemory-limit=1GiB", "-fpad=off"})
    EXPECT_HAS(trainGpt(std::string("--data book.txt --step=step.so --steps=1 ") + flag, 2),
               std::string(flag) + " cannot be given with --step step.so, which holds a compiled step");
}

/// The trainer and its library with the runtime inside; leaks count too.
TEST_F(StepProgram, CTrainerIsCleanUnderAddressSanitizer) {
  trainGpt("--compile-only=step.so --static --initial-states=step.safetensors");
  run(compileC + besideProgram + " -o plain");
  run(compileC + "-g -fsanitize=address,undefined -fno-sanitize-recover=all " + besideProgram + " -o train");
  const std::string arguments = " book.txt 3 step.safetensors saved.safetensors";
  const auto expected = lossesOf(run("./plain" + arguments));
  ASSERT_EQ(expected.size(), 3u);
  EXPECT_EQ(lossesOf(run("ASAN_OPTIONS=detect_leaks=1 ./train" + arguments)), expected);
}

/// Runs as if the CPU had no more than AVX2, since valgrind knows no more. It takes long, so it is one of the release's
/// tests (tests/CMakeLists.txt).
TEST_F(StepProgram, CTrainerIsCleanUnderValgrind) {
  if (!std::getenv("TCC_FULL"))
    GTEST_SKIP() << "runs with TCC_FULL=1";
  if (runCommand("command -v valgrind").status != 0)
    GTEST_SKIP() << "no valgrind";
  trainGpt("--compile-only=step.so -march=x86-64-v3 --threads=1 --initial-states=step.safetensors");
  run(compileC + "-g " + besideProgram + " -o train");
  const std::string arguments = " book.txt 3 step.safetensors saved.safetensors", level = "TCC_CPU=x86-64-v3 ";
  const auto expected = lossesOf(run(level + "./train" + arguments));
  ASSERT_EQ(expected.size(), 3u);
  const std::string output = run(level +
                                 "valgrind --quiet --error-exitcode=9 --leak-check=full "
                                 "--errors-for-leak-kinds=definite ./train" +
                                 arguments);
  EXPECT_EQ(lossesOf(output), expected);
}

TEST_F(StepProgram, ALibraryIsForSeveralCpusAndSaysWhatOneLacks) {
  const std::string exporting = "--compile-only=step.so -march=x86-64-v2,x86-64-v3 --initial-states=step.safetensors";
  EXPECT_HAS(trainGpt(exporting), "cache of cpu:x86-64-v3: not used: off, by TCC_CACHE_DIR=off\n");
  run(compileC + besideProgram + " -o train");
  const std::string limited = run("TCC_CPU=x86-64-v2 ./train book.txt 2");
  EXPECT_HAS(limited, "cpu:x86-64-v2, ");
  const CommandResult better = runCommand("cd '" + folder.path("") + "' && TCC_CPU=x86-64-v3 ./train book.txt 2");
  if (better.status == 0) { // else this CPU is no x86-64-v3
    EXPECT_HAS(better.output, "cpu:x86-64-v3, ");
    EXPECT_EQ(lossesOf(better.output).size(), 2u);
  }
  const std::string refused = run("TCC_CPU=x86-64 ./train book.txt 2", 1);
  EXPECT_HAS(refused, "cpu:x86-64-v2: this CPU, shown as x86-64 by TCC_CPU, lacks sse4.2");
}

TEST_F(StepProgram, HeadersAreCleanInCAndCxx) {
  folder.write("words.graph",
               "func.func @words(%a: tensor<2xf32> {tcc.name = \"class\"}, %b: tensor<2xf32> {tcc.name = "
               "\"a.b\"}, %c: tensor<2xf32> {tcc.name = \"a_b\"}, %d: tensor<bf16> {tcc.name = \"*/ int x;"
               "\"}) -> (tensor<2xf32> {tcc.name = \"int\"}, tensor<bf16> {tcc.name = \"e\"}) {\n"
               "  %s = tcc.add %a, %b : tensor<2xf32>\n"
               "  %t = tcc.add %s, %c : tensor<2xf32>\n"
               "  func.return %t, %d : tensor<2xf32>, tensor<bf16>\n}\n");
  tcc("words.graph -c");
  const std::string header = test::readAll(folder / "words.h");
  for (const char *member : {"const float *class_;", "const float *a_b;", "const float *a_b_2;", "float *int_;",
                             "uint16_t *e;", "struct words_inputs {"})
    EXPECT_HAS(header, member);
  folder.write("use.c",
               "#include \"words.h\"\n#include \"words.h\"\nint f(void);\nint f(void) { struct words_inputs in = "
               "{sizeof in, 0, 0, 0, 0}; return (int)in.struct_size + WORDS_INPUTS; }\n");
  run("'" TCC_CC "' -std=c99 -pedantic -Wall -Wextra -Wconversion -Werror -c use.c -o use.o");
  run("'" TCC_CXX
      "' -x c++ -std=c++17 -Wall -Wextra -Wconversion -Wmissing-field-initializers -Werror -c use.c -o use.o");
}

TEST_F(StepProgram, OnlyTheStepsNamesAreVisible) {
  folder.write("f.graph", geluGraph("f"));
  for (const char *flags : {"", " --static"}) {
    tcc(std::string("f.graph -o f.so") + flags);
    std::istringstream names(run("nm -D --defined-only f.so"));
    int count = 0;
    for (std::string line; std::getline(names, line); ++count)
      EXPECT_HAS(line, " T f_");
    EXPECT_EQ(count, 17);
  }
  EXPECT_HAS(tcc("f.so"), "f.so: artefact for 1 target");
  const std::string fromLibrary = tcc("f.so --run"), fromGraph = tcc("f.graph --run");
  EXPECT_EQ(fromLibrary, fromGraph.substr(fromGraph.find('\n') + 1)) << "after the summary of compiling";
}

/// Opens LIBRARY, runs one step on two threads, closes it and goes on; with "fork" a child runs one more.
const char *const hostProgram = R"(#include "step.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static float x[1 << 18], y[1 << 18];
static int once(int (*run)(tcc_step *, const struct big_inputs *, const struct big_outputs *), tcc_step *step) {
  struct big_inputs in = {sizeof in, x};
  struct big_outputs out = {sizeof out, y};
  x[5] = 1;
  y[5] = 0;
  return run(step, &in, &out) || y[5] < 0.84f || y[5] > 0.85f;
}
int main(int count, char **arguments) {
  for (int i = 0; i < 3; ++i) {
    void *library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return puts(dlerror()), 2;
    tcc_options options = {sizeof options, 2, 0, NULL};
    tcc_step *step;
    int (*create)(const tcc_options *, tcc_step **);
    int (*run)(tcc_step *, const struct big_inputs *, const struct big_outputs *);
    void (*destroy)(tcc_step *);
    *(void **)&create = dlsym(library, "big_create");
    *(void **)&run = dlsym(library, "big_run");
    *(void **)&destroy = dlsym(library, "big_destroy");
    if (create(&options, &step) || once(run, step)) return 3;
    if (count > 2 && strcmp(arguments[2], "fork") == 0) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);
        tcc_step *own;
        _exit(once(run, step) || create(&options, &own) || once(run, own));
      }
      int status = 1;
      if (waitpid(child, &status, 0) != child || status != 0) return 4;
    }
    destroy(step);
    dlclose(library);
    usleep(20000);
  }
  return puts("well"), 0;
}
)";

TEST_F(StepProgram, HostsMayCloseLibrariesAndFork) {
  folder.write("big.graph", geluGraph("big", "512x512xf32"));
  folder.write("host.c", hostProgram);
  for (const char *flags : {"", " --static"}) {
    tcc(std::string("big.graph --threads=2 -o step.so") + flags);
    run("'" TCC_CC "' -Wall -Werror -I. host.c -ldl -o host");
    EXPECT_EQ(run("./host ./step.so"), "well\n") << flags;
    EXPECT_EQ(run("./host ./step.so fork"), "well\n") << flags;
  }
}

/// By the SONAME, not by the path that it was linked with.
TEST_F(StepProgram, AProgramAndItsLibraryMoveTogether) {
  folder.write("f.graph", geluGraph("f"));
  folder.write("use.c", "#include \"f.h\"\nint main(void) {\n  tcc_step *step;\n  return f_create(NULL, &step);\n}\n");
  tcc("f.graph -o f.so");
  run("'" TCC_CC "' -I. use.c ./f.so -Wl,-rpath,'$ORIGIN' -o use && mkdir -p moved && mv use f.so moved && cd / && '" +
      folder / "moved/use" + "'");
}

/// Whether memory is aligned does not change what is refused.
TEST_F(StepProgram, OverlappingTensorsAreRefusedWhereverTheyLie) {
  folder.write("f.graph", geluGraph("f", "64xf32"));
  folder.write(
      "use.c",
      "#include \"f.h\"\n#include <stdio.h>\n#include <stdlib.h>\n"
      "static int at(tcc_step *step, const void *x, void *y) {\n"
      "  struct f_inputs in = {sizeof in, x};\n  struct f_outputs out = {sizeof out, y};\n"
      "  const int status = f_run(step, &in, &out);\n  puts(status ? f_last_error() : \"ran\");\n"
      "  return status;\n}\n"
      "int main(void) {\n  tcc_step *step;\n  if (f_create(NULL, &step)) return 9;\n"
      "  float *memory = aligned_alloc(64, 4096);\n  for (int i = 0; i < 1024; ++i) memory[i] = 1;\n"
      "  int refused = 0;\n"
      "  for (int shift = 0; shift < 32; ++shift)\n    refused += at(step, memory + shift, memory + shift) != 0;\n"
      "  refused += at(step, memory + 1, memory + 64) != 0;\n"
      "  refused += at(step, memory, memory + 63) != 0;\n"
      "  if (at(step, memory + 1, memory + 65) || at(step, memory, memory + 127)) return 8;\n"
      "  f_destroy(step);\n  free(memory);\n  return refused == 34 ? 0 : 7;\n}\n");
  tcc("f.graph -o f.so");
  EXPECT_HAS(run("'" TCC_CC "' -I. use.c ./f.so -Wl,-rpath,'$ORIGIN' -o use && ./use"), "overlap in memory");
}

TEST_F(StepProgram, AProgramAndItsLibraryBelongTogether) {
  folder.write("f.graph", geluGraph("f"));
  folder.write("use.c",
               "#include \"f.h\"\n#include <stdio.h>\nint main(void) {\n  tcc_step *step;\n  const int status = "
               "f_create(NULL, &step);\n  if (status) puts(f_last_error());\n  return status;\n}\n");
  tcc("f.graph -o f.so");
  run("'" TCC_CC "' -I. use.c ./f.so -Wl,-rpath,'$ORIGIN' -o use && ./use");
  folder.write("f.graph", geluGraph("f", "20xf32"));
  tcc("f.graph -o f.so");
  EXPECT_HAS(run("./use", 2), "the library's tensors are others than those of the header");
  // Headers of one name may come from two folders.
  folder.write("g.graph", geluGraph("g"));
  run("mkdir -p one two && '" TCC_PROGRAM "' f.graph -o one/step.o && '" TCC_PROGRAM "' g.graph -o two/step.o");
  folder.write("both.c", "#include \"one/step.h\"\n#include \"two/step.h\"\nint main(void) { return f_program() == "
                         "g_program(); }\n");
  run("'" TCC_CC "' -Wall -Werror -I. both.c one/step.o two/step.o -L'" TCC_LIBRARIES "' -Wl,-rpath,'" TCC_LIBRARIES
      "' -ltcc_runtime -o both && ./both");
  folder.write("f.h", "int mine;\n");
  EXPECT_HAS(tcc("f.graph -o f.so", 1), "'f.h' is there and was not written by tcc");
  EXPECT_EQ(test::readAll(folder / "f.h"), "int mine;\n");
}

TEST_F(StepProgram, EachInputOfCHasItsOwnStatus) {
  folder.write("bad.graph", "no graph");
  folder.write("a.graph", geluGraph("a"));
  tcc("bad.graph -c a.graph", 1);
  EXPECT_FALSE(test::readAll(folder / "a.o").empty());
  EXPECT_HAS(tcc("a.graph a.graph -o twice.so", 1), "two steps are called `a`");
  folder.write("A.graph", geluGraph("A"));
  EXPECT_HAS(tcc("a.graph A.graph -o cases.so", 1), "but perhaps for the case of letters");
  EXPECT_HAS(trainGpt("--compile-only=step.so --initial-states=step.h", 1), "is the same file as");
  EXPECT_HAS(tcc("a.graph -o a.a && '" TCC_PROGRAM "' a.a", 1), "is an archive, which is for linkers");
}

TEST_F(StepProgram, SeveralStepsInOneLibrary) {
  folder.write("a.graph", geluGraph("first"));
  folder.write("b.graph", geluGraph("second"));
  folder.write("c.graph", geluGraph("first"));
  folder.write(
      "use.c",
      "#include \"both.h\"\n#include <stdio.h>\nint main(void) {\n  float x[4] = {1, 2, 3, 4}, y[4], z[4];\n  "
      "tcc_step *a, *b;\n  struct first_inputs in = {sizeof in, x};\n  struct first_outputs out = {sizeof out, y};\n"
      "  if (first_create(NULL, &a) || second_create(NULL, &b) || first_run(a, &in, &out)) return 1;\n"
      "  struct second_inputs in2 = {sizeof in2, x};\n  struct second_outputs out2 = {sizeof out2, z};\n"
      "  if (second_run(b, &in2, &out2)) return 2;\n  printf(\"%g %g\\n\", y[0], z[0]);\n  first_destroy(a);\n"
      "  second_destroy(b);\n  return 0;\n}\n");
  for (const char *library : {"both.so", "both.a", "both.o"}) {
    tcc(std::string("a.graph b.graph -o ") + library);
    run(std::string("'" TCC_CC "' -std=c99 -Wall -Werror -I. use.c ./") + library +
        " -L'" TCC_LIBRARIES "' -Wl,-rpath,'" TCC_LIBRARIES ":$ORIGIN' -ltcc_runtime -o use");
    EXPECT_EQ(run("./use"), "0.841192 0.841192\n");
  }
  EXPECT_HAS(tcc("both.so", 1), "several compiled steps");
  const std::string before = test::readAll(folder / "both.so");
  EXPECT_HAS(tcc("a.graph c.graph -o both.so", 1), "two steps are called `first`");
  EXPECT_EQ(test::readAll(folder / "both.so"), before);
}

TEST_F(StepProgram, MistakesHaveOneClearMessage) {
  folder.write("f.graph", geluGraph("f"));
  folder.write("tcc.graph", geluGraph("tcc_f"));
  std::filesystem::create_directory(folder / "folder.so");
  const std::tuple<const char *, int, const char *> mistakes[] = {
      {"f.graph -o f.dll", 2, "-o f.dll says not what to write; a name that ends in .so, .a or .o"},
      {"f.graph -o f", 2, "says not what to write"},
      {"f.graph -c -o f.so", 2, "-c writes an object file, and -o f.so names none"},
      {"f.graph -c -emit=fused", 2, "-c with something that is printed"},
      {"f.graph --static -o f.tcc", 2, "--static puts the runtime inside a shared library"},
      {"f.graph --static", 2, "--static puts the runtime inside a shared library"},
      {"f.graph -c --run", 2, "-c with --run"},
      {"f.graph -o folder.so", 1, "folder.so"},
      {"f.graph -o nowhere/f.so", 1, "nowhere/f.so"},
      {"tcc.graph -o g.so", 1, "would define the runtime's own names"},
      {"f.graph -o f.graph.h -emit=fused -c", 2, "-c"},
      {"no.graph -c", 1, "no.graph"},
  };
  for (const auto &[arguments, status, text] : mistakes)
    EXPECT_HAS(tcc(arguments, status), text);
  EXPECT_HAS(trainGpt("--static --data book.txt", 2), "--static needs --compile-only FILE");
  EXPECT_HAS(trainGpt("--compile-only=step.so --emit-graph=step.graph", 2), "cannot be given with --emit-graph");
  EXPECT_HAS(trainGpt("--compile-only=step.dll", 2), "which ends in .so, .a or .o");
  // What is there stays whole where the new one cannot be written.
  tcc("f.graph -o f.so");
  const std::string library = test::readAll(folder / "f.so"), header = test::readAll(folder / "f.h");
  run("(ulimit -f 8; '" TCC_PROGRAM "' f.graph -o f.so)", 1);
  EXPECT_EQ(test::readAll(folder / "f.so"), library);
  EXPECT_EQ(test::readAll(folder / "f.h"), header);
}

} // namespace
} // namespace tcc
