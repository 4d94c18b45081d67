// Values that a step prints: they are outputs with a certain name. Executable::run() prints a line for each of them
// when the step is done.
#pragma once
#include "runtime/plan.h"
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tcc::runtime {

/// What the name of an output that is printed begins with. If the first print shows "loss", it is "tcc.print.0.loss".
inline constexpr std::string_view printPrefix = "tcc.print.";
/// The name under which an output is printed ("loss"); nothing for an output that is not printed.
std::optional<std::string_view> printedAs(const TensorSpec &output);

/// Makes printed outputs ordinary ones, for checks and timings.
void silencePrints(Plan &plan);

/// The line for a value: "loss = 0.5", "x [2, 2] = 1 2 3 4". Its digits read back to the same bits in `dtype`, which
/// must not be of 8 bits. `data` is dense and has `shape`.
std::string printedLine(std::string_view name, DType dtype, std::span<const int64_t> shape, const void *data);

} // namespace tcc::runtime
