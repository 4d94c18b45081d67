#include "codegen/rank_compilation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace tcc {

static constexpr char keptMark = '+', lackedMark = '-';

runtime::Expected<RankCompilation> RankCompilation::agree(runtime::Ranks &ranks, const std::string &digest,
                                                          bool isKept) {
  const auto all = runtime::gatherTexts(ranks, (isKept ? keptMark : lackedMark) + digest);
  if (!all)
    return all.error();
  RankCompilation agreed(ranks);
  for (auto [rank, text] : llvm::enumerate(*all)) {
    const llvm::StringRef program = llvm::StringRef(text).drop_front();
    size_t source = rank;
    if (text[0] == lackedMark && !program.empty()) {
      const auto firstWith = [&](char mark) {
        return static_cast<size_t>(llvm::find(*all, mark + program.str()) - all->begin());
      };
      source = firstWith(keptMark);
      if (source == all->size())
        source = firstWith(lackedMark);
    }
    agreed.sources.push_back(static_cast<int64_t>(source));
    agreed.compiling.push_back(source == rank && text[0] == lackedMark);
  }
  return agreed;
}

bool RankCompilation::isAnyCompiling() const {
  return llvm::is_contained(compiling, true);
}

bool RankCompilation::isSource() const {
  return llvm::any_of(llvm::enumerate(sources),
                      [&](const auto &each) { return each.index() != own() && each.value() == ranks->rank(); });
}

runtime::Error RankCompilation::shareError(const runtime::Error &problem, const std::string &explanation) const {
  const std::string &said = problem.message().empty() ? explanation : problem.message();
  const auto all = runtime::gatherTexts(*ranks, problem ? lackedMark + said : "");
  if (problem)
    return problem;
  if (!all)
    return all.error();
  for (auto [rank, text] : llvm::enumerate(*all))
    if (!text.empty())
      return runtime::Error("rank " + std::to_string(rank) + ": " + text.substr(1));
  return {};
}

runtime::Expected<std::string> RankCompilation::exchange(const std::string &entry) const {
  std::vector<std::string> texts(sources.size());
  for (auto [rank, source] : llvm::enumerate(sources))
    if (rank != own() && source == ranks->rank())
      texts[rank] = entry;
  auto received = runtime::exchangeTexts(*ranks, texts);
  if (!received)
    return received.error();
  std::string &taken = (*received)[static_cast<size_t>(source())];
  if (source() != ranks->rank() && taken.empty())
    return runtime::Error("rank " + std::to_string(source()) + ", which has the same program, could not compile it");
  return std::move(taken);
}

} // namespace tcc
