// One kernel to be emitted, and how it is launched: plain data, the same for every target.
#pragma once
#include "ir/kernel.h"
#include <string>

namespace tcc {

/// One kernel to be emitted under a symbol; several calls may share it. It has a form or a text.
struct KernelSource {
  std::string symbol;
  KernelInfo form;     // all that is emitted; kernels of equal forms are one
  KernelNames names{}; // for head comments, of the first kernel that had the form; the label is of all
  bool alone = true;   // whether it is called for one set of tensors,
  bool joined = false; // … and for several at once
  int64_t kernels = 1; // that have the form
  std::string text{};  // a kernel that the target wrote for a structured op, in words of its own

  /// "h.*.mlp.gelu+bias ×12"
  std::string title() const { return names.label + (kernels > 1 ? " ×" + std::to_string(kernels) : ""); }
};

/// How the runtime divides a kernel: its work items [0, extent), cut at multiples of `granularity`. What an item is,
/// the target says.
struct KernelLaunch {
  int64_t extent = 0;
  int64_t granularity = 1;
  bool operator==(const KernelLaunch &) const = default;
};

} // namespace tcc
