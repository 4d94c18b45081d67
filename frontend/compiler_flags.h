// The flags that say how code is made: one table for tcc, train_gpt and FunctionOptions. A new one is a member here, a
// row in compiler_flags.cpp, and a line in applyFlags (compile_options.cpp); one that passes read is a member of
// PassFlags and a row. No MLIR.
#pragma once
#include "passes/pass_flags.h"
#include "runtime/dtype.h"
#include <span>
#include <string>
#include <string_view>

namespace tcc {

/// In the place of a pattern: the remarks about most memory traffic, and how many more there are; each of them.
inline constexpr std::string_view dearestRemarks = "dearest", allRemarks = "all";

/// How much a step computes again instead of keeping it (--remat).
enum class Remat { none, automatic, block, full };

struct CompilerFlags : PassFlags {
  /// What f32 matrix products and attention multiply: f32, bf16, or f16 with loss scaling (loss_scaling.h).
  runtime::DType products = runtime::DType::f32;
  bool chooseProducts = false; ///< --dtype=auto: what the target multiplies fastest (product_choice.h)
  /// --remat=: what is computed again so that it need not be kept; nothing: none, or what the limit needs.
  std::optional<Remat> remat = {};
  int64_t memoryLimit = 0;          ///< -fmemory-limit=: bytes that a step's plan must fit in; 0: none
  bool memoryReport = false;        ///< -fmemory-report: where the planned peak goes, before anything runs
  bool leastMemory = false;         ///< -Os, -Oz: --remat= that makes the plan smallest, where it is not given
  std::string reportFolder = {};    ///< --report=: where a page with everything that is known of the step is written
  std::string tuning = {};          ///< --tuning=: a file of what measurement chose, read, and added to
  int threads = 0;                  ///< 0: all that the process may use
  std::string march = {};           ///< empty: native
  bool fastMath = false;            ///< approximations are allowed
  bool fullGraph = false;           ///< -Werror=graph-break: one is an error, at its place
  bool recompilesAreErrors = false; ///< -Werror=recompile: so is a compilation after the first
  bool allowCustomCode = false;     ///< of custom ops in .graph files: libraries and kernel text that they name

  // Compiled steps and kernels on disk (codegen/file_cache.h).
  bool diskCache = true;            ///< --no-cache: nothing is taken from there, and nothing kept
  std::string diskCacheFolder = {}; ///< --cache-dir=; empty: the user's, $TCC_CACHE_DIR or ~/.cache/tcc
  int64_t diskCacheBytes = 0;       ///< --cache-size=: of all entries together; 0: the usual 1 GiB

  // What the compiler tells about its work (frontend/remarks.h). Patterns are extended regular expressions over the
  // names of passes, or one of the words above; empty: none.
  std::string remarksPassed = {};   ///< -Rpass: what was done
  std::string remarksMissed = {};   ///< -Rpass-missed: what was left, and why
  std::string remarksAnalysis = {}; ///< -Rpass-analysis: what kernels and products cost
  bool saveRemarks = false;         ///< -fsave-optimization-record: all of them into a file
  std::string remarksFile = {};     ///< … of this name; by default the function's or the input's, with ".opt.yaml"
};

struct CompilerFlag {
  const char *spelling; ///< "-O", "--threads=": what a value follows at once
  const char *value;    ///< "LEVEL"; empty: it takes none
  const char *help;
  /// Takes the value; a usage error, or nothing.
  std::string (*set)(std::string_view value, CompilerFlags &flags);
};

std::span<const CompilerFlag> compilerFlags();

/// Takes `argument`, such as "-O2", where it is one of these flags: true then, and in `error` what is wrong with it, if
/// anything. "--threads" alone is one too where `next` is given, which is its value then and becomes null.
bool takeCompilerFlag(std::string_view argument, const char **next, CompilerFlags &flags, std::string &error);

/// A row a flag, as --help shows it.
std::string compilerFlagHelp();

} // namespace tcc
