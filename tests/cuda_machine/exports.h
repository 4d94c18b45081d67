// What the files of exported functions share.
#pragma once

#include "tests/cuda_machine/state.h"

/// An exported function of the driver.
#define EXPORT extern "C" __attribute__((visibility("default")))

namespace tcc::machine {

/// A handle as the driver's interface passes it.
template <class Pointer>
void giveHandle(Pointer *to, Handle handle) {
  *to = reinterpret_cast<Pointer>(handle);
}

} // namespace tcc::machine
