// CUDA C++ text to machine code or PTX, through NVRTC opened at run time. In: header-free text; out: a cubin with the
// assembler's figures, PTX, or a CudaError that holds NVRTC's log.
#pragma once

#include "runtime/device/cuda/library.h"
#include "runtime/device/cuda/ptxas_log.h"

#include <span>
#include <string>
#include <vector>

namespace tcc::runtime::cuda {

struct CompileRequest {
  /// Shown in messages and debuggers as the file name.
  std::string name;
  std::string text;
  /// sm_80, sm_90a, sm_100a for machine code; compute_90 for PTX alone, which drivers compile for newer devices too.
  std::string architecture;
  std::vector<std::string> options;
  /// Refuses spills, stack frames, local memory, C7508 and C7510 to C7520 without C7519. Off only for explorations.
  bool refuseFindings = true;
};

struct CompileResult {
  std::vector<char> cubin;
  /// With the zero byte at its end that drivers expect.
  std::string ptx;
  PtxasReport report;
  std::string log;
  double seconds = 0;
  /// Empty on success; otherwise one clear text, and no cubin.
  std::string error;
};

class Nvrtc {
public:
  /// Opens the NVRTC that fits the driver (DriverFit): TCC_NVRTC (a file, its folder or a Python environment)
  /// if set, else in toolkitFolders, else the loader's path. Throws CudaError when there is none,
  /// with the reasons and an install line. Where nothing is run, without a driver, any NVRTC does.
  static Nvrtc open();

  const std::string &path() const { return library.path(); }
  /// 1000·major + minor.
  int version() const { return versionNumber; }
  /// What tells this NVRTC from any other: its version, and its file's path, size and time.
  std::string identity() const;
  /// Whether this NVRTC has the architecture in its list, and the variant that a letter at the end names.
  bool supports(const std::string &architecture) const;
  /// "this NVRTC, 12.8 (path), does not know the architecture `sm_103a`; it knows 50, …, 120".
  std::string unknown(const std::string &architecture) const;

  /// Compiles one text; throws CudaError with the log.
  CompileResult compile(const CompileRequest &request) const;
  /// Compiles all in `threads` threads (0: one a core), the longest texts first; results in order, failures in `error`.
  std::vector<CompileResult> compileAll(std::span<const CompileRequest> requests, unsigned threads = 0) const;

private:
  using Program = struct ProgramOpaque *;
  CompileResult tryCompile(const CompileRequest &request) const;
  int readLog(Program program, std::string &log) const;
  /// What an architecture has: PTX, or both. False where something is missing.
  bool readCode(Program program, bool isVirtual, CompileResult &result) const;

  Library library;
  int versionNumber = 0;
  std::vector<int> known; // numbers of architectures
  int (*createProgram)(Program *, const char *, const char *, int, const char *const *, const char *const *) = nullptr;
  int (*destroyProgram)(Program *) = nullptr;
  int (*compileProgram)(Program, int, const char *const *) = nullptr;
  int (*getLogSize)(Program, std::size_t *) = nullptr;
  int (*getLog)(Program, char *) = nullptr;
  int (*getCubinSize)(Program, std::size_t *) = nullptr;
  int (*getCubin)(Program, char *) = nullptr;
  int (*getPtxSize)(Program, std::size_t *) = nullptr;
  int (*getPtx)(Program, char *) = nullptr;
  const char *(*getErrorString)(int) = nullptr;
};

} // namespace tcc::runtime::cuda
