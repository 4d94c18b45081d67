// The ops of tensor.h: broadcasting and literals are made explicit here, the rest is recorded as it is.
#include "frontend/tensor.h"
#include "frontend/graph_scan.h"
#include "frontend/record_op.h"
#include <cmath>

namespace tcc {

void checkSizes(const Shape &shape, Loc loc) {
  const int64_t limit = GraphLimits().elements;
  int64_t elements = 1;
  for (int64_t size : shape) {
    if (size < 0)
      throw Error("shape " + shape.text() + " has a negative size; sizes are at least 0", loc);
    if (size > limit || (size > 0 && elements > limit / size))
      throw Error("shape " + shape.text() + " has more than 2^40 elements", loc);
    elements *= std::max<int64_t>(size, 1);
  }
}

namespace {

void checkLiteral(double value, DType dtype, Loc loc) {
  if (runtime::isFloat(dtype))
    return;
  const double limit = dtype == DType::i1 ? 1 : dtype == DType::i32 ? 0x1p31 : 0x1p62;
  const double lowest = dtype == DType::i1 ? 0 : -limit;
  const bool fits = value == std::trunc(value) && value >= lowest && (dtype == DType::i1 ? value <= 1 : value < limit);
  if (!fits)
    throw Error("literal " + std::to_string(value) + " for a tensor of " + std::string(runtime::name(dtype)) +
                    "; it must be an integer of that type",
                loc);
}

Tensor splat(double value, DType dtype, const Shape &shape, Loc loc) {
  checkLiteral(value, dtype, loc);
  checkSizes(shape, loc);
  return Tracer::current(loc).splat(value, {dtype, shape}, loc);
}

/// The shape that both stretch to; fails where one does not.
Shape commonShape(std::string_view op, const Shape &a, const Shape &b, Loc loc) {
  const Shape &longer = a.rank() >= b.rank() ? a : b, &shorter = a.rank() >= b.rank() ? b : a;
  Shape common = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const int64_t size = shorter[i], other = longer[offset + i];
    if (size != other && size != 1 && other != 1)
      throw Error("`" + std::string(op) + "` shapes " + a.text() + " and " + b.text() +
                      " do not broadcast: aligned sizes must be equal or 1 (broadcast_c2)",
                  loc);
    common[offset + i] = other == 1 ? size : other;
  }
  return common;
}

Tensor stretched(const Tensor &x, const Shape &shape, Loc loc) {
  const ValueType type = typeOf(x, loc);
  checkSizes(shape, loc);
  return type.shape == shape ? x : record(OpKind::broadcast, {x}, Words().type(type.dtype, shape), loc);
}

struct Pair {
  Tensor a, b;
};

/// Both operands in one shape and dtype.
Pair together(std::string_view op, const Tensor &a, const Operand &b) {
  const ValueType left = typeOf(a, b.loc);
  if (!b.tensor.defined())
    return {a, splat(b.literal, left.dtype, left.shape, b.loc)};
  const ValueType right = typeOf(b.tensor, b.loc);
  if (left.dtype != right.dtype)
    throw Error("`" + std::string(op) + "` operands are " + std::string(runtime::name(left.dtype)) + " and " +
                    std::string(runtime::name(right.dtype)) + "; they need one dtype, cast one of them",
                b.loc);
  if (left.shape == right.shape)
    return {a, b.tensor};
  const Shape shape = commonShape(op, left.shape, right.shape, b.loc);
  return {stretched(a, shape, b.loc), stretched(b.tensor, shape, b.loc)};
}

Tensor binary(OpKind kind, const Tensor &a, const Operand &b) {
  const auto [left, right] = together(tracedOp(kind).name, a, b);
  return record(kind, {left, right}, b.loc);
}

/// literal op b
Tensor binary(OpKind kind, double a, const Operand &b) {
  if (!b.tensor.defined())
    throw Error("an operator on two literals; one side must be a tensor", b.loc);
  const ValueType type = typeOf(b.tensor, b.loc);
  return record(kind, {splat(a, type.dtype, type.shape, b.loc), b.tensor}, b.loc);
}

enum class Comparison : int64_t { eq, ne, lt, le, gt, ge }; // as tcc.compare numbers them

Tensor compare(Comparison comparison, const Tensor &a, const Operand &b) {
  const auto [left, right] = together("compare", a, b);
  return record(OpKind::compare, {left, right}, Words().integer(static_cast<int64_t>(comparison)), b.loc);
}

int64_t normalized(int64_t dim, int64_t rank, Loc loc) {
  const int64_t index = dim < 0 ? dim + rank : dim;
  if (index < 0 || index >= rank)
    throw Error("dim " + std::to_string(dim) + " is outside rank " + std::to_string(rank), loc);
  return index;
}

Tensor reduce(OpKind kind, const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  std::array<bool, Shape::maxRank> reduced{};
  for (int64_t i = 0; i < shape.rank(); ++i)
    reduced[static_cast<size_t>(i)] = axes.all;
  for (int64_t axis : axes.axes)
    reduced[static_cast<size_t>(normalized(axis, shape.rank(), loc))] = true;
  Shape list, kept;
  for (size_t i = 0; i < shape.size(); ++i)
    reduced[i] ? list.push(static_cast<int64_t>(i)) : kept.push(shape[i]);
  const Tensor result = record(kind, {x}, Words().integers(list, loc), loc);
  return keep == KeepDims::yes ? result : reshape(result, kept, loc);
}

/// Where along `axis` an extreme stands.
Tensor place(OpKind kind, const Tensor &x, int64_t axis, KeepDims keep, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  axis = normalized(axis, shape.rank(), loc);
  const Tensor result = record(kind, {x}, Words().integer(axis), loc);
  Shape kept;
  for (int64_t i = 0; i < shape.rank(); ++i)
    if (i != axis)
      kept.push(shape[static_cast<size_t>(i)]);
  return keep == KeepDims::yes ? result : reshape(result, kept, loc);
}

} // namespace

Tensor::Tensor(const State &state, Loc loc) : Tensor(Tracer::current(loc).use(state, loc)) {}

const Shape &Tensor::shape() const {
  return typeOf(*this, Loc()).shape;
}
DType Tensor::dtype() const {
  return typeOf(*this, Loc()).dtype;
}

Tensor operator+(const Tensor &a, Operand b) {
  return binary(OpKind::add, a, b);
}
Tensor operator-(const Tensor &a, Operand b) {
  return binary(OpKind::sub, a, b);
}
Tensor operator*(const Tensor &a, Operand b) {
  return binary(OpKind::mul, a, b);
}
Tensor operator/(const Tensor &a, Operand b) {
  return binary(OpKind::div, a, b);
}
Tensor operator+(double a, Operand b) {
  return binary(OpKind::add, a, b);
}
Tensor operator-(double a, Operand b) {
  return binary(OpKind::sub, a, b);
}
Tensor operator*(double a, Operand b) {
  return binary(OpKind::mul, a, b);
}
Tensor operator/(double a, Operand b) {
  return binary(OpKind::div, a, b);
}
Tensor operator-(Operand x) {
  return record(OpKind::neg, {x.tensor}, x.loc);
}
Tensor maximum(const Tensor &a, Operand b) {
  return binary(OpKind::maximum, a, b);
}
Tensor minimum(const Tensor &a, Operand b) {
  return binary(OpKind::minimum, a, b);
}

Tensor pow(const Tensor &a, Operand b) {
  return binary(OpKind::pow, a, b);
}
Tensor fmod(const Tensor &a, Operand b) {
  return binary(OpKind::fmod, a, b);
}
Tensor remainder(const Tensor &a, Operand b) {
  return binary(OpKind::remainder, a, b);
}
Tensor floorDivide(const Tensor &a, Operand b) {
  return binary(OpKind::floorDivide, a, b);
}
Tensor clamp(const Tensor &x, Operand low, Operand high) {
  const auto [bounded, least] = together("clamp", x, low);
  const auto [again, most] = together("clamp", bounded, high);
  const Shape &shape = typeOf(again, low.loc).shape;
  return record(OpKind::clamp, {again, stretched(least, shape, low.loc), most}, low.loc);
}

Tensor equal(const Tensor &a, Operand b) {
  return compare(Comparison::eq, a, b);
}
Tensor notEqual(const Tensor &a, Operand b) {
  return compare(Comparison::ne, a, b);
}
Tensor less(const Tensor &a, Operand b) {
  return compare(Comparison::lt, a, b);
}
Tensor lessEqual(const Tensor &a, Operand b) {
  return compare(Comparison::le, a, b);
}
Tensor greater(const Tensor &a, Operand b) {
  return compare(Comparison::gt, a, b);
}
Tensor greaterEqual(const Tensor &a, Operand b) {
  return compare(Comparison::ge, a, b);
}

Tensor operator<(const Tensor &a, Operand b) {
  return less(a, b);
}
Tensor operator<=(const Tensor &a, Operand b) {
  return lessEqual(a, b);
}
Tensor operator>(const Tensor &a, Operand b) {
  return greater(a, b);
}
Tensor operator>=(const Tensor &a, Operand b) {
  return greaterEqual(a, b);
}

Tensor logicalAnd(const Tensor &a, const Tensor &b, Loc loc) {
  return binary(OpKind::logicalAnd, a, Operand(b, loc));
}
Tensor logicalOr(const Tensor &a, const Tensor &b, Loc loc) {
  return binary(OpKind::logicalOr, a, Operand(b, loc));
}
Tensor logicalXor(const Tensor &a, const Tensor &b, Loc loc) {
  return binary(OpKind::logicalXor, a, Operand(b, loc));
}
Tensor select(const Tensor &condition, const Tensor &onTrue, Operand onFalse) {
  const Loc loc = onFalse.loc;
  auto [yes, no] = together("select", onTrue, onFalse);
  const ValueType type = typeOf(yes, loc);
  const Shape shape = commonShape("select", type.shape, typeOf(condition, loc).shape, loc);
  return record(OpKind::select,
                {stretched(condition, shape, loc), stretched(yes, shape, loc), stretched(no, shape, loc)}, loc);
}

#include "frontend/op_functions.cpp.inc"

Tensor cast(const Tensor &x, DType dtype, Loc loc) {
  const ValueType type = typeOf(x, loc);
  return type.dtype == dtype ? x : record(OpKind::cast, {x}, Words().type(dtype, type.shape), loc);
}

Tensor full(double value, const Shape &shape, DType dtype, Loc loc) {
  return splat(value, dtype, shape, loc);
}

Tensor literal(std::span<const double> values, const Shape &shape, DType dtype, Loc loc) {
  constexpr size_t limit = 1024;
  checkSizes(shape, loc);
  for (double value : values)
    checkLiteral(value, dtype, loc);
  if (static_cast<int64_t>(values.size()) != shape.elements() || values.empty())
    throw Error(std::to_string(values.size()) + " values for shape " + shape.text() +
                    "; as many as elements are needed, "
                    "at least one",
                loc);
  if (values.size() > limit)
    throw Error("literal of " + std::to_string(values.size()) + " values; at most 1 KiB is allowed (constant_c1)", loc);
  std::vector<uint64_t> words{values.size()};
  for (double value : values)
    words.push_back(std::bit_cast<uint64_t>(value));
  const Words type = Words().type(dtype, shape);
  const std::span<const uint64_t> typeWords = type;
  words.insert(words.end(), typeWords.begin(), typeWords.end());
  return record(OpKind::constant, {}, words, loc);
}

Tensor iota(int64_t dim, const Shape &shape, DType dtype, Loc loc) {
  checkSizes(shape, loc);
  return record(OpKind::iota, {}, Words().integer(normalized(dim, shape.rank(), loc)).type(dtype, shape), loc);
}
Tensor randomBits(const Tensor &seed, int64_t stream, const Shape &shape, const Tensor &first, Loc loc) {
  checkSizes(shape, loc);
  const Words words = Words().integer(stream).type(DType::i32, shape);
  return first.defined() ? record(OpKind::randomBits, {seed, first}, words, loc)
                         : record(OpKind::randomBits, {seed}, words, loc);
}

Tensor reshape(const Tensor &x, const Shape &shape, Loc loc) {
  const ValueType type = typeOf(x, loc);
  Shape target = shape;
  int64_t open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0)
      target[static_cast<size_t>(open = static_cast<int64_t>(i))] = 1;
    else if (shape[i] < 0)
      throw Error("reshape to " + shape.text() + "; sizes are at least 0, and one may be -1", loc);
  }
  checkSizes(target, loc);
  const int64_t known = target.elements();
  const int64_t elements = type.shape.elements();
  if (open >= 0 && known != 0 && elements % known == 0)
    target[static_cast<size_t>(open)] = elements / known;
  else if (open >= 0 || known != elements)
    throw Error("`reshape` of " + type.shape.text() + " to " + shape.text() + ": element counts " +
                    std::to_string(elements) + " and " + std::to_string(known) + " differ (reshape_c1)",
                loc);
  return target == type.shape ? x : record(OpKind::reshape, {x}, Words().type(type.dtype, target), loc);
}

Tensor broadcast(const Tensor &x, const Shape &shape, Loc loc) {
  return stretched(x, shape, loc);
}

Tensor transpose(const Tensor &x, std::initializer_list<int64_t> permutation, Loc loc) {
  return record(OpKind::transpose, {x}, Words().integers(std::span(permutation.begin(), permutation.size()), loc), loc);
}
Tensor transpose(const Tensor &x, Loc loc) {
  const int64_t rank = typeOf(x, loc).shape.rank();
  if (rank < 2)
    throw Error("`transpose` of rank " + std::to_string(rank) + "; exchanging the last two dims needs rank 2", loc);
  Shape permutation;
  for (int64_t i = 0; i < rank; ++i)
    permutation.push(i < rank - 2 ? i : 2 * rank - 3 - i);
  return record(OpKind::transpose, {x}, Words().integers(permutation, loc), loc);
}

Tensor slice(const Tensor &x, int64_t dim, int64_t start, int64_t limit, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  const auto index = static_cast<size_t>(normalized(dim, shape.rank(), loc));
  Shape starts, limits;
  for (size_t i = 0; i < shape.size(); ++i) {
    starts.push(i == index ? start : 0);
    limits.push(i == index && limit != -1 ? limit : shape[i]);
  }
  return slice(x, starts, limits, loc);
}
Tensor slice(const Tensor &x, std::span<const int64_t> starts, std::span<const int64_t> limits, Loc loc) {
  return slice(x, starts, limits, {}, loc);
}
Tensor slice(const Tensor &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
             std::span<const int64_t> steps, Loc loc) {
  return record(OpKind::slice, {x}, Words().integers(starts, loc).integers(limits, loc).integers(steps, loc), loc);
}

std::vector<Tensor> split(const Tensor &x, int64_t dim, int64_t parts, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  const int64_t size = shape[static_cast<size_t>(normalized(dim, shape.rank(), loc))];
  if (parts < 1 || size % parts != 0)
    throw Error("split of size " + std::to_string(size) + " into " + std::to_string(parts) +
                    " parts; the size must be a multiple of the parts",
                loc);
  std::vector<Tensor> results;
  for (int64_t i = 0; i < parts; ++i)
    results.push_back(slice(x, dim, i * (size / parts), (i + 1) * (size / parts), loc));
  return results;
}

Tensor pad(const Tensor &x, std::span<const int64_t> low, std::span<const int64_t> high, double value, Loc loc) {
  return record(OpKind::pad, {x}, Words().integers(low, loc).integers(high, loc).number(value), loc);
}
Tensor pad(const Tensor &x, std::initializer_list<int64_t> low, std::initializer_list<int64_t> high, Loc loc) {
  return pad(x, std::span(low.begin(), low.size()), std::span(high.begin(), high.size()), 0, loc);
}

/// x where its column is at most (or at least) its row + diagonal, 0 elsewhere.
static Tensor triangle(const Tensor &x, int64_t diagonal, bool isLower, Loc loc) {
  const Shape shape = typeOf(x, loc).shape;
  if (shape.rank() < 2)
    throw Error((isLower ? "`tril` of " : "`triu` of ") + shape.text() + "; it needs rows and columns", loc);
  const Tensor row = iota(shape.rank() - 2, shape, DType::i32, loc);
  const Tensor column = iota(shape.rank() - 1, shape, DType::i32, loc);
  const Operand bound(diagonal == 0 ? row : row + Operand(static_cast<double>(diagonal), loc), loc);
  return select(isLower ? lessEqual(column, bound) : greaterEqual(column, bound), x, Operand(0.0, loc));
}

Tensor tril(const Tensor &x, int64_t diagonal, Loc loc) {
  return triangle(x, diagonal, true, loc);
}
Tensor triu(const Tensor &x, int64_t diagonal, Loc loc) {
  return triangle(x, diagonal, false, loc);
}

Tensor concat(std::span<const Tensor> parts, int64_t axis, Loc loc) {
  if (parts.empty())
    throw Error("`concat` of no tensors; it needs at least one (concat_c1)", loc);
  axis = normalized(axis, typeOf(parts[0], loc).shape.rank(), loc);
  return Tracer::current(loc).op(OpKind::concat, parts, Words().integer(axis), loc);
}

Tensor sum(const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  return reduce(OpKind::reduceSum, x, axes, keep, loc);
}
Tensor max(const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  return reduce(OpKind::reduceMax, x, axes, keep, loc);
}
Tensor min(const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  return reduce(OpKind::reduceMin, x, axes, keep, loc);
}
Tensor prod(const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  return reduce(OpKind::reduceProd, x, axes, keep, loc);
}
Tensor argmax(const Tensor &x, int64_t axis, KeepDims keep, Loc loc) {
  return place(OpKind::argmax, x, axis, keep, loc);
}
Tensor argmin(const Tensor &x, int64_t axis, KeepDims keep, Loc loc) {
  return place(OpKind::argmin, x, axis, keep, loc);
}
Tensor mean(const Tensor &x, const Axes &axes, KeepDims keep, Loc loc) {
  return reduce(OpKind::reduceMean, x, axes, keep, loc);
}

Tensor matmul(const Tensor &a, const Tensor &b, MatmulOptions options, Loc loc) {
  return record(OpKind::matmul, {a, b},
                Words().integer(options.transposeA).integer(options.transposeB).dtype(options.dtype), loc);
}
Tensor matmul(const Tensor &a, const Tensor &b, Loc loc) {
  return matmul(a, b, MatmulOptions(), loc);
}

/// 1/sqrt(d) where it is 0.
static double scaleOf(const Tensor &q, double scale, Loc loc) {
  if (scale != 0)
    return scale;
  const Shape shape = typeOf(q, loc).shape;
  if (shape.empty())
    throw Error("`attention` q is a scalar; it needs [batch..., T, d] (attention_c1)", loc);
  return 1 / std::sqrt(static_cast<double>(shape.dim(-1)));
}
Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, bool causal, double scale, Loc loc) {
  return record(OpKind::attention, {q, k, v}, Words().integer(causal).number(scaleOf(q, scale, loc)), loc);
}
Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask, bool causal, double scale,
                 Loc loc) {
  const Shape shape = typeOf(mask, loc).shape;
  Shape ranked; // missing leading dims are 1
  for (int64_t i = shape.rank(); i < typeOf(q, loc).shape.rank(); ++i)
    ranked.push(1);
  for (int64_t size : shape)
    ranked.push(size);
  return record(OpKind::attention, {q, k, v, reshape(mask, ranked, loc)},
                Words().integer(causal).number(scaleOf(q, scale, loc)), loc);
}
Tensor dropout(const Tensor &x, double rate, const Tensor &seed, int64_t stream, const Tensor &first, Loc loc) {
  const Words words = Words().number(rate).integer(stream);
  return first.defined() ? record(OpKind::dropout, {x, seed, first}, words, loc)
                         : record(OpKind::dropout, {x, seed}, words, loc);
}

Tensor stochasticCast(const Tensor &x, const Tensor &seed, int64_t stream, Loc loc) {
  return record(OpKind::stochasticCast, {x, seed}, Words().integer(stream), loc);
}

SortResult sort(const Tensor &x, int64_t dim, bool descending, Loc loc) {
  const Tensor operands[] = {x};
  dim = normalized(dim, typeOf(x, loc).shape.rank(), loc);
  const std::vector<Tensor> results =
      Tracer::current(loc).ops(OpKind::sort, operands, Words().integer(dim).integer(descending), loc);
  return {results[0], results[1]};
}

AdamwResult adamw(const Tensor &parameter, const Tensor &gradient, const Tensor &m, const Tensor &v, const Tensor &lr,
                  const Tensor &step, const Tensor &scale, const Tensor &apply, const AdamwOptions &options, Loc loc) {
  const Tensor operands[] = {parameter, gradient, m, v, lr, step, scale, apply};
  const std::vector<Tensor> results = Tracer::current(loc).ops(
      OpKind::adamw, operands,
      Words().number(options.beta1).number(options.beta2).number(options.eps).number(options.weightDecay), loc);
  return {results[0], results[1], results[2]};
}

std::vector<Tensor> gradient(const Tensor &loss, std::span<const Tensor> wrt, Loc loc) {
  std::vector<Tensor> operands{loss};
  operands.insert(operands.end(), wrt.begin(), wrt.end());
  return Tracer::current(loc).ops(OpKind::gradient, operands, {}, loc);
}
std::vector<Tensor> gradient(const Tensor &loss, std::span<const Parameter> parameters, Loc loc) {
  std::vector<Tensor> wrt;
  for (const Parameter &parameter : parameters)
    wrt.push_back(Tensor(parameter, loc));
  return gradient(loss, wrt, loc);
}

void assign(const State &state, const Tensor &value, Loc loc) {
  Tracer::current(loc).assign(state, value, loc);
}

} // namespace tcc
