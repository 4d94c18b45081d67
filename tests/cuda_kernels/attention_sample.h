// Graphs with attention and its gradient, as text, in the sizes and masks that kernels have to tell apart.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tcc::test {

struct AttentionSample {
  const char *name;
  const char *element;            // "bf16"
  int64_t queries, keys;          // equal: q, k and v are packed in one tensor
  int64_t heads, keyHeads, width; // of a head
  const char *mask;               // "diagonal 0 window 64 "
  int64_t batch = 1;
  const char *seed = nullptr;     // the type of a dropout's seed
  bool hasFirst = false;          // and whether it has a `first`
  std::vector<int64_t> bias = {}; // its sizes before it is broadcast to [batch, heads, queries, keys]

  int64_t packed() const { return (heads + 2 * keyHeads) * width; }
};

/// A function @main of x, y and w. x is q, or q, k and v one after the other in each row, y is k and v one after the
/// other, w what the sum of out is weighted with; f32, and rounded to the element type first; a bias, whose numbers
/// below -1 become -inf, and a dropout's seed and `first` come after them. Results: out, the log-sum-exp, and the
/// gradients of x and y.
std::string attentionGraph(const AttentionSample &sample);

} // namespace tcc::test
