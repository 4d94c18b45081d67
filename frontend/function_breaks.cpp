// Graph breaks: what happens when a traced function asks for a value.
//   1. What the call has already, an argument's or a state's value, is given as it is: states keep their values until
//   the step ends.
//   2. If the call has gone the way of the last one so far, and that way took gradients, its whole step runs as far as
//      the value needs and waits there: the rest of it goes on later, and nothing is computed twice.
//   3. Otherwise the value's own segment is compiled and run. It gives what the user's code still holds, too, so that
//      later segments begin there.
// At the end the step that waits runs on, or the rest is a segment of its own; with gradients it is the whole step,
// from the inputs. It alone writes states.
#include "frontend/break_words.h"
#include "frontend/function_impl.h"
#include "runtime/trace.h"
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace tcc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t mostReads = 16384;                 // of a call: a loop that asks more often does not end
constexpr int64_t mostKeptBytes = int64_t{16} << 20; // of a value that is kept because the user's code still holds it

bool sameBits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

Array copyOf(const void *data, const Shape &shape, DType dtype) {
  Array copy = Array::uninitialized(shape, dtype);
  if (copy.bytes() > 0)
    std::memcpy(copy.raw(), data, static_cast<size_t>(copy.bytes()));
  return copy;
}

int64_t bytesOf(const ValueType &type) {
  return type.shape.elements() * runtime::byteSize(type.dtype);
}

} // namespace

void Function::Impl::refuseBreak(const HostRead &read) const {
  const std::string asks = std::string(nameOf(read.kind)) + " asks for a value in the middle of '" + name + "'";
  if (options.frozen)
    throw Error(asks + ", which is frozen and not traced again; return the value instead", read.loc);
  if (options.fullGraph)
    throw Error(breakRefusal(read.kind, name), read.loc);
  if (now.reads > mostReads)
    throw Error(asks + " for the " + std::to_string(mostReads + 1) +
                    "th time in one call; a loop that ends by data must end",
                read.loc);
}

/// The value that an argument or a state had when the call began; nothing for any other value.
std::optional<Array> Function::Impl::argumentValue(uint32_t value) {
  const Record &record = tracer().running();
  for (size_t i = 0; i < record.arguments.size(); ++i) {
    const Record::Argument &argument = record.arguments[i];
    if (argument.value != value || record.producerOf(value))
      continue;
    return argument.state ? copyOf(argument.state.rawForReading(), argument.type.shape, argument.type.dtype)
                          : copyOf(now.arguments[i].rawForReading(), argument.type.shape, argument.type.dtype);
  }
  return std::nullopt;
}

Array Function::Impl::answer(const HostRead &read) {
  ++now.reads;
  refuseBreak(read);
  const Clock::time_point start = Clock::now();
  const double compiledBefore = compileMs;
  const size_t site = now.lastSite = siteOf(read);
  std::optional<runtime::TraceScope> traced;
  if (options.timeLine)
    traced.emplace(options.timeLine, "graph break", "break",
                   std::vector<std::pair<std::string, runtime::Trace::Value>>{
                       {"function", name}, {"why", breaks.sites[site].why}, {"source", shortPlace(read.loc)}});
  auto value = now.kept.find(read.value);
  const double ranBefore = now.runMs[site];
  double computing = 0;
  if (value == now.kept.end()) {
    if (std::optional<Array> argument = argumentValue(read.value)) {
      value = now.kept.emplace(read.value, *argument).first;
    } else {
      if (now.paused && !isInPlan())
        now.paused.reset();
      if (now.mayBegin && !now.preparesOnly)
        beginStep();
      now.mayBegin = false;
      const Clock::time_point running = Clock::now();
      if (now.paused) {
        const auto place = now.paused->place.find(read.value);
        if (place == now.paused->place.end() || !advance(now.paused->parts.ready[place->second]))
          now.paused.reset();
        else {
          now.kept.emplace(read.value, now.paused->outputs[place->second]);
          ++breaks.sites[site].inStep;
          computing = std::chrono::duration<double, std::milli>(Clock::now() - running).count();
        }
      }
      if (!now.paused)
        runSegment(read);
      value = now.kept.find(read.value);
    }
  }
  value->second.rawForReading(); // waits where it comes from a device
  computing += now.runMs[site] - ranBefore;
  BreakSite &counted = breaks.sites[site];
  counted.bytesToHost += value->second.bytes();
  const double all = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  counted.milliseconds += all - computing - (compileMs - compiledBefore);
  now.answersMs += all;
  return value->second;
}

/// Cuts a segment out. Its literals after a break are constants as long as all are what they were first. Otherwise
/// those that have changed are run-time scalars: the first known set that holds all that differ now, so that equal
/// calls always run the same code.
Segment Function::Impl::cut(const Record &whole, SegmentWish wish) {
  Segment segment = cutSegment(whole, wish);
  const auto [known, isNew] = literalValues.try_emplace(recordHash(segment.record));
  LiteralValues &literals = known->second;
  std::set<size_t> changed;
  for (size_t i = 0; i < segment.literals.size(); ++i) {
    const uint32_t index = segment.literals[i];
    const double value = whole.literals[index].value;
    if (isNew)
      literals.first.push_back(value);
    else if (!whole.reads.empty() && whole.reads.front().literals <= index && !sameBits(value, literals.first[i]))
      changed.insert(i);
  }
  if (changed.empty())
    return segment;
  const auto holdsAll = [&](const std::set<size_t> &scalars) { return std::ranges::includes(scalars, changed); };
  auto scalars = std::ranges::find_if(literals.scalars, holdsAll);
  if (scalars == literals.scalars.end()) {
    if (!literals.scalars.empty())
      changed.insert(literals.scalars.back().begin(), literals.scalars.back().end());
    const size_t index = *changed.begin();
    const Literal &literal = whole.literals[segment.literals[index]];
    now.becomesInput = constantBecomesInput(literals.first[index], literal.value, literal.loc, changed.size() - 1);
    scalars = literals.scalars.insert(scalars, std::move(changed));
  }
  std::set<uint32_t> indices;
  for (size_t i : *scalars)
    indices.insert(segment.literals[i]);
  wish.isScalar = [&](uint32_t literal) { return indices.contains(literal); };
  return cutSegment(whole, wish);
}

std::vector<Array> Function::Impl::inputsOf(const Segment &segment, const Record &whole) const {
  std::vector<Array> inputs;
  for (size_t i = 0; i < segment.inputs.size(); ++i) {
    const SegmentInput &input = segment.inputs[i];
    switch (input.source) {
    case SegmentInput::Source::argument:
      inputs.push_back(now.arguments[input.index]);
      break;
    case SegmentInput::Source::kept:
      inputs.push_back(now.kept.at(input.index));
      break;
    case SegmentInput::Source::literal:
      inputs.emplace_back(Shape(), segment.record.arguments[i].type.dtype);
      inputs.back().setItem(0, whole.literals[input.index].value);
      break;
    }
  }
  return inputs;
}

/// Drops kept values that nothing reaches any more, neither what the user's code holds nor what it has assigned: once
/// there are many, and twice as many again.
void Function::Impl::releaseKept() {
  if (now.keptBytes < now.releaseAt)
    return;
  const Record &record = tracer().running();
  std::vector<uint32_t> work;
  for (uint32_t value = 0; value < record.values.size(); ++value)
    if (tracer().isHeld(value))
      work.push_back(value);
  for (const Record::Update &update : tracer().assigned())
    work.push_back(update.value);
  std::map<uint32_t, Array> reached;
  std::unordered_set<uint32_t> seen(work.begin(), work.end());
  int64_t bytes = 0;
  while (!work.empty()) {
    const uint32_t value = work.back();
    work.pop_back();
    if (const auto kept = now.kept.find(value); kept != now.kept.end()) {
      reached.insert(*kept);
      bytes += kept->second.bytes();
    } else if (const std::optional<size_t> producer = record.producerOf(value)) {
      const OpRecord &op = record.ops[*producer];
      for (uint32_t i = op.operands; i < op.operandEnd; ++i)
        if (seen.insert(record.operands[i]).second)
          work.push_back(record.operands[i]);
    }
  }
  now.kept = std::move(reached);
  now.keptBytes = bytes;
  now.releaseAt = std::max(now.releaseAt, 2 * bytes);
}

/// The value that was asked for, and what it computes on its way of what the user's code still holds.
void Function::Impl::runSegment(const HostRead &read) {
  releaseKept();
  const Record &record = tracer().running();
  SegmentWish wish{.targets = {read.value}, .literals = tracer().literalsSoFar()};
  wish.isKept = [this](uint32_t value) { return now.kept.contains(value); };
  for (uint32_t op : segmentOps(record, wish))
    for (uint32_t i = 0; i < record.ops[op].results; ++i)
      if (const uint32_t value = record.ops[op].firstResult + i; value != read.value && tracer().isHeld(value) &&
                                                                 !now.kept.contains(value) &&
                                                                 bytesOf(record.values[value]) <= mostKeptBytes)
        wish.targets.push_back(value);
  const Segment segment = cut(record, wish);
  const int64_t compiled = compilations;
  const auto executable = executableOf(segments, segment.record, recordHash(segment.record), {});
  if (compilations > compiled)
    noteSegment(read);
  const Clock::time_point start = Clock::now();
  const std::vector<Array> outputs = run(*executable, segment.record, inputsOf(segment, record));
  outputs.front().rawForReading();
  now.runMs[now.lastSite] += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  for (size_t i = 0; i < outputs.size(); ++i) {
    now.kept.insert_or_assign(wish.targets[i], outputs[i]);
    now.keptBytes += outputs[i].bytes();
  }
  countSegment(segment, *executable);
}

/// The whole step that ends as `whole` does; `asked` gets what it gives on its way.
Segment Function::Impl::stepOf(const Record &whole, std::vector<uint32_t> &asked) {
  SegmentWish wish{.updates = whole.updates, .literals = whole.literals.size()};
  wish.keepsNames = true;
  std::unordered_set<uint32_t> isAsked;
  for (const HostRead &read : whole.reads)
    if (whole.producerOf(read.value) && isAsked.insert(read.value).second)
      asked.push_back(read.value);
  wish.targets = asked;
  wish.asked = asked.size();
  wish.steady = false;
  for (uint32_t output : whole.outputs)
    if (std::find(wish.targets.begin(), wish.targets.end(), output) == wish.targets.end())
      wish.targets.push_back(output);
  return cut(whole, std::move(wish));
}

std::vector<std::string> Function::Impl::outputNames(const Record &whole, size_t asked) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < asked; ++i)
    names.push_back("asked." + std::to_string(i));
  for (size_t i = 0; i < whole.outputs.size(); ++i)
    names.push_back(i < options.outputs.size() ? options.outputs[i] : "result" + std::to_string(i));
  return names;
}

/// Whether the call has gone the way of the step that waits, so far.
bool Function::Impl::isInPlan() {
  PausedStep &step = *now.paused;
  if (!tracer().isReplaying())
    return false;
  const std::vector<Literal> &literals = tracer().running().literals;
  for (size_t &i = step.literalsSeen; i < step.segment.literals.size(); ++i) { // in the order of their recording
    const uint32_t index = step.segment.literals[i];
    if (index >= tracer().literalsSoFar())
      break;
    if (!sameBits(literals[index].value, step.literals[index]))
      return false;
  }
  return true;
}

/// Whether nothing reads a scalar of the step before the host can know it.
bool Function::Impl::mayWait(const PausedStep &step, const Record &record) {
  if (!step.parts.leavesStates())
    return false;
  std::vector<size_t> ready; // by read: what has run when the host has its value
  for (const HostRead &read : record.reads) {
    const auto asked = step.place.find(read.value);
    const size_t run = asked == step.place.end() ? 0 : step.parts.ready[asked->second];
    ready.push_back(std::max(run, ready.empty() ? 0 : ready.back()));
  }
  for (size_t i = 0; i < step.segment.inputs.size(); ++i) {
    const SegmentInput &input = step.segment.inputs[i];
    if (input.source != SegmentInput::Source::literal)
      continue;
    const auto later = std::ranges::upper_bound(record.reads, input.index, {}, &HostRead::literals);
    if (later != record.reads.begin() &&
        step.parts.firstRead[i] < ready[static_cast<size_t>(later - record.reads.begin()) - 1])
      return false;
  }
  return true;
}

/// If the last call's way is known and may be waited in, its step begins.
void Function::Impl::beginStep() {
  const Record &record = tracer().running();
  if (!tracer().isReplaying() || !takesGradients(record, record.ops.size()))
    return;
  PausedStep step;
  step.segment = stepOf(record, step.asked);
  const uint64_t hash = recordHash(step.segment.record);
  const std::vector<runtime::Guard> guards = guardsOf(step.segment.record, hash);
  if (wholeOnly.contains(hash) || !cache.contains(guards, runtime::hashGuards(guards)))
    return;
  step.executable = cache.find(guards, runtime::hashGuards(guards));
  step.parts = runtime::stepParts(step.executable->plan(), step.asked.size());
  for (size_t i = 0; i < step.asked.size(); ++i)
    step.place.emplace(step.asked[i], i);
  if (!mayWait(step, record)) {
    wholeOnly.insert(hash);
    return;
  }
  for (const Literal &literal : record.literals)
    step.literals.push_back(literal.value);
  step.inputs = inputsOf(step.segment, record);
  step.states = statesOf(step.segment.record, *step.executable);
  for (const runtime::TensorSpec &spec : step.executable->plan().outputs)
    if (device->sharesHostMemory())
      step.outputs.push_back(Array::uninitialized(Shape(spec.shape), spec.dtype));
  if (options.checked)
    checkIndices(*step.executable, step.segment.record, step.inputs);
  now.paused = std::move(step);
}

/// Runs the step that waits to before instruction `end`, from its start where others have used the device meanwhile.
bool Function::Impl::advance(size_t end) {
  PausedStep &step = *now.paused;
  const std::vector<Literal> &literals = tracer().running().literals;
  for (size_t i = 0; i < step.segment.inputs.size(); ++i)
    if (const SegmentInput &input = step.segment.inputs[i];
        input.source == SegmentInput::Source::literal && input.index < tracer().literalsSoFar())
      step.inputs[i].setItem(0, literals[input.index].value);
  if (end <= step.step.done && step.step.done > 0)
    return true;
  std::vector<runtime::ConstTensorRef> inputs;
  for (const Array &input : step.inputs)
    inputs.emplace_back(input.rawForReading(), input.bytes());
  for (int tries = 0; tries < 3; ++tries) {
    if (device->sharesHostMemory() ? advanceInPlace(inputs, end) : advanceElsewhere(inputs, end))
      return true;
    step.step = {};
  }
  return false; // others are at it all the time
}

/// False where others have used the device since the last part.
bool Function::Impl::advanceInPlace(std::span<const runtime::ConstTensorRef> inputs, size_t end) {
  PausedStep &step = *now.paused;
  std::vector<runtime::TensorRef> outputs, states;
  for (const Array &output : step.outputs)
    outputs.push_back({output.raw(), output.bytes()});
  for (const State &state : step.states)
    states.push_back({state.raw(), state.bytes()});
  auto done = step.executable->runPart(inputs, outputs, states, step.step, end, profiler);
  if (!done)
    refuseRun(done.error());
  return *done;
}

/// The same on a device with memory of its own, where the asked values arrive.
bool Function::Impl::advanceElsewhere(std::span<const runtime::ConstTensorRef> inputs, size_t end) {
  PausedStep &step = *now.paused;
  const runtime::Plan &plan = step.executable->plan();
  const bool isLast = end == plan.instructions.size();
  auto outputs = startPart(*step.executable, step.states, inputs, step.step, end,
                           isLast ? plan.outputs.size() : step.asked.size());
  if (!outputs)
    return false;
  step.outputs = std::move(*outputs);
  if (!isLast && !step.outputs.empty())
    step.outputs.front().rawForReading(); // the host waits for this part, which is what it costs
  return true;
}

/// What the function returns: the outputs of the last segment for `targets`, and kept values. A whole step computes
/// again what a segment has kept, with the bits that the next call's step gives it.
std::vector<Array> Function::Impl::results(const Record &whole, const std::vector<uint32_t> &targets,
                                           std::vector<Array> outputs) {
  std::vector<Array> list;
  std::set<uint32_t> given;
  for (uint32_t output : whole.outputs) {
    const auto kept = now.kept.find(output);
    const auto place = std::find(targets.begin(), targets.end(), output);
    const Array value = place == targets.end() ? kept->second : outputs[static_cast<size_t>(place - targets.begin())];
    list.push_back(given.insert(output).second ? value : copyOf(value.rawForReading(), value.shape(), value.dtype()));
  }
  return list;
}

/// The end of a call with breaks.
std::vector<Array> Function::Impl::finish() {
  ++breaks.callsWithBreaks;
  const Record &record = *recorded.record;
  if (now.paused && recorded.replayed && isInPlan() && advance(now.paused->executable->plan().instructions.size())) {
    current = now.paused->executable;
    std::vector<uint32_t> targets = now.paused->asked;
    for (uint32_t output : record.outputs)
      if (std::find(targets.begin(), targets.end(), output) == targets.end())
        targets.push_back(output);
    return results(record, targets, now.paused->outputs);
  }
  now.paused.reset();
  return finishSegment();
}

/// All that is left, from what is kept; with gradients the whole step, so that the next call may wait in it.
std::vector<Array> Function::Impl::finishSegment() {
  const Record &record = *recorded.record;
  std::vector<uint32_t> asked, targets;
  Segment segment;
  if (takesGradients(record, record.ops.size())) {
    for (const auto &[site, milliseconds] : now.runMs) // it is all computed again
      breaks.sites[site].milliseconds += milliseconds;
    segment = stepOf(record, asked);
    targets = asked;
    for (uint32_t output : record.outputs)
      if (std::find(targets.begin(), targets.end(), output) == targets.end())
        targets.push_back(output);
  } else {
    for (uint32_t output : record.outputs)
      if (!now.kept.contains(output) && std::find(targets.begin(), targets.end(), output) == targets.end())
        targets.push_back(output);
    if (targets.empty() && record.updates.empty())
      return results(record, targets, {});
    SegmentWish wish{.targets = targets, .updates = record.updates, .literals = record.literals.size()};
    wish.isKept = [this](uint32_t value) { return now.kept.contains(value); };
    segment = cut(record, std::move(wish));
  }
  std::vector<std::string> names = outputNames(record, asked.size());
  names.resize(targets.size());
  current = executableOf(cache, segment.record, recordHash(segment.record), names);
  if (now.preparesOnly)
    return {};
  std::vector<Array> outputs = run(*current, segment.record, inputsOf(segment, record));
  countOps(segment);
  return results(record, targets, std::move(outputs));
}

void Function::Impl::prepareFirst(std::span<const Array> arguments) {
  now.preparesOnly = true;
  prepare(arguments);
  if (recorded.record->reads.empty())
    return;
  ++breaks.callsWithBreaks;
  finishSegment(); // compiled alone: states stay as they are
}

/// Whether the record is that of a call with breaks for such arguments.
bool Function::Impl::hasPathFor(std::span<const Array> arguments) const {
  bool same = wasRecorded && !recorded.record->reads.empty() && arguments.size() == inputTypes.size();
  for (size_t i = 0; same && i < arguments.size(); ++i)
    same = arguments[i].dtype() == inputTypes[i].dtype && arguments[i].shape() == inputTypes[i].shape;
  return same;
}

} // namespace tcc
