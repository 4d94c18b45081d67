// Expected in tests that hand messages on as text.
#pragma once
#include "runtime/error.h"
#include <optional>
#include <string>

namespace tcc::test {

/// The value, or nothing and the message in `error`.
template <typename T>
std::optional<T> take(runtime::Expected<T> made, std::string &error) {
  if (made)
    return std::move(*made);
  error = made.error().message();
  return std::nullopt;
}

} // namespace tcc::test
