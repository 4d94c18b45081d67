// PassFlags: the flags of a command line that passes read (pipeline.h); frontend/compiler_flags.h parses them. A new
// flag needs a member here, its words in text(), and a row in frontend/compiler_flags.cpp. This header needs no MLIR.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tcc {

inline constexpr int mostZero = 3; ///< the last stage of --zero=

/// The ranks that a step is compiled for, which divide its lanes among them, and which of them this one is.
struct RankShare {
  int64_t count = 1;
  int64_t rank = 0;    ///< the first rank that runs the same program as this one (firstAlike in ir/lanes.h)
  bool isFast = false; ///< --reduce=fast: whether sums over ranks have the engine's order
  int zero = 0; ///< --zero=: 1: states of the optimizer are kept in parts, one on each rank; 2: sums over lanes too;
                ///< 3: parameters too
  bool operator==(const RankShare &) const = default;
};

struct PassFlags {
  int level = 2; ///< -O0 … -O3: 0 makes one kernel for each op; 3: as 2, and kernels are tuned
  std::map<std::string, bool> passes = {}; ///< -f<pass> and -fno-<pass>, by name
  /// -fpad=: sizes of matmuls grow to multiples of this number; 0: they do not grow; nothing: the target decides.
  std::optional<int64_t> padding = {};
  /// -f[no-]fuse-optimizer: whether the ops that update states may share kernels; nothing: from -O1 on.
  std::optional<bool> fusesOptimizer = {};
  RankShare ranks = {}; ///< --ranks=
  /// -fbucket=: bytes of gradients that ranks exchange at once. The default is that of PyTorch.
  int64_t bucketBytes = int64_t{25} << 20;

  bool fusesUpdates() const { return fusesOptimizer.value_or(level >= 1); }

  /// The flags as words of a command line. Compiled steps on disk are looked up by this text, so every member must be
  /// in it; a member that is not listed here does not compile.
  std::string text() const {
    const auto &[ownLevel, ownPasses, ownPadding, ownOptimizer, ownRanks, ownBucket] = *this;
    std::string words = "-O" + std::to_string(ownLevel);
    for (const auto &[name, on] : ownPasses)
      words += (on ? " -f" : " -fno-") + name;
    if (ownPadding)
      words += " -fpad=" + std::to_string(*ownPadding);
    if (ownOptimizer)
      words += *ownOptimizer ? " -ffuse-optimizer" : " -fno-fuse-optimizer";
    if (ownRanks.count > 1)
      words += " --ranks=" + std::to_string(ownRanks.count) + ":" + std::to_string(ownRanks.rank) +
               (ownRanks.isFast ? " --reduce=fast" : "") +
               (ownRanks.zero > 0 ? " --zero=" + std::to_string(ownRanks.zero) : "") +
               " -fbucket=" + std::to_string(ownBucket);
    return words;
  }
};

} // namespace tcc
