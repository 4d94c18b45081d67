// tuneKernels: for each kernel of a plan the choice (kernel_tuning.h) with which this CPU runs it fastest.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "codegen/tuning.h"
#include "runtime/plan.h"

namespace tcc::cpu {

/// Sets FormKernel::tuning of the kernels of `plan`, and cuts the plan's calls as the chosen code needs it. A choice
/// that differs from the default is made only if it is faster by a clear margin. All choices give the same bits.
/// `machine` names what the choices hold for. Errors: a kernel that cannot be compiled; a tuning file of the user's
/// that cannot be read or written, or has a choice that is none.
runtime::Expected<TuningReport> tuneKernels(std::vector<KernelSource> &kernels, runtime::Plan &plan,
                                            const EmitOptions &emit, const std::string &machine,
                                            const TuningOptions &options);

} // namespace tcc::cpu
