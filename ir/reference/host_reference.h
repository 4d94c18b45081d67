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

/// Gives the function of an op that is a provider's, by its symbol; null for one that it does not know.
using ReferenceProvider = std::function<HostReference(const std::string &symbol)>;

/// Keeps what gives the meaning of ops whose library is `<name>` (isProvided()) as long as the process runs.
void addReferenceProvider(const std::string &name, ReferenceProvider provider);

/// The function of an op without a body, found by its number or by its provider; null for what this process does not
/// have.
HostReference referenceOf(CustomOp op);

} // namespace tcc
