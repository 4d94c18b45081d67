// The kernel form's naive execution. A node that depends on the column has a value for each element of the space, any
// other one a value for each row.
#include "tests/ir/kernel_evaluator.h"
#include "ir/scalar_form.h"
#include <bit>
#include <cmath>
#include <limits>

using namespace mlir;

namespace tcc::test {
namespace {

using Kind = KernelNode::Kind;

struct Point {
  int64_t outer, row, column;
};

class Evaluator {
public:
  Evaluator(const KernelInfo &info, ArrayRef<RankedTensorType> resultTypes, ArrayRef<RefTensor> arguments, RefMode mode)
      : info(info), resultTypes(resultTypes), arguments(arguments), mode(mode) {
    checkTensors();
  }

  KernelRun take() {
    for (size_t i = 0; i < info.nodes.size() && run.fault.empty(); ++i) {
      checkStage(i);
      evaluate(i);
    }
    for (size_t i = 0; i < info.stores.size() && run.fault.empty(); ++i)
      store(i);
    return std::move(run);
  }

private:
  const KernelInfo &info;
  ArrayRef<RankedTensorType> resultTypes;
  ArrayRef<RefTensor> arguments;
  RefMode mode;
  KernelRun run;
  std::vector<std::vector<double>> values; // of each node

  void fault(const Twine &what) {
    if (run.fault.empty())
      run.fault = what.str();
  }

  void checkTensors() {
    if (info.arguments.size() != arguments.size() || info.results.size() != resultTypes.size())
      return fault("the form has " + Twine(info.arguments.size()) + " arguments and " + Twine(info.results.size()) +
                   " results");
    auto differs = [](const KernelTensor &tensor, RankedTensorType type) {
      return elementTypeOf(type.getElementType()) != tensor.type || type.getNumElements() != tensor.elements;
    };
    for (auto [argument, tensor] : llvm::zip(arguments, info.arguments))
      if (differs(tensor, argument.type))
        fault("an argument has another type or size than the form says");
    for (auto [type, tensor] : llvm::zip(resultTypes, info.results))
      if (differs(tensor, type))
        fault("a result has another type or size than the form says");
  }

  Type typeOf(const KernelNode &node) const { return mlirType(resultTypes.front().getContext(), node.type); }

  //===- points and indices ------------------------------------------------------------------------------------===//

  void forEachPoint(bool perColumn, llvm::function_ref<void(const Point &)> body) const {
    for (int64_t o = 0; o < info.space.outer; ++o)
      for (int64_t r = 0; r < info.space.rows; ++r)
        for (int64_t c = 0; c < (perColumn ? info.space.columns : 1); ++c)
          body({o, r, c});
  }

  int64_t axisValue(unsigned axis, const Point &point) const {
    switch (axis) {
    case axis::outer:
      return point.outer;
    case axis::row:
      return point.row;
    case axis::column:
      return point.column;
    default:
      return indexValue(info.derived[axis - axis::firstDerived].value, point);
    }
  }

  int64_t indexValue(const IndexExpr &expr, const Point &point) const {
    int64_t value = expr.constant;
    for (const IndexTerm &term : expr.terms) {
      int64_t inner = axisValue(term.axis, point);
      // Derived axes may be negative outside of their range; div and mod are floored there.
      inner = (inner - ((inner % term.divisor) + term.divisor) % term.divisor) / term.divisor;
      if (term.modulus != 0)
        inner = ((inner % term.modulus) + term.modulus) % term.modulus;
      value += term.coefficient * inner;
    }
    return value;
  }

  bool inside(ArrayRef<unsigned> guards, const Point &point) const {
    return llvm::all_of(guards, [&](unsigned guard) {
      int64_t value = axisValue(guard, point);
      return value >= 0 && value < info.derived[guard - axis::firstDerived].extent;
    });
  }

  bool dependsOnColumn(const IndexExpr &expr) const {
    return llvm::any_of(expr.terms, [&](const IndexTerm &term) {
      return term.axis == axis::column ||
             (term.axis >= axis::firstDerived && dependsOnColumn(info.derived[term.axis - axis::firstDerived].value));
    });
  }

  /// The value of a node at a point, whether it has one a row or one an element.
  double at(unsigned node, const Point &point) const {
    int64_t row = point.outer * info.space.rows + point.row;
    return values[node][info.nodes[node].perColumn ? row * info.space.columns + point.column : row];
  }

  //===- nodes -------------------------------------------------------------------------------------------------===//

  void checkStage(unsigned id) {
    const KernelNode &node = info.nodes[id];
    for (unsigned operand : node.operands) {
      const KernelNode &before = info.nodes[operand];
      if (operand >= id)
        fault("node " + Twine(id) + " comes before its operand");
      if (node.stage < before.stage + (before.kind == Kind::rowReduce ? 1 : 0))
        fault("node " + Twine(id) + " has a stage before its operand is ready");
      if (before.perColumn && !node.perColumn && node.kind != Kind::rowReduce)
        fault("node " + Twine(id) + " is once a row, its operand once a column");
    }
    if (!node.perColumn && (dependsOnColumn(node.index) || llvm::any_of(node.guards, [&](unsigned guard) {
                              return dependsOnColumn(info.derived[guard - axis::firstDerived].value);
                            })))
      fault("node " + Twine(id) + " is once a row and reads a column");
    if (node.stage >= info.stages)
      fault("node " + Twine(id) + " is in a stage that there is not");
  }

  void evaluate(unsigned id) {
    values.emplace_back();
    if (!run.fault.empty())
      return;
    const KernelNode &node = info.nodes[id];
    std::vector<double> result;
    forEachPoint(node.perColumn, [&](const Point &point) { result.push_back(valueOf(node, point)); });
    values.back() = std::move(result);
  }

  double valueOf(const KernelNode &node, const Point &point) {
    switch (node.kind) {
    case Kind::load:
      return load(node, point);
    case Kind::literal:
      return facts(node.type).isFloat ? node.value.asFloat() : static_cast<double>(node.value.asInteger());
    case Kind::index:
      return static_cast<double>(indexValue(node.index, point));
    case Kind::random:
      return random(node, point);
    case Kind::choose:
      return choose(node, point);
    case Kind::rowReduce:
      return rowReduce(node, point);
    case Kind::compute:
      return compute(node, point);
    }
    llvm_unreachable("a kind that is not executed");
  }

  double random(const KernelNode &node, const Point &point) const {
    auto integer = [&](unsigned i) { return static_cast<int64_t>(at(node.operands[i], point)); };
    auto place = [&](unsigned i) { return static_cast<uint32_t>(integer(i)); };
    auto seed = static_cast<uint64_t>(integer(0));
    if (info.nodes[node.operands[0]].type == ElementType::i32)
      seed = static_cast<uint32_t>(seed);
    return static_cast<int32_t>(randomBitsAt(seed, node.stream, {place(1), place(2), place(3)}));
  }

  double load(const KernelNode &node, const Point &point) {
    if (!inside(node.guards, point))
      return 0;
    const RefTensor &argument = arguments[node.argument];
    int64_t index = indexValue(node.index, point);
    if (!node.operands.empty()) {
      double row = at(node.operands[0], point);
      if (!(row >= 0 && row < static_cast<double>(node.gatherRows)))
        return isa<FloatType>(argument.element()) ? std::numeric_limits<double>::quiet_NaN() : 0;
      index += static_cast<int64_t>(row) * node.gatherStride;
    }
    if (index < 0 || index >= argument.size()) {
      fault("element " + Twine(index) + " of argument " + Twine(node.argument) + " is read, which has " +
            Twine(argument.size()));
      return 0;
    }
    return argument.data[index];
  }

  double choose(const KernelNode &node, const Point &point) const {
    size_t next = 0;
    for (auto [operand, count] : llvm::zip_equal(node.operands, node.guardCounts)) {
      if (inside(ArrayRef(node.guards).slice(next, count), point))
        return at(operand, point);
      next += count;
    }
    return 0;
  }

  double narrow(double value) const { return mode == RefMode::rounding ? static_cast<float>(value) : value; }

  double rowReduce(const KernelNode &node, Point point) const {
    Type type = typeOf(node);
    double result = start(node.reduction, type, info.space.columns);
    for (point.column = 0; point.column < info.space.columns; ++point.column)
      result = accumulate(node.reduction, result, at(node.operands[0], point), type);
    return finish(result, type);
  }

  static double start(Reduction reduction, Type element, int64_t count) {
    if (reduction == Reduction::product)
      return 1;
    if (reduction == Reduction::sum)
      return isa<FloatType>(element) && count > 0 ? -0.0 : 0.0;
    return isa<FloatType>(element) ? -std::numeric_limits<double>::infinity()
                                   : -std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
  }

  double accumulate(Reduction reduction, double so, double far, Type element) const {
    if (reduction == Reduction::product && isa<IntegerType>(element))
      return static_cast<double>(static_cast<int64_t>(static_cast<uint64_t>(static_cast<int64_t>(finish(so, element))) *
                                                      static_cast<uint64_t>(static_cast<int64_t>(far))));
    if (reduction != Reduction::maximum) {
      double next = reduction == Reduction::sum ? so + far : so * far;
      return isa<FloatType>(element) ? narrow(next) : next;
    }
    if (std::isnan(so) || std::isnan(far))
      return std::numeric_limits<double>::quiet_NaN();
    return so == far && std::signbit(so) ? far : std::max(so, far);
  }

  double finish(double value, Type element) const {
    if (element.isInteger(32))
      return static_cast<int32_t>(static_cast<uint64_t>(static_cast<int64_t>(value)));
    return mode == RefMode::rounding ? roundToElement(value, element) : value;
  }

  /// The steps in fp64, rounded once at the end: as the interpreter has it for an op.
  double compute(const KernelNode &node, const Point &point) {
    std::vector<double> numbered;
    for (unsigned operand : node.operands)
      numbered.push_back(at(operand, point));
    for (const ScalarStep &step : node.steps.steps) {
      auto operand = [&](unsigned i) { return numbered[step.operands[i]]; };
      double value = facts(step.type).isFloat ? step.literal.asFloat() : static_cast<double>(step.literal.asInteger());
      if (step.opcode != Opcode::constant)
        value = step.opcode == Opcode::bitcast ? bitcast(operand(0), step.type)
                                               : stepValue(step.opcode, operand(0), operand(1), operand(2));
      numbered.push_back(facts(step.type).isFloat ? value : wrapped(value, step.type));
    }
    double value = numbered[node.steps.result];
    return mode == RefMode::rounding ? roundToElement(value, typeOf(node)) : value;
  }

  static double wrapped(double value, ElementType type) {
    auto bits = static_cast<uint64_t>(static_cast<int64_t>(value));
    if (type == ElementType::i1)
      return static_cast<double>(bits & 1);
    return type == ElementType::i32 ? static_cast<int32_t>(static_cast<uint32_t>(bits)) : value;
  }

  static double larger(double x, double y) {
    if (std::isnan(x) || std::isnan(y))
      return std::numeric_limits<double>::quiet_NaN();
    return x == y ? (std::signbit(x) ? y : x) : std::max(x, y);
  }

  static double bitcast(double x, ElementType to) {
    if (to == ElementType::f32)
      return std::bit_cast<float>(static_cast<int32_t>(x));
    return std::bit_cast<int32_t>(static_cast<float>(x));
  }

  static double stepValue(Opcode opcode, double x, double y, double z) {
    auto i = [](double value) { return static_cast<int64_t>(value); };
    auto u = [](double value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); };
    auto integer = [](uint64_t bits) { return static_cast<double>(static_cast<int64_t>(bits)); };
    switch (opcode) {
    case Opcode::addF:
      return x + y;
    case Opcode::subF:
      return x - y;
    case Opcode::mulF:
      return x * y;
    case Opcode::divF:
      return x / y;
    case Opcode::negF:
      return -x;
    case Opcode::absF:
      return std::fabs(x);
    case Opcode::maxF:
      return larger(x, y);
    case Opcode::minF:
      return -larger(-x, -y);
    case Opcode::sqrtF:
      return std::sqrt(x);
    case Opcode::expF:
      return std::exp(x);
    case Opcode::logF:
      return std::log(x);
    case Opcode::tanhF:
      return std::tanh(x);
    case Opcode::sinF:
      return std::sin(x);
    case Opcode::cosF:
      return std::cos(x);
    case Opcode::erfF:
      return std::erf(x);
    case Opcode::expm1F:
      return std::expm1(x);
    case Opcode::log1pF:
      return std::log1p(x);
    case Opcode::floorF:
      return std::floor(x);
    case Opcode::ceilF:
      return std::ceil(x);
    case Opcode::roundF:
      return std::nearbyint(x);
    case Opcode::truncF:
      return std::trunc(x);
    case Opcode::powF:
      return std::pow(x, y);
    case Opcode::remF:
      return std::fmod(x, y);
    case Opcode::eqF:
    case Opcode::eqI:
      return x == y;
    case Opcode::neF:
    case Opcode::neI:
      return x != y;
    case Opcode::ltF:
    case Opcode::ltI:
      return x < y;
    case Opcode::leF:
    case Opcode::leI:
      return x <= y;
    case Opcode::gtF:
    case Opcode::gtI:
      return x > y;
    case Opcode::geF:
    case Opcode::geI:
      return x >= y;
    case Opcode::addI:
      return integer(u(x) + u(y));
    case Opcode::subI:
      return integer(u(x) - u(y));
    case Opcode::mulI:
      return integer(u(x) * u(y));
    case Opcode::divI:
      return static_cast<double>(i(x) / i(y));
    case Opcode::remI:
      return static_cast<double>(i(x) % i(y));
    case Opcode::absI:
      return std::fabs(x);
    case Opcode::maxI:
      return static_cast<double>(std::max(i(x), i(y)));
    case Opcode::minI:
      return static_cast<double>(std::min(i(x), i(y)));
    case Opcode::andI:
      return integer(u(x) & u(y));
    case Opcode::orI:
      return integer(u(x) | u(y));
    case Opcode::xorI:
      return integer(u(x) ^ u(y));
    case Opcode::select:
      return x != 0 ? y : z;
    case Opcode::floatToInt:
      return std::trunc(x);
    case Opcode::intToFloat:
    case Opcode::unsignedToFloat: // of an i1
    case Opcode::extendSigned:
    case Opcode::extendZero:
    case Opcode::truncate:
      return x;
    case Opcode::constant:
    case Opcode::bitcast:
      break;
    }
    llvm_unreachable("an opcode that is not executed");
  }

  //===- stores ------------------------------------------------------------------------------------------------===//

  void store(unsigned number) {
    const KernelStore &store = info.stores[number];
    RankedTensorType type = resultTypes[number];
    RefTensor result = splatTensor(type, 0);
    std::vector<int> writes(result.data.size(), 0);
    bool scatters = store.kind == KernelStore::Kind::scatterAdd;
    bool isColumn = store.kind != KernelStore::Kind::element;
    if (scatters)
      result.data = arguments[store.scatterBase].data;
    else if (isColumn)
      for (double &value : result.data)
        value = start(store.reduction, type.getElementType(), info.space.rows);
    forEachPoint(store.perColumn, [&](const Point &point) {
      int64_t index = indexValue(store.index, point);
      double value = at(store.node, point);
      if (scatters) {
        double row = at(store.scatterRow, point);
        if (!(row >= 0 && row < static_cast<double>(store.scatterRows)))
          return;
        index += static_cast<int64_t>(row) * store.scatterStride;
      }
      if (index < 0 || index >= result.size())
        return fault("element " + Twine(index) + " of result " + Twine(number) + " is written, which has " +
                     Twine(result.size()));
      ++writes[index];
      if (scatters)
        result.data[index] = finish(result.data[index] + value, type.getElementType());
      else
        result.data[index] =
            isColumn ? accumulate(store.reduction, result.data[index], value, type.getElementType()) : value;
    });
    int64_t expected = isColumn ? info.space.rows : 1;
    for (int count : writes)
      if (!scatters && count != expected)
        fault("an element of result " + Twine(number) + " is written " + Twine(count) + " times");
    if (isColumn)
      for (double &value : result.data)
        value = finish(value, type.getElementType());
    run.results.push_back(std::move(result));
  }
};

} // namespace

KernelRun runKernelForm(const KernelInfo &info, ArrayRef<RankedTensorType> resultTypes, ArrayRef<RefTensor> arguments,
                        RefMode mode) {
  return Evaluator(info, resultTypes, arguments, mode).take();
}

} // namespace tcc::test
