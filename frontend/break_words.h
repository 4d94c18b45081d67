// The words for graph breaks. Errors, reports and warnings use the same ones, for traced functions and .graph files.
#pragma once
#include "frontend/trace.h"

namespace tcc {

/// "`item()`", "a condition", …
std::string_view nameOf(ReadKind kind);
/// "`print()` asks for a value, 'loss'"; `name` is that of a print.
std::string breakReason(ReadKind kind, std::string_view name);
/// What a user should write instead.
std::string_view insteadOf(ReadKind kind);
/// "graph break: `item()` asks for a value in the middle of 'f'; return the value instead [-Werror=graph-break]"
std::string breakRefusal(ReadKind kind, std::string_view function);
/// "recompiled: another way than the last call's, `tanh` at step.cpp:37 instead of `mul` at step.cpp:38".
std::string wayChanged(const Departure &departure);
/// "recompiled: constant 5 → 13 at step.cpp:95, computed from a value that was read, is an input from now on". `more`
/// is how many other constants become inputs with it.
std::string constantBecomesInput(double before, double after, Loc place, size_t more);
/// step.cpp:37
std::string shortPlace(Loc place);

} // namespace tcc
