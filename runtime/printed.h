// Values that a step prints: outputs whose names say so, and the line that each is. Executable::run() prints them when
// the step is done.
#pragma once
#include "runtime/plan.h"
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tcc::runtime {

/// What the name of an output that is printed begins with: the first one of "loss" is "tcc.print.0.loss".
inline constexpr std::string_view printPrefix = "tcc.print.";
/// "loss" of such an output; nothing of another.
std::optional<std::string_view> printedAs(const TensorSpec &output);

/// Makes them outputs like others, for checks and timings.
void silencePrints(Plan &plan);

/// "loss = 0.5", "x [2, 2] = 1 2 3 4": digits read back to the same bits in the tensor's own dtype, which is none of 8
/// bits. `data` is dense and of `shape`.
std::string printedLine(std::string_view name, DType dtype, std::span<const int64_t> shape, const void *data);

} // namespace tcc::runtime
