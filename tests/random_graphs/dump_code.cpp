// dump_code FOLDER FILE.graph...: what the compiler makes of each file for each of the targets below, at -O2 or the
// level in its name ("x-O1.graph"): a file each in FOLDER with the plan and the kernels' text. dump_code --graphs
// FOLDER writes the op table's rows and 300 (TCC_RANDOM_GRAPHS) random graphs as such files. tests/bench/same_code.sh
// compares two builds by it.
#include "codegen/compile_session.h"
#include "codegen/targets.h"
#include "tests/ops/op_table.h"
#include "tests/random_graphs/generate.h"
#include "tests/random_graphs/graph_check.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace mlir;
using namespace tcc;
using namespace tcc::test;

namespace {

// The files' names end with these; neither a CPU nor a GPU of them need be here, nor NVRTC.
constexpr const char *targets[] = {"cpu:x86-64", "cpu:x86-64-v3", "cpu:x86-64-v4", "cuda:sm_80", "cuda:sm_90a"};

/// The plan as JSON and the kernels as text (LLVM's, CUDA C++), or what the compiler said.
std::string codeOf(ModuleOp module, const CompileOptions &options) {
  std::string messages;
  ScopedDiagnosticHandler handler(module.getContext(),
                                  [&](Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; });
  auto session = CompileSession::open(options);
  auto plan = session ? session->plan(module.clone()) : session.error();
  if (!plan)
    return "refused: " + messages + plan.error().message() + "\n";
  const int64_t compiled = session->report().compiledKernels;
  std::string text = "kernels: " + std::to_string(compiled) + "\n" + planToJson(*plan) + "\n";
  if (compiled == 0)
    return text;
  const llvm::StringRef emission = targetKindOf(options.targetName)->emissions().front().name;
  auto kernels = session->kernels(module.clone());
  auto code = kernels ? session->target().emitAs(emission, *kernels) : kernels.error();
  if (!code)
    return text + "refused: " + code.error().message() + "\n";
  for (const std::string &module : *code)
    text += module + "\n";
  return text;
}

void write(const std::filesystem::path &folder, std::string name, const std::string &text) {
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '-' && c != '.')
      c = '_';
  std::ofstream(folder / name) << text;
}

/// The op table's rows and random graphs as files; the level to compile one at is in its name.
int writeGraphs(const std::filesystem::path &folder) {
  std::unique_ptr<MLIRContext> context = makeContext();
  int number = 0;
  for (const OpRow &row : opTable())
    for (const OpCase &sample : row.cases)
      write(folder, "op" + std::to_string(number++) + "-" + row.op + "-O2.graph", sample.text);
  const char *count = std::getenv("TCC_RANDOM_GRAPHS");
  for (int seed = 1; seed <= (count ? std::atoi(count) : 300); ++seed) {
    GenerateOptions options;
    options.ops = 4 + seed % 13;
    options.bf16 = seed % 3 == 0;
    write(folder, "random" + std::to_string(seed) + "-O" + std::to_string(seed % 4) + ".graph",
          textOf(*generateGraph(*context, seed, options)));
  }
  return 0;
}

int dump(const std::filesystem::path &folder, const std::filesystem::path &file) {
  std::unique_ptr<MLIRContext> context = makeContext();
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::string messages, name = file.stem().string();
  OwningOpRef<ModuleOp> module = parseText(*context, text.str(), messages);
  if (!module) {
    std::cerr << file.string() << ": " << messages << '\n';
    return 1;
  }
  CompileOptions options;
  size_t level = name.rfind("-O");
  options.pipeline.level = level == std::string::npos ? 2 : name[level + 2] - '0';
  options.code.compileThreads = 1;
  options.threads = 2;
  for (const char *target : targets) {
    options.targetName = target;
    write(folder, name + "." + target, codeOf(*module, options));
  }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::cerr << "dump_code --graphs FOLDER\ndump_code FOLDER FILE.graph...\n";
    return 2;
  }
  bool graphs = std::string_view(argv[1]) == "--graphs";
  std::filesystem::path folder = argv[graphs ? 2 : 1];
  std::filesystem::create_directories(folder);
  if (graphs)
    return writeGraphs(folder);
  int status = 0;
  for (int i = 2; i < argc; ++i)
    status |= dump(folder, argv[i]);
  return status;
}
