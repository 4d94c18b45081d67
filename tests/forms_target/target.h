// Target "forms": its kernels are kept as forms, which the interpreter of tests/ir runs.
#pragma once
#include "codegen/target_kind.h"
#include "ir/reference/interpreter.h"

namespace tcc::forms {

/// Kernels by interpretation: "forms:exact" computes inside of a kernel in fp64, "forms:rounding" (the default) rounds
/// each value.
const TargetKind &kind();

struct KernelList {
  std::vector<FormKernel> kernels;
  RefMode mode = RefMode::rounding;
};

/// Forms are no bytes: code is the number of a list that this process keeps for good.
std::string keep(KernelList list);
/// The list, or null where the code is of another process.
const KernelList *kept(const std::string &code);

} // namespace tcc::forms
