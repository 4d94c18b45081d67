// ParameterSpec: describes one parameter of a model by name, shape, weight decay and initial values.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

enum class InitialValue { Zeros, Ones, Normal };

/// Names and shapes are Hugging Face's; memory is row-major in that shape. A linear layer's matrix has shape [out, in],
/// but in GPT-2, whose layers are `Conv1D`, [in, out].
struct ParameterSpec {
  std::string name; ///< "wte.weight", "h.0.attn.c_attn.weight", "model.layers.0.mlp.up_proj.weight", …
  std::vector<int64_t> shape;
  bool decays = false; ///< whether weight decay applies: true for matrices and embeddings, false for vectors
  InitialValue initial = InitialValue::Zeros;
  double deviation = 0; ///< standard deviation, if `initial` is Normal; the mean is 0

  int64_t elements() const;
};

/// A vector, which does not decay; `initial` is Zeros or Ones.
ParameterSpec vectorSpec(std::string name, int64_t size, InitialValue initial);
/// A matrix that decays. It begins with normal values of this standard deviation, or with zeros if that is 0.
ParameterSpec matrixSpec(std::string name, int64_t rows, int64_t columns, double deviation);

/// Fills `out` (parameter.elements() values) with the initial values: a pure function of seed, name and index.
void fillInitial(const ParameterSpec &parameter, uint64_t seed, std::span<float> out);

} // namespace tcc::models
