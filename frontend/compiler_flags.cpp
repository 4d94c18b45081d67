// The table and its parsers.
#include "frontend/compiler_flags.h"
#include <charconv>
#include <filesystem>
#include <regex>

namespace tcc {
namespace {

std::string setLevel(std::string_view value, CompilerFlags &flags) {
  // As gcc: no value is 1; g is for looking at what runs; fast allows approximations too.
  constexpr std::pair<std::string_view, int> levels[] = {{"0", 0}, {"", 1},  {"1", 1}, {"g", 1},   {"2", 2},
                                                         {"s", 2}, {"z", 2}, {"3", 3}, {"fast", 3}};
  for (const auto &[name, level] : levels)
    if (value == name) {
      flags.level = level;
      flags.leastMemory = value == "s" || value == "z";
      flags.fastMath |= value == "fast";
      return {};
    }
  return "unknown optimisation level '-O" + std::string(value) + "' (one of -O0 -O1 -O2 -O3 -Os -Oz -Og -Ofast)";
}

std::string setPass(std::string_view value, CompilerFlags &flags) {
  const bool on = !value.starts_with("no-");
  const std::string name(on ? value : value.substr(3));
  if (name.empty())
    return "'-f" + std::string(value) + "' names no pass; -f<pass> or -fno-<pass> does";
  flags.passes[name] = on;
  return {};
}

std::string setProducts(std::string_view value, CompilerFlags &flags) {
  flags.chooseProducts = value == "auto";
  flags.tf32 = value == "tf32";
  flags.products = runtime::DType::f32;
  for (runtime::DType dtype : {runtime::DType::bf16, runtime::DType::f16})
    if (value == runtime::name(dtype))
      flags.products = dtype;
  if (!flags.chooseProducts && value != flags.productName())
    return "unknown element type '" + std::string(value) + "' of --dtype= (one of f32 tf32 bf16 f16 auto)";
  return {};
}

std::string setThreads(std::string_view value, CompilerFlags &flags) {
  constexpr int most = 4096;
  int threads = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), threads);
  if (problem != std::errc() || end != value.data() + value.size() || threads < 1 || threads > most)
    return "'" + std::string(value) + "' of --threads= is no number from 1 to " + std::to_string(most);
  flags.threads = threads;
  return {};
}

std::string setMarch(std::string_view value, CompilerFlags &flags) {
  if (value.empty())
    return "-march= without a CPU";
  flags.march = value == "native" ? "" : value;
  return {};
}

std::string setPadding(std::string_view value, CompilerFlags &flags) {
  for (const auto &[name, multiple] : {std::pair{"64", 64}, std::pair{"8", 8}, std::pair{"off", 0}})
    if (value == name) {
      flags.padding = multiple;
      return {};
    }
  return "unknown padding '" + std::string(value) + "' of -fpad= (one of 64 8 off)";
}

std::string setRemat(std::string_view value, CompilerFlags &flags) {
  for (const auto &[name, remat] : {std::pair{"none", Remat::none}, std::pair{"auto", Remat::automatic},
                                    std::pair{"block", Remat::block}, std::pair{"full", Remat::full}})
    if (value == name) {
      flags.remat = remat;
      return {};
    }
  return "unknown choice '" + std::string(value) + "' of --remat= (one of none auto block full)";
}

std::string setTuning(std::string_view value, CompilerFlags &flags) {
  flags.tuning = value;
  return value.empty() ? "--tuning= without a file" : "";
}

std::string setReport(std::string_view value, CompilerFlags &flags) {
  flags.reportFolder = value;
  return value.empty() ? "--report= without a folder" : "";
}

std::string setTuningSeconds(std::string_view value, CompilerFlags &flags) {
  constexpr double most = 3600;
  double seconds = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (problem != std::errc() || end != value.data() + value.size() || !(seconds >= 0 && seconds <= most))
    return "'" + std::string(value) + "' of --tuning-seconds= is no number from 0 to 3600";
  flags.tuningSeconds = seconds;
  return {};
}

std::string setCacheFolder(std::string_view value, CompilerFlags &flags) {
  std::error_code problem;
  const std::filesystem::path whole = std::filesystem::absolute(value, problem);
  if (value.empty() || problem)
    return "--cache-dir= without a folder";
  flags.diskCacheFolder = whole.lexically_normal().string();
  return {};
}

/// "512MiB" as bytes; below 0 where it is no such size.
int64_t sizeOf(std::string_view value) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::string_view unit = value.substr(static_cast<size_t>(end - value.data()));
  constexpr std::pair<const char *, int64_t> units[] = {{"", 1},
                                                        {"kB", 1'000},
                                                        {"MB", 1'000'000},
                                                        {"GB", 1'000'000'000},
                                                        {"KiB", int64_t{1} << 10},
                                                        {"MiB", int64_t{1} << 20},
                                                        {"GiB", int64_t{1} << 30}};
  for (const auto &[name, bytes] : units)
    if (unit == name && problem == std::errc() && number >= 1 && number <= (int64_t{1} << 50) / bytes)
      return number * bytes;
  return -1;
}

std::string setSize(std::string_view value, std::string_view flag, int64_t &size) {
  const int64_t bytes = sizeOf(value);
  if (bytes < 0)
    return "'" + std::string(value) + "' of " + std::string(flag) + " is no size such as 512MiB or 2GiB";
  size = bytes;
  return {};
}
std::string setCacheSize(std::string_view value, CompilerFlags &flags) {
  return setSize(value, "--cache-size=", flags.diskCacheBytes);
}
std::string setMemoryLimit(std::string_view value, CompilerFlags &flags) {
  return setSize(value, "-fmemory-limit=", flags.memoryLimit);
}

std::string setBucket(std::string_view value, CompilerFlags &flags) {
  return setSize(value, "-fbucket=", flags.bucketBytes);
}

template <auto member, bool value>
std::string setTo(std::string_view, CompilerFlags &flags) {
  flags.*member = value;
  return {};
}

std::string setPattern(std::string_view value, std::string_view flag, std::string &pattern) {
  try {
    pattern = value.empty() ? dearestRemarks : value;
    const std::regex valid(pattern, std::regex::extended);
  } catch (const std::regex_error &) {
    return "'" + std::string(value) + "' of " + std::string(flag) + " is no regular expression";
  }
  return {};
}
std::string setPassed(std::string_view value, CompilerFlags &flags) {
  return setPattern(value, "-Rpass=", flags.remarksPassed);
}
std::string setMissed(std::string_view value, CompilerFlags &flags) {
  return setPattern(value, "-Rpass-missed=", flags.remarksMissed);
}
std::string setAnalysis(std::string_view value, CompilerFlags &flags) {
  return setPattern(value, "-Rpass-analysis=", flags.remarksAnalysis);
}

std::string setRecord(std::string_view value, CompilerFlags &flags) {
  if (!value.empty() && value != "yaml")
    return "unknown format '" + std::string(value) + "' of -fsave-optimization-record= (yaml)";
  flags.saveRemarks = true;
  return {};
}
std::string setRecordFile(std::string_view value, CompilerFlags &flags) {
  if (value.empty())
    return "-foptimization-record-file= without a file";
  flags.saveRemarks = true;
  flags.remarksFile = value;
  return {};
}

constexpr CompilerFlag table[] = {
    {"-Rpass", "", "Say what passes did, at the user's line: the ten remarks about most memory traffic", setPassed},
    {"-Rpass=", "all|REGEX", "… each, or each of the passes whose names match: -Rpass=fuse-kernels", setPassed},
    {"-Rpass-missed", "", "Say what passes left undone and why: the ten dearest", setMissed},
    {"-Rpass-missed=", "all|REGEX", "… each, or each of the passes whose names match", setMissed},
    {"-Rpass-analysis", "", "Say what kernels and products cost and what bounds them: the ten dearest", setAnalysis},
    {"-Rpass-analysis=", "all|REGEX", "… each, or each of the passes whose names match", setAnalysis},
    {"-fsave-optimization-record", "", "Write all remarks as YAML for opt-viewer to NAME.opt.yaml", setRecord},
    {"-fsave-optimization-record=", "yaml", "… the same", setRecord},
    {"-foptimization-record-file=", "FILE", "… to FILE", setRecordFile},
    {"-O", "LEVEL",
     "0: one kernel an op; 1: fused; 2: and recomputed (default); 3: and kernels tuned by measuring; s, z: "
     "least memory; g: as 1; fast: 3 with -ffast-math",
     setLevel},
    {"-fpad=", "MULTIPLE", "Sizes of products to multiples of 64 or 8 where that pays, never visible, or off",
     setPadding},
    {"-ffuse-optimizer", "", "The optimizer's ops share kernels (from -O1 on; with -O0 they alone do)",
     setTo<&CompilerFlags::fusesOptimizer, true>},
    {"-fno-fuse-optimizer", "", "Each op of the optimizer has a kernel of its own",
     setTo<&CompilerFlags::fusesOptimizer, false>},
    {"-fbucket=", "SIZE", "Gradients that ranks exchange at once (25MiB); the last ones in a quarter of it", setBucket},
    {"--remat=", "WHAT",
     "Compute again instead of keeping: none (default), auto (what is cheap, or the limit needs), block, full",
     setRemat},
    {"-fmemory-limit=", "SIZE", "A step's memory, such as 6GiB: computes again until its plan fits, or is an error",
     setMemoryLimit},
    {"--memory-limit=", "SIZE", "… the same", setMemoryLimit},
    {"-fmemory-report", "", "Print where the planned peak of memory goes: by layer, source line, value",
     setTo<&CompilerFlags::memoryReport, true>},
    {"-f", "[no-]PASS", "Switch a pass on or off; tcc --print-pipeline names them", setPass},
    {"-ffast-math", "", "Allow approximations", setTo<&CompilerFlags::fastMath, true>},
    {"-fno-fast-math", "", "Allow none (default)", setTo<&CompilerFlags::fastMath, false>},
    {"-fcuda-graph", "", "A GPU runs a step as one launch of a CUDA graph (default)",
     setTo<&CompilerFlags::capturesSteps, true>},
    {"-fno-cuda-graph", "", "It launches each kernel and matmul of a step by itself",
     setTo<&CompilerFlags::capturesSteps, false>},
    {"-Werror=graph-break", "", "A value that the host asks for in the middle of a step is an error",
     setTo<&CompilerFlags::fullGraph, true>},
    {"-Werror=recompile", "", "So is compiling a function once more", setTo<&CompilerFlags::recompilesAreErrors, true>},
    {"--allow-custom-code", "", "Let custom ops run what the input names: shared objects, kernel text",
     setTo<&CompilerFlags::allowCustomCode, true>},
    {"-march=", "CPU", "CPU to compile for (native)", setMarch},
    {"--dtype=", "TYPE",
     "What f32 products multiply: f32 (default), tf32 (GPUs alone), bf16, f16, or auto, the fastest 16-bit one or f32",
     setProducts},
    {"--tuning=", "FILE",
     "Keep what measurement chose in FILE, and choose the same again: the same bits on another day", setTuning},
    {"--tuning-seconds=", "N", "For so many seconds at most -O3 measures kernels; 0: it takes what is known (20)",
     setTuningSeconds},
    {"--report=", "DIR",
     "Write DIR/index.html, a page that shows passes, graphs, kernels, memory, breaks, cache and runs ($TCC_REPORT)",
     setReport},
    {"--no-cache", "", "Take no compiled step or kernel from disk, and keep none",
     setTo<&CompilerFlags::diskCache, false>},
    {"--cache-dir=", "DIR", "Where they are kept ($TCC_CACHE_DIR, or ~/.cache/tcc)", setCacheFolder},
    {"--cache-size=", "SIZE", "… at most so many bytes, such as 512MiB; what was used longest ago goes (1GiB)",
     setCacheSize},
    {"--threads=", "N", "Threads of the compiled program (all)", setThreads},
};

} // namespace

std::span<const CompilerFlag> compilerFlags() {
  return table;
}

bool takeCompilerFlag(std::string_view argument, const char **next, CompilerFlags &flags, std::string &error) {
  // A flag as a whole goes before one that it only begins with: -ffast-math is no pass.
  for (const CompilerFlag &flag : table)
    if (!*flag.value && argument == flag.spelling) {
      error = flag.set({}, flags);
      return true;
    }
  for (const CompilerFlag &flag : table) {
    const std::string_view spelling = flag.spelling;
    if (!*flag.value)
      continue;
    const bool isWhole = argument.size() > spelling.size() || spelling == "-O" || spelling.ends_with('=');
    if (argument.starts_with(spelling) && isWhole) {
      error = flag.set(argument.substr(spelling.size()), flags);
      return true;
    }
    if (spelling.ends_with("=") && argument == spelling.substr(0, spelling.size() - 1) && next && *next) {
      error = flag.set(*next, flags);
      *next = nullptr;
      return true;
    }
  }
  return false;
}

std::string compilerFlagHelp() {
  constexpr size_t column = 38;
  std::string text;
  for (const CompilerFlag &flag : table) {
    std::string row = std::string("  ") + flag.spelling + flag.value;
    row.resize(std::max(column, row.size() + 1), ' ');
    text += row + flag.help + "\n";
  }
  return text;
}

} // namespace tcc
