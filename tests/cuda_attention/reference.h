// Attention by plain loops: in double as the oracle, and once more with every tensor rounded to 16 bits, as an unfused
// program would, as the yardstick for errors. Shares nothing with the kernels, the random numbers included.
#pragma once

#include <cstdint>
#include <vector>

namespace tcc::attention_test {

enum class Element { Bf16, F16 };

/// What is added to the scores: nothing; a number for each pair of each head; one for each pair, the same in all heads
/// and batches; one for each key of a batch, as for texts of several lengths.
enum class Bias { None, Each, Pairs, Keys };

std::uint16_t roundToElement(float value, Element element);
float valueOfElement(std::uint16_t bits, Element element);

/// The case: query heads in groups over key heads; query i sees keys up to i + diagonal when causal, and with a window
/// the last `window` of those keys' numbers alone.
struct Problem {
  Element element = Element::Bf16;
  int batch = 1, heads = 1, group = 1, queries = 1, keys = 1, headDim = 64;
  bool causal = false;
  int diagonal = 0;
  int window = 0;
  double scale = 1;
  double dropout = 0;
  std::uint32_t seed[2] = {1, 2};
  std::uint32_t stream = 0;
  /// The number of this batch's first row in the whole batch that it is a part of.
  int first = 0;
  Bias bias = Bias::None;

  /// How far apart a bias's numbers of two batches, heads and queries lie; 0 where they are the same.
  struct Strides {
    long long batch, head, query;
  };
  Strides biasStrides() const;

  int keyHeads() const { return heads / group; }
};

/// 32-bit threshold below which a random word drops its element.
std::uint32_t dropThreshold(double probability);

/// All dense: queries' tensors [batch, heads, queries, headDim], keys' [batch, keyHeads, keys, headDim].
struct Inputs {
  std::vector<double> query, key, value, outputGradient;
  std::vector<float> bias; // as biasStrides() says
};
struct Results {
  std::vector<double> output, logSumExp, queryGradient, keyGradient, valueGradient;
  /// The largest summand of queryGradient and keyGradient before its two parts cancel.
  double largestTerm = 0;
};

/// Random inputs, already representable in the element type. Some of a bias's numbers are -inf and some the lowest
/// finite one; of two of its rows all are -inf.
Inputs randomInputs(const Problem &problem, unsigned seed);

/// With `rounded`, every stored tensor (scores, probabilities, output, their gradients) is rounded to the element type,
/// sums are taken in float, and the softmax's backward takes its row sums from the stored output.
Results attentionReference(const Problem &problem, const Inputs &inputs, bool rounded);

} // namespace tcc::attention_test
