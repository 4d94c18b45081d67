// customOp: an op that the user defines. It is a graph that fuses like any other op, or code of the user's, which is
// checked against what the op means (docs/CUSTOM.md).
#pragma once
#include "frontend/compile.h"
#include "runtime/custom_call.h"
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tcc {

/// A function in one of the forms that compile() takes. It takes up to 32 Tensors, or one std::span<const Tensor>, and
/// gives one or several Tensors.
class TracedFunction {
public:
  TracedFunction() = default;
  template <typename Fn>
    requires(!std::same_as<std::remove_cvref_t<Fn>, TracedFunction>)
  TracedFunction(Fn fn) {
    if constexpr (std::is_invocable_r_v<std::vector<Tensor>, Fn &, std::span<const Tensor>>) {
      run = std::move(fn);
    } else {
      constexpr size_t arity = detail::tensorArity<Fn>();
      run = [fn = std::move(fn)](std::span<const Tensor> arguments) mutable {
        detail::checkArgumentCount("the body", arity, arguments.size());
        return detail::invokeTraced(fn, arguments, std::make_index_sequence<arity>{});
      };
    }
  }
  explicit operator bool() const { return static_cast<bool>(run); }
  std::vector<Tensor> operator()(std::span<const Tensor> arguments) const { return run(arguments); }

private:
  std::function<std::vector<Tensor>(std::span<const Tensor>)> run;
};

/// The types of all operands, or of all results.
using ValueTypes = std::span<const ValueType>;

/// A function of type tcc_custom_function (runtime/tcc_custom.h) in a shared object.
struct SharedObjectCode {
  std::string path, symbol;
};

struct CudaLaunch {
  std::array<int64_t, 3> grid{1, 1, 1}, block{256, 1, 1};
  int64_t sharedBytes = 0;
  std::vector<int64_t> arguments = {}; ///< further parameters of the kernel, long long each
};

/// CUDA C++ for NVRTC. The kernel's parameters are the addresses of the operands, then those of the results, then
/// CudaLaunch::arguments. Without `launch` there is one thread for each element of the first result, with 256 in a
/// block.
struct CudaCode {
  std::string text, kernel;
  std::function<CudaLaunch(ValueTypes operands, ValueTypes results)> launch = {};
};

struct CustomCost {
  int64_t flops = 0, bytes = 0; ///< arithmetic and least traffic; 0: one operation an element, each tensor moved once
};

/// Defines an op. A `body`, or a `reference` with `shapes`, says what the op means. Code (`function`, `sharedObject`,
/// `cuda`) says how it is computed instead of by the body.
struct CustomOptions {
  std::string name; ///< letters, digits, `_` and `.`
  TracedFunction body = {};
  /// The gradient: takes the operands, the results and the gradients of the float results, and gives the gradients of
  /// the float operands. An op without code needs none, since its body has one.
  TracedFunction gradient = {};
  std::function<std::vector<ValueType>(ValueTypes operands)> shapes = {}; ///< the results' types; the body's by default
  std::function<std::vector<Array>(std::span<const Array>)> reference = {};

  runtime::HostFunction function = {}; ///< for the CPU, a function of this process; steps that use it cannot be saved
  SharedObjectCode sharedObject = {};  ///< for the CPU
  CudaCode cuda = {};                  ///< for GPUs

  std::function<CustomCost(ValueTypes operands, ValueTypes results)> cost = {};
  double tolerance = 0; ///< error of code relative to a result's largest magnitude; 0: 64 ulps of f32, 4 if narrower
};

/// A handle of an op. It is made once and kept, since its functions are kept too. Any thread may use it.
class Custom {
public:
  /// Throws Error for options that define no op: other characters in the name, no meaning, code given twice.
  explicit Custom(CustomOptions options);

  /// The results, in a traced function. Throws Error, at `loc` if it is about the call: `shapes` refuses the operands,
  /// or the body or gradient gives other types.
  std::vector<Tensor> call(std::span<const Tensor> operands, Loc loc = Loc::current()) const;
  /// The result of an op that has one.
  template <typename... Rest>
  Tensor operator()(const Operand &first, const Rest &...rest) const {
    const std::vector<Tensor> operands{first.tensor, Tensor(rest)...};
    return only(call(operands, first.loc), first.loc);
  }

private:
  struct Definition;
  Tensor only(std::vector<Tensor> results, Loc loc) const;
  std::shared_ptr<Definition> definition;
};

inline Custom customOp(CustomOptions options) {
  return Custom(std::move(options));
}

} // namespace tcc
