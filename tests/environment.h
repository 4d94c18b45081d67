// Numbers that tests take from the environment.
#pragma once
#include <cstdint>
#include <cstdlib>

namespace tcc::test {

/// The environment's whole number of that name, or `otherwise` where it has none.
inline int64_t fromEnvironment(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

} // namespace tcc::test
