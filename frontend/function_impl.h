// Function::Impl: what a Function holds. compile.cpp has its calls, function_compile.cpp its compilations, and
// function_breaks.cpp what happens when the host asks for a value in the middle of a step.
#pragma once
#include "codegen/check_device.h"
#include "frontend/compile.h"
#include "frontend/graph_values.h"
#include "frontend/segment.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/executable.h"
#include "runtime/step_parts.h"
#include <atomic>
#include <list>
#include <map>
#include <set>

namespace tcc {

class Report;

struct Function::Impl {
  Impl(std::string name, Traced fn, FunctionOptions options);
  ~Impl();

  using Executables = runtime::GuardedCache<runtime::Executable>;

  /// The literals of segments that differ in nothing but the values of literals.
  struct LiteralValues {
    std::vector<double> first;
    std::vector<std::set<size_t>> scalars; ///< which literals are run-time scalars; each set contains the one before
  };

  /// A step that waits for its host. Its code is for the whole path that the last call took; it has run as far as the
  /// host has asked.
  struct PausedStep {
    std::shared_ptr<runtime::Executable> executable;
    Segment segment;
    std::vector<double> literals;               ///< the literals of the whole record in the last call
    size_t literalsSeen = 0;                    ///< how many of the segment's were found to be the same in this call
    std::vector<uint32_t> asked;                ///< the values that are asked for, aligned with the first outputs
    std::unordered_map<uint32_t, size_t> place; ///< the index of each of these values in `asked`
    runtime::StepParts parts;
    std::vector<Array> inputs, outputs;
    std::vector<State> states;
    runtime::PartialStep step;
  };

  /// What lasts as long as one call.
  struct RunningCall {
    std::span<const Array> arguments;
    std::map<uint32_t, Array> kept = {}; ///< values that a segment has computed
    std::vector<uint32_t> timesRun = {}; ///< how often each op has run
    std::optional<PausedStep> paused = {};
    std::map<size_t, double> runMs = {};        ///< the milliseconds of the segments of each site
    double answersMs = 0;                       ///< the milliseconds of all breaks, with what they computed
    std::map<size_t, int64_t> compiledFor = {}; ///< how many segments were compiled, by site
    int64_t keptBytes = 0, releaseAt = int64_t{64} << 20;
    std::string becomesInput = {}; ///< if a literal has become an input: the reason to give for compiling the next step
    bool isNewProgram = false;     ///< whether the step that is looked up is a new program
    int64_t reads = 0;
    size_t lastSite = 0;         ///< the site of the last break
    bool isFailureShown = false; ///< whether a page has been written for the error that ends the call
    bool preparesOnly = false; ///< whether to run only what the host asks for, and only to compile the end of the step
    bool mayBegin = true;      ///< whether the last call's step may be begun, since nothing of this call has run yet
  };
  /// Lets one thread at a time use a Function; a second one gets an error.
  class Turn {
  public:
    explicit Turn(Impl &impl) : busy(impl.busy) {
      if (busy.exchange(true))
        throw Error("'" + impl.name +
                    "' is used while a call of it runs, by another thread or by the function that it traces; " +
                    "a Function takes one call at a time");
    }
    ~Turn() { busy = false; }
    Turn(const Turn &) = delete;
    Turn &operator=(const Turn &) = delete;

  private:
    std::atomic<bool> &busy;
  };
  class CallScope {
  public:
    CallScope(Impl &impl, std::span<const Array> arguments) : impl(impl) { impl.now = {.arguments = arguments}; }
    ~CallScope() { impl.now = {}; }
    CallScope(const CallScope &) = delete;
    CallScope &operator=(const CallScope &) = delete;

  private:
    Impl &impl;
  };

  std::string name;
  Traced fn;
  FunctionOptions options;
  std::shared_ptr<runtime::Device> device;
  /// A tracer for each set of argument types, the newest first, so that calls which alternate between types can replay.
  std::list<std::pair<std::vector<ValueType>, Tracer>> tracers;
  int64_t forgottenOps = 0;           // ops that dropped tracers have recorded
  std::vector<State> forgottenStates; // states that dropped tracers have used
  Tracer &tracer() { return tracers.front().second; }
  Executables cache;          // whole steps
  Executables segments;       // segments for what the host asks for in the middle of steps
  std::vector<State> scaling; // the states of loss scaling, with matmuls of f16
  std::vector<std::string> inputNames;
  std::vector<ValueType> inputTypes; // of the last call
  Recorded recorded;
  bool wasRecorded = false;                     // whether the last recording came to its end
  std::shared_ptr<runtime::Executable> current; // of the last call
  bool tracesAgain = false; // a look at the step has traced since then, so a frozen function must, too
  std::map<const runtime::Executable *, std::map<std::string, ValueHint>> hints; // in checked mode
  CompileSummary summary;
  std::string reason;
  CallCounters counts;
  runtime::Profiler *profiler = nullptr;
  std::atomic<bool> busy = false;

  RunningCall now;
  std::unordered_map<uint64_t, LiteralValues> literalValues; // by the segment's hash
  std::set<uint64_t> wholeOnly;                              // steps that cannot wait, by hash
  std::set<uint64_t> programs;                               // whole steps that were compiled, by the record's hash
  bool saidManySegments = false;
  BreakReport breaks;
  std::vector<std::set<const runtime::Executable *>> segmentsOfSite; // aligned with the report's sites
  int64_t compilations = 0, compiledBefore = 0, callsInARow = 0;     // in a row: calls that compiled
  double compileMs = 0;                                              // of all compilations

  void say(const std::string &text) const;
  std::vector<State> states() const;
  std::vector<State> knownStates() const;
  void chooseTracer(const std::vector<ValueType> &types);
  void trace(std::span<const Array> arguments);
  std::vector<State> statesOf(const Record &record, const runtime::Executable &executable) const;
  std::vector<runtime::Guard> guardsOf(const Record &record, uint64_t hash) const;
  std::shared_ptr<runtime::Executable> executableOf(Executables &from, const Record &record, uint64_t recordHash,
                                                    std::span<const std::string> outputs);
  void prepare(std::span<const Array> arguments);
  std::vector<Array> run(runtime::Executable &executable, const Record &record, std::span<const Array> inputs);
  std::vector<Array> runInPlace(runtime::Executable &executable, std::span<const State> states,
                                std::span<const runtime::ConstTensorRef> inputs);
  std::vector<Array> startElsewhere(runtime::Executable &executable, std::span<const State> used,
                                    std::span<const runtime::ConstTensorRef> inputs);
  std::optional<std::vector<Array>> startPart(runtime::Executable &executable, std::span<const State> used,
                                              std::span<const runtime::ConstTensorRef> inputs,
                                              runtime::PartialStep &step, size_t end, size_t count);
  void checkIndices(const runtime::Executable &executable, const Record &record, std::span<const Array> inputs);
  [[noreturn]] void refuseRun(const runtime::Error &error) const;

  // function_compile.cpp
  class Compilation;
  mlir::OwningOpRef<mlir::ModuleOp> module(const Record &record, std::span<const std::string> outputs,
                                           bool showsReads = false) const;
  RankShare shareOf(mlir::ModuleOp module) const;
  std::shared_ptr<runtime::Executable> compile(const Record &record, std::span<const std::string> outputs);
  std::shared_ptr<runtime::Executable> compileFor(Report &page, const Record &record,
                                                  std::span<const std::string> outputs);
  void addStep(Report &page, std::span<const Array> arguments);
  void showFailure(const Error &error);
  void showFailure(const std::string &folder, Report &page, const Error &error);
  void keepParts(const Record &record, const runtime::Executable &executable) const;
  void tellRemarks(const Remarks &remarks) const;
  std::string pageFolder() const;
  void tell(const std::string &text) const;
  const Record &recordFor(std::span<const Array> arguments);
  StepValue stepValues(std::span<const Array> arguments) const;

  // function_breaks.cpp
  Array answer(const HostRead &read);
  void refuseBreak(const HostRead &read) const;
  std::optional<Array> argumentValue(uint32_t value);
  void runSegment(const HostRead &read);
  void releaseKept();
  Segment cut(const Record &whole, SegmentWish wish);
  Segment stepOf(const Record &whole, std::vector<uint32_t> &asked);
  std::vector<Array> inputsOf(const Segment &segment, const Record &whole) const;
  std::vector<std::string> outputNames(const Record &whole, size_t asked) const;
  bool isInPlan();
  static bool mayWait(const PausedStep &step, const Record &record);
  void beginStep();
  bool advance(size_t end);
  bool advanceInPlace(std::span<const runtime::ConstTensorRef> inputs, size_t end);
  bool advanceElsewhere(std::span<const runtime::ConstTensorRef> inputs, size_t end);
  std::vector<Array> finish();
  std::vector<Array> finishSegment();
  std::vector<Array> results(const Record &whole, const std::vector<uint32_t> &targets, std::vector<Array> outputs);
  void prepareFirst(std::span<const Array> arguments);
  bool hasPathFor(std::span<const Array> arguments) const;

  // break_counts.cpp
  size_t siteOf(const HostRead &read);
  void countSegment(const Segment &segment, const runtime::Executable &executable);
  void countOps(const Segment &segment);
  std::string recompileReason(std::string missed) const;
  void noteRecompile(const std::string &why);
  void noteSegment(const HostRead &read);
  void warnIfAlwaysCompiled();
  BreakReport breakReport() const;

  // break_measure.cpp
  BreakReport measureBreaks(std::span<const Array> arguments, int runs);
  double timedCall(std::span<const Array> arguments);
};

} // namespace tcc
