// The content of states as bytes, to be compared.
#pragma once
#include <span>
#include <string>
#include <tcc/tcc.h>

namespace tcc::test {

/// The bytes of the states, one after another.
inline std::string bytesOf(std::span<const State> states) {
  std::string bytes;
  for (const State &state : states)
    bytes.append(static_cast<const char *>(state.rawForReading()), static_cast<size_t>(state.bytes()));
  return bytes;
}

} // namespace tcc::test
