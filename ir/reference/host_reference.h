// Meanings of custom ops that are functions of this process. An op has the number of its function (`host_reference`).
#pragma once
#include "ir/reference/interpreter.h"
#include <functional>

namespace tcc {

/// Fills the results, whose types are set. What is wrong, to be read behind "its reference ", or nothing.
using HostReference = std::function<std::string(llvm::ArrayRef<const RefTensor *>, std::vector<RefTensor> &)>;

/// Keeps the function for good; its number, from 1. Any thread.
int64_t addHostReference(HostReference reference);

/// The function of that number, which stays where it is; null for another number.
const HostReference *findHostReference(int64_t number);

} // namespace tcc
