// Values for running a graph from the command line: those of files, or random ones that suit the ops which use them.
#pragma once
#include "frontend/array.h"
#include "ir/dialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "runtime/plan.h"
#include <map>

namespace tcc {

/// How the random elements of an argument are drawn.
struct ValueHint {
  enum class Kind : uint8_t {
    uniform,   ///< floats in [-1, 1)
    small,     ///< floats in [-0.05, 0.05): states
    zero,      ///< an optimizer's moments, the states of loss scaling
    rate,      ///< 0.001: a learning rate
    stepCount, ///< 1, 2, …: the number of the run
    index,     ///< integers in [0, bound)
    flag,      ///< 0 or 1
    token,     ///< an index that selects rows of a table
  };
  Kind kind = Kind::uniform;
  int64_t bound = 16;             ///< of an index or a token: the rows of the table or the classes that it selects from
  int64_t firstInvalid = 0;       ///< an index of at least this number gives NaN; 0: no such number is known
  bool negativeIsInvalid = false; ///< whether an index below 0 gives NaN; a negative target is only left out
};

/// "index 256", "small 16": a hint as text, and back; an unknown text is ValueHint().
std::string hintText(const ValueHint &hint);
ValueHint parseHint(const std::string &text);

/// Hints by argument name, found from the ops that use each argument (through views and casts).
std::map<std::string, ValueHint> valueHints(mlir::func::FuncOp function);

/// Empty, or the first element of `array`, the argument `name`, that makes NaN: where it is, and what is expected.
std::string invalidIndex(const std::string &name, const ValueHint &hint, const Array &array);

/// The argument's name: tcc.name, or arg<i>.
std::string argumentName(mlir::func::FuncOp function, unsigned argument);

/// The names of the results that are no state's next value, in order: tcc.name, or result<k>. The plan has the same
/// names.
std::vector<std::string> resultNames(mlir::func::FuncOp function);

/// The names of what a run can write to files: resultNames, then the states.
std::vector<std::string> writableNames(mlir::func::FuncOp function);

/// Random elements; equal for equal (seed, name). `run` counts from 1.
Array randomArray(const runtime::TensorSpec &spec, const ValueHint &hint, uint64_t seed, int64_t run);

/// "loss: f32[] 4.15888" or "logits: f32[4, 8] mean 0.1 min -2 max 3 first 0.5 0.25 …"; NaN and infinities are counted.
std::string describe(const std::string &name, const Array &array);

} // namespace tcc
