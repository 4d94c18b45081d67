// Custom ops whose meaning is a C++ function of this process. The op's attribute `host_reference` is the function's
// number.
#pragma once
#include "ir/reference/interpreter.h"
#include <functional>

namespace tcc {

/// Fills the results, whose types are set. Returns an empty text, or what is wrong, in words that are printed after
/// "its reference ".
using HostReference = std::function<std::string(llvm::ArrayRef<const RefTensor *>, std::vector<RefTensor> &)>;

/// Keeps the function as long as the process runs and returns its number, from 1. Any thread may call it.
int64_t addHostReference(HostReference reference);

/// The function of that number, which stays where it is; null for another number.
const HostReference *findHostReference(int64_t number);

} // namespace tcc
