// The kernel form's naive execution. A node that depends on the column has a value for each element of the space, any
// other one a value for each row.
#include "tests/ir/kernel_evaluator.h"
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
      : info(info), resultTypes(resultTypes), arguments(arguments), mode(mode) {}

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
    if (node.kind == Kind::compute) {
      values.back() = compute(node);
      return;
    }
    std::vector<double> result;
    forEachPoint(node.perColumn, [&](const Point &point) { result.push_back(valueOf(node, point)); });
    values.back() = std::move(result);
  }

  double valueOf(const KernelNode &node, const Point &point) {
    switch (node.kind) {
    case Kind::load:
      return load(node, point);
    case Kind::literal:
      return literal(node);
    case Kind::index:
      return static_cast<double>(indexValue(node.index, point));
    case Kind::random:
      return static_cast<int32_t>(philoxWord(static_cast<uint64_t>(static_cast<int64_t>(at(node.operands[0], point))),
                                             cast<RandomBitsOp>(node.op).getStream(), indexValue(node.index, point)));
    case Kind::choose:
      return choose(node, point);
    case Kind::rowReduce:
      return rowReduce(node, point);
    case Kind::compute:
      break;
    }
    llvm_unreachable("elementwise ops are computed for all points at once");
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

  static double literal(const KernelNode &node) {
    auto elements = cast<DenseElementsAttr>(cast<ConstantOp>(node.op).getValue());
    if (isa<FloatType>(elements.getElementType())) {
      APFloat value = elements.getSplatValue<APFloat>();
      bool lossy;
      value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
      return value.convertToDouble();
    }
    APInt value = elements.getSplatValue<APInt>();
    return value.getBitWidth() == 1 ? value.getBoolValue() : static_cast<double>(value.getSExtValue());
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
    bool isSum = isa<ReduceSumOp>(node.op);
    double result = start(isSum, node.type.getElementType(), info.space.columns);
    for (point.column = 0; point.column < info.space.columns; ++point.column)
      result = accumulate(isSum, result, at(node.operands[0], point), node.type.getElementType());
    return finish(result, node.type.getElementType());
  }

  static double start(bool isSum, Type element, int64_t count) {
    if (isSum)
      return isa<FloatType>(element) && count > 0 ? -0.0 : 0.0;
    return isa<FloatType>(element) ? -std::numeric_limits<double>::infinity()
                                   : -std::ldexp(1.0, element.getIntOrFloatBitWidth() - 1);
  }

  double accumulate(bool isSum, double so, double far, Type element) const {
    if (isSum)
      return isa<FloatType>(element) ? narrow(so + far) : so + far;
    if (std::isnan(so) || std::isnan(far))
      return std::numeric_limits<double>::quiet_NaN();
    return so == far && std::signbit(so) ? far : std::max(so, far);
  }

  double finish(double value, Type element) const {
    if (element.isInteger(32))
      return static_cast<int32_t>(static_cast<uint64_t>(static_cast<int64_t>(value)));
    return mode == RefMode::rounding ? roundToElement(value, element) : value;
  }

  /// All points at once: a function of this one op on vectors.
  std::vector<double> compute(const KernelNode &node) {
    MLIRContext *context = node.op->getContext();
    Location loc = UnknownLoc::get(context);
    int64_t count = info.space.outer * info.space.rows * (node.perColumn ? info.space.columns : 1);
    std::vector<RefTensor> operands;
    SmallVector<Type> types;
    for (unsigned operand : node.operands) {
      RefTensor vector{RankedTensorType::get({count}, info.nodes[operand].type.getElementType()), {}};
      forEachPoint(node.perColumn, [&](const Point &point) { vector.data.push_back(at(operand, point)); });
      types.push_back(vector.type);
      operands.push_back(std::move(vector));
    }
    Type resultType = RankedTensorType::get({count}, node.type.getElementType());
    OwningOpRef<func::FuncOp> function =
        func::FuncOp::create(loc, "node", FunctionType::get(context, types, resultType));
    Block *block = function->addEntryBlock();
    OpBuilder builder = OpBuilder::atBlockEnd(block);
    Operation *op = node.op->cloneWithoutRegions();
    op->setOperands(block->getArguments());
    op->getResult(0).setType(resultType);
    builder.insert(op);
    func::ReturnOp::create(builder, loc, op->getResults());
    std::string error;
    FailureOr<std::vector<RefTensor>> results = interpret(*function, operands, mode, error);
    if (failed(results)) {
      fault(error);
      return {};
    }
    return std::move(results->front().data);
  }

  //===- stores ------------------------------------------------------------------------------------------------===//

  void store(unsigned number) {
    const KernelStore &store = info.stores[number];
    RankedTensorType type = resultTypes[number];
    RefTensor result = splatTensor(type, 0);
    std::vector<int> writes(result.data.size(), 0);
    bool scatters = store.kind == KernelStore::Kind::scatterAdd, sums = store.kind == KernelStore::Kind::columnSum;
    bool isColumn = store.kind != KernelStore::Kind::element;
    if (scatters)
      result.data = arguments[store.scatterBase].data;
    else if (isColumn)
      for (double &value : result.data)
        value = start(sums, type.getElementType(), info.space.rows);
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
        result.data[index] = isColumn ? accumulate(sums, result.data[index], value, type.getElementType()) : value;
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
