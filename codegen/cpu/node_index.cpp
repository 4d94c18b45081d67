// Index expressions as 64-bit scalars, as lanes, and as the step from lane to lane.
#include "codegen/cpu/node_values.h"

using namespace mlir;

namespace tcc::cpu {

/// Lane 0 stands at a multiple of the vector width on this axis.
bool NodeValues::isAligned(unsigned id) const {
  if (id == axis::column)
    return true;
  if (id < axis::firstDerived)
    return false;
  const IndexExpr &value = derived(id).value;
  return value.constant % b.lanes == 0 && llvm::all_of(value.terms, [&](const IndexTerm &term) {
           return (term.axis == axis::column && term.isPlain()) || term.coefficient % b.lanes == 0;
         });
}

std::optional<int64_t> NodeValues::laneStride(const IndexExpr &expr) const {
  int64_t stride = 0;
  for (const IndexTerm &term : expr.terms) {
    std::optional<int64_t> step = term.axis == axis::column ? 1 : 0;
    if (term.axis >= axis::firstDerived)
      step = laneStride(derived(term.axis).value);
    if (!step)
      return std::nullopt;
    if (*step == 0)
      continue;
    if (term.isPlain()) {
      stride += term.coefficient * *step;
      continue;
    }
    // Digits of an aligned axis: the lanes of a vector share the high ones and step through the low one.
    if (*step != 1 || !isAligned(term.axis))
      return std::nullopt;
    if (term.divisor % b.lanes == 0)
      continue;
    if (term.divisor != 1 || term.modulus % b.lanes != 0)
      return std::nullopt;
    stride += term.coefficient;
  }
  return stride;
}

//===- scalars -------------------------------------------------------------------------------------------------===//

Value NodeValues::scalarAxis(unsigned id, const RowScope &row, Value column) {
  if (id == axis::outer)
    return row.outer;
  if (id == axis::row)
    return row.row;
  if (id == axis::column)
    return column;
  return scalarIndex(derived(id).value, row, column);
}

/// outer · rows + row, of a number of rows that is known when the kernel runs.
Value NodeValues::line(const RowScope &row) {
  return b.add(b.create<arith::MulIOp>(row.outer, rows), row.row);
}

/// Where the number of rows is known only when the kernel runs, an index of outer and row is one of lines
/// (shared_code.cpp sees to it).
Value NodeValues::scalarIndex(const IndexExpr &expr, const RowScope &row, Value column) {
  const bool ofLine = rows && expr.dependsOn(axis::outer) && expr.dependsOn(axis::row);
  Value sum = b.i64(expr.constant);
  for (const IndexTerm &term : expr.terms) {
    if (ofLine && term.axis == axis::outer)
      continue;
    const bool isLine = ofLine && term.axis == axis::row;
    Value digit = b.div(isLine ? line(row) : scalarAxis(term.axis, row, column), term.divisor);
    if (term.modulus != 0)
      digit = b.mod(digit, term.modulus);
    sum = b.add(sum, b.mul(digit, term.coefficient));
  }
  return sum;
}

Value NodeValues::address(Value base, Type element, const IndexExpr &index, const RowScope &row, Value column) {
  return b.offset(base, element, scalarIndex(index, row, column));
}

//===- lanes ---------------------------------------------------------------------------------------------------===//

bool fitsIn32(const KernelInfo &info, const IndexExpr &expr) {
  constexpr int64_t limit = int64_t(1) << 31;
  int64_t reach = std::abs(expr.constant);
  for (const IndexTerm &term : expr.terms) {
    if (term.axis >= axis::firstDerived && !fitsIn32(info, info.derived[term.axis - axis::firstDerived].value))
      return false;
    if (term.axis == axis::column && info.space.columns >= limit)
      return false;
    if (std::abs(term.coefficient) >= limit || term.extent >= limit)
      return false;
    reach += std::abs(term.coefficient) * term.extent;
    if (reach >= limit)
      return false;
  }
  return true;
}

Type NodeValues::laneIndexType(const IndexExpr &expr) {
  return fitsIn32(info, expr) ? Type(b.builder.getI32Type()) : Type(b.builder.getI64Type());
}

static Value splatAs(LaneBuilder &b, Value scalar, Type element) {
  if (element.isInteger(32))
    scalar = b.create<arith::TruncIOp>(element, scalar);
  return b.splat(scalar);
}

Value NodeValues::laneAxis(unsigned id, LaneScope &lanes, Type element) {
  if (id == axis::column)
    return b.add(splatAs(b, lanes.column, element), b.iota(element));
  if (id < axis::firstDerived || !info.dependsOnColumn(derived(id).value))
    return splatAs(b, scalarAxis(id, lanes.row, lanes.column), element);
  return laneIndex(derived(id).value, lanes, element);
}

Value NodeValues::laneIndex(const IndexExpr &expr, LaneScope &lanes, Type element) {
  if (std::optional<int64_t> stride = laneStride(expr)) {
    Value first = splatAs(b, scalarIndex(expr, lanes.row, lanes.column), element);
    return *stride == 0 ? first : b.add(first, b.iota(element, *stride));
  }
  IndexExpr scalarPart(expr.constant);
  Value sum;
  for (const IndexTerm &term : expr.terms) {
    if (!info.axisDependsOnColumn(term.axis)) {
      scalarPart.terms.push_back(term);
      continue;
    }
    Value digit = b.div(laneAxis(term.axis, lanes, element), term.divisor);
    if (term.modulus != 0)
      digit = b.mod(digit, term.modulus);
    digit = b.mul(digit, term.coefficient);
    sum = sum ? b.add(sum, digit) : digit;
  }
  return b.add(sum, splatAs(b, scalarIndex(scalarPart, lanes.row, lanes.column), element));
}

//===- guards --------------------------------------------------------------------------------------------------===//

// One unsigned comparison tests 0 <= value < extent.
Value NodeValues::insideRow(unsigned id, const RowScope &row) {
  Value value = scalarIndex(derived(id).value, row, Value());
  return b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, value, b.i64(derived(id).extent));
}

std::optional<bool> NodeValues::isInsidePart(unsigned id, const LaneScope &lanes) const {
  return lanes.partBegin >= 0 ? isInside(info, id, lanes.partBegin, lanes.partEnd) : std::nullopt;
}

Value NodeValues::insideLanes(unsigned id, LaneScope &lanes) {
  if (!info.dependsOnColumn(derived(id).value))
    return b.splat(insideRow(id, lanes.row));
  Type element = laneIndexType(derived(id).value);
  Value value = laneIndex(derived(id).value, lanes, element);
  return b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, value, b.integer(value.getType(), derived(id).extent));
}

} // namespace tcc::cpu
