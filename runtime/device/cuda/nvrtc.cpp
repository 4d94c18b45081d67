// One NVRTC program a request, requests drawn by worker threads from a shared counter.
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/device/cuda/driver.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <numeric>
#include <sys/stat.h>
#include <thread>

namespace tcc::runtime::cuda {

namespace {

template <typename Function>
void resolve(const Library &library, Function &function, const char *symbol) {
  function = reinterpret_cast<Function>(library.get(symbol));
}

} // namespace

namespace {

using IntFunction = int (*)(int *);
using VersionFunction = int (*)(int *major, int *minor);

/// As the driver's version is written: 12080 of 12.8.
int cudaVersionOf(const Library &library) {
  int major = 0, minor = 0;
  if (reinterpret_cast<VersionFunction>(library.get("nvrtcVersion"))(&major, &minor) != 0)
    throw CudaError(library.path() + " does not tell its version");
  return 1000 * major + 10 * minor;
}

std::vector<int> knownArchitectures(const Library &library) {
  int count = 0;
  const bool told = reinterpret_cast<IntFunction>(library.get("nvrtcGetNumSupportedArchs"))(&count) == 0;
  std::vector<int> known(static_cast<std::size_t>(std::max(count, 0)));
  if (!told || reinterpret_cast<IntFunction>(library.get("nvrtcGetSupportedArchs"))(known.data()) != 0)
    throw CudaError(library.path() + " does not tell its architectures");
  return known;
}

} // namespace

Nvrtc Nvrtc::open() {
  const DriverFit fit;
  LibrarySearch search;
  search.title = "NVRTC (NVIDIA's run-time compiler)";
  search.environment = "TCC_NVRTC";
  search.fileNames = fit.fileNames("libnvrtc.so");
  search.wheelFolders = {"cu13/lib", "cuda_nvrtc/lib"};
  search.folders = toolkitFolders(search.wheelFolders);
  search.install = fit.install("nvidia-cuda-nvrtc");
  search.misfit = [&](const Library &library) { return fit.misfit(cudaVersionOf(library)); };
  Nvrtc nvrtc;
  nvrtc.library = Library::open(search);
  const Library &library = nvrtc.library;
  resolve(library, nvrtc.createProgram, "nvrtcCreateProgram");
  resolve(library, nvrtc.destroyProgram, "nvrtcDestroyProgram");
  resolve(library, nvrtc.compileProgram, "nvrtcCompileProgram");
  resolve(library, nvrtc.getLogSize, "nvrtcGetProgramLogSize");
  resolve(library, nvrtc.getLog, "nvrtcGetProgramLog");
  resolve(library, nvrtc.getCubinSize, "nvrtcGetCUBINSize");
  resolve(library, nvrtc.getCubin, "nvrtcGetCUBIN");
  resolve(library, nvrtc.getPtxSize, "nvrtcGetPTXSize");
  resolve(library, nvrtc.getPtx, "nvrtcGetPTX");
  resolve(library, nvrtc.getErrorString, "nvrtcGetErrorString");
  const int version = cudaVersionOf(library);
  nvrtc.versionNumber = version / 1000 * 1000 + version % 1000 / 10;
  nvrtc.known = knownArchitectures(library);
  return nvrtc;
}

std::string Nvrtc::identity() const {
  struct stat file = {};
  ::stat(path().c_str(), &file);
  return std::to_string(versionNumber) + " " + path() + " " + std::to_string(file.st_size) + " " +
         std::to_string(file.st_mtim.tv_sec) + "." + std::to_string(file.st_mtim.tv_nsec);
}

bool Nvrtc::supports(const std::string &architecture) const {
  std::string_view rest = architecture;
  const bool isArchitecture = rest.starts_with("sm_") || rest.starts_with("compute_");
  rest.remove_prefix(isArchitecture ? rest.find('_') + 1 : rest.size());
  int number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  const bool hasVariant = rest.empty() || (rest == "a" && number >= 90) ||
                          (rest == "f" && number >= 100 && versionNumber >= 12009); // of one device, of its family
  return failure == std::errc() && hasVariant && std::find(known.begin(), known.end(), number) != known.end();
}

std::string Nvrtc::unknown(const std::string &architecture) const {
  std::string text = "this NVRTC, " + std::to_string(versionNumber / 1000) + "." +
                     std::to_string(versionNumber % 1000) + " (" + path() + "), does not know the architecture `" +
                     architecture + "`; it knows";
  for (int number : known)
    text += (number == known.front() ? " " : ", ") + std::to_string(number);
  return text;
}

bool Nvrtc::readCode(Program program, bool isVirtual, CompileResult &result) const {
  std::size_t size = 0;
  if (!isVirtual) {
    if (getCubinSize(program, &size) != 0 || size == 0)
      return false;
    result.cubin.resize(size);
    if (getCubin(program, result.cubin.data()) != 0)
      return false;
  }
  if (getPtxSize(program, &size) != 0 || size == 0)
    return false;
  result.ptx.resize(size);
  return getPtx(program, result.ptx.data()) == 0;
}

int Nvrtc::readLog(Program program, std::string &log) const {
  std::size_t size = 0;
  if (int code = getLogSize(program, &size))
    return code;
  log.assign(size, '\0');
  if (int code = size ? getLog(program, log.data()) : 0)
    return code;
  log.resize(size ? size - 1 : 0); // The size counts the final zero.
  return 0;
}

CompileResult Nvrtc::tryCompile(const CompileRequest &request) const {
  auto start = std::chrono::steady_clock::now();
  CompileResult result;
  std::string what = "compiling " + request.name + " for " + request.architecture;
  if (!supports(request.architecture)) {
    result.error = what + ": " + unknown(request.architecture);
    return result;
  }
  Program program = nullptr;
  if (int code = createProgram(&program, request.text.c_str(), request.name.c_str(), 0, nullptr, nullptr)) {
    result.error = what + ": " + getErrorString(code);
    return result;
  }
  const bool isVirtual = request.architecture.starts_with("compute_");
  std::vector<std::string> options = {"--gpu-architecture=" + request.architecture, "--std=c++17"};
  if (!isVirtual)
    options.push_back("--ptxas-options=-v");
  options.insert(options.end(), request.options.begin(), request.options.end());
  std::vector<const char *> optionPointers;
  for (const std::string &option : options)
    optionPointers.push_back(option.c_str());
  int code = compileProgram(program, int(optionPointers.size()), optionPointers.data());
  int logCode = readLog(program, result.log);
  if (code != 0) {
    result.error = what + ": " + getErrorString(code) + "\n" + result.log;
  } else if (logCode != 0) { // spills would go unseen
    result.error = what + ": reading the compiler's log: " + getErrorString(logCode);
  } else {
    result.report = parsePtxasLog(result.log);
    if (!readCode(program, isVirtual, result))
      result.error = what + ": NVRTC returned no " + (isVirtual ? "PTX" : "machine code");
    else if (std::string findings = ptxasFindings(result.report); request.refuseFindings && !findings.empty())
      result.error = what + ": refused\n" + findings;
  }
  destroyProgram(&program);
  if (!result.error.empty()) {
    result.cubin.clear();
    result.ptx.clear();
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

CompileResult Nvrtc::compile(const CompileRequest &request) const {
  CompileResult result = tryCompile(request);
  if (!result.error.empty())
    throw CudaError(result.error);
  return result;
}

std::vector<CompileResult> Nvrtc::compileAll(std::span<const CompileRequest> requests, unsigned threads) const {
  std::vector<CompileResult> results(requests.size());
  // A long text that starts last would be waited for alone. Device primitives in front of the kernels cost little.
  auto length = [](const CompileRequest &request) {
    const std::size_t kernels = request.text.rfind("#line 1 \"kernel.cu\"");
    return request.text.size() - (kernels == std::string::npos ? 0 : kernels);
  };
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return length(requests[a]) > length(requests[b]); });
  std::atomic<std::size_t> next = 0;
  auto work = [&] {
    for (std::size_t i = next++; i < requests.size(); i = next++)
      results[order[i]] = tryCompile(requests[order[i]]);
  };
  if (threads == 0)
    threads = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::jthread> workers;
  for (std::size_t i = 1; i < std::min<std::size_t>(threads, requests.size()); ++i)
    workers.emplace_back(work);
  work();
  workers.clear(); // Joins.
  return results;
}

} // namespace tcc::runtime::cuda
