// Stands in for NVRTC, with its exported names: takes kernel text after the device prelude, has the host's compiler
// check it with the emulator's prelude, and gives it back as a "cubin" that the driver's stand-in loads. Written from
// NVRTC's documentation.
#include "tests/cuda_emulator/emulator.h"
#include "tests/cuda_machine/cubin.h"
#include "tests/cuda_machine/machine_state.h"
#include "tests/cuda_machine/settings.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace {

using namespace tcc::machine;

enum Status : int {
  success = 0,
  programCreationFailure = 2,
  invalidInput = 3,
  invalidProgram = 4,
  invalidOption = 5,
  compilationError = 6,
  internalError = 11,
};

/// As releases of NVRTC list them.
std::vector<int> supported() {
  const int version = currentSettings().nvrtc;
  if (version >= 13000)
    return {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  std::vector<int> numbers = {50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90};
  if (version >= 12080)
    numbers.insert(numbers.end(), {100, 101, 120});
  if (version >= 12090)
    numbers.insert(numbers.end(), {103, 121});
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

constexpr const char *kernelMarker = "#line 1 \"kernel.cu\"\n";

struct Program {
  std::string text, name, log, architecture;
  std::vector<char> cubin, ptx;
};

struct Options {
  std::string architecture = "compute_80", macros;
  bool verbose = false;
};

bool startsWith(const std::string &text, const char *start) {
  return text.rfind(start, 0) == 0;
}

/// "A" or "A=1" as a line of text.
std::string macroLine(const std::string &definition) {
  std::size_t equals = definition.find('=');
  std::string value = equals == std::string::npos ? "1" : definition.substr(equals + 1);
  return "#define " + definition.substr(0, equals) + " " + value + "\n";
}

/// False, with the reason in `log`, for an option that NVRTC does not have.
bool readOption(const std::string &option, Options &options, std::string &log) {
  for (const char *form : {"--gpu-architecture=", "-arch="})
    if (startsWith(option, form)) {
      options.architecture = option.substr(std::strlen(form));
      int number = architectureNumber(options.architecture);
      const std::vector<int> numbers = supported();
      bool known = std::find(numbers.begin(), numbers.end(), number) != numbers.end();
      const char variant = options.architecture.back();
      known = known && (variant != 'a' || number >= 90) &&
              (variant != 'f' || (number >= 100 && currentSettings().nvrtc >= 12090));
      if (known)
        return true;
      log += "nvrtc: error: invalid value for --gpu-architecture (-arch): " + options.architecture + "\n";
      return false;
    }
  for (const char *form : {"--define-macro=", "-D"})
    if (startsWith(option, form)) {
      options.macros += macroLine(option.substr(std::strlen(form)));
      return true;
    }
  if (option == "--ptxas-options=-v")
    return options.verbose = true;
  for (const char *form :
       {"--std=c++17", "-std=c++17", "--std=c++20", "-std=c++20",
        "--ptxas-options=", "--fmad=", "-fmad=", "--use_fast_math", "-lineinfo", "--generate-line-info",
        "--maxrregcount=", "-default-device", "--minimal", "--extra-device-vectorization", "--split-compile="})
    if (startsWith(option, form))
      return true;
  log += "nvrtc: error: unrecognized option " + option + " found\n";
  return false;
}

/// The identifiers of kernel text, without comments and strings.
std::set<std::string> identifiers(const std::string &text) {
  std::set<std::string> found;
  for (std::size_t i = 0; i < text.size();) {
    auto letter = [&](std::size_t at) {
      return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) || text[at] == '_');
    };
    if (text.compare(i, 2, "//") == 0)
      i = std::min(text.find('\n', i), text.size());
    else if (text.compare(i, 2, "/*") == 0)
      i = std::min(text.find("*/", i + 2), text.size() - 2) + 2;
    else if (text[i] == '"')
      i = std::min(text.find('"', i + 1), text.size() - 1) + 1;
    else if (letter(i)) {
      std::size_t end = i;
      while (letter(end))
        ++end;
      found.insert(text.substr(i, end - i));
      i = end;
    } else
      ++i;
  }
  return found;
}

/// The part of the prelude that a primitive stands in, where it is not in all of them: "hopper.cuh", "wgmma.cuh" or "".
const char *fileOf(const std::string &primitive) {
  if (startsWith(primitive, "wgmma_"))
    return "wgmma.cuh";
  for (const char *start : {"tma_", "mbarrier_", "bulk_load", "fence_proxy_async", "fence_mbarrier_init", "elect_one",
                            "registers_acquire", "registers_release"})
    if (startsWith(primitive, start))
      return "hopper.cuh";
  return "";
}

/// What a device's compiler refuses and the host's does not: primitives that the prelude before the text lacks, or that
/// the architecture does.
std::string misplacedPrimitives(const std::string &prelude, const std::string &kernels,
                                const std::string &architecture) {
  std::string log;
  int number = architectureNumber(architecture);
  auto refuse = [&](const std::string &text) { log += "kernel.cu(1): error: " + text + "\n"; };
  for (const std::string &name : identifiers(kernels)) {
    std::string file = fileOf(name);
    if (!file.empty() && prelude.find("#line 1 \"" + file + "\"") == std::string::npos)
      refuse("identifier \"" + name + "\" is undefined: it stands in " + file + ", which is not before the text");
  }
  if (prelude.find("#line 1 \"wgmma.cuh\"") != std::string::npos && (number != 90 || architecture.back() != 'a'))
    refuse("wgmma is not supported on " + architecture + "; sm_90a has it");
  else if (prelude.find("#line 1 \"hopper.cuh\"") != std::string::npos && number < 90)
    refuse("mbarrier, TMA and setmaxnreg are not supported on " + architecture + "; sm_90 and later have them");
  return log;
}

/// g++'s "…/kernel.cu:3:5: error: text" as NVRTC writes it: "kernel.cu(3): error: text".
std::string nvrtcLog(const std::string &messages, const std::string &program) {
  std::istringstream lines(messages);
  std::string log;
  int errors = 0;
  for (std::string line; std::getline(lines, line);) {
    char file[256], kind[16];
    int number = 0, column = 0, length = 0;
    if (std::sscanf(line.c_str(), "%255[^: ]:%d:%d: %15[a-z]:%n", file, &number, &column, kind, &length) < 4 || !length)
      continue;
    const char *slash = std::strrchr(file, '/');
    log += std::string(slash ? slash + 1 : file) + "(" + std::to_string(number) + "): " + kind + ":" +
           line.substr(static_cast<std::size_t>(length)) + "\n";
    errors += std::strcmp(kind, "error") == 0;
  }
  if (!errors)
    return log + messages;
  return log + std::to_string(errors) + (errors == 1 ? " error" : " errors") + " detected in the compilation of \"" +
         program + "\".\n";
}

/// As ptxas writes with -v; the figures are not a device's, but none of them is refused.
std::string assemblerLog(const std::vector<std::string> &kernels, const std::string &architecture) {
  std::string log = "ptxas info    : 0 bytes gmem\n";
  for (const std::string &kernel : kernels)
    log += "ptxas info    : Compiling entry function '" + kernel + "' for '" + architecture +
           "'\nptxas info    : Function properties for " + kernel +
           "\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
           "ptxas info    : Used 32 registers, used 1 barriers, 0 bytes smem\n";
  return log;
}

/// NVRTC is called from several threads.
void count(std::uint64_t TccMachineCounters::*counter, std::int64_t difference) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  tccMachineCounters()->*counter += static_cast<std::uint64_t>(difference);
}

/// TCC_CUDA_MACHINE_ALTER, "KERNEL|FROM|TO": a compiler with a fault. In each kernel whose name holds KERNEL the first
/// FROM after the name becomes TO.
std::string altered(std::string kernels) {
  const char *plan = std::getenv("TCC_CUDA_MACHINE_ALTER");
  const std::string words = plan ? plan : "";
  const std::size_t first = words.find('|'), second = words.find('|', first + 1);
  if (second == std::string::npos)
    return kernels;
  const std::string name = words.substr(0, first), from = words.substr(first + 1, second - first - 1),
                    to = words.substr(second + 1), start = "KERNEL(";
  for (std::size_t at = kernels.find(start); at != std::string::npos; at = kernels.find(start, at + 1)) {
    const std::size_t end = std::min(kernels.find(start, at + 1), kernels.size()), place = kernels.find(from, at);
    if (kernels.substr(at, kernels.find(',', at) - at).find(name) != std::string::npos && place < end)
      kernels.replace(place, from.size(), to);
  }
  return kernels;
}

int compile(Program &program, const std::vector<std::string> &given) {
  Options options;
  for (const std::string &option : given)
    if (!readOption(option, options, program.log))
      return invalidOption;
  std::size_t marker = program.text.find(kernelMarker);
  if (marker == std::string::npos) {
    program.log += program.name +
                   "(1): error: no line `#line 1 \"kernel.cu\"`: this stand-in compiles kernel text after "
                   "the device prelude\n";
    return compilationError;
  }
  std::string prelude = program.text.substr(0, marker);
  std::string kernels = altered(program.text.substr(marker + std::strlen(kernelMarker)));
  // What the caller defines before the prelude holds for the kernels too.
  std::string before = prelude.substr(0, std::min(prelude.find("#line"), prelude.size()));
  program.log += misplacedPrimitives(prelude, kernels, options.architecture);
  if (!program.log.empty())
    return compilationError;
  std::string text = options.macros + before + kernelMarker + kernels;
  tcc::emulator::CompileOptions compileOptions;
  compileOptions.checks = !currentSettings().plain;
  try {
    tcc::emulator::Module::prepare(text, compileOptions);
  } catch (const std::runtime_error &error) {
    program.log += nvrtcLog(error.what(), program.name);
    return compilationError;
  }
  std::string number = options.architecture.substr(options.architecture.find('_') + 1);
  const int version = currentSettings().nvrtc;
  program.ptx = encodeCubin({"compute_" + number, text, version});
  if (startsWith(options.architecture, "sm_")) {
    program.cubin = encodeCubin({options.architecture, text, version});
    if (options.verbose)
      program.log += assemblerLog(tcc::emulator::kernelNames(kernels), options.architecture);
  }
  count(&TccMachineCounters::compilations, 1);
  return success;
}

template <typename Bytes>
int give(const Bytes &bytes, char *to) {
  std::copy(bytes.begin(), bytes.end(), to);
  return success;
}

} // namespace

// Counts the call and returns the code that is planned for it, if any.
#define CALL(defaultCode)                                                                                              \
  if (int planned = tccMachineCall(__func__, defaultCode))                                                             \
  return planned

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int nvrtcVersion(int *major, int *minor) {
  CALL(internalError);
  *major = currentSettings().nvrtc / 1000;
  *minor = currentSettings().nvrtc % 1000 / 10;
  return success;
}

EXPORT const char *nvrtcGetErrorString(int status) {
  static const char *const names[] = {"NVRTC_SUCCESS",
                                      "NVRTC_ERROR_OUT_OF_MEMORY",
                                      "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                      "NVRTC_ERROR_INVALID_INPUT",
                                      "NVRTC_ERROR_INVALID_PROGRAM",
                                      "NVRTC_ERROR_INVALID_OPTION",
                                      "NVRTC_ERROR_COMPILATION",
                                      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                      "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                      "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                      "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                      "NVRTC_ERROR_INTERNAL_ERROR"};
  return status >= 0 && status <= internalError ? names[status] : "NVRTC_ERROR unknown";
}

EXPORT int nvrtcGetNumSupportedArchs(int *count) {
  CALL(internalError);
  *count = static_cast<int>(supported().size());
  return success;
}

EXPORT int nvrtcGetSupportedArchs(int *architectures) {
  CALL(internalError);
  const std::vector<int> numbers = supported();
  std::copy(numbers.begin(), numbers.end(), architectures);
  return success;
}

EXPORT int nvrtcCreateProgram(Program **program, const char *text, const char *name, int headers, const char *const *,
                              const char *const *) {
  CALL(programCreationFailure);
  if (!program || !text || headers != 0)
    return invalidInput;
  *program = new Program{text, name ? name : "default_program", "", "", {}, {}};
  count(&TccMachineCounters::livePrograms, 1);
  return success;
}

EXPORT int nvrtcDestroyProgram(Program **program) {
  int planned = tccMachineCall(__func__, invalidProgram);
  if (!program || !*program)
    return invalidProgram;
  count(&TccMachineCounters::livePrograms, -1);
  delete *program;
  *program = nullptr;
  return planned;
}

EXPORT int nvrtcCompileProgram(Program *program, int count, const char *const *options) {
  CALL(internalError);
  try {
    return compile(*program, {options, options + count});
  } catch (const std::exception &error) {
    program->log += std::string(error.what()) + "\n";
    return internalError;
  }
}

EXPORT int nvrtcGetProgramLogSize(Program *program, std::size_t *bytes) {
  CALL(invalidProgram);
  *bytes = program->log.size() + 1;
  return success;
}

EXPORT int nvrtcGetProgramLog(Program *program, char *log) {
  CALL(invalidProgram);
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return success;
}

EXPORT int nvrtcGetCUBINSize(Program *program, std::size_t *bytes) {
  CALL(invalidProgram);
  *bytes = program->cubin.size();
  return success;
}

EXPORT int nvrtcGetCUBIN(Program *program, char *cubin) {
  CALL(invalidProgram);
  return give(program->cubin, cubin);
}

EXPORT int nvrtcGetPTXSize(Program *program, std::size_t *bytes) {
  CALL(invalidProgram);
  *bytes = program->ptx.size();
  return success;
}

EXPORT int nvrtcGetPTX(Program *program, char *ptx) {
  CALL(invalidProgram);
  return give(program->ptx, ptx);
}
