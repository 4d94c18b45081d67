// One kernel to be emitted: plain data, the same for every target.
#pragma once
#include "ir/kernel.h"
#include <string>
#include <variant>

namespace tcc {

/// A kernel that is emitted from its form under a symbol; several calls may share it.
struct FormKernel {
  std::string symbol;
  KernelInfo form;     // all that is emitted; kernels of equal forms are one
  KernelNames names{}; // for head comments, of the first kernel that had the form; the label is of all
  bool alone = true;   // whether it is called for one set of tensors,
  bool joined = false; // … and for several at once
  int64_t kernels = 1; // that have the form

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

/// How the runtime divides a kernel: its work items [0, extent), cut at multiples of `granularity`. What an item is,
/// the target says.
struct KernelLaunch {
  int64_t extent = 0;
  int64_t granularity = 1;
  bool operator==(const KernelLaunch &) const = default;
};

} // namespace tcc
