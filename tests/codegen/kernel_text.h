// A kernel as text: its inputs, its results and a body of tcc ops.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
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

/// `body` with tensor types in place of short ones: "!f" becomes the tensor type of the entry with name "f".
std::string withTypes(std::string body, const std::vector<std::pair<std::string, std::string>> &types);

/// LayerNorm of x [rows, columns] in f32: y, and each row's mean and 1 / deviation.
KernelText layerNorm(int64_t rows, int64_t columns);
/// Its gradient for x [blocks, rows, columns]: dx, and the sums for weight and bias of each block.
KernelText layerNormBackward(int64_t blocks, int64_t rows, int64_t columns);

} // namespace tcc::test
