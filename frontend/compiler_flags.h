// The flags that say how code is made, in one table for tcc, train_gpt and FunctionOptions. A new flag needs a member
// here, a row in compiler_flags.cpp, and a line in applyFlags (compile_options.cpp). A flag that passes read needs a
// member of PassFlags instead, and a row. This header needs no MLIR.
#pragma once
#include "passes/pass_flags.h"
#include "runtime/dtype.h"
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tcc {

/// Words that may stand in place of a pattern for remarks. dearestRemarks: those about most memory traffic, and how
/// many more there are. allRemarks: each of them.
inline constexpr std::string_view dearestRemarks = "dearest", allRemarks = "all";

/// How much a step computes again instead of keeping it (--remat).
enum class Remat { none, automatic, block, full };

struct CompilerFlags : PassFlags {
  /// The type in which f32 matmuls and attention multiply: f32, bf16, or f16 with loss scaling (loss_scaling.h).
  runtime::DType products = runtime::DType::f32;
  /// --dtype=tf32: GPUs may round the operands of f32 matmuls to TF32 (ten bits of fraction). `products` is f32 then.
  bool tf32 = false;
  bool chooseProducts = false; ///< --dtype=auto: `products` is what the target multiplies fastest (product_choice.h)
  /// --remat=: what is computed again so that it need not be kept; nothing: as little as the memory limit allows.
  std::optional<Remat> remat = {};
  int64_t memoryLimit = 0;       ///< -fmemory-limit=: bytes that a step's plan must fit in; 0: none
  bool memoryReport = false;     ///< -fmemory-report: what the planned peak consists of, before anything runs
  bool leastMemory = false;      ///< -Os, -Oz: without --remat=, recompute what makes the plan smallest
  std::string reportFolder = {}; ///< --report=: where a page with all that is known of the step is written
  std::string tuning = {};       ///< --tuning=: the file that remembers what measurements chose
  /// --tuning-seconds=: for so long -O3 measures kernels; nothing: for the usual 20 s.
  std::optional<double> tuningSeconds = {};
  int threads = 0;                  ///< 0: all that the process may use
  std::string march = {};           ///< empty: native
  bool fastMath = false;            ///< approximations are allowed
  bool capturesSteps = true;        ///< -f[no-]cuda-graph: whether a GPU runs a step as one launch of a CUDA graph
  bool fullGraph = false;           ///< -Werror=graph-break: a graph break is an error, at its place
  bool recompilesAreErrors = false; ///< -Werror=recompile: every compilation after the first is an error
  bool allowCustomCode = false;     ///< whether custom ops in .graph files may name libraries and kernel text

  // Compiled steps and kernels on disk (codegen/file_cache.h).
  bool diskCache = true;            ///< false with --no-cache: nothing is taken from disk, and nothing is kept
  std::string diskCacheFolder = {}; ///< --cache-dir=; empty: the user's, $TCC_CACHE_DIR or ~/.cache/tcc
  int64_t diskCacheBytes = 0;       ///< --cache-size=: the most bytes of all entries together; 0: the usual 1 GiB

  // What the compiler tells about its work (frontend/remarks.h). Patterns are extended regular expressions over the
  // names of passes, or one of the words above; empty: none.
  std::string remarksPassed = {};   ///< -Rpass: what was done
  std::string remarksMissed = {};   ///< -Rpass-missed: what was left, and why
  std::string remarksAnalysis = {}; ///< -Rpass-analysis: what kernels and products cost
  bool saveRemarks = false;         ///< -fsave-optimization-record: whether all remarks are written to a file
  std::string remarksFile = {};     ///< the file's name; by default that of the function or input, with ".opt.yaml"

  /// The type of --dtype=: "f32", "tf32", "bf16" or "f16".
  std::string_view productName() const { return tf32 ? "tf32" : runtime::name(products); }
};

struct CompilerFlag {
  const char *spelling; ///< "-O", "--threads="; a value follows without a space
  const char *value;    ///< how help names the value: "LEVEL"; empty: it takes none
  const char *help;
  /// Sets the flag to the value. Gives a usage error, or an empty text.
  std::string (*set)(std::string_view value, CompilerFlags &flags);
};

std::span<const CompilerFlag> compilerFlags();

/// If `argument`, such as "-O2", is one of these flags, sets it and gives true; `error` then says what is wrong with
/// it, if anything. If `next` is given, "--threads" alone is a flag too: `*next` is its value, and becomes null.
bool takeCompilerFlag(std::string_view argument, const char **next, CompilerFlags &flags, std::string &error);

/// Throws a usage Error for a pass that does not exist and for a type that products cannot have. Programs that have the
/// compiler know it (compile_options.cpp).
void checkFlags(const CompilerFlags &flags);

/// A row for each flag, as --help shows it.
std::string compilerFlagHelp();

} // namespace tcc
