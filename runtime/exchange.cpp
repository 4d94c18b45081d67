#include "runtime/exchange.h"
#include <algorithm>
#include <numeric>

namespace tcc::runtime {
namespace {

/// Bytes [begin, end) of a piece, whose sources lie one after another, with zeros between and after them.
void addPiece(std::vector<ExchangeCopy> &copies, const CollectiveCall &call, const Plan &plan, size_t piece,
              int64_t begin, int64_t end, BufferId target, int64_t to) {
  const size_t each = call.sources.size() / static_cast<size_t>(call.own);
  const auto add = [&](BufferId source, int64_t from, int64_t last) { // up to byte `last`
    if (begin >= last)
      return;
    copies.push_back({source, target, from, to, last - begin});
    to += last - begin;
    begin = last;
  };
  int64_t first = 0; // of the source
  for (size_t k = 0; k < each && begin < end; ++k) {
    const BufferId source = call.sources[piece * each + k];
    const int64_t bytes = plan.buffers[source].bytes;
    add(source, begin - first, std::min(end, first + bytes));
    first = packedAfter(first + bytes);
    add(noBuffer, 0, std::min(end, first));
  }
  add(noBuffer, 0, end);
}

bool isInPlace(const ExchangeCopy &copy, const Plan &plan) {
  if (copy.source == noBuffer)
    return false;
  const Buffer &source = plan.buffers[copy.source], &target = plan.buffers[copy.target];
  return source.space == target.space && source.index == target.index &&
         source.offset + copy.from == target.offset + copy.to;
}

Error addShard(RankExchange &exchange, const CollectiveCall &call, const Plan &plan, int64_t rank) {
  const int64_t row = plan.buffers[call.sources[0]].bytes / call.rows, own = plan.buffers[call.targets[0]].bytes;
  const int64_t first = rank * call.rows / call.ranks, expected = (rank + 1) * call.rows / call.ranks - first;
  if (own / row != expected)
    return Error("it is of a rank with " + std::to_string(own / row) + " of " + std::to_string(call.rows) +
                 " rows; rank " + std::to_string(rank) + " has " + std::to_string(expected));
  exchange.copies.push_back({call.sources[0], call.targets[0], first * row, 0, own});
  return Error::success();
}

Error addAllToAll(RankExchange &exchange, const CollectiveCall &call, const Plan &plan, int64_t rank) {
  const auto own = static_cast<size_t>(rank);
  if (call.pieces[own] != call.own)
    return Error("it is of a rank with " + std::to_string(call.own) + " pieces; rank " + std::to_string(rank) +
                 " has " + std::to_string(call.pieces[own]));
  const int64_t rows = std::accumulate(call.pieces.begin(), call.pieces.end(), int64_t{0});
  const int64_t part = plan.buffers[call.targets[0]].bytes / rows; // of a piece, for one rank
  if (call.sendsOnePiece()) {
    addPiece(exchange.copies, call, plan, 0, 0, part * call.ranks, call.scratch, 0);
    for (int64_t pieces : call.pieces) {
      exchange.sent.push_back(part);
      exchange.received.push_back(pieces * part);
    }
    return Error::success();
  }
  int64_t inScratch = 0, inTarget = 0;
  for (int64_t other = 0; other < call.ranks; ++other) {
    const int64_t sent = other == rank ? 0 : call.own * part, received = call.pieces[static_cast<size_t>(other)] * part;
    // What stays here goes to its place at once.
    const BufferId target = other == rank ? call.targets[0] : call.scratch;
    const int64_t to = other == rank ? inTarget : inScratch;
    for (int64_t piece = 0; piece < call.own; ++piece)
      addPiece(exchange.copies, call, plan, static_cast<size_t>(piece), other * part, (other + 1) * part, target,
               to + piece * part);
    exchange.sent.push_back(sent);
    exchange.received.push_back(received);
    inScratch += sent;
    inTarget += received;
  }
  return Error::success();
}

} // namespace

Expected<RankExchange> RankExchange::of(const CollectiveCall &call, const Plan &plan, const Ranks *ranks) {
  if (const int64_t here = ranks ? ranks->count() : 1; here != call.ranks)
    return Error("it is an exchange between " + std::to_string(call.ranks) + " ranks; this process is one of " +
                 std::to_string(here));
  RankExchange exchange;
  const int64_t rank = ranks ? ranks->rank() : 0;
  switch (call.kind()) {
  case Exchange::shard:
    if (Error error = addShard(exchange, call, plan, rank))
      return error;
    break;
  case Exchange::allToAll:
    if (Error error = addAllToAll(exchange, call, plan, rank))
      return error;
    break;
  case Exchange::allGather:
    if (call.ranks == 1)
      exchange.copies.push_back({call.sources[0], call.targets[0], 0, 0, plan.buffers[call.sources[0]].bytes});
    break;
  case Exchange::allReduce: // which is done in place
    for (size_t i = 0; i < call.sources.size(); ++i)
      exchange.copies.push_back({call.sources[i], call.targets[i], 0, 0, plan.buffers[call.sources[i]].bytes});
    break;
  }
  std::erase_if(exchange.copies, [&](const ExchangeCopy &copy) { return isInPlace(copy, plan); });
  return exchange;
}

Error RankExchange::start(const CollectiveCall &call, const Plan &plan, Ranks *ranks,
                          const std::function<char *(BufferId)> &addressOf, std::vector<RankWork> &works) const {
  if (call.ranks == 1 || call.kind() == Exchange::shard)
    return Error::success();
  const auto take = [&](const Expected<RankWork> &work) {
    if (!work)
      return work.error();
    works.push_back(*work);
    return Error::success();
  };
  char *target = addressOf(call.targets[0]);
  if (call.kind() == Exchange::allToAll)
    return take(ranks->allToAll(addressOf(call.scratch), sent, target, received));
  if (call.kind() == Exchange::allGather)
    return take(ranks->allGather(addressOf(call.sources[0]), target, plan.buffers[call.sources[0]].bytes));
  for (BufferId sum : call.targets)
    if (Error error = take(ranks->allReduce(reinterpret_cast<float *>(addressOf(sum)), plan.buffers[sum].bytes / 4)))
      return error;
  return Error::success();
}

} // namespace tcc::runtime
