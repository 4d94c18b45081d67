// One kernel to be emitted: plain data, the same for every target.
#pragma once
#include "ir/kernel.h"
#include <string>
#include <variant>

namespace tcc {

/// A kernel that is emitted from its form under a symbol; several calls may share it.
struct FormKernel {
  std::string symbol;
  KernelInfo form;     // all that an emitter reads; kernels with equal forms are one kernel
  KernelNames names{}; // for head comments: the names of the first kernel with this form; the label covers all of them
  bool alone = true;   // whether some call passes one set of tensors
  bool joined = false; // whether some call passes several sets of tensors at once
  int64_t kernels = 1; // how many kernels of the plan share the form
  /// What -O3 has chosen for it (tuning.h), in words of the target, which alone reads them; empty: nothing.
  std::string tuning = {};

  /// "h.*.mlp.gelu+bias ×12"
  std::string title() const { return names.label + (kernels > 1 ? " ×" + std::to_string(kernels) : ""); }
};

/// A kernel that a target has written itself, for a structured op. The words are its own, and it alone reads them.
struct TextKernel {
  std::string symbol;
  std::string text;
};

using KernelSource = std::variant<FormKernel, TextKernel>;

inline const std::string &symbolOf(const KernelSource &kernel) {
  return std::visit([](const auto &each) -> const std::string & { return each.symbol; }, kernel);
}

/// How the runtime divides a kernel among threads: it has work items [0, extent) and is cut at multiples of
/// `granularity`. The target decides what an item is.
struct KernelLaunch {
  int64_t extent = 0;
  int64_t granularity = 1;
  bool operator==(const KernelLaunch &) const = default;
};

} // namespace tcc
