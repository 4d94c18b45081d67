// PassFlags: what a command line says to passes, as it is written there (frontend/compiler_flags.h) and as passes read
// it (pipeline.h). A new flag is a member here, its words in text(), and a row of frontend/compiler_flags.cpp. No MLIR.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tcc {

inline constexpr int mostZero = 2; ///< the last stage of --zero=

/// What a step is compiled for where several ranks share its lanes out.
struct RankShare {
  int64_t count = 1;
  int64_t rank = 0;    ///< the first that computes what this one does (ir/lanes.h)
  bool isFast = false; ///< --reduce=fast: sums in the order of the engine
  int zero = 0; ///< --zero=: 1: states of the optimizer are kept in parts, one on each rank; 2: sums over lanes too
  bool operator==(const RankShare &) const = default;
};

struct PassFlags {
  int level = 2;                           ///< -O0 … -O3: 0 is one kernel per op, 3 is as 2
  std::map<std::string, bool> passes = {}; ///< -f<pass> and -fno-<pass>, by name
  /// -fpad=: sizes of matmuls grow to multiples of it; 0: off; nothing: the target decides.
  std::optional<int64_t> padding = {};
  RankShare ranks = {}; ///< --ranks=
  /// -fbucket=: bytes of gradients that ranks exchange at once; PyTorch's number.
  int64_t bucketBytes = int64_t{25} << 20;

  /// The flags as a command line has them. Steps on disk are known by it, so each member is named here or does not
  /// compile.
  std::string text() const {
    const auto &[ownLevel, ownPasses, ownPadding, ownRanks, ownBucket] = *this;
    std::string words = "-O" + std::to_string(ownLevel);
    for (const auto &[name, on] : ownPasses)
      words += (on ? " -f" : " -fno-") + name;
    if (ownPadding)
      words += " -fpad=" + std::to_string(*ownPadding);
    if (ownRanks.count > 1)
      words += " --ranks=" + std::to_string(ownRanks.count) + ":" + std::to_string(ownRanks.rank) +
               (ownRanks.isFast ? " --reduce=fast" : "") +
               (ownRanks.zero > 0 ? " --zero=" + std::to_string(ownRanks.zero) : "") +
               " -fbucket=" + std::to_string(ownBucket);
    return words;
  }
};

} // namespace tcc
