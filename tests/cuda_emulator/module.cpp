// Kernel text to a shared object by the host's compiler, kept by hash; launches; program counters to lines.
#include "tests/cuda_emulator/emulator.h"

#include "codegen/cuda/device/device_text.h"
#include "tests/cuda_emulator/machine.h"
#include "tests/cuda_emulator/prelude_text.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace tcc::emulator {
namespace {

namespace fs = std::filesystem;

/// FNV-1a with two offsets: 128 bits in hex.
std::string hashOf(const std::string &text) {
  std::uint64_t a = 0xcbf29ce484222325ull, b = 0x9ae16a3b2f90404full;
  for (unsigned char c : text) {
    a = (a ^ c) * 0x100000001b3ull;
    b = (b ^ (c + 0x51ull)) * 0x100000001b3ull;
    b ^= b >> 29;
  }
  char out[33];
  std::snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b));
  return out;
}

std::string runCommand(const std::string &command, int &status) {
  std::string output;
  FILE *pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (!pipe) {
    status = -1;
    return "cannot start " + command;
  }
  char buffer[4096];
  while (std::size_t got = fread(buffer, 1, sizeof buffer, pipe))
    output.append(buffer, got);
  status = pclose(pipe);
  return output;
}

std::string wholeText(const std::string &kernel) {
  std::string text = "#line 1 \"types.cuh\"\n" + std::string(cuda::deviceFile("types.cuh")) +
                     "#line 1 \"interface.h\"\n" + interfaceText + "#line 1 \"prelude.h\"\n" + preludeText +
                     "#line 1 \"generic.cuh\"\n" + std::string(cuda::deviceFile("generic.cuh")) +
                     "#line 1 \"kernel.cu\"\n" + kernel + "\n#line 1 \"exports\"\n";
  for (const std::string &name : kernelNames(kernel))
    text += "EMULATOR_EXPORT(" + name + ")\n";
  return text;
}

std::string compilerOf(const CompileOptions &options) {
  if (!options.compiler.empty())
    return options.compiler;
  const char *environment = std::getenv("TCC_EMULATOR_CXX");
  return environment && *environment ? environment : TCC_EMULATOR_DEFAULT_CXX;
}

std::string flagsOf(const CompileOptions &options, const std::string &compiler) {
  // g++ 12's DWARF 5 gives some lines of kernel.cu to the file that holds it.
  std::string flags = "-std=c++20 -O1 -gdwarf-4 -fPIC -ffp-contract=off -fno-strict-aliasing -fno-exceptions -fno-rtti "
                      "-fno-stack-protector -fvisibility=hidden -w -Wno-psabi";
  bool clang = compiler.find("clang") != std::string::npos;
#ifdef TCC_EMULATOR_ASAN
  flags += " -fsanitize=address -fno-omit-frame-pointer";
  (void)options;
  (void)clang;
#else
  if (options.checks || options.counts) {
    flags += " -fsanitize=thread -DEMULATED_CHECKS";
    if (options.counts)
      flags += " -DEMULATED_COUNTS";
    flags += clang ? " -mllvm -tsan-instrument-func-entry-exit=0" : " --param=tsan-instrument-func-entry-exit=0";
  }
#endif
  return flags;
}

/// The cached shared object's path, made if absent: written beside its place and renamed, so that readers see it whole.
std::string build(const std::string &kernel, const CompileOptions &options) {
  const char *environment = std::getenv("TCC_EMULATOR_CACHE");
  fs::path folder = !options.cache.empty()                ? options.cache
                    : environment && *environment != '\0' ? environment
                                                          : TCC_EMULATOR_DEFAULT_CACHE;
  fs::create_directories(folder);
  std::string compiler = compilerOf(options), flags = flagsOf(options, compiler), text = wholeText(kernel);
  std::string stem = (folder / hashOf(compiler + "\n" + flags + "\n" + text)).string();
  if (fs::exists(stem + ".so"))
    return stem + ".so";
  static std::atomic<int> counter{0};
  std::string work = stem + "." + std::to_string(getpid()) + "." + std::to_string(counter++);
  std::ofstream(work + ".cpp") << text;
  int status = 0;
  std::string message = runCommand(compiler + " " + flags + " -c '" + work + ".cpp' -o '" + work + ".o' && " +
                                       compiler + " -shared -nostdlib '" + work + ".o' -lgcc -o '" + work + ".so'",
                                   status);
  fs::remove(work + ".o");
  if (status != 0)
    throw std::runtime_error("the host's compiler refuses kernel text (" + work + ".cpp):\n" + message);
  fs::rename(work + ".cpp", stem + ".cpp");
  fs::rename(work + ".so", stem + ".so");
  return stem + ".so";
}

} // namespace

std::vector<std::string> kernelNames(const std::string &text) {
  std::vector<std::string> names;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    if (std::getline(words >> std::ws, word, '(') && word.substr(0, word.find_last_not_of(' ') + 1) == "KERNEL" &&
        std::getline(words >> std::ws, word, ','))
      names.push_back(word.substr(0, word.find_last_not_of(' ') + 1));
  }
  return names;
}

struct Module::Implementation {
  /// What a module exports of a kernel.
  struct Entry {
    void (*invoke)(void **);
    const int *bounds;     // max threads a block, min blocks a multiprocessor
    const int *parameters; // their number, then the bytes of each
  };

  std::string path;
  void *handle = nullptr;
  bool checks = false, counts = false;
  std::map<void *, std::string> lines;
  std::map<std::string, Entry> entries;

  ~Implementation() {
    if (handle)
      dlclose(handle);
  }
  void *find(const std::string &symbol) const { return dlsym(handle, symbol.c_str()); }
  const Entry &entry(const std::string &kernel) {
    auto found = entries.find(kernel);
    if (found != entries.end())
      return found->second;
    Entry entry{reinterpret_cast<void (*)(void **)>(find(kernel + "_invoke")),
                static_cast<const int *>(find(kernel + "_bounds")),
                static_cast<const int *>(find(kernel + "_parameters"))};
    if (!entry.invoke || !entry.bounds || !entry.parameters)
      throw std::invalid_argument("no kernel is called `" + kernel + "`");
    return entries.emplace(kernel, entry).first->second;
  }

  /// "kernel.cu:12" of a return address in this object: the innermost frame in kernel text, or else the innermost.
  std::string lineOf(void *place) {
    if (!place)
      return "";
    if (auto known = lines.find(place); known != lines.end())
      return known->second;
    Dl_info info{};
    std::string line;
    if (dladdr(place, &info) && info.dli_fbase) {
      char offset[32];
      std::snprintf(offset, sizeof offset, "0x%zx",
                    static_cast<std::size_t>(static_cast<char *>(place) - static_cast<char *>(info.dli_fbase)) - 1);
      int status = 0;
      std::istringstream frames(runCommand("addr2line -i -e '" + path + "' " + offset, status));
      for (std::string frame; std::getline(frames, frame);) {
        frame = frame.substr(frame.rfind('/') + 1);
        frame = frame.substr(0, frame.find(' '));
        if (line.empty())
          line = frame;
        if (frame.rfind("kernel.cu", 0) == 0) {
          line = frame;
          break;
        }
      }
    }
    return lines[place] = line;
  }
};

const char *name(FindingKind kind) {
  switch (kind) {
  case FindingKind::Race:
    return "race";
  case FindingKind::Uninitialized:
    return "uninitialized";
  case FindingKind::OutOfBounds:
    return "out of bounds";
  case FindingKind::Misaligned:
    return "misaligned";
  case FindingKind::Divergence:
    return "divergence";
  case FindingKind::Leftover:
    return "leftover";
  case FindingKind::WrittenTwice:
    return "written twice";
  case FindingKind::NotWritten:
    return "not written";
  case FindingKind::Protocol:
    return "protocol";
  default:
    return "launch";
  }
}

bool LaunchResult::has(FindingKind kind) const {
  return std::any_of(findings.begin(), findings.end(), [kind](const Finding &f) { return f.kind == kind; });
}

std::string LaunchResult::text() const {
  std::string all;
  for (const Finding &finding : findings)
    all += (finding.where.empty() ? "" : finding.where + ": ") + name(finding.kind) + ": " + finding.text + "\n";
  return all;
}

std::vector<Schedule> testSchedules() {
  return {{Order::Forward, Async::Late, 1, true, 0},
          {Order::Reverse, Async::Late, 2, false, 0},
          {Order::Random, Async::Random, 3, false, 0},
          {Order::Forward, Async::Early, 4, false, 0},
          {Order::Reverse, Async::Early, 5, false, 0}};
}

Module Module::compile(const std::string &text, const CompileOptions &options) {
  Module module;
  module.implementation = std::make_shared<Implementation>();
  Implementation &loaded = *module.implementation;
  loaded.path = build(text, options);
  loaded.handle = dlopen(loaded.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!loaded.handle)
    throw std::runtime_error(std::string("emulated kernel does not load: ") + dlerror());
#ifndef TCC_EMULATOR_ASAN
  loaded.checks = options.checks && !options.counts;
  loaded.counts = options.counts;
#endif
  Table **table = static_cast<Table **>(loaded.find("emulatorTable"));
  if (!table)
    throw std::runtime_error("an emulated kernel without its table");
  *table = &Machine::get().table;
  return module;
}

void Module::prepare(const std::string &text, const CompileOptions &options) {
  build(text, options);
}

std::vector<Module> Module::compileAll(const std::vector<std::string> &texts, const CompileOptions &options) {
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i; (i = next++) < texts.size();)
      try {
        build(texts[i], options);
      } catch (const std::runtime_error &) {
        // compile() below meets and reports the same error
      }
  };
  std::thread second(work);
  work();
  second.join();
  std::vector<Module> modules;
  for (const std::string &text : texts)
    modules.push_back(compile(text, options));
  return modules;
}

std::string Module::refusal(const std::string &kernel, Dim3 grid, Dim3 block, std::size_t dynamicShared) const {
  int most = implementation->entry(kernel).bounds[0];
  if (block.y != 1 || block.z != 1 || block.x % 32 || block.x < 32)
    return "a block of " + std::to_string(block.x) + " × " + std::to_string(block.y) + " × " + std::to_string(block.z) +
           " threads; blocks are one row of whole warps";
  if (block.x > static_cast<unsigned>(most) || block.x > 1024)
    return "a block of " + std::to_string(block.x) + " threads; the kernel allows " + std::to_string(most);
  if (dynamicShared > 227 * 1024)
    return std::to_string(dynamicShared) + " bytes of dynamic shared memory; a block has at most 227 KiB";
  if (!grid.x || !grid.y || !grid.z || grid.y > 65535 || grid.z > 65535)
    return "an empty or too large grid; y and z are at most 65535";
  return "";
}

KernelFacts Module::facts(const std::string &kernel) const {
  const Implementation::Entry &entry = implementation->entry(kernel);
  KernelFacts facts{entry.bounds[0], entry.bounds[1], {}};
  for (int i = 1; i <= entry.parameters[0]; ++i)
    facts.parameterBytes.push_back(static_cast<std::size_t>(entry.parameters[i]));
  return facts;
}

LaunchResult Module::launch(const std::string &kernel, Dim3 grid, Dim3 block, std::size_t dynamicShared, void **args,
                            const Schedule &schedule) const {
  LaunchResult result;
  const Implementation::Entry &entry = implementation->entry(kernel);
  auto refuse = [&](const std::string &text) {
    result.findings.push_back({FindingKind::Launch, text, ""});
    return result;
  };
  if (std::string text = refusal(kernel, grid, block, dynamicShared); !text.empty())
    return refuse(text);
#ifdef TCC_EMULATOR_ASAN
  Schedule chosen = schedule; // the sanitizer stands in for the access checks
  chosen.checkAccesses = chosen.countAccesses = false;
#else
  const Schedule &chosen = schedule;
  if (schedule.checkAccesses && !implementation->checks)
    return refuse("access checks need a module compiled with CompileOptions::checks and without counts");
  if (schedule.countAccesses && !implementation->counts)
    return refuse("counts of accesses need a module compiled with CompileOptions::counts");
#endif
  std::vector<RawFinding> raw = Machine::get().launch(entry.invoke, args, grid, static_cast<int>(block.x),
                                                      entry.bounds[1], dynamicShared, chosen, result);
  std::set<std::string> seen; // one finding a pair of lines
  for (RawFinding &finding : raw) {
    std::string where = implementation->lineOf(finding.place), key = std::string(name(finding.kind)) + where;
    for (auto &[text, place] : finding.others) {
      finding.text += text + implementation->lineOf(place);
      key += "|" + implementation->lineOf(place);
    }
    if (where.empty() || seen.insert(key).second)
      result.findings.push_back({finding.kind, finding.text, where});
  }
  return result;
}

} // namespace tcc::emulator
