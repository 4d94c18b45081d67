// The table of tiles. A row serves a case when all of its conditions hold; the first such row wins.
#include "codegen/cuda/attention/attention.h"

namespace tcc::cuda {

namespace {

/// The cases of a row: any, only causal ones, or only those with a bias.
enum class Kind { Any, Causal, Biased };

struct Choice {
  AttentionPass pass;
  int headDim;
  /// Empty: any architecture.
  std::string_view architecture;
  Kind kind;
  /// At most so many keys; 0: any number.
  int longest;
  AttentionTiles tiles;
};

constexpr AttentionPath portable = AttentionPath::Portable;
constexpr AttentionPath hopper = AttentionPath::Hopper;
constexpr Kind any = Kind::Any, causal = Kind::Causal, biased = Kind::Biased;
constexpr AttentionPass forward = AttentionPass::Forward;
constexpr AttentionPass query = AttentionPass::BackwardQuery;
constexpr AttentionPass keys = AttentionPass::BackwardKeys;

// Tiles: warps, row tiles, columns, blocks, stages, and whether a warpgroup overlaps its softmax with its products:
// nowhere, until a device has shown that it pays. Portable: two row tiles use each fragment of the other side twice;
// where their accumulators, and what a bias adds, do not fit in 255 registers, one row tile and twice the warps make
// the same block. Hopper's kernels add no bias: cases with one have portable kernels there. Its three consumers pay
// where the diagonal is a small part of the work, two waste less of it.
constexpr Choice choices[] = {
    {forward, 64, "sm_90a", causal, 2048, {hopper, 8, 1, 128, 1, 4}},
    {forward, 64, "sm_90a", any, 0, {hopper, 12, 1, 128, 1, 4}},
    {forward, 128, "sm_90a", any, 0, {hopper, 8, 1, 128, 1, 2}},
    {query, 64, "sm_90a", any, 0, {hopper, 8, 1, 128, 1, 2}},
    {query, 128, "sm_90a", any, 0, {hopper, 8, 1, 64, 1, 2}},
    {keys, 64, "sm_90a", any, 0, {hopper, 8, 1, 64, 1, 2}},
    {keys, 128, "sm_90a", any, 0, {hopper, 8, 1, 64, 1, 2}},
    {forward, 32, "", biased, 0, {portable, 8, 1, 64, 1}},
    {forward, 32, "", any, 0, {portable, 4, 2, 64, 2}},
    {forward, 64, "", biased, 0, {portable, 8, 1, 64, 1}},
    {forward, 64, "", any, 0, {portable, 4, 2, 64, 2}},
    {forward, 96, "", any, 0, {portable, 8, 1, 64, 1}},
    {forward, 128, "", any, 0, {portable, 8, 1, 64, 1}},
    {query, 32, "", any, 0, {portable, 4, 2, 32, 2}},
    {query, 64, "", biased, 0, {portable, 4, 1, 32, 2}},
    {query, 64, "", any, 0, {portable, 4, 2, 32, 2}},
    {query, 96, "", any, 0, {portable, 4, 1, 32, 2}},
    {query, 128, "", any, 0, {portable, 4, 1, 32, 2}},
    {keys, 32, "", any, 0, {portable, 4, 2, 32, 2}},
    {keys, 64, "", any, 0, {portable, 4, 1, 64, 2}},
    {keys, 96, "", any, 0, {portable, 4, 1, 32, 2}},
    {keys, 128, "", biased, 0, {portable, 4, 1, 16, 1}},
    {keys, 128, "sm_100a", any, 0, {portable, 4, 1, 16, 1}},
    {keys, 128, "", any, 0, {portable, 4, 1, 32, 1}},
};

bool serves(const Choice &choice, const AttentionCase &of, std::string_view architecture, int length) {
  return choice.pass == of.pass && choice.headDim == of.headDim &&
         (choice.architecture.empty() || choice.architecture == architecture) &&
         (choice.kind == any || (choice.kind == causal ? of.causal : of.bias)) &&
         (choice.longest == 0 || length <= choice.longest) && (!of.bias || choice.tiles.path == portable);
}

} // namespace

runtime::Expected<AttentionTiles> chooseAttention(const AttentionCase &of, std::string_view architecture, int length) {
  for (const Choice &choice : choices)
    if (serves(choice, of, architecture, length))
      return choice.tiles;
  return runtime::Error("attention with head dimension " + std::to_string(of.headDim) +
                        ": the kernels serve 32, 64, 96 and 128");
}

} // namespace tcc::cuda
