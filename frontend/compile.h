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

/// The compiler's flags (level, products, passes, threads, march, fastMath, fullGraph, …) are its base.
struct FunctionOptions : CompilerFlags {
  std::vector<std::string> inputs = {};  ///< names of the arguments; arg0, arg1, … by default
  std::vector<std::string> outputs = {}; ///< names of the results; result0, … by default
  bool frozen = false;                   ///< trace once and never again: the user's promise that nothing changes;
                                         ///< other shapes or types are traced again, and `report` says so
  bool checked = false;                  ///< NaN-fill buffers before every run
  bool separate = false;                 ///< for checks: each value of a step in guarded memory of its own
  /// What runs the function, shared with others that may take turns on it; null: a CPU device of its own.
  std::shared_ptr<runtime::Device> device = {};
  /// The processes that share out the lanes of the function (lanes() in control.h), each of which calls it in the same
  /// order; null: this one computes them all.
  std::shared_ptr<runtime::Ranks> ranks = {};
  bool fastReduce = false; ///< --reduce=fast: what ranks add up has the bits of their engine's order
  /// --zero=: with 1 each rank keeps its part of states such as the moments of AdamW (State::isPart), with 2 of the
  /// sums over lanes too. The bits are those of 0.
  int zero = 0;
  /// A file with the function's compiled step (exportLibrary, train_gpt --compile-only), which is loaded and not
  /// compiled. Calls with arguments for which it is another step throw Error.
  std::string compiledStep = {};
  /// Of code and constants, all functions of a device together; the arena, which they share, is not counted.
  int64_t cacheBytes = int64_t{4} << 30;
  /// Gets "recompiled: tokens 16x256 → 16x200"; printed on stderr by default.
  std::function<void(std::string_view)> report = {};
  /// Gets the function's compilations, what they did and when, and its graph breaks; it outlives the function. Null:
  /// none is wanted. What ran is added by Trace::add, from the profiler of profile().
  runtime::Trace *timeLine = nullptr;
};

/// What a page of a function shows beside its compilation.
struct ReportOptions {
  const runtime::Profiler *profile = nullptr; ///< steps of the function that were recorded
  std::string_view log = {};                  ///< of a training run: JSON lines, as --json of train_gpt has them
  std::string_view error = {};                ///< what ended the program
};

/// What one compilation did.
struct CompileSummary {
  int64_t capturedOps = 0, kernels = 0, matmuls = 0;
  int64_t arenaBytes = 0, plannedBytes = 0; ///< planned: arena, states, inputs, outputs, constants
  int64_t recomputedOps = 0;                ///< copies of ops, made so that values need not be kept
  double recomputedShare = 0;               ///< the time of these, of that of all others, as predicted
  bool fromCache = false;                   ///< from disk: no pass ran, no code was made
  std::string cache = {};                   ///< "hit: FILE", "miss: flags differ: -O2 → -O3", "not used: off"
  double traceMs = 0, pipelineMs = 0, codegenMs = 0, loadMs = 0, totalMs = 0;
};

struct CallCounters {
  int64_t calls = 0, traces = 0, opsRecorded = 0;
  runtime::CacheCounters cache;
};

namespace detail {
template <typename T, typename... Given>
inline constexpr bool areAll = (std::is_convertible_v<const Given &, T> && ...);

/// Empty where they are no Ts, which a static_assert has said: no second message follows.
template <typename T, typename... Given>
std::vector<T> listOf(const Given &...arguments) {
  if constexpr (areAll<T, Given...>)
    return {T(arguments)...};
  else
    return {};
}
} // namespace detail

/// A traced function behind its cache of executables. Move only; one call at a time. Every use of one that was moved
/// from, and a call while another runs, throws Error.
class Function {
public:
  using Traced = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  Function(std::string name, Traced fn, FunctionOptions options = {});
  ~Function();
  Function(Function &&) noexcept;
  Function &operator=(Function &&) noexcept;

  /// One step: states are updated in place, the results are new Arrays. Throws Error for a mistake in the traced
  /// function or its arguments, and where compiling or running fails.
  std::vector<Array> call(std::span<const Array> arguments);
  template <typename... Arrays>
  std::vector<Array> operator()(const Arrays &...arguments) {
    static_assert(detail::areAll<Array, Arrays...>,
                  "a compiled function takes Arrays and floating-point numbers: write 3.0 for an f32 scalar, "
                  "Array::scalar(3) for an i32 one");
    return call(detail::listOf<Array>(arguments...));
  }

  /// Inside of another traced function: its ops are recorded there.
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
  /// The plan of a step for these arguments: nothing is loaded, and no memory taken for it.
  runtime::Plan plan(std::span<const Array> arguments);
  /// Runs one step for these arguments on the device kernel by kernel beside the CPU, each kernel from the device's own
  /// operands; states stay as they are. What was compared, in words. Throws Error for the first value that differs
  /// beyond rounding (kernel, source line, both values), and on a CPU, which needs no check.
  std::string checkDevice(std::span<const Array> arguments);
  /// Where a step for these arguments stops being finite, in words ("`h.0.mlp.gelu` (model.cpp:88): 3 of 4096 values
  /// are not finite, …"); empty where all of its results are finite. The step runs on the CPU, wherever the function
  /// does; with `eachOp` it is compiled without fusion, so that an op is named and not a kernel. States stay as they
  /// are. Throws Error where the step cannot be compiled or run, or has graph breaks.
  std::string findNonFinite(std::span<const Array> arguments, bool eachOp = false);
  /// Writes the step for these arguments as a library with its C header: "step.so" and step.h, or .o or .a
  /// (c_api/tcc_runtime.h says how they are used; load() takes them too). States stay as they are, and are not written.
  /// `architectures`, for example {"x86-64-v3", "x86-64-v4"}: CPUs that it is compiled for; none: as calls are
  /// compiled. Throws Error where the step cannot be compiled, has graph breaks or needs functions of this process, and
  /// for a file that cannot be written.
  void exportLibrary(const std::string &path, std::span<const Array> arguments,
                     const std::vector<std::string> &architectures = {}, bool hasRuntime = false);
  /// Writes FOLDER/index.html, a page for people (docs/REPORT.md), of the step for these arguments, which is compiled
  /// once more for it; report() is on it too. States stay as they are. FunctionOptions::reportFolder, or TCC_REPORT in
  /// the environment, writes FOLDER/NAME/index.html whenever the function is compiled. Throws Error where the step
  /// cannot be compiled (the page shows the error and the passes that ran), and for a folder that cannot be written.
  void writeReport(const std::string &folder, std::span<const Array> arguments, const ReportOptions &more = {});
  /// The captured step as .graph text, for these arguments; of a step with graph breaks the path that the last call
  /// took, if it was called with such arguments.
  std::string graph(std::span<const Array> arguments);

  /// The states that the last call with each set of argument types used, in the order of their use, and those of
  /// lossScaling(). None before the first call or prepare().
  std::vector<State> states() const;
  /// saveStates() and loadStates() of states(). Throws Error too before the first call or prepare().
  void save(const std::string &path) const;
  void load(const std::string &path, Others others = Others::refused);

  const CompileSummary &lastCompile() const;
  CallCounters counters() const;
  /// Where values were asked for in the middle of a step, what that cost, and what was compiled again. With the
  /// environment's TCC_GRAPH_BREAKS=1 its text is printed on stderr when the function goes.
  BreakReport report() const;
  /// The same with the cost of the breaks measured: the path that a call with these arguments takes, `runs` times with
  /// its breaks and as one step without, which is compiled for this. The traced function runs each time, and what it
  /// prints is printed; states and counts stay as they are. Throws Error as call().
  BreakReport measureBreaks(std::span<const Array> arguments, int runs = 10);
  /// Why the last call compiled; empty if it did not.
  const std::string &missReason() const;
  /// The states that products of f16 add to a training step (loss_scaling.h), zeros at first, to be kept with the
  /// parameters; none otherwise.
  const std::vector<State> &lossScaling() const;
  /// Of the last call or prepare(); null before.
  std::shared_ptr<runtime::Executable> executable() const;
  /// Every later run records its instructions there; null ends it.
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

/// fn takes Tensors (or one std::span<const Tensor>) and returns a Tensor, a vector, pair or tuple of them, or nothing.
/// It runs at every call, so it must be cheap: it records, and what asks for a value is a graph break (tensor.h).
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
