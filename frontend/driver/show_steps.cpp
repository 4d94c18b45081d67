// The choices that were made by default come first, so that those of the command line overrule them.
#include "frontend/driver/show_steps.h"
#include "codegen/targets.h"
#include "frontend/driver/outputs.h"
#include "runtime/threads.h"
#include "llvm/Support/FileSystem.h"

namespace tcc::driver {
namespace {

std::string quoted(llvm::StringRef word) {
  std::string out = "\"";
  for (const char c : word) {
    if (llvm::StringRef("\"\\$`").contains(c))
      out += '\\';
    out += c;
  }
  return out + "\"";
}

/// Where one file is written without -o, its name; the others are printed or many.
std::string outputOf(const Options &options, const std::string &input) {
  for (const Emission &emission : options.emissions)
    if (const auto *code = std::get_if<CodeEmission>(&emission))
      if (options.output.empty() && options.emissions.size() == 1 && !code->isPrinted && !code->form->isNumbered)
        return codePath(input, *code);
  return options.output;
}

} // namespace

void showSteps(llvm::raw_ostream &os, const Options &options) {
  const int threads = options.flags.threads > 0 ? options.flags.threads : runtime::availableThreads();
  for (const std::string &input : options.inputs) {
    std::vector<std::string> words = {llvm::sys::fs::getMainExecutable(nullptr, nullptr),
                                      "-O" + (options.flags.leastMemory ? "s" : std::to_string(options.flags.level)),
                                      "--target=" + targetKindOf(options.compile.targetName)->name().str()};
    if (options.flags.march.empty())
      words.emplace_back("-march=native");
    words.insert(words.end(), options.settings.begin(), options.settings.end());
    if (options.flags.threads <= 0)
      words.push_back("--threads=" + std::to_string(threads));
    words.insert(words.end(), {"-x", "graph", input});
    if (const std::string output = outputOf(options, input); !output.empty())
      words.insert(words.end(), {"-o", output});
    for (const std::string &word : words)
      os << ' ' << quoted(word);
    os << '\n';
  }
}

} // namespace tcc::driver
