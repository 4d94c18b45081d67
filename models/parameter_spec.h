// One parameter of a model: name, shape, decay and initial values.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tcc::models {

enum class InitialValue { Zeros, Ones, Normal };

/// In Hugging Face's name and layout, which is also its layout in memory: row-major; GPT-2's `Conv1D` matrices are
/// [in, out], all other linear layers [out, in].
struct ParameterSpec {
  std::string name; ///< "wte.weight", "h.0.attn.c_attn.weight", "model.layers.0.mlp.up_proj.weight", …
  std::vector<int64_t> shape;
  bool decays = false; ///< weight decay: matrices and embeddings, no vector
  InitialValue initial = InitialValue::Zeros;
  double deviation = 0; ///< of InitialValue::Normal; mean 0

  int64_t elements() const;
};

ParameterSpec vectorSpec(std::string name, int64_t size, InitialValue initial);
/// Normal values of this deviation; of 0: zeros.
ParameterSpec matrixSpec(std::string name, int64_t rows, int64_t columns, double deviation);

/// Fills `out` (parameter.elements() values) with the initial values: a pure function of seed, name and index.
void fillInitial(const ParameterSpec &parameter, uint64_t seed, std::span<float> out);

} // namespace tcc::models
