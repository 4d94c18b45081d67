// Tensor: a value inside a traced function, with operators and one free function for each op of the dialect. Nothing is
// computed here: each call is recorded (trace.h), and shapes and dtypes are known at once. Every function throws Error
// with the caller's file and line and the violated constraint's label.
#pragma once
#include "frontend/array.h"
#include "frontend/loc.h"
#include "frontend/shape.h"
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tcc {

namespace detail {
[[noreturn]] void refuseEmpty(Loc loc);
/// Counts the handles (Tensor objects) of a value, so that a graph break keeps only values that the user's code still
/// holds. Both do nothing for a value of a recording that is not this thread's.
void retainHandle(uint32_t trace, uint32_t value) noexcept;
void releaseHandle(uint32_t trace, uint32_t value) noexcept;
} // namespace detail

/// A handle of a value in the running recording. It is cheap to copy. Using it after the traced function has returned
/// throws Error.
///
/// What asks for the value itself (item, toHost, print, a condition) is a graph break: what the value needs is compiled
/// and run at once, and tracing goes on (docs/BREAKS.md). States keep their old values until the step ends.
class Tensor {
public:
  Tensor() = default;
  /// A state's value before the call.
  Tensor(const State &state, Loc loc = Loc::current());
  Tensor(const Tensor &other) noexcept : trace(other.trace), value(other.value) { retain(); }
  Tensor &operator=(const Tensor &other) noexcept {
    if (this != &other) {
      release();
      trace = other.trace;
      value = other.value;
      retain();
    }
    return *this;
  }
  ~Tensor() { release(); }

  const Shape &shape() const;
  int64_t rank() const { return shape().rank(); }
  /// Size of a dim; negative ones count from the end.
  int64_t dim(int64_t index) const { return shape().dim(index); }
  DType dtype() const;
  /// Whether it is a handle of anything.
  bool defined() const { return trace != 0; }

  /// The one element as double. This is a graph break, and no gradient flows through it. Throws Error for a tensor of
  /// more elements.
  double item(Loc loc = Loc::current()) const;
  /// A copy of all elements on the host. This is a graph break.
  Array toHost(Loc loc = Loc::current()) const;
  /// Whether the one element is not 0, for `if (greater(loss, 3))`. This is a graph break. Throws Error for a tensor of
  /// more elements.
  explicit operator bool() const;

private:
  friend class Tracer;
  Tensor(uint32_t trace, uint32_t value) : trace(trace), value(value) { retain(); }
  void retain() const noexcept {
    if (trace)
      detail::retainHandle(trace, value);
  }
  void release() const noexcept {
    if (trace)
      detail::releaseHandle(trace, value);
  }
  uint32_t trace = 0; // which recording; 0 for none
  uint32_t value = 0;
};

/// The right side of an operator: a tensor, a state or a literal, with its place in the program. A literal takes the
/// other side's dtype and shape. It is a constant of the compiled code, and a changed one causes a new compilation; so
/// what changes from call to call must be an input.
class Operand {
public:
  Operand(const Tensor &tensor, Loc loc = Loc::current()) : tensor(tensor), loc(loc) {
    if (!tensor.defined())
      detail::refuseEmpty(loc);
  }
  Operand(const State &state, Loc loc = Loc::current()) : tensor(state, loc), loc(loc) {}
  Operand(double literal, Loc loc = Loc::current()) : literal(literal), loc(loc) {}

  Tensor tensor; // none for a literal
  double literal = 0;
  Loc loc;
};

//===- arithmetic; shapes are broadcast: aligned at the last dim, sizes 1 and missing dims stretched -------------===//

Tensor operator+(const Tensor &a, Operand b);
Tensor operator-(const Tensor &a, Operand b);
Tensor operator*(const Tensor &a, Operand b);
Tensor operator/(const Tensor &a, Operand b);
Tensor operator+(double a, Operand b);
Tensor operator-(double a, Operand b);
Tensor operator*(double a, Operand b);
Tensor operator/(double a, Operand b);
Tensor operator-(Operand x);
Tensor maximum(const Tensor &a, Operand b);
Tensor minimum(const Tensor &a, Operand b);
/// a to the power b, as C's pow.
Tensor pow(const Tensor &a, Operand b);
/// The rest of a / b. fmod() rounds the quotient towards 0; remainder() rounds it down, so that the rest has b's sign.
Tensor fmod(const Tensor &a, Operand b);
Tensor remainder(const Tensor &a, Operand b);
/// a / b rounded down to a whole number. For integers it is 0 where b is 0.
Tensor floorDivide(const Tensor &a, Operand b);
/// x limited to [low, high]; all three are broadcast to one shape. Where low is above high, the result is high.
Tensor clamp(const Tensor &x, Operand low, Operand high);

// comparisons: i1 results; NaN is unequal to everything
Tensor equal(const Tensor &a, Operand b);
Tensor notEqual(const Tensor &a, Operand b);
Tensor less(const Tensor &a, Operand b);
Tensor lessEqual(const Tensor &a, Operand b);
Tensor greater(const Tensor &a, Operand b);
Tensor greaterEqual(const Tensor &a, Operand b);
Tensor operator<(const Tensor &a, Operand b);
Tensor operator<=(const Tensor &a, Operand b);
Tensor operator>(const Tensor &a, Operand b);
Tensor operator>=(const Tensor &a, Operand b);

// operands are i1, or integers, on which each bit is computed by itself
Tensor logicalAnd(const Tensor &a, const Tensor &b, Loc loc = Loc::current());
Tensor logicalOr(const Tensor &a, const Tensor &b, Loc loc = Loc::current());
Tensor logicalXor(const Tensor &a, const Tensor &b, Loc loc = Loc::current());

/// onTrue where the condition holds, else onFalse; all three are broadcast to one shape.
Tensor select(const Tensor &condition, const Tensor &onTrue, Operand onFalse);

/// x converted; x itself when it has that dtype.
Tensor cast(const Tensor &x, DType dtype, Loc loc = Loc::current());
//===- ops whose function is the op and no more: from Ops.td (generate_ops) --------------------------------------===//

#include "frontend/op_functions.h.inc"

inline Tensor stopGradient(const Tensor &x, Loc loc = Loc::current()) {
  return detach(x, loc);
}

//===- sources ---------------------------------------------------------------------------------------------------===//

/// A tensor in which every element is `value`.
Tensor full(double value, const Shape &shape, DType dtype = DType::f32, Loc loc = Loc::current());
inline Tensor zeros(const Shape &shape, DType dtype = DType::f32, Loc loc = Loc::current()) {
  return full(0, shape, dtype, loc);
}
inline Tensor ones(const Shape &shape, DType dtype = DType::f32, Loc loc = Loc::current()) {
  return full(1, shape, dtype, loc);
}
/// A literal of at most 1 KiB, row-major.
Tensor literal(std::span<const double> values, const Shape &shape, DType dtype = DType::f32, Loc loc = Loc::current());
/// Each element's own coordinate along `dim`.
Tensor iota(int64_t dim, const Shape &shape, DType dtype = DType::i32, Loc loc = Loc::current());
/// 32 random bits for each element (i32), which depend on seed (i32 or i64 scalar), stream and the element's
/// coordinates. `first` (i32 scalar) is added to the first coordinate; for a part of a batch it says where the part
/// begins.
Tensor randomBits(const Tensor &seed, int64_t stream, const Shape &shape, const Tensor &first = {},
                  Loc loc = Loc::current());

//===- views -----------------------------------------------------------------------------------------------------===//

/// One size may be -1: it then follows from the element count.
Tensor reshape(const Tensor &x, const Shape &shape, Loc loc = Loc::current());
Tensor broadcast(const Tensor &x, const Shape &shape, Loc loc = Loc::current());
/// Result dim i is x's dim permutation[i].
Tensor transpose(const Tensor &x, std::initializer_list<int64_t> permutation, Loc loc = Loc::current());
/// The last two dims exchanged.
Tensor transpose(const Tensor &x, Loc loc = Loc::current());
/// Elements start <= index < limit of one dim; a negative dim counts from the end, a limit of -1 is the dim's size.
Tensor slice(const Tensor &x, int64_t dim, int64_t start, int64_t limit, Loc loc = Loc::current());
/// The same for all dims at once. With `steps`, only every steps[i]-th element of dim i.
Tensor slice(const Tensor &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
             Loc loc = Loc::current());
Tensor slice(const Tensor &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
             std::span<const int64_t> steps, Loc loc = Loc::current());
/// x in `parts` equal pieces along `dim`.
std::vector<Tensor> split(const Tensor &x, int64_t dim, int64_t parts, Loc loc = Loc::current());
/// low[i] zeros, or elements of `value`, before and high[i] after x along dim i.
Tensor pad(const Tensor &x, std::initializer_list<int64_t> low, std::initializer_list<int64_t> high,
           Loc loc = Loc::current());
Tensor pad(const Tensor &x, std::span<const int64_t> low, std::span<const int64_t> high, double value,
           Loc loc = Loc::current());
/// How windows stand along each of several dims; an empty list means all ones.
struct WindowOptions {
  std::vector<int64_t> steps, dilations;
};
/// Windows of sizes[i] elements along dims[i]. In the result these dims count the windows, and new dims at the end have
/// the elements of each window.
Tensor window(const Tensor &x, std::span<const int64_t> dims, std::span<const int64_t> sizes,
              const WindowOptions &options = {}, Loc loc = Loc::current());
/// The sum of windows, each where it stands in a tensor of `shape`.
Tensor fold(const Tensor &windows, std::span<const int64_t> dims, const Shape &shape, const WindowOptions &options = {},
            Loc loc = Loc::current());
/// x [..., rows, columns] where column <= row + diagonal, 0 elsewhere; triu: where column >= row + diagonal.
Tensor tril(const Tensor &x, int64_t diagonal = 0, Loc loc = Loc::current());
Tensor triu(const Tensor &x, int64_t diagonal = 0, Loc loc = Loc::current());
Tensor concat(std::span<const Tensor> parts, int64_t axis, Loc loc = Loc::current());
inline Tensor concat(std::initializer_list<Tensor> parts, int64_t axis, Loc loc = Loc::current()) {
  return concat(std::span<const Tensor>(parts.begin(), parts.size()), axis, loc);
}

//===- reductions: over `axes` (negative ones count from the end), which vanish unless keepDims; no axes: all ----===//

struct Axes {
  Axes() = default; ///< all of them
  Axes(int64_t axis) : axes{axis}, all(false) {}
  Axes(std::initializer_list<int64_t> axes) : axes(axes), all(false) {}
  std::vector<int64_t> axes;
  bool all = true;
};
enum class KeepDims : bool { no, yes };

Tensor sum(const Tensor &x, const Axes &axes = {}, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
Tensor max(const Tensor &x, const Axes &axes = {}, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
Tensor min(const Tensor &x, const Axes &axes = {}, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
Tensor prod(const Tensor &x, const Axes &axes = {}, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
/// The index (i32) of the largest or least element along an axis; of equal elements the first one. NaN counts both as
/// the largest and as the least.
Tensor argmax(const Tensor &x, int64_t axis, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
Tensor argmin(const Tensor &x, int64_t axis, KeepDims keep = KeepDims::no, Loc loc = Loc::current());
Tensor mean(const Tensor &x, const Axes &axes = {}, KeepDims keep = KeepDims::no, Loc loc = Loc::current());

//===- products --------------------------------------------------------------------------------------------------===//

struct MatmulOptions {
  bool transposeA = false, transposeB = false;
  std::optional<DType> dtype = std::nullopt; ///< of the result; the operands' by default
};
/// [batch..., M, K] · [batch..., K, N]; b may also be a single matrix for all of a's batch.
Tensor matmul(const Tensor &a, const Tensor &b, MatmulOptions options, Loc loc = Loc::current());
Tensor matmul(const Tensor &a, const Tensor &b, Loc loc = Loc::current());

//===- composites ------------------------------------------------------------------------------------------------===//

/// softmax(scale · q·kᵀ, masked)·v; q [batch..., T, d], k and v [batch..., S, d]. Scale 0: 1/sqrt(d).
Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, bool causal, double scale = 0,
                 Loc loc = Loc::current());
/// The same with a mask, broadcast to [batch..., T, S]: of i1 it shows the pairs where it is true, of floats it is
/// added to the scaled scores. A query that sees no key gets 0.
Tensor attention(const Tensor &q, const Tensor &k, const Tensor &v, const Tensor &mask, bool causal = false,
                 double scale = 0, Loc loc = Loc::current());
/// x / (1 - rate) where the element is kept, else 0. Equal (seed, stream) give equal masks. If x is a part of a batch
/// and its first row is row `first` (i32 scalar) of the batch, it gets the mask that it has in the whole batch.
Tensor dropout(const Tensor &x, double rate, const Tensor &seed, int64_t stream, const Tensor &first = {},
               Loc loc = Loc::current());

/// x (f32) as bf16, rounded up or down at random so that the mean is x. The random bits depend on seed (i32 or i64
/// scalar), which should change from step to step, and on stream, which should differ from place to place.
Tensor stochasticCast(const Tensor &x, const Tensor &seed, int64_t stream, Loc loc = Loc::current());

struct AdamwOptions {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weightDecay = 0.1;
};
struct SortResult {
  Tensor values, places; ///< places are i32
};
/// x sorted along `dim`. Equal elements keep their order; NaN counts as the largest.
SortResult sort(const Tensor &x, int64_t dim = -1, bool descending = false, Loc loc = Loc::current());

struct AdamwResult {
  Tensor parameter, m, v;
};
/// One update. lr, step (from 1) and scale (multiplies the gradient) are f32 scalars; apply is an i1 scalar: false
/// keeps every old bit.
AdamwResult adamw(const Tensor &parameter, const Tensor &gradient, const Tensor &m, const Tensor &v, const Tensor &lr,
                  const Tensor &step, const Tensor &scale, const Tensor &apply, const AdamwOptions &options = {},
                  Loc loc = Loc::current());

struct ConvolutionOptions {
  std::vector<int64_t> steps, padding, dilations; ///< one a dim of space; empty: 1, 0, 1
  int64_t groups = 1;
};
/// x [batch, channels, space...] by weight [out, channels / groups, window...], with bias [out] where it is defined.
Tensor convolution(const Tensor &x, const Tensor &weight, const Tensor &bias = {},
                   const ConvolutionOptions &options = {}, Loc loc = Loc::current());
struct PoolOptions {
  std::vector<int64_t> steps, padding, dilations; ///< one a dim of space; empty: the window's sizes, 0, 1
};
/// The maximum, or mean, of each window of x [batch, channels, space...]. Padding never wins, and counts as 0 in means.
Tensor maxPool(const Tensor &x, std::span<const int64_t> sizes, const PoolOptions &options = {},
               Loc loc = Loc::current());
Tensor averagePool(const Tensor &x, std::span<const int64_t> sizes, const PoolOptions &options = {},
                   Loc loc = Loc::current());

//===- structure -------------------------------------------------------------------------------------------------===//

/// Gradients of a float scalar, aligned with `wrt`; 0 for what the loss does not depend on.
std::vector<Tensor> gradient(const Tensor &loss, std::span<const Tensor> wrt, Loc loc = Loc::current());
std::vector<Tensor> gradient(const Tensor &loss, std::span<const Parameter> parameters, Loc loc = Loc::current());
inline Tensor gradient(const Tensor &loss, const Tensor &wrt, Loc loc = Loc::current()) {
  return gradient(loss, std::span<const Tensor>(&wrt, 1), loc)[0];
}

/// The state's next value, committed at the end of the step: reads within the step keep seeing the old one. Throws
/// Error for another shape or dtype and for a second assignment.
void assign(const State &state, const Tensor &value, Loc loc = Loc::current());

/// Prints a line on stdout: "name = 0.5", or for a tensor that is no scalar "name [2, 3] = 0.5 1 ..." in row-major
/// order. Its digits read back to the same bits. This is a graph break.
void print(std::string_view name, const Tensor &value, Loc loc = Loc::current());

} // namespace tcc
