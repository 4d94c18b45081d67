// Ops of the user's: a graph that fuses like any op, or code of one's own, checked against what it means
// (docs/CUSTOM.md).
#pragma once
#include "frontend/compile.h"
#include "runtime/custom_call.h"
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tcc {

/// A function of Tensors, in the forms that compile() takes: of up to 32 Tensors or of one std::span<const Tensor>; it
/// gives a Tensor or several.
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

/// Types of all operands, or of all results.
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

/// CUDA C++ for NVRTC. The kernel's parameters are the addresses of the operands, then of the results, then
/// CudaLaunch::arguments. Without a rule one thread has one element of the first result, 256 in a block.
struct CudaCode {
  std::string text, kernel;
  std::function<CudaLaunch(ValueTypes operands, ValueTypes results)> launch = {};
};

struct CustomCost {
  int64_t flops = 0, bytes = 0; ///< arithmetic, and least traffic; 0: one operation an element, each tensor once
};

/// What an op is. A body, or a reference with a rule of shapes, says what it means; code says how it is computed where
/// the body is not to be.
struct CustomOptions {
  std::string name; ///< letters, digits, `_` and `.`
  TracedFunction body = {};
  /// Of the results by the operands': takes operands, results, and the gradients of the float results; gives those of
  /// the float operands. An op that is its body alone needs none.
  TracedFunction gradient = {};
  std::function<std::vector<ValueType>(ValueTypes operands)> shapes = {}; ///< the results' types; the body's by default
  std::function<std::vector<Array>(std::span<const Array>)> reference = {};

  runtime::HostFunction function = {}; ///< for the CPU, of this process: what uses it cannot be saved
  SharedObjectCode sharedObject = {};  ///< for the CPU
  CudaCode cuda = {};                  ///< for GPUs

  std::function<CustomCost(ValueTypes operands, ValueTypes results)> cost = {};
  double tolerance = 0; ///< of code, relative to a result's largest magnitude; 0: 64 ulps of f32, 4 of narrower types
};

/// A handle of an op; made once and kept, as its functions are. Any thread may use it.
class Custom {
public:
  /// Throws Error for options that say no op: a name of other characters, no meaning, code twice.
  explicit Custom(CustomOptions options);

  /// The results, in a traced function. Throws Error, at `loc` where it is about the call: operands that the rule of
  /// shapes refuses, a body or gradient that gives other types.
  std::vector<Tensor> call(std::span<const Tensor> operands, Loc loc = Loc::current()) const;
  /// The one result.
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
