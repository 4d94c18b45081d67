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

/// The settings of the command line but for level and target, which are spelled once. What -Ofast asks for beside its
/// level stays in its place, since -fno-fast-math may stand after it.
std::vector<std::string> otherSettings(llvm::ArrayRef<std::string> settings) {
  std::vector<std::string> others;
  for (llvm::StringRef setting : settings)
    if (setting == "-Ofast")
      others.emplace_back("-ffast-math");
    else if (!setting.starts_with("-O") && !setting.starts_with("--target="))
      others.push_back(setting.str());
  return others;
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
    llvm::append_range(words, otherSettings(options.settings));
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
