// The checks of the tensors that Executable::run() is given, before anything is read or written.
#pragma once
#include "runtime/memory.h"
#include "runtime/plan.h"
#include <string>
#include <vector>

namespace tcc::runtime {

/// Checks that there are as many tensors as expected, and that each one has the right size, is aligned, and exists if
/// `isNeeded(number)`.
template <typename Ref, typename IsNeeded>
Error checkTensors(const char *what, const std::vector<TensorSpec> &specs, std::span<const Ref> tensors,
                   int64_t alignment, IsNeeded &&isNeeded) {
  if (tensors.size() != specs.size())
    return Error(std::to_string(tensors.size()) + " " + what + "s were given; the step takes " +
                 std::to_string(specs.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    const Ref &tensor = tensors[i];
    const int64_t bytes = specs[i].bytes();
    auto refuse = [&](const std::string &problem) {
      return Error(std::string(what) + " `" + specs[i].name + "` " + problem);
    };
    if (tensor.bytes != bytes)
      return refuse("has " + std::to_string(tensor.bytes) + " bytes; the step takes " + std::to_string(bytes));
    if (bytes > 0 && !tensor.data && isNeeded(i))
      return refuse("is null; it needs " + std::to_string(bytes) + " bytes");
    if (reinterpret_cast<uintptr_t>(tensor.data) % static_cast<uintptr_t>(alignment))
      return refuse("is not aligned; tensors start at multiples of " + std::to_string(alignment) + " bytes");
  }
  return Error::success();
}

/// Checks also that each one exists.
template <typename Ref>
Error checkTensors(const char *what, const std::vector<TensorSpec> &specs, std::span<const Ref> tensors,
                   int64_t alignment = arenaAlignment) {
  return checkTensors(what, specs, tensors, alignment, [](size_t) { return true; });
}

/// A tensor of one run, for the overlap check.
struct HandedRange {
  const char *begin, *end;
  bool written;
  const TensorSpec *spec;
};

/// Checks that no tensor that is written overlaps another one. Gives the bytes that the counted allocator does not own.
Expected<int64_t> checkOverlap(std::vector<HandedRange> ranges);

} // namespace tcc::runtime
