// --check-device: one step of a graph on a GPU, instruction by instruction, beside the CPU. How a new GPU, driver or
// compiler is trusted.
#pragma once
#include "codegen/compile_session.h"
#include "runtime/device/device.h"
#include <functional>

namespace tcc {

/// What a check found.
struct DeviceCheck {
  int64_t kernels = 0, products = 0, copies = 0; // instructions whose every value was compared
  std::vector<std::string> unchecked;            // labels of those that the CPU has no counterpart of
  /// Empty, or the first value that differs beyond rounding: kernel, source line, both values.
  std::string difference;

  /// "checked 136 kernels, 75 products and 2 copies on gpu:0 (…) beside the CPU: no value differs beyond rounding".
  std::string text(const std::string &device) const;
};

/// The bytes of an input or a state.
using StepValue = std::function<std::string(const runtime::TensorSpec &spec, bool isState)>;

/// Compiles the captured `module` for `device`, which has memory of its own, and the same kernels for the CPU. Runs one
/// step: each instruction's operands are read back before it runs, the CPU computes the same from them, and results are
/// compared. A kernel's value may differ by what its own operands' last bits and the order of its sums explain; a
/// product's by a bound from the magnitudes that are added; what is copied, and integers, are equal. Ends at the first
/// difference. An error where the step cannot be compiled (see CompileSession) or run.
runtime::Expected<DeviceCheck> checkDevice(mlir::OwningOpRef<mlir::ModuleOp> module, const CompileOptions &options,
                                           const std::shared_ptr<runtime::Device> &device, const StepValue &valueOf);

} // namespace tcc
