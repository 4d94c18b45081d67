// The walk over a function: values by use, results rounded, storage freed after the last use.
#include "ir/reference/interpreter.h"
#include "ir/lanes.h"
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
    addWindows(registry);
    addIndexing(registry);
    addMatmul(registry);
    addAttention(registry);
    addActivations(registry);
    addComposites(registry);
    addHostOps(registry);
    addCollectives(registry);
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
    BlockRun run(block, arguments);
    while (!run.isOver())
      if (Error error = advance(run))
        return error;
    return run.operandsOf(*block.getTerminator());
  }

  /// Runs the blocks of several ranks, one each with its arguments, which come to their collectives together.
  Expected<std::vector<std::vector<Shared>>> runRanks(ArrayRef<Block *> blocks,
                                                      ArrayRef<std::vector<Shared>> arguments) {
    std::vector<BlockRun> runs;
    for (auto [block, own] : llvm::zip_equal(blocks, arguments))
      runs.emplace_back(*block, own);
    while (true) {
      for (BlockRun &run : runs)
        while (!run.isOver() && !isTogether(*run.next))
          if (Error error = advance(run))
            return error;
      if (llvm::any_of(runs, [](const BlockRun &run) { return run.isOver(); }))
        break;
      const bool areLoops = llvm::all_of(runs, [](const BlockRun &run) { return isa<RepeatOp>(*run.next); });
      if (Error error = areLoops ? runLoops(runs) : runTogether(runs))
        return error;
    }
    std::vector<std::vector<Shared>> answer;
    for (BlockRun &run : runs) {
      if (!run.isOver())
        return refuse(*run.next, "is a collective to which not all ranks come");
      answer.push_back(run.operandsOf(*run.next));
    }
    return answer;
  }

private:
  /// A block on its way: the values that later ops use, and the next op.
  struct BlockRun {
    DenseMap<Value, Shared> values;
    DenseMap<Value, Operation *> lastUse;
    Block::iterator next, terminator;

    BlockRun(Block &block, ArrayRef<Shared> arguments)
        : next(block.begin()), terminator(block.getTerminator()->getIterator()) {
      for (auto [value, tensor] : llvm::zip(block.getArguments(), arguments))
        values[value] = tensor;
      for (Operation &op : block)
        for (Value operand : op.getOperands())
          lastUse[operand] = &op;
    }
    bool isOver() const { return next == terminator; }
    std::vector<Shared> operandsOf(Operation &op) {
      std::vector<Shared> operands;
      for (Value operand : op.getOperands())
        operands.push_back(values[operand]);
      return operands;
    }
    /// Takes what the next op gave, and steps over it.
    void give(ArrayRef<Shared> results) {
      for (auto [value, tensor] : llvm::zip(next->getResults(), results))
        if (!value.use_empty())
          values[value] = tensor;
      for (Value operand : next->getOperands())
        if (lastUse[operand] == &*next)
          values.erase(operand);
      ++next;
    }
  };

  Error advance(BlockRun &run) {
    Expected<std::vector<Shared>> results = runOp(*run.next, run.operandsOf(*run.next));
    if (!results)
      return results.error();
    run.give(*results);
    return Error::success();
  }

  /// Whether all ranks come to the op: a collective, or a loop with one.
  static bool isTogether(Operation &op) {
    return isa<CollectiveOpInterface>(op) || (isa<RepeatOp>(op) && op.walk([](CollectiveOpInterface) {
                                                                       return WalkResult::interrupt();
                                                                     }).wasInterrupted());
  }

  /// The loop that every rank has come to, with collectives inside.
  Error runLoops(std::vector<BlockRun> &runs) {
    auto first = cast<RepeatOp>(*runs.front().next);
    std::vector<std::vector<Shared>> operands, carried;
    std::vector<Block *> bodies;
    for (BlockRun &run : runs) {
      auto loop = cast<RepeatOp>(*run.next);
      if (loop.getCount() != first.getCount())
        return refuse(*run.next, "has another number of turns than that of rank 0, and a collective in it");
      bodies.push_back(&loop.getBody().front());
      operands.push_back(run.operandsOf(*run.next));
      carried.emplace_back(operands.back().begin(), operands.back().begin() + loop.getStart().size());
    }
    for (uint64_t turn = 0; turn < first.getCount(); ++turn) {
      std::vector<std::vector<Shared>> arguments;
      for (auto [rank, run] : llvm::enumerate(runs)) {
        auto loop = cast<RepeatOp>(*run.next);
        ArrayRef<Shared> others = ArrayRef(operands[rank]).drop_front(loop.getStart().size());
        std::vector<Shared> &own = arguments.emplace_back(std::move(carried[rank]));
        for (const Shared &scanned : others.take_front(loop.getScanned().size()))
          own.push_back(partOf(*scanned, static_cast<int64_t>(turn)));
        llvm::append_range(own, others.drop_front(loop.getScanned().size()));
      }
      Expected<std::vector<std::vector<Shared>>> results = runRanks(bodies, arguments);
      if (!results)
        return results.error();
      carried = std::move(*results);
    }
    for (auto [run, results] : llvm::zip_equal(runs, carried))
      run.give(results);
    return Error::success();
  }

  /// The collective that every rank has come to.
  Error runTogether(std::vector<BlockRun> &runs) {
    SmallVector<Operation *> ops;
    std::vector<std::vector<Shared>> owners;
    std::vector<std::vector<const RefTensor *>> operands;
    for (BlockRun &run : runs) {
      auto collective = dyn_cast<CollectiveOpInterface>(*run.next);
      if (!collective || run.next->getName() != runs.front().next->getName() ||
          collective.rankCount() != static_cast<int64_t>(runs.size()))
        return refuse(*run.next,
                      "is another collective than that of rank 0, or of other ranks than these " + Twine(runs.size()));
      ops.push_back(&*run.next);
      owners.push_back(run.operandsOf(*run.next));
      std::vector<const RefTensor *> &views = operands.emplace_back();
      for (const Shared &operand : owners.back())
        views.push_back(operand.get());
    }
    for (auto [rank, run] : llvm::enumerate(runs)) {
      std::vector<Shared> results;
      for (unsigned i = 0; i < ops[rank]->getNumResults(); ++i) {
        RefTensor result = runCollective(ops, operands, rank, i);
        if (mode == RefMode::rounding)
          roundToElement(result);
        results.push_back(std::make_shared<const RefTensor>(std::move(result)));
      }
      run.give(results);
    }
    return Error::success();
  }

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
    if (auto lanes = dyn_cast<LanesOp>(op))
      return runLanes(lanes, {0, static_cast<int64_t>(lanes.getCount())}, operands);
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
    const HostReference reference = referenceOf(op);
    if (!reference)
      return refuse(*op, "'" + op.getCalled() + "' means a function of another process");
    SmallVector<const RefTensor *> views;
    for (const Shared &operand : operands)
      views.push_back(operand.get());
    std::vector<RefTensor> results;
    for (Value result : op.getResults())
      results.push_back(splatTensor(tensorType(result), 0));
    if (std::string problem = reference(views, results); !problem.empty())
      return refuse(*op, "'" + op.getCalled() + "': its reference " + problem);
    std::vector<Shared> shared;
    for (RefTensor &result : results)
      shared.push_back(std::make_shared<const RefTensor>(std::move(result)));
    return shared;
  }

  /// Part `number` of a scanned value.
  static Shared partOf(const RefTensor &scanned, int64_t number) {
    RefTensor part{RankedTensorType::get(scanned.shape().drop_front(), scanned.type.getElementType()), {}};
    const int64_t size = part.type.getNumElements();
    part.data.assign(scanned.data.begin() + number * size, scanned.data.begin() + (number + 1) * size);
    return std::make_shared<const RefTensor>(std::move(part));
  }

  /// What the lanes of one node of the tree add up to.
  Expected<std::vector<Shared>> runLanes(LanesOp op, const LaneNode &node, ArrayRef<Shared> operands) {
    if (node.count == 1) {
      std::vector<Shared> arguments;
      for (const Shared &scanned : operands.take_front(op.getScanned().size())) {
        if (scanned->shape()[0] != static_cast<int64_t>(op.getCount()))
          return refuse(*op,
                        "scans " + typeOf(*scanned) + "; its first size must be the count " + Twine(op.getCount()));
        arguments.push_back(partOf(*scanned, node.first));
      }
      llvm::append_range(arguments, operands.drop_front(op.getScanned().size()));
      return runBlock(op.getBody().front(), arguments);
    }
    Expected<std::vector<Shared>> left = runLanes(op, node.left(), operands);
    Expected<std::vector<Shared>> right = left ? runLanes(op, node.right(), operands) : left;
    if (!right)
      return right;
    for (auto [sum, other] : llvm::zip(*left, *right)) {
      RefTensor added = *sum;
      for (auto [a, b] : llvm::zip(added.data, other->data))
        a += b;
      if (mode == RefMode::rounding)
        roundToElement(added);
      sum = std::make_shared<const RefTensor>(std::move(added));
    }
    return left;
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
      for (const Shared &scanned : operands.slice(carriedCount, scannedCount))
        arguments.push_back(partOf(*scanned, turn));
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

namespace {

/// The arguments as the interpreter takes them, borrowed: the caller's tensors outlive the run.
Expected<std::vector<reference::Shared>> sharedArguments(func::FuncOp function, ArrayRef<RefTensor> arguments) {
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
    shared.emplace_back(&argument, [](const RefTensor *) {});
  }
  return shared;
}

std::vector<RefTensor> owned(ArrayRef<reference::Shared> results) {
  std::vector<RefTensor> answer;
  for (const reference::Shared &result : results)
    answer.push_back(*result);
  return answer;
}

} // namespace

Expected<std::vector<RefTensor>> interpret(func::FuncOp function, ArrayRef<RefTensor> arguments, RefMode mode) {
  Expected<std::vector<reference::Shared>> shared = sharedArguments(function, arguments);
  if (!shared)
    return shared.error();
  Expected<std::vector<reference::Shared>> results =
      reference::Interpreter(mode).runBlock(function.getBody().front(), *shared);
  if (!results)
    return results.error();
  return owned(*results);
}

Expected<std::vector<std::vector<RefTensor>>> interpretRanks(ArrayRef<func::FuncOp> functions,
                                                             ArrayRef<std::vector<RefTensor>> arguments, RefMode mode) {
  SmallVector<Block *> blocks;
  std::vector<std::vector<reference::Shared>> shared;
  for (auto [i, each] : llvm::enumerate(functions)) {
    func::FuncOp function = each;
    Expected<std::vector<reference::Shared>> taken = sharedArguments(function, arguments[i]);
    if (!taken)
      return taken.error();
    shared.push_back(std::move(*taken));
    blocks.push_back(&function.getBody().front());
  }
  Expected<std::vector<std::vector<reference::Shared>>> results = reference::Interpreter(mode).runRanks(blocks, shared);
  if (!results)
    return results.error();
  std::vector<std::vector<RefTensor>> answer;
  for (const std::vector<reference::Shared> &rank : *results)
    answer.push_back(owned(rank));
  return answer;
}

bool hasReference(OperationName name) {
  StringRef text = name.getStringRef();
  return text == KernelOp::getOperationName() || text == CustomOp::getOperationName() ||
         text == YieldOp::getOperationName() || text == CondOp::getOperationName() ||
         text == RepeatOp::getOperationName() || text == LanesOp::getOperationName() ||
         reference::registry().contains(text);
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
