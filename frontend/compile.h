// compile(fn): the public entry. The result is called with Arrays; each call traces fn into a compact record, looks the
// record up by its guards, and only on a miss builds IR, runs the pipeline and loads the artefact.
#pragma once
#include "frontend/break_report.h"
#include "frontend/compiler_flags.h"
#include "frontend/state_files.h"
#include "frontend/tensor.h"
#include "runtime/cache.h"
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace tcc {

namespace runtime {
class Device;
class Executable;
class Profiler;
class Ranks;
class Trace;
struct Plan;
} // namespace runtime

/// The options of a function. The compiler's flags (level, products, passes, threads, march, fastMath, fullGraph, …)
/// are members of the base.
struct FunctionOptions : CompilerFlags {
  std::vector<std::string> inputs = {};  ///< names of the arguments; arg0, arg1, … by default
  std::vector<std::string> outputs = {}; ///< names of the results; result0, … by default
  bool frozen = false;                   ///< trace only once, since the user promises that nothing changes; for other
                                         ///< shapes or types it is traced again, and `report` says so
  bool checked = false;                  ///< fill buffers with NaN before every run
  bool separate = false;                 ///< for checks: give each value of a step guarded memory of its own
  /// The device that runs the function. Others may use it too; they take turns. Null: a CPU device of its own.
  std::shared_ptr<runtime::Device> device = {};
  /// The processes that divide the lanes of the function (lanes() in control.h) among them. All must call their
  /// functions in the same order. Null: this process computes all lanes.
  std::shared_ptr<runtime::Ranks> ranks = {};
  bool fastReduce = false; ///< --reduce=fast: whether sums over ranks have their engine's order
  /// --zero=: with 1 each rank keeps its part of states such as the moments of AdamW (State::isPart), with 2 of the
  /// sums over lanes too, with 3 of the parameters too. The bits are those of 0.
  int zero = 0;
  /// A file with the function's compiled step (exportLibrary, train_gpt --compile-only), which is loaded instead of
  /// being compiled. Calls with arguments that need another step throw Error.
  std::string compiledStep = {};
  /// The most bytes of code and constants that all functions of a device together keep. The arena, which they share, is
  /// not counted.
  int64_t cacheBytes = int64_t{4} << 30;
  /// Gets "recompiled: tokens 16x256 → 16x200"; printed on stderr by default.
  std::function<void(std::string_view)> report = {};
  /// Gets the function's compilations, with what they did and when, and its graph breaks. It must outlive the function.
  /// Null: not wanted. What ran can be added by Trace::add, from the profiler of profile().
  runtime::Trace *timeLine = nullptr;
};

/// What the page of a function shows in addition to its compilation.
struct ReportOptions {
  const runtime::Profiler *profile = nullptr; ///< steps of the function that were recorded
  std::string_view log = {};                  ///< JSON lines of a training run, as train_gpt --json writes them
  std::string_view error = {};                ///< the error that ended the program
  std::vector<std::string> command = {};      ///< the words of the program's command line
};

/// What one compilation did.
struct CompileSummary {
  int64_t capturedOps = 0, kernels = 0, matmuls = 0;
  int64_t arenaBytes = 0, plannedBytes = 0; ///< planned: arena, states, inputs, outputs, constants
  int64_t recomputedOps = 0;                ///< copies of ops, made so that values need not be kept
  double recomputedShare = 0;               ///< their predicted time as a share of the time of all other ops
  bool fromCache = false;                   ///< whether the step came from disk: no pass ran, no code was made
  std::string cache = {};                   ///< "hit: FILE", "miss: flags differ: -O2 → -O3", "not used: off"
  std::string tuning = {};                  ///< what -O3 measured and chose, in words; empty: nothing
  double traceMs = 0, pipelineMs = 0, codegenMs = 0, loadMs = 0, totalMs = 0;
};

struct CallCounters {
  int64_t calls = 0, traces = 0, opsRecorded = 0;
  runtime::CacheCounters cache;
};

namespace detail {
template <typename T, typename... Given>
inline constexpr bool areAll = (std::is_convertible_v<const Given &, T> && ...);

/// The arguments as a list. If one is no T, the list is empty: a static_assert has reported that, and no second message
/// shall follow.
template <typename T, typename... Given>
std::vector<T> listOf(const Given &...arguments) {
  if constexpr (areAll<T, Given...>)
    return {T(arguments)...};
  else
    return {};
}
} // namespace detail

/// A traced function with a cache of its executables. Move only; it takes one call at a time. Using it after it was
/// moved from, or calling it while another call runs, throws Error.
class Function {
public:
  using Traced = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  Function(std::string name, Traced fn, FunctionOptions options = {});
  ~Function();
  Function(Function &&) noexcept;
  Function &operator=(Function &&) noexcept;

  /// Runs one step: states are updated in place, and the results are new Arrays. Throws Error for a mistake in the
  /// traced function or its arguments, and if compiling or running fails.
  std::vector<Array> call(std::span<const Array> arguments);
  template <typename... Arrays>
  std::vector<Array> operator()(const Arrays &...arguments) {
    static_assert(detail::areAll<Array, Arrays...>,
                  "a compiled function takes Arrays and floating-point numbers: write 3.0 for an f32 scalar, "
                  "Array::scalar(3) for an i32 one");
    return call(detail::listOf<Array>(arguments...));
  }

  /// To be used inside of another traced function, in which the ops are then recorded.
  template <typename... Tensors>
    requires(std::same_as<Tensors, Tensor> || ...)
  std::vector<Tensor> operator()(const Tensors &...arguments) {
    static_assert(detail::areAll<Tensor, Tensors...>,
                  "inside of a traced function a compiled function takes Tensors and States: write full(3, {}) "
                  "for a number");
    return inlined(detail::listOf<Tensor>(arguments...));
  }
  std::vector<Tensor> inlined(std::span<const Tensor> arguments);

  /// Compiles for these arguments without running the step: states stay as they are. What the host asks for in the
  /// middle of a step (a graph break) is computed from these arguments, so that the traced function goes the way that
  /// a call with them takes.
  void prepare(std::span<const Array> arguments);
  /// The plan of a step for these arguments. Nothing is loaded, and no memory is taken for the step.
  runtime::Plan plan(std::span<const Array> arguments);
  /// Runs one step for these arguments on the device, kernel by kernel, and compares each kernel with the CPU, which
  /// computes from the device's operands. States stay as they are. Says in words what was compared. Throws Error for
  /// the first value that differs beyond rounding (kernel, source line, both values), and on a CPU, which needs no
  /// check.
  std::string checkDevice(std::span<const Array> arguments);
  /// Says where values of a step for these arguments stop being finite ("`h.0.mlp.gelu` (model.cpp:88): 3 of 4096
  /// values are not finite, …"); empty if all of its results are finite. The step runs on the CPU, wherever the
  /// function runs. With `eachOp` it is compiled without fusion, so that the text names an op and not a kernel. States
  /// stay as they are. Throws Error if the step cannot be compiled or run, or has graph breaks.
  std::string findNonFinite(std::span<const Array> arguments, bool eachOp = false);
  /// Writes the step for these arguments as a library with its C header: step.so (or .o or .a) and step.h.
  /// c_api/tcc_runtime.h says how they are used; load() takes them too. States stay as they are, and are not written.
  /// `architectures` names the CPUs for which the step is compiled, for example {"x86-64-v3", "x86-64-v4"}; if it is
  /// empty, the step is compiled as for calls. Throws Error if the step cannot be compiled, has graph breaks or needs
  /// functions of this process, and if a file cannot be written.
  void exportLibrary(const std::string &path, std::span<const Array> arguments,
                     const std::vector<std::string> &architectures = {}, bool hasRuntime = false);
  /// Writes FOLDER/index.html, a page for people (docs/REPORT.md) about the step for these arguments, which is compiled
  /// again for it. The page also shows report(). States stay as they are. FunctionOptions::reportFolder, or TCC_REPORT
  /// in the environment, writes FOLDER/NAME/index.html whenever the function is compiled. Throws Error if the step
  /// cannot be compiled (the page then shows the error and the passes that ran), and if the folder cannot be written.
  void writeReport(const std::string &folder, std::span<const Array> arguments, const ReportOptions &more = {});
  /// The captured step for these arguments as .graph text. If it has graph breaks, this is the path that the last call
  /// took, if that call had such arguments.
  std::string graph(std::span<const Array> arguments);

  /// The states that the last call with each set of argument types used, in the order of their use, and those of
  /// lossScaling(). None before the first call or prepare().
  std::vector<State> states() const;
  /// saveStates() and loadStates() with states(). Both also throw Error before the first call or prepare().
  void save(const std::string &path) const;
  void load(const std::string &path, Others others = Others::refused);

  const CompileSummary &lastCompile() const;
  CallCounters counters() const;
  /// Where values were asked for in the middle of a step, what that cost, and what was compiled again. If the
  /// environment has TCC_GRAPH_BREAKS=1, the report's text is printed on stderr when the function is destroyed.
  BreakReport report() const;
  /// The same, with the measured cost of the breaks. The path that a call with these arguments takes runs `runs` times
  /// with its breaks, and as often as one step without them, which is compiled for this. The traced function runs each
  /// time, and what it prints is printed. States and counts stay as they are. Throws Error as call() does.
  BreakReport measureBreaks(std::span<const Array> arguments, int runs = 10);
  /// Why the last call compiled; empty if it did not.
  const std::string &missReason() const;
  /// The states that matmuls of f16 add to a training step (loss_scaling.h); none for other types. They begin as zeros
  /// and must be kept with the parameters.
  const std::vector<State> &lossScaling() const;
  /// The executable of the last call or prepare(); null before.
  std::shared_ptr<runtime::Executable> executable() const;
  /// Lets every later run record its instructions in `profiler`; null ends that.
  void profile(runtime::Profiler *profiler);

private:
  struct Impl;
  Impl &held() const;
  std::unique_ptr<Impl> impl;
};

namespace detail {
inline std::vector<Tensor> resultList(const Tensor &tensor) {
  return {tensor};
}
inline std::vector<Tensor> resultList(std::vector<Tensor> tensors) {
  return tensors;
}
template <typename... T>
std::vector<Tensor> resultList(const std::tuple<T...> &tensors) {
  return std::apply([](const auto &...tensor) { return std::vector<Tensor>{tensor...}; }, tensors);
}
template <typename A, typename B>
std::vector<Tensor> resultList(const std::pair<A, B> &tensors) {
  return {tensors.first, tensors.second};
}

void checkArgumentCount(const std::string &name, size_t expected, size_t seen);

template <typename Fn, size_t... I>
std::vector<Tensor> invokeTraced(Fn &fn, std::span<const Tensor> arguments, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<decltype(fn(arguments[I]...))>) {
    fn(arguments[I]...);
    return {};
  } else {
    return resultList(fn(arguments[I]...));
  }
}

template <typename Fn, size_t... I>
constexpr bool takesTensors(std::index_sequence<I...>) {
  return std::is_invocable_v<Fn &, decltype((static_cast<void>(I), std::declval<const Tensor &>()))...>;
}
template <typename Fn, size_t N = 0>
constexpr size_t tensorArity() {
  static_assert(N <= 32, "compile() takes a function of up to 32 Tensors, or of one std::span<const Tensor>");
  if constexpr (takesTensors<Fn>(std::make_index_sequence<N>{}))
    return N;
  else
    return tensorArity<Fn, N + 1>();
}
} // namespace detail

/// Makes a Function of `fn`, which takes Tensors (or one std::span<const Tensor>) and returns a Tensor, a vector, pair
/// or tuple of Tensors, or nothing. `fn` runs at every call, so it must be cheap. Its ops are recorded; code that asks
/// for a value is a graph break (tensor.h).
template <typename Fn>
Function compile(std::string name, Fn fn, FunctionOptions options = {}) {
  if constexpr (std::is_invocable_r_v<std::vector<Tensor>, Fn &, std::span<const Tensor>>) {
    return Function(std::move(name), std::move(fn), std::move(options));
  } else {
    constexpr size_t arity = detail::tensorArity<Fn>();
    auto traced = [fn = std::move(fn), name](std::span<const Tensor> arguments) mutable {
      detail::checkArgumentCount(name, arity, arguments.size());
      return detail::invokeTraced(fn, arguments, std::make_index_sequence<arity>{});
    };
    return Function(std::move(name), std::move(traced), std::move(options));
  }
}

} // namespace tcc
