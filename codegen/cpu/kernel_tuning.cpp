#include "codegen/cpu/kernel_tuning.h"
#include "codegen/cpu/emit_kernels.h"
#include "codegen/cpu/kernel_plan.h"
#include "llvm/ADT/StringExtras.h"

namespace tcc::cpu {
namespace {

constexpr llvm::StringLiteral keepWord = "keep=", prefetchWord = "prefetch=", itemsWord = "items=";
constexpr int64_t mostNumber = 1 << 20; // that a text may have

constexpr unsigned cheapKeptCost = 3;
constexpr int64_t someItems[] = {16, 8, 4, 2};
constexpr int64_t somePrefetches[] = {512, 1024, 2048};

} // namespace

std::string KernelTuning::text() const {
  const KernelTuning defaults;
  llvm::SmallVector<std::string> words;
  if (keptCost != defaults.keptCost)
    words.push_back(keepWord.str() + std::to_string(keptCost));
  if (wantedItems != defaults.wantedItems)
    words.push_back(itemsWord.str() + std::to_string(wantedItems));
  if (prefetchBytes != defaults.prefetchBytes)
    words.push_back(prefetchWord.str() + std::to_string(prefetchBytes));
  return llvm::join(words, " ");
}

std::optional<KernelTuning> KernelTuning::of(llvm::StringRef text) {
  KernelTuning tuning;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef word : words) {
    const auto [name, digits] = word.split('=');
    int64_t number = 0;
    if (digits.getAsInteger(10, number) || number < 0 || number > mostNumber)
      return std::nullopt;
    if (word.starts_with(keepWord))
      tuning.keptCost = static_cast<unsigned>(number);
    else if (word.starts_with(itemsWord) && number > 0)
      tuning.wantedItems = number;
    else if (word.starts_with(prefetchWord))
      tuning.prefetchBytes = number;
    else
      return std::nullopt;
  }
  return tuning;
}

llvm::SmallVector<KernelTuning> variationsOf(const KernelInfo &info, const KernelTuning &base, TunedNumber number,
                                             bool steady, bool fastMath, int threads) {
  llvm::SmallVector<KernelTuning> others;
  switch (number) {
  case TunedNumber::keptCost: {
    KernelTuning other = base;
    other.keptCost = cheapKeptCost;
    if (!fastMath && planKernel(info, steady, other).scratchSlot != planKernel(info, steady, base).scratchSlot)
      others.push_back(other);
    break;
  }
  case TunedNumber::wantedItems: {
    if (parallelOf(info) != Parallel::columns || !info.hasColumnResult())
      break;
    int64_t extent = launchOf(info, base).extent;
    for (int64_t items : someItems) {
      KernelTuning other = base;
      other.wantedItems = items;
      const int64_t fewer = launchOf(info, other).extent;
      if (fewer >= extent || fewer < threads || columnTile(info, other) > mostWideSums)
        continue;
      others.push_back(other);
      extent = fewer;
    }
    break;
  }
  case TunedNumber::prefetchBytes:
    if (!llvm::any_of(info.nodes, [&](const KernelNode &node) { return walksThroughMemory(info, node); }))
      break;
    for (int64_t bytes : somePrefetches) {
      KernelTuning other = base;
      other.prefetchBytes = bytes;
      others.push_back(other);
    }
    break;
  }
  return others;
}

} // namespace tcc::cpu
