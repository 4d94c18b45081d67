// KernelTuning: what may be chosen about a kernel's code without changing a bit of its results. -O3 chooses by
// measuring (tune_kernels.h); without a choice each number has its default.
#pragma once
#include "ir/kernel.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace tcc::cpu {

struct KernelTuning {
  /// A value that an earlier pass has computed is kept in a scratch row if it takes at least so many vector operations
  /// to compute it again. The default is about a store, a load and their address.
  unsigned keptCost = 12;
  /// So many bytes ahead of each load that walks through memory, the line is fetched into the cache; 0: none is.
  int64_t prefetchBytes = 0;
  /// Into how many items a kernel with column results is cut at least, if its columns allow it. More items occupy more
  /// threads; fewer items read longer pieces of a row.
  int64_t wantedItems = 32;
  bool operator==(const KernelTuning &) const = default;

  /// The numbers that are not the defaults: "keep=3 prefetch=1024"; empty: all are.
  std::string text() const;
  /// Reads text(); nothing if it is none.
  static std::optional<KernelTuning> of(llvm::StringRef text);
};

/// What of KernelTuning can be varied.
enum class TunedNumber : uint8_t { keptCost, wantedItems, prefetchBytes };
inline constexpr TunedNumber tunedNumbers[] = {TunedNumber::keptCost, TunedNumber::wantedItems,
                                               TunedNumber::prefetchBytes};

/// Other choices than `base` that differ from it in this number, where that changes the code. `threads` run the kernel.
/// With `fastMath` the compiler may join the operations of a value differently where it is computed again, so what is
/// kept is not varied.
llvm::SmallVector<KernelTuning> variationsOf(const KernelInfo &info, const KernelTuning &base, TunedNumber number,
                                             bool steady, bool fastMath, int threads);

} // namespace tcc::cpu
