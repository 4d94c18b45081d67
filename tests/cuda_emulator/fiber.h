// A switch between stacks on x86-64: callee-saved registers and the stack pointer.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define TCC_EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TCC_EMULATOR_ASAN 1
#endif
#endif
#ifdef TCC_EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void tccEmulatorSwitch(void **saved, void *next);

namespace tcc::emulator {

/// A stack that runs `entry` when first switched to; `entry` never returns.
struct Fiber {
  void *stackPointer = nullptr;
  char *low = nullptr;
  std::size_t bytes = 0;

  void prepare(void (*entry)()) {
#ifdef TCC_EMULATOR_ASAN
    __asan_unpoison_memory_region(low, bytes);
#endif
    void **top = reinterpret_cast<void **>(low + bytes) - 1; // the entry finds the stack as after a call
    *--top = reinterpret_cast<void *>(entry);
    stackPointer = top - 6; // six callee-saved registers
  }
};

/// Leaves `from` for `to`; returns when somebody switches back. ASan must know both stacks.
inline void switchFiber(Fiber &from, Fiber &to) {
#ifdef TCC_EMULATOR_ASAN
  void *fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, to.low, to.bytes);
  tccEmulatorSwitch(&from.stackPointer, to.stackPointer);
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
  tccEmulatorSwitch(&from.stackPointer, to.stackPointer);
#endif
}

/// First thing on a new fiber.
inline void fiberStarted(Fiber *caller) {
#ifdef TCC_EMULATOR_ASAN
  const void *low = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &low, &bytes);
  caller->low = static_cast<char *>(const_cast<void *>(low));
  caller->bytes = bytes;
#else
  (void)caller;
#endif
}

} // namespace tcc::emulator
