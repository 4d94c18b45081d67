// Finds hints from the ops that use an argument, draws random values by them, and describes values in words.
#include "frontend/graph_values.h"
#include "frontend/loss_scaling.h"
#include "ir/ops/numbers.h"
#include "runtime/cache.h"
#include "runtime/mix_bits.h"
#include <algorithm>
#include <cmath>

using namespace mlir;

namespace tcc {
namespace {

constexpr const char *hintNames[] = {"uniform", "small", "zero", "rate", "step", "index", "flag", "token"};
static_assert(std::size(hintNames) == static_cast<size_t>(ValueHint::Kind::token) + 1, "a name for each kind");

/// Lowers `hint` to what `use` asks of the argument; true if the use only passes the value on.
bool look(OpOperand &use, ValueHint &hint, bool &known) {
  using Kind = ValueHint::Kind;
  Operation *op = use.getOwner();
  auto index = [&](int64_t bound, Kind kind = Kind::index) {
    if (ShapedType::isDynamic(bound))
      return;
    const bool isIndex = hint.kind == Kind::index || hint.kind == Kind::token;
    hint.bound = isIndex ? std::min(hint.bound, bound) : bound;
    hint.kind = hint.kind == Kind::token ? Kind::token : kind;
    known = true;
  };
  auto is = [&](Kind kind) {
    hint.kind = kind;
    known = true;
  };
  auto checked = [&](int64_t bound, bool negativeIsInvalid) {
    index(bound, negativeIsInvalid ? Kind::token : Kind::index);
    if (!ShapedType::isDynamic(bound))
      hint.firstInvalid = hint.firstInvalid == 0 ? bound : std::min(hint.firstInvalid, bound);
    hint.negativeIsInvalid |= negativeIsInvalid;
  };
  if (auto gather = dyn_cast<GatherOp>(op); gather && use.get() == gather.getIndex())
    checked(tensorType(gather.getTable()).getDimSize(0), true);
  else if (auto scatter = dyn_cast<ScatterAddOp>(op); scatter && use.get() == scatter.getIndex())
    index(tensorType(scatter.getBase()).getDimSize(0));
  else if (auto loss = dyn_cast<CrossEntropyOp>(op); loss && use.get() == loss.getTargets())
    checked(tensorType(loss.getLogits()).getShape().back(), false);
  else if (auto adamw = dyn_cast<AdamwOp>(op)) {
    if (use.get() == adamw.getLr())
      is(Kind::rate);
    else if (use.get() == adamw.getStep())
      is(Kind::stepCount);
    else if (use.get() == adamw.getM() || use.get() == adamw.getV())
      is(Kind::zero);
  }
  return op->hasTrait<ViewOp>() || isa<CastOp>(op);
}

void follow(Value value, ValueHint &hint, bool &known, int depth);

/// What a body makes of an operand of its op.
void followInto(BodyOpInterface op, unsigned operand, ValueHint &hint, bool &known, int depth) {
  const unsigned before = op->getNumOperands() - op->getRegion(0).getNumArguments(); // a predicate
  for (Region &body : op->getRegions())
    if (operand >= before)
      follow(body.getArgument(operand - before), hint, known, depth);
}

void follow(Value value, ValueHint &hint, bool &known, int depth) {
  for (OpOperand &use : value.getUses())
    if (auto bodies = dyn_cast<BodyOpInterface>(use.getOwner()); bodies && depth < 8)
      followInto(bodies, use.getOperandNumber(), hint, known, depth + 1);
    else if (look(use, hint, known) && depth < 8)
      follow(use.getOwner()->getResult(0), hint, known, depth + 1);
}

uint64_t nameKey(const std::string &name, uint64_t seed) {
  runtime::RollingHash hash;
  hash.add(seed);
  hash.add(name);
  return hash.value();
}

/// Uniform in [0, 1), from 24 bits.
double uniform(uint64_t key, int64_t index) {
  const uint64_t bits = runtime::mixBits(key + runtime::splitMixStep * static_cast<uint64_t>(index));
  return static_cast<double>(bits >> 40) * 0x1p-24;
}

} // namespace

std::string argumentName(func::FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, nameAttr);
  return name ? name.str() : "arg" + std::to_string(argument);
}

std::string hintText(const ValueHint &hint) {
  return hintNames[static_cast<size_t>(hint.kind)] + std::string(" ") + std::to_string(hint.bound);
}

ValueHint parseHint(const std::string &text) {
  const auto [kind, bound] = StringRef(text).split(' ');
  ValueHint hint;
  for (size_t i = 0; i < std::size(hintNames); ++i)
    if (int64_t value = 0; kind == hintNames[i] && !bound.getAsInteger(10, value) && value > 0)
      hint = {static_cast<ValueHint::Kind>(i), value};
  return hint;
}

std::vector<std::string> resultNames(func::FuncOp function) {
  std::vector<std::string> names;
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    if (function.getResultAttr(i, updatesAttr))
      continue;
    auto name = function.getResultAttrOfType<StringAttr>(i, nameAttr);
    names.push_back(name ? name.str() : "result" + std::to_string(names.size()));
  }
  return names;
}

std::vector<std::string> writableNames(func::FuncOp function) {
  std::vector<std::string> names = resultNames(function);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, stateAttr))
      names.push_back(argumentName(function, i));
  return names;
}

std::map<std::string, ValueHint> valueHints(func::FuncOp function) {
  std::map<std::string, ValueHint> hints;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    ValueHint hint;
    bool known = false;
    follow(function.getArgument(i), hint, known, 0);
    Type element = tensorType(function.getArgument(i)).getElementType();
    if (llvm::is_contained(lossScalingStates, argumentName(function, i)))
      hint.kind = ValueHint::Kind::zero;
    else if (!known && element.isInteger(1))
      hint.kind = ValueHint::Kind::flag;
    else if (!known && isa<IntegerType>(element))
      hint.kind = ValueHint::Kind::index;
    else if (!known && function.getArgAttr(i, stateAttr))
      hint.kind = ValueHint::Kind::small;
    hints[argumentName(function, i)] = hint;
  }
  return hints;
}

std::string invalidIndex(const std::string &name, const ValueHint &hint, const Array &array) {
  if (hint.firstInvalid == 0)
    return {};
  for (int64_t i = 0, count = array.shape().elements(); i < count; ++i) {
    const double value = array.item(i);
    if (value < static_cast<double>(hint.firstInvalid) && (value >= 0 || !hint.negativeIsInvalid))
      continue;
    return "'" + name + "' element " + std::to_string(i) + " is " + numberText(value) + "; an index of 0.." +
           std::to_string(hint.firstInvalid - 1) + " is expected, others give NaN";
  }
  return {};
}

Array randomArray(const runtime::TensorSpec &spec, const ValueHint &hint, uint64_t seed, int64_t run) {
  using Kind = ValueHint::Kind;
  Array array(Shape(spec.shape), spec.dtype);
  const uint64_t key = nameKey(spec.name, seed);
  const int64_t count = array.shape().elements();
  for (int64_t i = 0; i < count && hint.kind != Kind::zero; ++i) {
    const double random = uniform(key, i);
    double value = 2 * random - 1;
    if (hint.kind == Kind::small)
      value *= 0.05;
    else if (hint.kind == Kind::rate)
      value = 1e-3;
    else if (hint.kind == Kind::stepCount)
      value = static_cast<double>(run);
    else if (hint.kind == Kind::index || hint.kind == Kind::token)
      value = std::floor(random * static_cast<double>(hint.bound));
    else if (hint.kind == Kind::flag)
      value = random < 0.5;
    array.setItem(i, value);
  }
  return array;
}

std::string describe(const std::string &name, const Array &array) {
  std::string text = name + ": " + std::string(runtime::name(array.dtype())) + array.shape().text();
  const int64_t count = array.shape().elements();
  if (array.shape().empty())
    return text + " " + numberText(array.item());
  double least = INFINITY, most = -INFINITY, sum = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value = array.item(i);
    if (!std::isfinite(value))
      continue;
    ++finite;
    sum += value;
    least = std::min(least, value);
    most = std::max(most, value);
  }
  if (finite)
    text += " mean " + numberText(sum / static_cast<double>(finite)) + " min " + numberText(least) + " max " +
            numberText(most);
  if (finite != count)
    text += " non-finite " + std::to_string(count - finite);
  text += " first";
  for (int64_t i = 0; i < std::min<int64_t>(count, 4); ++i)
    text += " " + numberText(array.item(i));
  return text + (count > 4 ? " …" : "");
}

} // namespace tcc
