// cond, repeat and lanes: control flow inside a traced function. Each becomes one op of the graph, where an `if` of C++
// would be a graph break and a `for` would make the step grow with every turn. The callables may read any tensor around
// them, and need not declare that. They record, so each runs once at every call, whatever the predicate and count.
// Inside them, asking for a value (item, print, a condition) and assigning a state throw Error: return the value
// instead. Whole programs are in docs/CONTROL_FLOW.md.
#pragma once
#include "frontend/tensor.h"
#include <concepts>
#include <functional>
#include <utility>

namespace tcc {

using Tensors = std::vector<Tensor>;

namespace detail {
Tensors recordCond(const Tensor &predicate, const std::function<Tensors()> &then,
                   const std::function<Tensors()> &otherwise, Loc loc);
Tensors recordRepeat(int64_t count, std::span<const Tensor> start, std::span<const Tensor> scanned,
                     const std::function<Tensors(const Tensors &, const Tensors &)> &body, Loc loc);

Tensors recordLanes(int64_t count, std::span<const Tensor> scanned, const std::function<Tensors(const Tensors &)> &body,
                    Loc loc);

template <typename Body>
concept GivesTensor = std::same_as<std::invoke_result_t<Body>, Tensor>;
} // namespace detail

/// What `then` returns if the predicate (one i1) is true, else what `otherwise` returns: a Tensor or Tensors; both must
/// return the same dtypes and shapes. A CPU runs the chosen body alone; a GPU runs both and selects, with a remark. The
/// gradient is a cond too: no gradient comes from the body that is not chosen. Throws Error for any other predicate and
/// for bodies that give different types.
template <typename Then, typename Otherwise>
auto cond(const Tensor &predicate, Then &&then, Otherwise &&otherwise, Loc loc = Loc::current()) {
  if constexpr (detail::GivesTensor<Then>)
    return detail::recordCond(predicate, [&] { return Tensors{then()}; }, [&] { return Tensors{otherwise()}; }, loc)[0];
  else
    return detail::recordCond(predicate, [&] { return Tensors(then()); }, [&] { return Tensors(otherwise()); }, loc);
}

/// Runs `carried = body(carried)` `count` times (1 or more), beginning with `start`, and gives what the last turn
/// returned. The body must return values of the dtypes and shapes of `start`. Inside the body `gradient` works on the
/// body's values; a gradient through a repeat works for up to 32 turns. The time to compile does not grow with the
/// count. Throws Error for a count below 1 and for a body that returns other types.
template <typename Body>
  requires std::invocable<Body, const Tensor &>
Tensor repeat(int64_t count, const Tensor &start, Body &&body, Loc loc = Loc::current()) {
  return detail::recordRepeat(
      count, std::span(&start, 1), {},
      [&](const Tensors &carried, const Tensors &) { return Tensors{body(carried[0])}; }, loc)[0];
}
template <typename Body>
  requires std::invocable<Body, const Tensors &>
Tensors repeat(int64_t count, const Tensors &start, Body &&body, Loc loc = Loc::current()) {
  return detail::recordRepeat(
      count, start, {}, [&](const Tensors &carried, const Tensors &) { return Tensors(body(carried)); }, loc);
}

/// The same with one part of each scanned value ([count, ...]) in each turn: `carried = body(carried, parts)`, where
/// part i of a [count, a, b] is [a, b].
template <typename Body>
  requires std::invocable<Body, const Tensor &, const Tensor &>
Tensor repeat(int64_t count, const Tensor &start, const Tensor &scanned, Body &&body, Loc loc = Loc::current()) {
  return detail::recordRepeat(
      count, std::span(&start, 1), std::span(&scanned, 1),
      [&](const Tensors &carried, const Tensors &parts) { return Tensors{body(carried[0], parts[0])}; }, loc)[0];
}
template <typename Body>
  requires std::invocable<Body, const Tensors &, const Tensors &>
Tensors repeat(int64_t count, const Tensors &start, const Tensors &scanned, Body &&body, Loc loc = Loc::current()) {
  return detail::recordRepeat(
      count, start, scanned,
      [&](const Tensors &carried, const Tensors &parts) { return Tensors(body(carried, parts)); }, loc);
}

/// Lane i computes `body` for part i of each scanned value ([count, ...]), for `count` lanes (1 to 4096). The result is
/// the sum of what the lanes return, which must be f32. Lanes are added in one binary tree, so the bits depend on the
/// number of lanes alone, and not on how many ranks divide them (FunctionOptions::ranks). Take gradients inside of the
/// body. Throws Error for other counts, sizes and types.
template <typename Body>
Tensors lanes(int64_t count, const Tensors &scanned, Body &&body, Loc loc = Loc::current()) {
  return detail::recordLanes(count, scanned, [&](const Tensors &parts) { return Tensors(body(parts)); }, loc);
}

} // namespace tcc
