// --check-device: runs one step of a graph on a GPU, instruction by instruction, and compares each with the CPU. It
// shows whether a new GPU, driver or compiler can be trusted.
#pragma once
#include "codegen/compile_session.h"
#include "runtime/device/device.h"
#include <functional>

namespace tcc {

/// What a check found.
struct DeviceCheck {
  int64_t kernels = 0, products = 0, copies = 0; // instructions of which every value was compared
  std::vector<std::string> unchecked;            // labels of instructions for which the CPU has no counterpart
  /// Empty, or the first value that differs beyond rounding: kernel, source line, both values.
  std::string difference;

  /// "checked 136 kernels, 75 products and 2 copies on gpu:0 (…) beside the CPU: no value differs beyond rounding".
  std::string text(const std::string &device) const;
};

/// Gives the bytes of an input or a state.
using StepValue = std::function<std::string(const runtime::TensorSpec &spec, bool isState)>;

/// Compiles the captured `module` for `device`, which has memory of its own, and the same kernels for the CPU. Then
/// runs one step: it reads back the operands of each instruction before that runs, computes the same from them on the
/// CPU, and compares the results. A kernel's value may differ by as much as the last bits of its operands and the order
/// of its sums explain. A matmul's value may differ by a bound that follows from the magnitudes that are added. Copies
/// and integers must be equal. Ends at the first difference. Errors: the step cannot be compiled (see CompileSession)
/// or run.
runtime::Expected<DeviceCheck> checkDevice(mlir::OwningOpRef<mlir::ModuleOp> module, const CompileOptions &options,
                                           const std::shared_ptr<runtime::Device> &device, const StepValue &valueOf);

} // namespace tcc
