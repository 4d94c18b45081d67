// GPT-2's sizes and its list of parameters: names, shapes, decay and initial values, as Hugging Face stores them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// The sizes of a GPT-2: biases everywhere, LayerNorm, tanh-GELU, an MLP four times as wide, head tied to `wte`.
struct Gpt2Config {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  int64_t sequence = 64; ///< rows of the position table: the longest sequence
  int64_t vocab = 256;
  double layerNormEpsilon = 1e-5;

  bool operator==(const Gpt2Config &) const = default;
};

/// "baby", "char" or "gpt2"; nothing for another name.
std::optional<Gpt2Config> gpt2Preset(std::string_view name);
/// The names of the presets, small ones first.
std::span<const std::string_view> gpt2PresetNames();

/// Throws InputError where a size is below 1 or above 2^24 (layers: 4096), heads do not divide the width, or the
/// parameters would have more than 2^40 elements. Every other function here expects a checked configuration.
void checkConfig(const Gpt2Config &config);

/// Reads a Hugging Face `config.json` (at most 1 MiB). Throws InputError for a file that is no JSON object, a missing
/// or wrong size, or a feature that this GPT-2 does not have (another activation or MLP width, untied head, …).
/// Settings that training here leaves out (dropout) are said in `notes`, one line each, where it is given; `text` gets
/// the file's text.
Gpt2Config readConfig(const std::string &path, std::vector<std::string> *notes = nullptr, std::string *text = nullptr);
/// Writes a `config.json` that transformers reads, atomically. `original` is the text of the one that training began
/// with, or empty: what it says beside the sizes and the stored type, known here or not, stays. Throws InputError where
/// it cannot.
void writeConfig(const std::string &path, const Gpt2Config &config, const std::string &original = {});

enum class InitialValue { Zeros, Ones, Normal };

/// One parameter in Hugging Face's layout, which is also its layout in memory: row-major, `Conv1D` matrices as
/// [in, out].
struct Gpt2Parameter {
  std::string name; ///< "wte.weight", "h.0.attn.c_attn.weight", …
  std::vector<int64_t> shape;
  bool decays = false; ///< weight decay: matrices and embeddings, no vector
  InitialValue initial = InitialValue::Zeros;
  double deviation = 0; ///< of InitialValue::Normal; mean 0

  int64_t elements() const;
};

/// All parameters: wte, wpe, the blocks in order, ln_f. 4 + 12 * layers of them; the tied head has none of its own.
std::vector<Gpt2Parameter> gpt2Parameters(const Gpt2Config &config);

/// Fills `out` (parameter.elements() values) with the initial values: a pure function of seed, name and index.
void fillInitial(const Gpt2Parameter &parameter, uint64_t seed, std::span<float> out);

/// Number of trained values, N.
int64_t parameterCount(const Gpt2Config &config);
/// Floating-point operations of forward and backward for one token at training length `sequence`: 6N for the products
/// plus 12 * layers * width * sequence for attention (PaLM, appendix B: the causal half is not subtracted).
double flopsPerToken(const Gpt2Config &config, int64_t sequence);

} // namespace tcc::models
