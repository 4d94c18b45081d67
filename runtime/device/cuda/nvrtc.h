// Nvrtc: compiles CUDA C++ to machine code or PTX, by NVRTC, which is opened at run time. In: text without headers;
// out: a cubin with the assembler's figures, PTX, or a CudaError with NVRTC's log.
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
  /// Whether spills, stack frames, local memory and the messages C7508 and C7510 to C7520 (except C7519) are errors.
  /// Only explorations switch this off.
  bool refuseFindings = true;
};

struct CompileResult {
  std::vector<char> cubin;
  /// Ends with the zero byte that drivers expect.
  std::string ptx;
  PtxasReport report;
  std::string log;
  double seconds = 0;
  /// Empty on success; otherwise one clear text, and no cubin.
  std::string error;
};

class Nvrtc {
public:
  /// Opens the NVRTC that fits the driver (DriverFit); without a driver nothing is run, and any NVRTC fits. It looks at
  /// TCC_NVRTC (a file, its folder or a Python environment) if that is set, else in toolkitFolders() and then on the
  /// loader's path. Throws CudaError with the reasons and an install line if there is none.
  static Nvrtc open();

  const std::string &path() const { return library.path(); }
  /// 1000·major + minor.
  int version() const { return versionNumber; }
  /// A text that differs for any other NVRTC: its version, and its file's path, size and time.
  std::string identity() const;
  /// Whether this NVRTC compiles for the architecture, including the variant that a letter at the end names.
  bool supports(const std::string &architecture) const;
  /// "this NVRTC, 12.8 (path), does not know the architecture `sm_103a`; it knows 50, …, 120".
  std::string unknown(const std::string &architecture) const;

  /// Compiles one text; throws CudaError with the log.
  CompileResult compile(const CompileRequest &request) const;
  /// Compiles all on `threads` threads (0: one for each core), the longest texts first. Results are in the order of the
  /// requests; a failure is in CompileResult::error.
  std::vector<CompileResult> compileAll(std::span<const CompileRequest> requests, unsigned threads = 0) const;

private:
  using Program = struct ProgramOpaque *;
  CompileResult tryCompile(const CompileRequest &request) const;
  int readLog(Program program, std::string &log) const;
  /// Reads what the architecture has: PTX alone (`isVirtual`), or also a cubin. Gives false if something is missing.
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
