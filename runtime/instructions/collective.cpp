#include "runtime/instructions/collective.h"
#include <algorithm>
#include <numeric>
#include <set>

namespace tcc::runtime {

Exchange CollectiveCall::kind() const {
  return static_cast<Exchange>(std::ranges::find(exchangeNames, exchange) - std::begin(exchangeNames));
}

int64_t CollectiveCall::sentBytes(const PlanLists &plan) const {
  const int64_t others = ranks - 1;
  switch (kind()) {
  case Exchange::shard:
    return 0;
  case Exchange::allToAll:
    return plan.buffers[targets[0]].bytes / std::accumulate(pieces.begin(), pieces.end(), int64_t{0}) * own * others;
  case Exchange::allGather:
    return plan.buffers[sources[0]].bytes * others;
  case Exchange::allReduce:
    break;
  }
  int64_t bytes = 0;
  for (BufferId source : sources)
    bytes += plan.buffers[source].bytes;
  return 2 * bytes / ranks * others;
}

std::string CollectiveCall::validate(const PlanLists &plan) const {
  if (std::ranges::find(exchangeNames, exchange) == std::end(exchangeNames))
    return "'" + exchange + "' is no exchange; shard, all_to_all, all_gather and all_reduce are";
  const auto bytesOf = [&](BufferId id) { return plan.buffers[id].bytes; };
  const bool isReduce = kind() == Exchange::allReduce;
  if (sources.empty() || targets.size() != (isReduce ? sources.size() : 1))
    return exchange + " has " + std::to_string(sources.size()) + " sources and " + std::to_string(targets.size()) +
           " targets; each sum has one of each, any other exchange one target";
  for (BufferId target : targets) {
    for (size_t i = 0; i < sources.size(); ++i)
      if (plan.overlap(sources[i], target) && !(isReduce && targets[i] == target && sources[i] == target))
        return "source and target of " + exchange + " overlap";
    if (plan.overlap(target, scratch))
      return "target and scratch of " + exchange + " overlap";
  }
  const int64_t given = bytesOf(sources[0]), taken = bytesOf(targets[0]);
  switch (kind()) {
  case Exchange::shard:
    if (sources.size() != 1 || given % rows || rows < ranks || taken % std::max<int64_t>(given / rows, 1) ||
        taken / std::max<int64_t>(given / rows, 1) - rows / ranks > (rows % ranks > 0) || taken < given / rows)
      return "a shard of " + std::to_string(taken) + " bytes is no rank's part of " + std::to_string(given);
    return {};
  case Exchange::allGather:
    if (sources.size() != 1 || taken != given * ranks)
      return "all_gather gives " + std::to_string(taken) + " bytes of " + std::to_string(given) + " on " +
             std::to_string(ranks) + " ranks";
    return {};
  case Exchange::allReduce:
    for (size_t i = 0; i < sources.size(); ++i)
      if (bytesOf(sources[i]) != bytesOf(targets[i]) || bytesOf(sources[i]) % 4)
        return "a sum of all_reduce has other bytes than its source";
    return {};
  case Exchange::allToAll:
    break;
  }
  const int64_t rows = std::accumulate(pieces.begin(), pieces.end(), int64_t{0});
  if (static_cast<int64_t>(pieces.size()) != ranks || std::ranges::find(pieces, own) == pieces.end() ||
      sources.size() % static_cast<size_t>(own) || taken % (rows * 4))
    return "all_to_all has pieces that are no list of the " + std::to_string(ranks) + " ranks' pieces";
  const int64_t piece = taken / rows * ranks;
  std::set<std::pair<int64_t, int64_t>> inPlace; // bytes of sources at their places, from which others may be copied
  int64_t end = 0;                               // of the first piece's last source; the others' are as large
  for (BufferId source : std::span(sources).first(sources.size() / static_cast<size_t>(own))) {
    const int64_t first = packedAfter(end);
    if ((end = first + bytesOf(source)) > piece)
      return "all_to_all has pieces of " + std::to_string(end) + " bytes or more, and room for " +
             std::to_string(piece);
    if (sendsOnePiece() && scratch != noBuffer && plan.buffers[source].offset == plan.buffers[scratch].offset + first)
      inPlace.emplace(plan.buffers[source].offset, bytesOf(source));
  }
  if (ranks == 1)
    return {};
  const int64_t needed = sendsOnePiece() ? piece : taken / rows * own * (ranks - 1);
  if (needed > 0 && (scratch == noBuffer || bytesOf(scratch) < needed))
    return "all_to_all has no scratch for what it sends, which is " + std::to_string(needed) + " bytes";
  for (BufferId source : sources)
    if (scratch != noBuffer && plan.overlap(source, scratch) &&
        !inPlace.contains({plan.buffers[source].offset, bytesOf(source)}))
      return "a source and the scratch of all_to_all overlap";
  return {};
}

} // namespace tcc::runtime
