// What the emulator puts before kernel text.
#pragma once

namespace tcc::emulator {
extern const char *const interfaceText;
extern const char *const preludeText;
} // namespace tcc::emulator
