// The stand-in, opened as the runtime opens the real library, and small owners for the tests.
#pragma once

#include "tests/cuda_machine/cublaslt/api.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

namespace tcc::lt {

/// A function of the library of this address, by name; null where it has none.
template <class Function>
Function *symbol(void *library, const char *name) {
  return reinterpret_cast<Function *>(dlsym(library, name));
}

inline void *openStandIn() {
  static void *library = dlopen(STAND_IN, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    ADD_FAILURE() << dlerror();
    std::abort();
  }
  return library;
}

/// LT(cublasLtMatmul)(…) calls the stand-in's function.
#define LT(name) (::tcc::lt::symbol<decltype(name)>(::tcc::lt::openStandIn(), #name))

/// One handle, one operation with its four layouts and a preference.
struct Call {
  Handle handle = nullptr;
  Desc desc = nullptr;
  Layout a = nullptr, b = nullptr, c = nullptr, d = nullptr;
  Preference preference = nullptr;

  explicit Call(int computeType = compute32) {
    EXPECT_EQ(LT(cublasLtCreate)(&handle), success);
    EXPECT_EQ(LT(cublasLtMatmulDescCreate)(&desc, computeType, float32), success);
    EXPECT_EQ(LT(cublasLtMatmulPreferenceCreate)(&preference), success);
  }
  Call(const Call &) = delete;
  Call &operator=(const Call &) = delete;
  ~Call() {
    for (Layout layout : {a, b, c, d})
      LT(cublasLtMatrixLayoutDestroy)(layout);
    LT(cublasLtMatmulDescDestroy)(desc);
    LT(cublasLtMatmulPreferenceDestroy)(preference);
    LT(cublasLtDestroy)(handle);
  }

  template <class T>
  int set(int attribute, T value) {
    return LT(cublasLtMatmulDescSetAttribute)(desc, attribute, &value, sizeof value);
  }
  template <class T>
  int setLayout(Layout layout, int attribute, T value) {
    return LT(cublasLtMatrixLayoutSetAttribute)(layout, attribute, &value, sizeof value);
  }
  template <class T>
  int prefer(int attribute, T value) {
    return LT(cublasLtMatmulPreferenceSetAttribute)(preference, attribute, &value, sizeof value);
  }
  int heuristic(HeuristicResult *results, int most, int *count) {
    return LT(cublasLtMatmulAlgoGetHeuristic)(handle, desc, a, b, c, d, preference, most, results, count);
  }
  std::string reason() const { return LT(tccCublasLtReason)(); }
};

} // namespace tcc::lt
