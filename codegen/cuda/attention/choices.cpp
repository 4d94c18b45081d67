// The table of tiles. A row serves a case when all of its conditions hold; the first such row wins.
#include "codegen/cuda/attention/attention.h"

namespace tcc::cuda {

namespace {

/// The cases of a row: any, only causal ones, only those with a bias, or only those with dropout or a window.
enum class Kind { Any, Causal, Biased, Thinned };

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
constexpr Kind any = Kind::Any, causal = Kind::Causal, biased = Kind::Biased, thinned = Kind::Thinned;
constexpr AttentionPass forward = AttentionPass::Forward;
constexpr AttentionPass query = AttentionPass::BackwardQuery;
constexpr AttentionPass keys = AttentionPass::BackwardKeys;

// Tiles: warps, row tiles, columns, blocks, stages, then Hopper's switches: overlap, turns, persistent blocks, shortest
// rows first. Portable: two row tiles use each fragment of the other side twice; where their accumulators, and what a
// bias adds, do not fit in 255 registers, one row tile and twice the warps make the same block. Hopper's kernels add no
// bias: cases with one have portable kernels there. Their rows are the fastest of a sweep on an H200
// (docs/PERFORMANCE.md): persistent blocks pay where rows are short or the diagonal is a large part of the work.
// The state of dropout or of a window leaves no registers for three warpgroups with both.
constexpr Choice choices[] = {
    {forward, 64, "sm_90a", thinned, 2048, {hopper, 8, 1, 128, 1, 4, true, false, true}},
    {forward, 64, "sm_90a", thinned, 0, {hopper, 12, 1, 128, 1, 4, true}},
    {forward, 64, "sm_90a", causal, 4096, {hopper, 12, 1, 128, 1, 4, true, false, true}},
    {forward, 64, "sm_90a", any, 1024, {hopper, 12, 1, 128, 1, 4, true, false, true}},
    {forward, 64, "sm_90a", any, 0, {hopper, 12, 1, 128, 1, 4, true}},
    {forward, 128, "sm_90a", causal, 1024, {hopper, 8, 1, 128, 1, 2, true, false, true}},
    {forward, 128, "sm_90a", any, 512, {hopper, 8, 1, 128, 1, 2, true, false, true}},
    {forward, 128, "sm_90a", any, 0, {hopper, 8, 1, 128, 1, 2, true}},
    {query, 64, "sm_90a", any, 0, {hopper, 8, 1, 128, 1, 3, true}},
    {query, 128, "sm_90a", causal, 0, {hopper, 8, 1, 64, 1, 2, false, false, false, true}},
    {query, 128, "sm_90a", any, 0, {hopper, 8, 1, 64, 1, 2}},
    {keys, 64, "sm_90a", causal, 4096, {hopper, 8, 1, 128, 1, 3, true, false, true, true}},
    {keys, 64, "sm_90a", causal, 0, {hopper, 8, 1, 128, 1, 3, true}},
    {keys, 64, "sm_90a", any, 0, {hopper, 8, 1, 128, 1, 2, false, false, true}},
    {keys, 128, "sm_90a", causal, 4096, {hopper, 8, 1, 64, 1, 2, false, false, true, true}},
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

bool isKind(Kind kind, const AttentionCase &of) {
  switch (kind) {
  case Kind::Any:
    return true;
  case Kind::Causal:
    return of.causal;
  case Kind::Biased:
    return of.bias;
  case Kind::Thinned:
    return of.dropout || of.window;
  }
  return false;
}

bool serves(const Choice &choice, const AttentionCase &of, std::string_view architecture, int length) {
  return choice.pass == of.pass && choice.headDim == of.headDim &&
         (choice.architecture.empty() || choice.architecture == architecture) && isKind(choice.kind, of) &&
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
