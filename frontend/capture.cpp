// Infers the types of newly recorded ops by the dialect, and builds a module from a record.
#include "frontend/capture.h"
#include "codegen/dtypes.h"
#include "frontend/body_trace.h"
#include "frontend/custom_instance.h"
#include "ir/host_ops.h"
#include "ir/names.h"
#include "ir/scalar_form.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tcc {
namespace {

Type elementType(DType dtype, MLIRContext *context) {
  return mlirType(context, elementTypeOf(dtype));
}

RankedTensorType toType(const ValueType &type, MLIRContext *context) {
  return RankedTensorType::get(ArrayRef<int64_t>(type.shape.begin(), type.shape.end()),
                               elementType(type.dtype, context));
}

Location toLocation(const Loc &loc, MLIRContext *context) {
  if (!loc.isKnown())
    return UnknownLoc::get(context);
  return FileLineColLoc::get(context, loc.file(), loc.line(), loc.column());
}

/// "h.3.mlp.gelu", at the place in the user's code.
Location toLocation(const Loc &loc, const std::string *scope, StringRef name, MLIRContext *context) {
  Location place = toLocation(loc, context);
  return scope ? named(place, *scope + "." + name.str()) : place;
}

/// Reads an op's words back as attributes and, for an op of explicit type, its result type.
class WordReader {
public:
  WordReader(ArrayRef<uint64_t> words, MLIRContext *context) : words(words), builder(context) {}

  /// `splat` is the value of a literal without words of its own, `operands` the number of operands.
  void read(const TracedOp &op, size_t operands, double splat, NamedAttrList &attributes) {
    std::optional<TracedOp::Attribute> literal;
    SmallVector<double> values;
    for (const TracedOp::Attribute &attribute : op.attributes) {
      if (attribute.kind == WordKind::literal) {
        literal = attribute;
        for (uint64_t count = next(); count; --count)
          values.push_back(llvm::bit_cast<double>(next()));
      } else if (Attribute value = read(attribute.kind)) {
        attributes.append(StringRef(attribute.name), value);
      }
    }
    if (op.explicitType) {
      const auto dtype = static_cast<DType>(next());
      SmallVector<int64_t> sizes(integers());
      result = RankedTensorType::get(sizes, elementType(dtype, builder.getContext()));
    }
    if (op.operandGroups) {
      SmallVector<int32_t> counts(op.operandGroups, 0);
      std::fill_n(counts.begin(), operands, 1);
      attributes.append("operandSegmentSizes", builder.getDenseI32ArrayAttr(counts));
    }
    if (literal)
      attributes.append(StringRef(literal->name), dense(values.empty() ? ArrayRef<double>(splat) : values));
  }

  RankedTensorType result; ///< null for an op that infers it

private:
  uint64_t next() {
    const uint64_t word = words.front();
    words = words.drop_front();
    return word;
  }
  ArrayRef<int64_t> integers() {
    const size_t count = next();
    ArrayRef<int64_t> values(reinterpret_cast<const int64_t *>(words.data()), count);
    words = words.drop_front(count);
    return values;
  }
  Attribute read(WordKind kind) {
    switch (kind) {
    case WordKind::flag:
      return next() ? builder.getUnitAttr() : UnitAttr();
    case WordKind::integer:
      return builder.getI64IntegerAttr(static_cast<int64_t>(next()));
    case WordKind::number:
      return builder.getF64FloatAttr(llvm::bit_cast<double>(next()));
    case WordKind::integers:
      return builder.getDenseI64ArrayAttr(integers());
    case WordKind::predicate:
      return PredicateAttr::get(builder.getContext(), static_cast<Predicate>(next()));
    case WordKind::dtype: {
      const uint64_t word = next();
      return word == noDType ? Attribute() : TypeAttr::get(elementType(static_cast<DType>(word), builder.getContext()));
    }
    case WordKind::literal:
      break;
    }
    llvm_unreachable("literals are read with their type");
  }
  DenseElementsAttr dense(ArrayRef<double> values) {
    Type element = result.getElementType();
    SmallVector<Attribute> attributes;
    for (double value : values)
      attributes.push_back(isa<FloatType>(element)
                               ? cast<Attribute>(builder.getFloatAttr(element, value))
                               : cast<Attribute>(builder.getIntegerAttr(element, static_cast<int64_t>(value))));
    return DenseElementsAttr::get(result, attributes);
  }

  ArrayRef<uint64_t> words;
  Builder builder;
};

/// Result types of `state` by its op's own inference.
LogicalResult inferInto(OperationState &state) {
  std::optional<RegisteredOperationName> info = state.name.getRegisteredInfo();
  auto *inference = info ? info->getInterface<InferTypeOpInterface>() : nullptr;
  if (!inference)
    return failure();
  MLIRContext *context = state.getContext();
  DictionaryAttr attributes = state.attributes.getDictionary(context);
  SmallVector<char> storage(info->getOpPropertyByteSize() + alignof(std::max_align_t));
  auto address = llvm::alignAddr(storage.data(), llvm::Align(alignof(std::max_align_t)));
  mlir::OpaqueProperties properties(reinterpret_cast<void *>(address));
  info->initOpProperties(properties, nullptr);
  auto emit = [&] { return emitError(state.location); };
  LogicalResult result = info->getOpPropertyByteSize()
                             ? info->setOpPropertiesFromAttribute(*info, properties, attributes, emit)
                             : success();
  if (succeeded(result))
    result = inference->inferReturnTypes(context, state.location, state.operands, attributes, properties, state.regions,
                                         state.types);
  info->destroyOpProperties(properties);
  return result;
}

/// What a record says of an op beside its operands.
struct OpParts {
  OpKind kind;
  ArrayRef<uint64_t> words;
  const BodiesRecord *bodies;
  double literal;
  Loc loc;
  const std::string *scope;
};

/// Whether `value` is computed from `source` in its block, or from what that stands for in the blocks around.
bool dependsOn(Value value, Value source) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Value each = work.pop_back_val();
    if (!seen.insert(each).second)
      continue;
    if (each == source)
      return true;
    if (Operation *op = each.getDefiningOp()) {
      llvm::append_range(work, op->getOperands());
    } else if (auto argument = dyn_cast<BlockArgument>(source);
               argument && argument.getOwner() == cast<BlockArgument>(each).getOwner()) {
      Operation *parent = argument.getOwner()->getParentOp();
      if (!isa<BodyOpInterface>(parent))
        continue;
      auto operands = parent->getOperands().take_back(argument.getOwner()->getNumArguments());
      if (dependsOn(operands[cast<BlockArgument>(each).getArgNumber()], operands[argument.getArgNumber()]))
        return true;
    }
  }
  return false;
}

/// A body's inputs are values of their own to it: a gradient inside of it does not see that one was computed from
/// another outside. Throws Error where that would lose a part of it.
void checkGradient(GradientOp gradient, const Loc &loc) {
  Block *block = gradient->getBlock();
  auto operands = block->getParentOp()->getOperands().take_back(block->getNumArguments());
  llvm::DenseSet<Value> seen;
  SmallVector<Value> work{gradient.getLoss()};
  while (!work.empty()) {
    Value each = work.pop_back_val();
    if (!seen.insert(each).second || isa_and_present<DetachOp>(each.getDefiningOp()))
      continue;
    if (Operation *op = each.getDefiningOp()) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    Value outside = operands[cast<BlockArgument>(each).getArgNumber()];
    for (Value wrt : gradient.getWrt())
      if (auto argument = dyn_cast<BlockArgument>(wrt); argument && wrt != each)
        if (dependsOn(outside, operands[argument.getArgNumber()]))
          throw Error("`gradient` in a body of `cond` or `repeat` with respect to a value from which another one was "
                      "computed outside that the loss reads; compute that one inside of the body, or detach it",
                      loc);
  }
}

Operation *createOp(OpBuilder &builder, const OpParts &parts, ArrayRef<Value> operands, ArrayRef<ValueType> results);

/// The ops of a body into its region, whose arguments stand for the op's last operands.
void fillBody(const BodyRecord &body, const BodiesRecord &all, Region &region, ArrayRef<Value> operands) {
  Block &block = region.emplaceBlock();
  const size_t own = all.carried + all.scanned;
  OpBuilder builder = OpBuilder::atBlockEnd(&block);
  SmallVector<Value> values(body.values.size());
  for (auto [i, operand] : llvm::enumerate(operands.take_back(own + all.inputs))) {
    const bool isSlice = i >= all.carried && i < own;
    Type type = isSlice ? toType(body.values[i], builder.getContext()) : operand.getType();
    Value argument = block.addArgument(type, operand.getLoc());
    if (i < own)
      values[i] = argument;
  }
  for (const Captured &each : body.captures)
    values[each.value] = block.getArgument(static_cast<unsigned>(own + each.input));
  auto valuesOf = [&](ArrayRef<uint32_t> numbers) {
    return llvm::map_to_vector(numbers, [&](uint32_t number) { return values[number]; });
  };
  for (const BodyOp &op : body.ops) {
    Operation *made = createOp(builder, {op.kind, op.words, op.bodies.get(), 0, op.loc, op.scope},
                               valuesOf(op.operands), ArrayRef(body.values).slice(op.firstResult, op.results));
    llvm::copy(made->getResults(), values.begin() + op.firstResult);
    if (auto gradient = dyn_cast<GradientOp>(made))
      checkGradient(gradient, op.loc);
  }
  YieldOp::create(builder, region.getLoc(), valuesOf(body.results));
}

/// The ops of a record where `builder` stands; `values` has those of the arguments, and then all. `before` is called
/// with the number of each op, when those in front of it stand.
void buildOps(const Record &record, OpBuilder &builder, SmallVector<Value> &values,
              function_ref<void(size_t)> before = nullptr);

/// A body, in a region that no op has yet: its arguments, its ops, and what it yields.
void buildRegion(const Record &record, Region &region, MLIRContext *context) {
  Location unknown = UnknownLoc::get(context);
  OpBuilder builder(context);
  Block *block = builder.createBlock(&region);
  SmallVector<Value> values(record.values.size()), yielded;
  for (const Record::Argument &argument : record.arguments)
    values[argument.value] = block->addArgument(toType(argument.type, context), unknown);
  buildOps(record, builder, values);
  for (uint32_t output : record.outputs)
    yielded.push_back(values[output]);
  YieldOp::create(builder, unknown, yielded);
}

void setCustom(const CustomInstance &instance, OperationState &state, MLIRContext *context) {
  Builder builder(context);
  auto text = [&](StringRef name, const std::string &value) {
    if (!value.empty())
      state.addAttribute(name, builder.getStringAttr(value));
  };
  auto integer = [&](StringRef name, int64_t value) {
    if (value > 0)
      state.addAttribute(name, builder.getI64IntegerAttr(value));
  };
  text("called", instance.name);
  text("library", instance.library);
  text("symbol", instance.symbol);
  text("cuda", instance.kernelText);
  text("cuda_kernel", instance.kernelName);
  if (!instance.kernelText.empty()) {
    state.addAttribute("grid", builder.getDenseI64ArrayAttr(instance.grid));
    state.addAttribute("block", builder.getDenseI64ArrayAttr(instance.block));
    if (!instance.kernelArguments.empty())
      state.addAttribute("cuda_arguments", builder.getDenseI64ArrayAttr(instance.kernelArguments));
  }
  integer("shared_bytes", instance.sharedBytes);
  integer("flop_count", instance.flops);
  integer("traffic", instance.bytes);
  integer("host_function", instance.hostFunction);
  integer("host_reference", instance.hostReference);
  if (instance.tolerance > 0)
    state.addAttribute("tolerance", builder.getF64FloatAttr(instance.tolerance));
  Region *body = state.addRegion(), *backward = state.addRegion();
  if (instance.body)
    buildRegion(*instance.body, *body, context);
  if (instance.gradient)
    buildRegion(*instance.gradient, *backward, context);
}

Operation *createOp(OpBuilder &builder, const OpParts &parts, ArrayRef<Value> operands, ArrayRef<ValueType> results) {
  MLIRContext *context = builder.getContext();
  const TracedOp &traced = tracedOp(parts.kind);
  const CustomInstance *custom = traced.interned ? &customInstance(parts.words[0]) : nullptr;
  const StringRef name = custom ? StringRef(custom->name) : StringRef(traced.name);
  OperationState state(toLocation(parts.loc, parts.scope, name, context), "tcc." + std::string(traced.name));
  state.addOperands(operands);
  for (const ValueType &type : results)
    state.types.push_back(toType(type, context));
  if (const BodiesRecord *bodies = parts.bodies) {
    for (size_t i = 0; i < bodies->list.size(); ++i)
      state.addRegion();
    if (parts.kind != OpKind::cond) {
      SmallVector<int32_t> segments{static_cast<int32_t>(bodies->carried), static_cast<int32_t>(bodies->scanned),
                                    static_cast<int32_t>(bodies->inputs)};
      if (parts.kind == OpKind::lanes) // it carries nothing
        segments.erase(segments.begin());
      state.addAttribute("count", builder.getI64IntegerAttr(bodies->count));
      state.addAttribute("operandSegmentSizes", builder.getDenseI32ArrayAttr(segments));
    }
  } else if (custom) {
    setCustom(*custom, state, context);
  } else {
    WordReader reader(parts.words, context);
    reader.read(traced, operands.size(), parts.literal, state.attributes);
  }
  Operation *made = builder.create(state);
  for (size_t i = 0; parts.bodies && i < parts.bodies->list.size(); ++i)
    fillBody(parts.bodies->list[i], *parts.bodies, made->getRegion(i), operands);
  return made;
}

} // namespace

std::string userMessage(std::string message) {
  if (StringRef(message).starts_with("'tcc.")) {
    const size_t end = message.find('\'', 1);
    std::string rest = message.substr(end + 1);
    if (StringRef(rest).starts_with(" op "))
      rest.erase(0, 3);
    message = "`" + message.substr(5, end - 5) + "`" + rest;
  }
  return message;
}

MLIRContext &threadContext() {
  thread_local std::unique_ptr<MLIRContext> context = [] {
    DialectRegistry registry;
    registerDialects(registry);
    auto made = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    made->loadAllAvailableDialects();
    made->printOpOnDiagnostic(false); // carets show the place
    return made;
  }();
  return *context;
}

ValueType valueType(RankedTensorType type) {
  ArrayRef<int64_t> sizes = type.getShape();
  return {dtypeOf(*elementTypeOf(type.getElementType())), Shape(std::span<const int64_t>(sizes.data(), sizes.size()))};
}

std::vector<ValueType> inferTypes(OpKind kind, std::span<const ValueType> operands, std::span<const uint64_t> words,
                                  Loc loc) {
  if (tracedOp(kind).interned)
    return customInstance(words[0]).results;
  MLIRContext *context = &threadContext();
  std::string problem;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (problem.empty())
      problem = diagnostic.str();
  });

  // The op on placeholders, so that inference and every verifier see a real one.
  Location location = UnknownLoc::get(context);
  Block scratch;
  for (const ValueType &operand : operands)
    scratch.addArgument(toType(operand, context), location);
  const TracedOp &traced = tracedOp(kind);
  OperationState state(location, "tcc." + std::string(traced.name));
  state.addOperands(scratch.getArguments());
  WordReader reader(ArrayRef<uint64_t>(words.data(), words.size()), context);
  reader.read(traced, operands.size(), 0, state.attributes);
  bool valid = true;
  if (reader.result)
    state.addTypes(reader.result);
  else
    valid = succeeded(inferInto(state));

  std::vector<ValueType> results;
  if (valid) {
    OpBuilder builder(context);
    builder.setInsertionPointToEnd(&scratch);
    Operation *op = builder.create(state);
    valid = succeeded(verify(op));
    for (Type type : op->getResultTypes()) {
      if (valid)
        results.push_back(valueType(cast<RankedTensorType>(type)));
    }
    op->erase();
  }
  if (!valid)
    throw Error(
        userMessage(problem.empty() ? "'tcc." + std::string(traced.name) + "' has operands it does not take" : problem),
        loc);
  return results;
}

namespace {

void showRead(OpBuilder &builder, const HostRead &read, Value value) {
  const Location place = toLocation(read.loc, builder.getContext());
  if (read.kind == ReadKind::print)
    PrintOp::create(builder, place, read.name, value);
  else if (tensorType(value).getNumElements() == 1)
    ItemOp::create(builder, place, value.getType(), value);
}

void buildOps(const Record &record, OpBuilder &builder, SmallVector<Value> &values, function_ref<void(size_t)> before) {
  for (const auto &[index, op] : llvm::enumerate(record.ops)) {
    if (before)
      before(index);
    SmallVector<Value> operands;
    for (uint32_t i = op.operands; i < op.operandEnd; ++i)
      operands.push_back(values[record.operands[i]]);
    const double literal = op.literals < record.literals.size() ? record.literals[op.literals].value : 0;
    Operation *made = createOp(builder,
                               {op.kind, ArrayRef(record.words).slice(op.words, op.wordEnd - op.words), op.bodies.get(),
                                literal, op.loc, op.scope},
                               operands, ArrayRef(record.values).slice(op.firstResult, op.results));
    llvm::copy(made->getResults(), values.begin() + op.firstResult);
  }
}

} // namespace

OwningOpRef<ModuleOp> buildModule(const Record &record, const std::string &name,
                                  std::span<const std::string> outputNames, MLIRContext &contextRef, bool showsReads) {
  MLIRContext *context = &contextRef;
  OpBuilder builder(context);
  Location unknown = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);

  // 1. The function's type and attributes.
  SmallVector<Type> argumentTypes, resultTypes;
  for (const Record::Argument &argument : record.arguments)
    argumentTypes.push_back(toType(argument.type, context));
  for (uint32_t output : record.outputs)
    resultTypes.push_back(toType(record.values[output], context));
  for (const Record::Update &update : record.updates)
    resultTypes.push_back(toType(record.values[update.value], context));
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(builder, unknown, name, builder.getFunctionType(argumentTypes, resultTypes));
  Block *body = function.addEntryBlock();
  SmallVector<Value> values(record.values.size());
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes; // set at once: each setting copies the list
  for (auto [i, argument] : llvm::enumerate(record.arguments)) {
    NamedAttrList attributes;
    attributes.set(nameAttr, builder.getStringAttr(argument.name));
    if (argument.state)
      attributes.set(stateAttr, builder.getUnitAttr());
    argumentAttributes.push_back(attributes.getDictionary(context));
    body->getArgument(i).setLoc(named(toLocation(argument.loc, context), argument.name));
    values[argument.value] = body->getArgument(i);
  }
  auto addResult = [&](StringRef attribute, const std::string &text) {
    resultAttributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(attribute, builder.getStringAttr(text))));
  };
  for (size_t i = 0; i < record.outputs.size(); ++i)
    addResult(nameAttr, i < outputNames.size() ? outputNames[i] : "result" + std::to_string(i));
  for (const Record::Update &update : record.updates)
    addResult(updatesAttr, record.arguments[update.argument].name);
  function.setAllArgAttrs(argumentAttributes);
  function.setAllResultAttrs(resultAttributes);

  // 2. The ops.
  builder.setInsertionPointToEnd(body);
  auto read = record.reads.begin();
  const auto showReadsBefore = [&](size_t ops) {
    for (; showsReads && read != record.reads.end() && read->ops <= ops; ++read)
      showRead(builder, *read, values[read->value]);
  };
  buildOps(record, builder, values, showReadsBefore);
  showReadsBefore(record.ops.size());

  // 3. What comes out.
  SmallVector<Value> results;
  for (uint32_t output : record.outputs)
    results.push_back(values[output]);
  for (const Record::Update &update : record.updates)
    results.push_back(values[update.value]);
  func::ReturnOp::create(builder, unknown, results);
  return module;
}

} // namespace tcc
