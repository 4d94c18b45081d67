// Runs an artefact on a GPU over the runtime alone: no compiler, no LLVM; the driver, CUDA's libraries and
// glibc are enough. Prints outputs of one element step by step, times, memory, and a profile on request.
//   run_artefact FILE [--device=N] [--steps=N] [--eager] [--separate] [--tuning=FILE] [--profile=TRACE.json] [--seed=N]
//                     [--input NAME=BYTES_FILE | NAME=VALUE | NAME=integers:N]... [--state NAME=BYTES_FILE]...
//                     [--states=FILE.safetensors] [--json=FILE]
// Inputs: a file of raw bytes holds one step's value or several, which are taken in turn; a number fills the tensor;
// integers:N draws from 0 to N - 1 at each step. Anything else is drawn: floats from -1 to 1, integers 0 or 1. States
// are drawn with a deviation of 0.02; of one dimension they are one where their name ends in `weight`, as a norm's
// does, else zero, since products of zeros are faster than others; an optimizer's (`w.v` beside `w`) are zero, unless a
// file has their bytes; with --states those that it does not name are zero. --separate gives each value memory of its
// own. --json adds a line to a file.
#include "runtime/device/cuda/step_device.h"
#include "runtime/device/limits.h"
#include "runtime/executable.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"
#include "runtime/profile_report.h"
#include "runtime/trace.h"
#include "states_file.h"
#include "tests/bench/or_fail.h"
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <set>

using namespace tcc::runtime;
using tcc::bench::fail;
using tcc::bench::orFail;

namespace {

struct Options {
  std::string file, tuning, profile, statesFile, json;
  int device = 0, steps = 10;
  uint32_t seed = 1;
  bool eager = false, separate = false;
  std::map<std::string, std::string> inputs, states;
};

template <typename Value>
std::optional<Value> parse(std::string_view text) {
  Value value{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

int number(const std::string &flag, std::string_view text, int least) {
  const auto value = parse<int>(text);
  if (!value || *value < least)
    fail(flag + " is `" + std::string(text) + "`; an integer from " + std::to_string(least) + " is needed");
  return *value;
}

Options parseOptions(int count, char **arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string flag = argument.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : argument.substr(equals + 1);
    if (flag == "--device")
      options.device = number(flag, value, 0);
    else if (flag == "--steps")
      options.steps = number(flag, value, 1);
    else if (flag == "--seed")
      options.seed = static_cast<uint32_t>(number(flag, value, 0));
    else if (flag == "--tuning")
      options.tuning = value;
    else if (flag == "--profile")
      options.profile = value;
    else if (flag == "--states")
      options.statesFile = value;
    else if (flag == "--json")
      options.json = value;
    else if (argument == "--eager")
      options.eager = true;
    else if (argument == "--separate")
      options.separate = true;
    else if ((argument == "--input" || argument == "--state") && i + 1 < count) {
      const std::string pair = arguments[++i];
      const size_t split = pair.find('=');
      if (split == std::string::npos)
        fail(argument + " " + pair + " has no value; NAME=VALUE is needed");
      (argument == "--input" ? options.inputs : options.states)[pair.substr(0, split)] = pair.substr(split + 1);
    } else if (argument.starts_with("-") || !options.file.empty())
      fail("unknown option " + argument + "; the head of run_artefact.cpp lists them");
    else
      options.file = argument;
  }
  if (options.file.empty())
    fail("no artefact is given");
  return options;
}

void setElement(const TensorSpec &spec, char *data, int64_t index, double value) {
  switch (spec.dtype) {
  case DType::f32:
    reinterpret_cast<float *>(data)[index] = static_cast<float>(value);
    return;
  case DType::bf16:
    reinterpret_cast<uint16_t *>(data)[index] = floatToBf16(static_cast<float>(value));
    return;
  case DType::f16:
    reinterpret_cast<uint16_t *>(data)[index] = floatToF16(static_cast<float>(value));
    return;
  case DType::i32:
    reinterpret_cast<int32_t *>(data)[index] = static_cast<int32_t>(value);
    return;
  case DType::i64:
    reinterpret_cast<int64_t *>(data)[index] = static_cast<int64_t>(value);
    return;
  case DType::i1:
    data[index] = value != 0;
    return;
  case DType::f8e4m3:
  case DType::f8e5m2:
    break;
  }
  fail("`" + spec.name + "` is of " + std::string(name(spec.dtype)) + "; give its bytes in a file");
}

double element(const TensorSpec &spec, const char *data) {
  switch (spec.dtype) {
  case DType::bf16:
    return bf16ToFloat(*reinterpret_cast<const uint16_t *>(data));
  case DType::f16:
    return f16ToFloat(*reinterpret_cast<const uint16_t *>(data));
  case DType::i32:
    return *reinterpret_cast<const int32_t *>(data);
  case DType::i64:
    return static_cast<double>(*reinterpret_cast<const int64_t *>(data));
  case DType::i1:
    return *data;
  default:
    return *reinterpret_cast<const float *>(data);
  }
}

/// Where a tensor's values come from, step by step.
class Source {
public:
  Source(const TensorSpec &spec, const std::string *given, bool isState, std::mt19937 &random)
      : spec(spec), isState(isState), random(random) {
    if (!given)
      return;
    fixed = parse<double>(*given);
    if (given->starts_with("integers:"))
      below = parse<int64_t>(given->substr(9));
    if (fixed || below)
      return;
    auto content = readFile(*given);
    if (!content)
      fail(content.error().message());
    if (content->empty() || static_cast<int64_t>(content->size()) % spec.bytes())
      fail("`" + *given + "` has " + std::to_string(content->size()) + " bytes; `" + spec.name +
           "` takes multiples of " + std::to_string(spec.bytes()));
    bytes = std::move(*content);
  }

  void fill(char *data, int64_t step) {
    if (!bytes.empty()) {
      const int64_t values = static_cast<int64_t>(bytes.size()) / spec.bytes();
      std::memcpy(data, bytes.data() + step % values * spec.bytes(), static_cast<size_t>(spec.bytes()));
      return;
    }
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::uniform_int_distribution<int64_t> integers(0, std::max<int64_t>(1, below.value_or(2)) - 1);
    std::normal_distribution<double> normal(0, 0.02);
    for (int64_t i = 0; i < spec.elements(); ++i)
      setElement(spec, data, i,
                 fixed                              ? *fixed
                 : isState && spec.shape.size() < 2 ? double(spec.name.ends_with("weight"))
                 : isState                          ? normal(random)
                 : below || !isFloat(spec.dtype)    ? static_cast<double>(integers(random))
                                                    : uniform(random));
  }

private:
  const TensorSpec &spec;
  bool isState;
  std::mt19937 &random;
  std::optional<double> fixed;
  std::optional<int64_t> below;
  std::string bytes;
};

std::vector<Source> sourcesOf(const std::vector<TensorSpec> &specs, const std::map<std::string, std::string> &given,
                              bool areStates, std::mt19937 &random) {
  std::set<std::string> names;
  std::vector<Source> sources;
  for (const TensorSpec &spec : specs) {
    const auto found = given.find(spec.name);
    names.insert(spec.name);
    sources.emplace_back(spec, found == given.end() ? nullptr : &found->second, areStates, random);
  }
  for (const auto &[name, value] : given)
    if (!names.contains(name))
      fail("the artefact has no " + std::string(areStates ? "state" : "input") + " `" + name + "`");
  return sources;
}

/// Prints the outputs of one element and adds them to `values`.
void printOutputs(const Plan &plan, StepOutputs &outputs, int step, Json &values) {
  std::printf("step %d", step);
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    std::string bytes(static_cast<size_t>(plan.outputs[i].bytes()), '\0');
    orFail(outputs.read(i, bytes.data(), plan.outputs[i].bytes()));
    if (plan.outputs[i].elements() != 1)
      continue;
    const double value = element(plan.outputs[i], bytes.data());
    std::printf("  %s %.9g", plan.outputs[i].name.c_str(), value);
    values[plan.outputs[i].name].push_back(value);
  }
  std::printf("\n");
}

/// Whether a state is an optimizer's: named after another one. A second moment below zero has no root.
bool belongsToAnother(const Plan &plan, const std::string &name) {
  return std::any_of(plan.states.begin(), plan.states.end(),
                     [&](const TensorSpec &other) { return name.starts_with(other.name + "."); });
}

/// What the plan's first matmul multiplies.
DType productType(const Plan &plan) {
  for (const Instruction &instruction : plan.instructions)
    if (wordsOf(instruction).part == StepPart::products)
      return multiplied(instruction);
  return DType::f32;
}

/// One line of JSON: what was run, times, bytes, losses. `milliseconds` are in ascending order.
void writeLine(const Options &options, const Executable &executable, const std::vector<double> &milliseconds,
               const Json &values) {
  Json line = {{"artefact", options.file},
               {"device", executable.device()->name()},
               {"instructions", executable.plan().instructions.size()},
               {"steps", options.steps},
               {"ms", milliseconds.empty() ? 0 : milliseconds[milliseconds.size() / 2]},
               {"ms_least", milliseconds.empty() ? 0 : milliseconds[0]},
               {"planned_bytes", executable.plannedBytes()},
               {"allocated_bytes", executable.device()->allocatedBytes()},
               {"outputs", values}};
  std::FILE *file = std::fopen(options.json.c_str(), "a");
  if (!file || std::fputs((tcc::runtime::writeJson(line) + "\n").c_str(), file) < 0 || std::fclose(file))
    fail("cannot write `" + options.json + "`");
}

} // namespace

int main(int count, char **arguments) {
  const Options options = parseOptions(count, arguments);
  auto device = orFail(
      cuda::openStepDevice({.ordinal = options.device, .tuningFile = options.tuning, .capture = !options.eager}));
  const int64_t loading = Profiler::now();
  auto executable =
      orFail(Executable::load(orFail(readArtefact(options.file)), {.device = device, .separate = options.separate}));
  const Plan &plan = executable->plan();
  std::printf("%s: `%s` for %s, %zu instructions, loaded in %.0f ms\n", device->name().c_str(), plan.name.c_str(),
              executable->target().c_str(), plan.instructions.size(), 1e-6 * double(Profiler::now() - loading));

  std::mt19937 random(options.seed);
  std::vector<Source> inputSources = sourcesOf(plan.inputs, options.inputs, false, random),
                      stateSources = sourcesOf(plan.states, options.states, true, random);
  std::map<std::string, std::string> kept;
  if (!options.statesFile.empty())
    kept = orFail(readStates(options.statesFile));
  std::vector<DeviceMemory> states;
  std::vector<TensorRef> stateRefs;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const TensorStorage host = orFail(TensorStorage::zeros(plan.states[i]));
    if (const auto found = kept.find(plan.states[i].name); found != kept.end()) {
      if (static_cast<int64_t>(found->second.size()) != host.bytes())
        fail("`" + plan.states[i].name + "` has " + std::to_string(found->second.size()) + " bytes in " +
             options.statesFile + "; the artefact's has " + std::to_string(host.bytes()));
      std::memcpy(host.data(), found->second.data(), found->second.size());
    } else if (options.states.contains(plan.states[i].name) ||
               (options.statesFile.empty() && !belongsToAnother(plan, plan.states[i].name))) {
      stateSources[i].fill(static_cast<char *>(host.data()), 0);
    }
    states.push_back(orFail(device->allocate(host.bytes())));
    orFail(device->copyIn(states.back().address, host.data(), host.bytes()));
    stateRefs.push_back({states.back().address, host.bytes()});
  }
  std::vector<TensorStorage> inputs;
  std::vector<ConstTensorRef> inputRefs;
  for (const TensorSpec &spec : plan.inputs) {
    inputs.push_back(orFail(TensorStorage::zeros(spec)));
    inputRefs.push_back(inputs.back().ref());
  }

  // Each step's outputs are read while the next one runs.
  std::shared_ptr<StepOutputs> before;
  std::vector<double> milliseconds;
  Json values = Json::object();
  int64_t last = 0;
  for (int step = 0; step < options.steps; ++step) {
    for (size_t i = 0; i < inputs.size(); ++i)
      inputSources[i].fill(static_cast<char *>(inputs[i].data()), step);
    auto outputs = orFail(executable->start(inputRefs, stateRefs));
    if (before)
      printOutputs(plan, *before, step - 1, values);
    const int64_t now = Profiler::now();
    if (step > 2) // eager, captured, first replay
      milliseconds.push_back(1e-6 * double(now - last));
    last = now;
    before = std::move(outputs);
  }
  printOutputs(plan, *before, options.steps - 1, values);
  orFail(executable->finish());
  if (!milliseconds.empty()) {
    std::sort(milliseconds.begin(), milliseconds.end());
    std::printf("%.3f ms a step (median of %zu), %.3f least\n", milliseconds[milliseconds.size() / 2],
                milliseconds.size(), milliseconds[0]);
  }
  std::printf("%lld bytes planned, %lld allocated\n", static_cast<long long>(executable->plannedBytes()),
              static_cast<long long>(device->allocatedBytes()));
  if (!options.json.empty())
    writeLine(options, *executable, milliseconds, values);
  if (!options.profile.empty()) {
    Profiler profiler;
    for (int i = 0; i < 3; ++i)
      orFail(executable->start(inputRefs, stateRefs, &profiler));
    const MachineLimits limits = measureLimits(device, productType(plan));
    std::printf("a copy moves %.1f GB/s, products make %.2f TFLOP/s\n", limits.bytesPerSecond / 1e9,
                limits.product(productType(plan)) / 1e12);
    std::printf("%s", profileReport(profiler, limits, 40).c_str());
    Trace trace("run_artefact");
    trace.add(profiler, trace.rowOf(*device));
    orFail(trace.write(options.profile));
  }
}
