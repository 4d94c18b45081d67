// From the errors of the folders below to the exception of the command line.
#pragma once
#include "frontend/error.h"
#include "runtime/error.h"

namespace tcc::driver {

template <typename T>
T orThrow(runtime::Expected<T> made) {
  if (!made)
    throw Error(made.error().message());
  return std::move(*made);
}

inline void orThrow(const runtime::Error &problem) {
  if (problem)
    throw Error(problem.message());
}

} // namespace tcc::driver
