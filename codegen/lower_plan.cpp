// Makes the runtime's plan of a planned function, op by op.
#include "codegen/lower_plan.h"
#include "codegen/packed_operands.h"
#include "codegen/product.h"
#include "ir/kernel_cost.h"
#include "ir/known_kernels.h"
#include "ir/names.h"
#include "passes/bodies.h"
#include "passes/joined_kernels.h"
#include "passes/memory_places.h"
#include "runtime/labels.h"
#include <map>

using namespace mlir;

namespace tcc {
namespace {

using runtime::BufferId;

void collectSources(Location loc, std::vector<runtime::SourceLocation> &sources) {
  constexpr size_t most = 4;
  if (sources.size() >= most)
    return;
  if (auto file = dyn_cast<FileLineColLoc>(loc)) {
    runtime::SourceLocation source{file.getFilename().str(), static_cast<int32_t>(file.getLine()),
                                   static_cast<int32_t>(file.getColumn())};
    if (!llvm::is_contained(sources, source))
      sources.push_back(source);
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      collectSources(part, sources);
  } else if (auto named = dyn_cast<NameLoc>(loc)) {
    collectSources(named.getChildLoc(), sources);
  } else if (auto call = dyn_cast<CallSiteLoc>(loc)) {
    collectSources(call.getCallee(), sources);
  }
}

/// The elements of a literal as the runtime stores them; i1 takes a byte.
std::string rawBytes(DenseElementsAttr literal) {
  std::string bytes;
  Type element = literal.getElementType();
  const int64_t width = elementBytes(element);
  auto append = [&](const APInt &bits) {
    uint64_t value = bits.getZExtValue();
    bytes.append(reinterpret_cast<const char *>(&value), width);
  };
  if (isa<FloatType>(element))
    for (APFloat value : literal.getValues<APFloat>())
      append(value.bitcastToAPInt());
  else
    for (APInt value : literal.getValues<APInt>())
      append(value);
  return bytes;
}

/// Translates places of a body (of cond or repeat) into places of the function around it. The body's inputs, outputs
/// and states are values of that function. Its arena lies within the function's arena, and its constants are entries of
/// the function's list.
struct Frame {
  SmallVector<Place> inputs, outputs, states; // the outer place of each of the body's inputs, outputs and states
  int64_t arena = 0, constants = 0;           // where the body's arena begins (bytes), and the number of its constant 0

  Place operator()(const Place &place) const {
    auto inside = [&](Place outer) {
      outer.offset += place.offset;
      return outer;
    };
    switch (place.space) {
    case PlaceSpace::arena:
      return {PlaceSpace::arena, 0, arena + place.offset};
    case PlaceSpace::input:
      return inside(inputs[place.index]);
    case PlaceSpace::output:
      return inside(outputs[place.index]);
    case PlaceSpace::state:
      return inside(states[place.index]);
    case PlaceSpace::constant:
      return {PlaceSpace::constant, constants + place.index, place.offset};
    }
    llvm_unreachable("every space is known");
  }
};

/// What the segments of one call read and write, to find those that touch the same memory. Hundreds of segments
/// are joined, so spans are kept in order, and those that overlap or meet are one.
class TouchedMemory {
public:
  void add(const runtime::Buffer &buffer) {
    if (buffer.bytes <= 0)
      return;
    auto &spans = memory[{buffer.space, buffer.index}];
    int64_t first = buffer.offset, end = buffer.offset + buffer.bytes;
    auto next = spans.upper_bound(first);
    if (next != spans.begin() && std::prev(next)->second >= first)
      --next;
    while (next != spans.end() && next->first <= end) {
      first = std::min(first, next->first);
      end = std::max(end, next->second);
      next = spans.erase(next);
    }
    spans.emplace(first, end);
  }

  bool overlaps(const runtime::Buffer &buffer) const {
    auto spans = memory.find({buffer.space, buffer.index});
    if (spans == memory.end() || buffer.bytes <= 0)
      return false;
    auto next = spans->second.lower_bound(buffer.offset + buffer.bytes);
    return next != spans->second.begin() && std::prev(next)->second > buffer.offset;
  }

private:
  std::map<std::pair<runtime::Space, uint32_t>, std::map<int64_t, int64_t>> memory; // the ends of spans by their starts
};

class Lowering {
public:
  using Error = runtime::Error;

  Lowering(func::FuncOp function, const Target &target, int threads, KernelTable &kernels)
      : function(function), target(target), places(function), kernels(kernels) {
    plan.name = function.getName().str();
    plan.threads = threads;
    plan.alignment = target.model().alignment;
  }

  runtime::Expected<runtime::Plan> run() {
    if (Error error = describeTensors())
      return error;
    plan.arenaBytes = function->getAttrOfType<IntegerAttr>(arenaAttr).getInt();
    if (Error error = lowerOps())
      return error;
    finishLabels();
    keepPackedOperands(plan, keptPackings, [&](const runtime::MatmulCall &call) { return target.packedBytes(call); });
    for (auto [i, made] : llvm::enumerate(plan.instructions))
      made.origin.number = static_cast<uint32_t>(i);
    if (Error error = target.lowerKernels(kernels.sources(), plan))
      return error;
    if (Error error = validatePlan(plan))
      return error;
    return std::move(plan);
  }

private:
  func::FuncOp function;
  const Target &target;
  SignaturePlaces places;
  KernelTable &kernels;
  runtime::Plan plan;
  std::optional<Frame> frame; // of a body
  std::map<std::tuple<PlaceSpace, int64_t, int64_t, int64_t>, BufferId> buffers;
  std::vector<size_t> keptPackings;                               // matmuls whose B may be packed once
  std::optional<int64_t> group;                                   // of the last kernel: others of it join its call
  TouchedMemory read, written;                                    // by that call
  std::map<std::shared_ptr<const KnownKernel>, unsigned> lowered; // numbers; it lets no other form have their addresses

  Error describe(Value value, StringRef name, std::vector<runtime::TensorSpec> &list) {
    RankedTensorType type = tensorType(value);
    std::optional<runtime::DType> dtype = runtimeDType(type.getElementType());
    if (!dtype)
      return Error("'" + name.str() + "' has an element type that the runtime does not hold");
    list.push_back({name.str(), *dtype, std::vector<int64_t>(type.getShape())});
    return Error::success();
  }

  Error describeTensors() {
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      auto name = function.getArgAttrOfType<StringAttr>(i, nameAttr);
      bool state = bool(function.getArgAttr(i, stateAttr));
      std::string text = name ? name.str() : "arg" + std::to_string(i);
      if (Error error = describe(argument, text, state ? plan.states : plan.inputs))
        return error;
    }
    Operation *terminator = function.getBody().front().getTerminator();
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      if (function.getResultAttr(i, updatesAttr))
        continue;
      auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
      const std::string text = name ? name.str() : "result" + std::to_string(plan.outputs.size());
      if (Error error = describe(value, text, plan.outputs))
        return error;
    }
    return Error::success();
  }

  Error lowerOps() {
    for (ConstantOp literal : function.getBody().front().getOps<ConstantOp>()) // places count these alone
      plan.constants.push_back(rawBytes(cast<DenseElementsAttr>(literal.getValue())));
    for (Operation &op : function.getBody().front().without_terminator()) {
      auto structured = dyn_cast<StructuredOpInterface>(op);
      if (!structured || isa<UnpackOp>(op) || isUnreadKernel(&op)) // an unpack's results lie in its operand
        continue;
      auto kernel = dyn_cast<KernelOp>(op);
      auto bodies = dyn_cast<BodyOpInterface>(op);
      if (Error error = kernel ? lowerKernel(kernel) : bodies ? lowerBodies(bodies) : lowerStructured(structured))
        return error;
    }
    lowerReturn();
    return Error::success();
  }

  Error checkSupported(Operation *op) const {
    StringRef name = op->getName().getStringRef();
    if (target.supports(name))
      return Error::success();
    return Error("target '" + target.model().name + "' has no '" + name.str() + "'");
  }

  Place absolute(const Place &place) const { return frame ? (*frame)(place) : place; }

  /// The instructions of one body, which finds what it names where `inside` says; their number.
  runtime::Expected<uint32_t> lowerBody(BodyOpInterface op, unsigned number, Frame inside) {
    BodyFunction body(op, number);
    inside.constants = static_cast<int64_t>(plan.constants.size());
    const size_t first = plan.instructions.size();
    auto outerFunction = std::exchange(function, body.get());
    auto outerPlaces = std::exchange(places, SignaturePlaces(body.get()));
    auto outerFrame = std::exchange(frame, std::move(inside));
    group.reset();
    Error error = lowerOps();
    group.reset();
    function = outerFunction;
    places = std::move(outerPlaces);
    frame = std::move(outerFrame);
    if (error)
      return error;
    return static_cast<uint32_t>(plan.instructions.size() - first);
  }

  Error lowerBodies(BodyOpInterface op) {
    if (Error error = checkSupported(op))
      return error;
    const BodyMemory memory = memoryOfBodies(op, target.model().alignment);
    int64_t own = 0;
    if (auto scratch = op->getAttrOfType<DenseI64ArrayAttr>(scratchAttr))
      own = absolute({PlaceSpace::arena, 0, scratch.asArrayRef()[0]}).offset;
    Frame inside;
    inside.arena = own + memory.arena;
    StringRef name = nameOf(op->getLoc());
    std::string label = name.empty() ? op->getName().stripDialect().str() : name.str();
    SmallVector<Place> results =
        llvm::map_to_vector(op->getResults(), [&](Value result) { return absolute(places.of(result)); });
    SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), denseRoot);
    auto placeOfOperand = [&](Value operand) { return absolute(places.of(operand)); };
    if (isa<CondOp>(op.getOperation())) {
      inside.inputs = llvm::map_to_vector(ArrayRef(operands).drop_front(), placeOfOperand);
      inside.outputs = results;
      return lowerBranch(op, wholeBuffer(operands[0]), inside, label);
    }
    // A carried value is in the result's memory from before the first turn on.
    const unsigned carried = op.carriedArguments(), sliced = op.slicedArguments();
    Block &turn = op->getRegion(0).front();
    for (auto [start, result, argument] : llvm::zip(operands, op->getResults(), turn.getArguments()))
      if (!argument.use_empty()) // else the first turn writes it unseen
        copy(op, wholeBuffer(start), wholeBuffer(result), label + ": start");
    runtime::LoopCall loop;
    loop.count = static_cast<int64_t>(cast<RepeatOp>(op.getOperation()).getCount());
    inside.states = results;
    for (unsigned i = 0; i < sliced; ++i) {
      Value scanned = operands[carried + i];
      Place part{PlaceSpace::arena, 0, own + memory.slices[i]};
      inside.inputs.push_back(part);
      loop.slices.push_back({wholeBuffer(scanned), absoluteBuffer(part, byteSize(tensorType(scanned)) / loop.count)});
    }
    llvm::append_range(inside.inputs, llvm::map_range(ArrayRef(operands).drop_front(carried + sliced), placeOfOperand));
    const size_t first = addControl(op, label);
    const runtime::Expected<uint32_t> body = lowerBody(op, 0, std::move(inside));
    if (!body)
      return body.error();
    loop.body = *body;
    plan.instructions[first].call = std::move(loop);
    return Error::success();
  }

  Error lowerBranch(BodyOpInterface op, BufferId predicate, const Frame &inside, const std::string &label) {
    const size_t first = addControl(op, label);
    const runtime::Expected<uint32_t> then = lowerBody(op, 0, inside);
    const runtime::Expected<uint32_t> otherwise = then ? lowerBody(op, 1, inside) : then.error();
    if (!otherwise)
      return otherwise.error();
    plan.instructions[first].call = runtime::BranchCall{predicate, *then, *otherwise};
    return Error::success();
  }

  size_t addControl(Operation *op, const std::string &label) {
    group.reset();
    plan.instructions.push_back(instruction(op, label));
    return plan.instructions.size() - 1;
  }

  BufferId buffer(const Place &place, int64_t offset, int64_t bytes) {
    return absoluteBuffer(absolute({place.space, place.index, place.offset + offset}), bytes);
  }

  BufferId absoluteBuffer(const Place &place, int64_t bytes) {
    auto [known, inserted] = buffers.try_emplace({place.space, place.index, place.offset, bytes}, plan.buffers.size());
    if (inserted) {
      static constexpr runtime::Space spaces[] = {runtime::Space::arena, runtime::Space::input, runtime::Space::output,
                                                  runtime::Space::state, runtime::Space::constant};
      plan.buffers.push_back(
          {spaces[static_cast<size_t>(place.space)], static_cast<uint32_t>(place.index), place.offset, bytes});
    }
    return known->second;
  }

  BufferId wholeBuffer(Value value) { return buffer(places.of(value), 0, byteSize(tensorType(value))); }

  static runtime::Origin originOf(Operation *op) {
    return {op->getName().stripDialect().str(), nameOf(op->getLoc()).str(), 0};
  }

  runtime::Instruction instruction(Operation *op, std::string label) {
    runtime::Instruction made;
    made.label = std::move(label);
    made.origin = originOf(op);
    collectSources(op->getLoc(), made.sources);
    return made;
  }

  Error lowerStructured(StructuredOpInterface op) {
    if (Error error = checkSupported(op))
      return error;
    StringRef name = op->getName().getStringRef();
    StructuredCall call;
    call.op = op;
    call.views = op.operandViews(target.model().views);
    for (const StridedView &view : call.views) {
      int64_t element = elementBytes(tensorType(view.root).getElementType());
      call.operands.push_back(buffer(places.of(view.root), view.offset * element, spanOf(view) * element));
    }
    for (Value result : op->getResults())
      call.results.push_back(wholeBuffer(result));
    if (auto scratch = op->getAttrOfType<DenseI64ArrayAttr>(scratchAttr))
      call.scratch = buffer(Place{}, scratch.asArrayRef()[0], scratch.asArrayRef()[1]);
    size_t first = plan.instructions.size();
    if (Error error = target.lower(call, plan, kernels))
      return error;
    for (runtime::Instruction &made : llvm::drop_begin(plan.instructions, first)) {
      collectSources(op->getLoc(), made.sources);
      made.origin = originOf(op);
      if (made.label.empty())
        made.label = name.str();
      if (StringRef called = nameOf(op->getLoc()); !called.empty())
        made.label = called.str() + ": " + made.label;
    }
    if (op->hasAttr(keptPackingAttr))
      keptPackings.push_back(first);
    auto isUncounted = [](const runtime::Instruction &made) { return made.flops == 0 && made.bytes == 0; };
    if (first < plan.instructions.size() && llvm::all_of(llvm::drop_begin(plan.instructions, first), isUncounted)) {
      plan.instructions[first].flops = op.flops();
      plan.instructions[first].bytes = op.bytes(target.model().views);
    }
    return Error::success();
  }

  Error lowerKernel(KernelOp op) {
    std::vector<Operation *> origins;
    const std::shared_ptr<const KnownKernel> known = KernelForms::of(op, &origins);
    const KernelInfo &info = *known->form;
    const std::string label = op.getLabel().value_or("kernel").str();
    const bool isJoined = joinedGroup(op).has_value();
    const auto [place, isNew] = lowered.try_emplace(known, 0); // else the table has names of a kernel of this form
    if (isNew)
      place->second = kernels.add(info, kernelNames(op, origins), isJoined);
    else
      kernels.addAnother(place->second, label, isJoined);
    const unsigned number = place->second;
    KernelLaunch launch = target.launch(info);
    if (number == plan.kernels.size())
      plan.kernels.push_back({symbolOf(kernels.sources()[number]),
                              static_cast<uint32_t>(op.getInputs().size() + op.getNumResults()),
                              static_cast<uint32_t>(op.getNumResults()), label});
    runtime::KernelCall call;
    call.kernel = number;
    call.granularity = launch.granularity;
    runtime::Segment segment;
    segment.extent = launch.extent;
    runtime::Instruction made = instruction(op, label);
    for (Value value : op.getInputs())
      segment.args.push_back(wholeBuffer(value));
    for (Value value : op.getResults())
      segment.args.push_back(wholeBuffer(value));
    KernelCost cost = costOf(info);
    made.flops = cost.flops;
    made.bytes = cost.bytes;
    if (joinedGroup(op) && joinedGroup(op) == group) {
      runtime::Instruction &first = plan.instructions.back();
      first.label = runtime::joinedLabel(first.label, made.label);
      first.origin.scope = runtime::joinedLabel(first.origin.scope, made.origin.scope);
      first.flops += made.flops;
      first.bytes += made.bytes;
      return join(std::get<runtime::KernelCall>(first.call), call, std::move(segment), label);
    }
    group = joinedGroup(op);
    if (group)
      beginGroup(segment, op.getNumResults());
    call.segments.push_back(std::move(segment));
    made.call = std::move(call);
    plan.instructions.push_back(std::move(made));
    return Error::success();
  }

  /// Begins a call that other segments may join.
  void beginGroup(const runtime::Segment &segment, size_t results) {
    read = written = {};
    touch(segment, results);
  }

  void touch(const runtime::Segment &segment, size_t results) {
    for (auto [i, argument] : llvm::enumerate(segment.args))
      (i + results < segment.args.size() ? read : written).add(plan.buffers[argument]);
  }

  /// Adds a segment to the call that its group has begun. An error is what schedule should not have joined.
  Error join(runtime::KernelCall &group, const runtime::KernelCall &call, runtime::Segment segment,
             const std::string &label) {
    const size_t results = plan.kernels[group.kernel].results;
    bool fits = group.kernel == call.kernel && group.granularity == call.granularity;
    for (auto [i, argument] : llvm::enumerate(segment.args)) {
      const runtime::Buffer &buffer = plan.buffers[argument];
      const bool isRead = i + results < segment.args.size();
      fits &= !written.overlaps(buffer) && (isRead || !read.overlaps(buffer));
    }
    if (!fits)
      return Error("kernel '" + label + "' was joined with one that differs or touches the same memory (compiler bug)");
    touch(segment, results);
    group.segments.push_back(std::move(segment));
    return Error::success();
  }

  /// Says how many kernels a call of several segments stands for, and how many a function.
  void finishLabels() {
    for (runtime::Instruction &made : plan.instructions)
      if (auto *call = std::get_if<runtime::KernelCall>(&made.call); call && call->segments.size() > 1)
        made.label += " ×" + std::to_string(call->segments.size());
    for (auto [code, source] : llvm::zip(plan.kernels, kernels.sources()))
      if (const auto *kernel = std::get_if<FormKernel>(&source))
        code.description = kernel->title();
  }

  void copy(Operation *op, BufferId source, BufferId target, const Twine &label) {
    if (plan.buffers[source].bytes == 0 || source == target)
      return;
    runtime::Instruction made;
    made.label = label.str();
    made.origin = originOf(op);
    made.bytes = 2 * plan.buffers[source].bytes;
    made.call = runtime::CopyCall{source, target};
    plan.instructions.push_back(std::move(made));
  }

  void lowerReturn() {
    Operation *terminator = function.getBody().front().getTerminator();
    ArrayRef<int64_t> staging = terminator->getAttrOfType<DenseI64ArrayAttr>(stagingAttr).asArrayRef();
    // Old values of states are saved first; then everything may be overwritten.
    SmallVector<std::pair<BufferId, BufferId>> later;
    for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
      Value root = denseRoot(value);
      BufferId source = wholeBuffer(root);
      BufferId target = buffer(places.returned(i), 0, byteSize(tensorType(root)));
      if (staging[i] >= 0) {
        BufferId saved = buffer(Place{PlaceSpace::arena, 0, staging[i]}, 0, byteSize(tensorType(root)));
        copy(terminator, source, saved, "save old state");
        source = saved;
      }
      later.push_back({source, target});
    }
    for (auto [source, target] : later)
      copy(terminator, source, target, "copy to result");
  }
};

} // namespace

runtime::Expected<runtime::Plan> lowerPlan(func::FuncOp function, const Target &target, int threads,
                                           KernelTable &kernels) {
  return Lowering(function, target, threads, kernels).run();
}

uint32_t addKernel(runtime::Plan &plan, KernelTable &kernels, TextKernel kernel, uint32_t arguments,
                   std::string description) {
  std::string symbol = kernel.symbol;
  unsigned number = kernels.add(std::move(kernel));
  if (number == plan.kernels.size())
    plan.kernels.push_back({std::move(symbol), arguments, 0, std::move(description)});
  return number;
}

runtime::BufferId constantOf(std::string bytes, runtime::Plan &plan) {
  size_t index = std::find(plan.constants.begin(), plan.constants.end(), bytes) - plan.constants.begin();
  runtime::Buffer whole{runtime::Space::constant, static_cast<uint32_t>(index), 0, static_cast<int64_t>(bytes.size())};
  if (index == plan.constants.size())
    plan.constants.push_back(std::move(bytes));
  auto known = std::find(plan.buffers.begin(), plan.buffers.end(), whole);
  if (known == plan.buffers.end()) {
    plan.buffers.push_back(whole);
    return static_cast<runtime::BufferId>(plan.buffers.size() - 1);
  }
  return static_cast<runtime::BufferId>(known - plan.buffers.begin());
}

} // namespace tcc
