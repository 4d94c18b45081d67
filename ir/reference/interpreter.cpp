// The walk over a function: values by use, results rounded, storage freed after the last use.
#include "ir/reference/interpreter.h"
#include "ir/names.h"
#include "ir/reference/host_reference.h"
#include "ir/reference/registry.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FormatVariadic.h"
#include <memory>

using namespace mlir;

namespace tcc {

using runtime::Error;
using runtime::Expected;

namespace reference {
namespace {

const Registry &registry() {
  static const Registry all = [] {
    Registry registry;
    addElementwise(registry);
    addViews(registry);
    addReductions(registry);
    addIndexing(registry);
    addMatmul(registry);
    addAttention(registry);
    addActivations(registry);
    addComposites(registry);
    addHostOps(registry);
    return registry;
  }();
  return all;
}

using Shared = std::shared_ptr<const RefTensor>;

std::string typeOf(const RefTensor &tensor) {
  return typeText(tensor.type);
}

/// True if a tensor of type `actual` may stand where `declared` does, whose `?` takes any size.
bool fits(RankedTensorType actual, RankedTensorType declared) {
  return actual.getElementType() == declared.getElementType() && actual.getRank() == declared.getRank() &&
         llvm::all_of(llvm::zip(actual.getShape(), declared.getShape()), [](auto sizes) {
           auto [size, expected] = sizes;
           return size == expected || ShapedType::isDynamic(expected);
         });
}

class Interpreter {
public:
  explicit Interpreter(RefMode mode) : mode(mode) {}

  /// Runs a block to its terminator and gives the terminator's operands.
  Expected<std::vector<Shared>> runBlock(Block &block, ArrayRef<Shared> arguments) {
    DenseMap<Value, Shared> values;
    for (auto [value, tensor] : llvm::zip(block.getArguments(), arguments))
      values[value] = tensor;
    DenseMap<Value, Operation *> lastUse;
    for (Operation &op : block)
      for (Value operand : op.getOperands())
        lastUse[operand] = &op;

    for (Operation &op : block.without_terminator()) {
      std::vector<Shared> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values[operand]);
      Expected<std::vector<Shared>> results = runOp(op, operands);
      if (!results)
        return results.error();
      for (auto [value, tensor] : llvm::zip(op.getResults(), *results))
        if (!value.use_empty())
          values[value] = tensor;
      for (Value operand : op.getOperands())
        if (lastUse[operand] == &op)
          values.erase(operand);
    }
    std::vector<Shared> answer;
    for (Value operand : block.getTerminator()->getOperands())
      answer.push_back(values[operand]);
    return answer;
  }

private:
  Expected<std::vector<Shared>> runOp(Operation &op, ArrayRef<Shared> operands) {
    if (auto kernel = dyn_cast<KernelOp>(op))
      return runBlock(kernel.getBody().front(), operands);
    if (auto custom = dyn_cast<CustomOp>(op))
      return custom.getBody().empty() ? runHost(custom, operands) : runBlock(custom.getBody().front(), operands);
    if (auto cond = dyn_cast<CondOp>(op))
      return runBlock(operands[0]->data[0] != 0 ? cond.getThen().front() : cond.getOtherwise().front(),
                      operands.drop_front());
    if (auto repeat = dyn_cast<RepeatOp>(op))
      return runTurns(repeat, operands);
    if (isa<GradientOp>(op))
      return refuse(op, "has no value of its own; run autodiff first");
    auto found = registry().find(op.getName().getStringRef());
    if (found == registry().end())
      return refuse(op, "is not an op that the reference interpreter knows");

    SmallVector<const RefTensor *> views;
    for (const Shared &operand : operands)
      views.push_back(operand.get());
    for (Type type : op.getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(type); tensor && tensor.hasStaticShape())
        if (tensor.getNumElements() > mostElements)
          return refuse(op, "has a result of " + typeText(tensor) + "; the interpreter holds up to " +
                                Twine(mostElements) + " elements");
    Call call{&op, views, mode, {}, {}};
    if (!agrees(call))
      return refuse(op, call.error);
    found->second(call);
    if (!call.error.empty())
      return refuse(op, call.error);

    std::vector<Shared> results;
    for (auto [value, tensor] : llvm::zip_equal(op.getResults(), call.results)) {
      if (!fits(tensor.type, tensorType(value)))
        return refuse(op, "computed " + typeOf(tensor) + " for a result of " + typeText(tensorType(value)));
      if (mode == RefMode::rounding)
        roundToElement(tensor);
      results.push_back(std::make_shared<const RefTensor>(std::move(tensor)));
    }
    return results;
  }

  /// A custom op whose meaning is a function of this process.
  Expected<std::vector<Shared>> runHost(CustomOp op, ArrayRef<Shared> operands) {
    const HostReference *reference = findHostReference(op.getHostReference().value_or(0));
    if (!reference)
      return refuse(*op, "'" + op.getCalled() + "' means a function of another process");
    SmallVector<const RefTensor *> views;
    for (const Shared &operand : operands)
      views.push_back(operand.get());
    std::vector<RefTensor> results;
    for (Value result : op.getResults())
      results.push_back(splatTensor(tensorType(result), 0));
    if (std::string problem = (*reference)(views, results); !problem.empty())
      return refuse(*op, "'" + op.getCalled() + "': its reference " + problem);
    std::vector<Shared> shared;
    for (RefTensor &result : results)
      shared.push_back(std::make_shared<const RefTensor>(std::move(result)));
    return shared;
  }

  Expected<std::vector<Shared>> runTurns(RepeatOp op, ArrayRef<Shared> operands) {
    const size_t carriedCount = op.getStart().size(), scannedCount = op.getScanned().size();
    const auto turns = static_cast<int64_t>(op.getCount());
    std::vector<Shared> carried(operands.begin(), operands.begin() + carriedCount);
    for (const Shared &scanned : operands.slice(carriedCount, scannedCount))
      if (scanned->shape()[0] != turns)
        return refuse(*op, "scans " + typeOf(*scanned) + "; its first size must be the count " + Twine(turns));
    for (int64_t turn = 0; turn < turns; ++turn) {
      std::vector<Shared> arguments = carried;
      for (const Shared &scanned : operands.slice(carriedCount, scannedCount)) {
        RefTensor part{RankedTensorType::get(scanned->shape().drop_front(), scanned->type.getElementType()), {}};
        const int64_t size = part.type.getNumElements();
        part.data.assign(scanned->data.begin() + turn * size, scanned->data.begin() + (turn + 1) * size);
        arguments.push_back(std::make_shared<const RefTensor>(std::move(part)));
      }
      llvm::append_range(arguments, operands.drop_front(carriedCount + scannedCount));
      Expected<std::vector<Shared>> results = runBlock(op.getBody().front(), arguments);
      if (!results)
        return results.error();
      carried = std::move(*results);
    }
    return carried;
  }

  /// `?` dims may hide what a verifier cannot see: operands that must have one shape.
  static bool agrees(Call &call) {
    if (!isa<ElementwiseOpInterface>(call.op))
      return true;
    for (const RefTensor *operand : call.operands.drop_front())
      if (operand->shape() != call.in(0).shape()) {
        call.refuse("operands " + typeOf(call.in(0)) + " and " + typeOf(*operand) + " differ in shape");
        return false;
      }
    return true;
  }

  static Error refuse(Operation &op, const Twine &message) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    if (FileLineColLoc place = sourceOf(op.getLoc())) {
      stream << place.getFilename().getValue() << ':' << place.getLine();
      if (place.getColumn())
        stream << ':' << place.getColumn();
      stream << ": ";
    }
    stream << "'" << op.getName() << "' " << message;
    return Error(text);
  }

  RefMode mode;
};

} // namespace

//===- what the families share ---------------------------------------------------------------------------------===//

RefTensor &Call::addResult(ArrayRef<int64_t> shape) {
  Type element = tensorType(op->getResult(results.size())).getElementType();
  RefTensor tensor{RankedTensorType::get(shape, element), {}};
  tensor.data.resize(elementCount(shape), 0.0);
  results.reserve(op->getNumResults()); // references to earlier results stay valid
  results.push_back(std::move(tensor));
  return results.back();
}

Shape Call::resultShape(const RefTensor *like) const {
  Shape shape(tensorType(op->getResult(0)).getShape());
  for (size_t i = 0; i < shape.size(); ++i)
    if (ShapedType::isDynamic(shape[i]) && like)
      shape[i] = like->shape()[i];
  return shape;
}

int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> body) {
  Shape index(shape.size(), 0);
  for (int64_t left = elementCount(shape); left > 0; --left) {
    body(index);
    for (size_t dim = shape.size(); dim-- > 0;) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

int64_t offsetOf(ArrayRef<int64_t> shape, ArrayRef<int64_t> index) {
  int64_t offset = 0;
  for (auto [size, i] : llvm::zip_equal(shape, index))
    offset = offset * size + i;
  return offset;
}

double wrapInteger(uint64_t bits, Type element) {
  switch (element.getIntOrFloatBitWidth()) {
  case 1:
    return bits & 1;
  case 32:
    return static_cast<int32_t>(static_cast<uint32_t>(bits));
  default:
    return static_cast<double>(static_cast<int64_t>(bits));
  }
}

double largerOf(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<double>::quiet_NaN();
  if (a == b)
    return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

} // namespace reference

//===- the public functions ------------------------------------------------------------------------------------===//

Expected<std::vector<RefTensor>> interpret(func::FuncOp function, ArrayRef<RefTensor> arguments, RefMode mode) {
  if (function.isExternal())
    return Error("function '" + function.getName().str() + "' has no body");
  if (arguments.size() != function.getNumArguments())
    return Error(llvm::formatv("function '{0}' takes {1} arguments, {2} were given", function.getName(),
                               function.getNumArguments(), arguments.size())
                     .str());
  std::vector<reference::Shared> shared;
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    auto declared = dyn_cast<RankedTensorType>(function.getArgument(i).getType());
    if (!declared || !argument.type || !reference::fits(argument.type, declared) ||
        argument.size() != argument.type.getNumElements()) {
      std::string expected;
      llvm::raw_string_ostream(expected) << function.getArgument(i).getType();
      return Error(llvm::formatv("argument {0} is {1} with {2} elements; the function takes {3}", i,
                                 argument.type ? typeText(argument.type) : "untyped", argument.size(), expected)
                       .str());
    }
    // Borrowed: the caller's tensors outlive the run.
    shared.emplace_back(&argument, [](const RefTensor *) {});
  }
  Expected<std::vector<reference::Shared>> results =
      reference::Interpreter(mode).runBlock(function.getBody().front(), shared);
  if (!results)
    return results.error();
  std::vector<RefTensor> answer;
  for (const reference::Shared &result : *results)
    answer.push_back(*result);
  return answer;
}

bool hasReference(OperationName name) {
  StringRef text = name.getStringRef();
  return text == KernelOp::getOperationName() || text == CustomOp::getOperationName() ||
         text == YieldOp::getOperationName() || text == CondOp::getOperationName() ||
         text == RepeatOp::getOperationName() || reference::registry().contains(text);
}

RefTensor splatTensor(RankedTensorType type, double value) {
  return {type, std::vector<double>(type.getNumElements(), value)};
}

RefTensor randomTensor(RankedTensorType type, uint64_t seed, double low, double high) {
  RefTensor tensor = splatTensor(type, 0);
  bool isBool = type.getElementType().isInteger(1), isInteger = isa<IntegerType>(type.getElementType());
  for (auto [i, value] : llvm::enumerate(tensor.data)) {
    auto random = [&, i = i](uint32_t stream) {
      return philoxWords({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0},
                         {static_cast<uint32_t>(seed), stream})[0];
    };
    uint64_t word = (static_cast<uint64_t>(random(0)) << 20) ^ random(1);
    double unit = std::ldexp(static_cast<double>(word), -52); // 52 random bits: [0, 1)
    value = low + (high - low) * unit;
    if (isBool)
      value = unit < 0.5;
    else if (isInteger)
      value = std::floor(value);
  }
  roundToElement(tensor);
  return tensor;
}

double roundToElement(double value, Type element) {
  auto floatType = dyn_cast<FloatType>(element);
  if (!floatType)
    return value;
  if (floatType.isF32())
    return static_cast<float>(value);
  const llvm::fltSemantics &format = floatType.getFloatSemantics();
  if (std::isfinite(value) && value != 0) {
    int exponent = 0;
    std::frexp(value, &exponent); // |value| in [2^(exponent-1), 2^exponent)
    int precision = APFloat::semanticsPrecision(format);
    int quantum = std::max(exponent - 1, APFloat::semanticsMinExponent(format)) - (precision - 1);
    value = std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
    if (std::fabs(value) > APFloat::getLargest(format).convertToDouble())
      value = std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  bool hasInfinity = APFloat::semanticsHasInf(format);
  return std::isinf(value) && !hasInfinity ? std::numeric_limits<double>::quiet_NaN() : value;
}

void roundToElement(RefTensor &tensor) {
  for (double &value : tensor.data)
    value = roundToElement(value, tensor.element());
}

std::array<uint32_t, 4> philoxWords(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t first = uint64_t{0xD2511F53} * counter[0], second = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

uint32_t randomBitsAt(uint64_t seed, uint64_t stream, RandomPlace place) {
  std::array<uint32_t, 4> words =
      philoxWords({place.outer, place.row & ~8u, place.column & ~8u, static_cast<uint32_t>(seed >> 32)},
                  {static_cast<uint32_t>(seed), static_cast<uint32_t>(stream)});
  return words[2 * (place.row >> 3 & 1) + (place.column >> 3 & 1)];
}

} // namespace tcc
