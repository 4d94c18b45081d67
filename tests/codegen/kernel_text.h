// A kernel as text: its inputs, its results and a body of tcc ops.
#pragma once
#include <string>
#include <vector>

namespace tcc::test {

/// A value of the kernel: its name in the body, and its type as in "4x8xf32" ("f32" for a scalar).
struct Port {
  std::string name, type;
};

/// A kernel's text: `body` computes from the inputs' names and defines the results' names.
struct KernelText {
  std::vector<Port> inputs, results;
  std::string body;

  /// A module with one function @main that holds the kernel.
  std::string module() const;
};

} // namespace tcc::test
