// Errors of the runtime that end a program that measures.
#pragma once
#include "runtime/error.h"
#include <cstdio>
#include <cstdlib>
#include <errno.h>
#include <string>

namespace tcc::bench {

/// Prints "PROGRAM: error: …" and ends the program with status 1.
[[noreturn]] inline void fail(const std::string &problem) {
  std::fprintf(stderr, "%s: error: %s\n", program_invocation_short_name, problem.c_str());
  std::exit(1);
}

template <typename Value>
Value orFail(runtime::Expected<Value> value) {
  if (!value)
    fail(value.error().message());
  return std::move(*value);
}

inline void orFail(const runtime::Error &error) {
  if (error)
    fail(error.message());
}

} // namespace tcc::bench
