// How the functions of tcc_runtime.h fail: a status, and a text for tcc_last_error.
#pragma once
#include "c_api/tcc_runtime.h"
#include <exception>
#include <new>
#include <string>

namespace tcc::c {

/// Keeps the text for this thread's tcc_last_error(), and gives the status.
int failed(int status, std::string message) noexcept;

inline int wrongUse(std::string message) {
  return failed(TCC_WRONG_USE, std::move(message));
}

/// Runs the body of a call, which gives its status. An exception becomes a status with its text; none leaves here.
template <typename Body>
int guarded(const Body &body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return failed(TCC_FAILED, "no memory"); // so short a string takes no memory of the heap
  } catch (const std::exception &problem) {
    return failed(TCC_FAILED, problem.what());
  }
}

} // namespace tcc::c
