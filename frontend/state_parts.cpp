#include "frontend/state_parts.h"
#include "frontend/error.h"
#include "frontend/storage.h"
#include "runtime/ranks/ranks.h"
#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

namespace tcc {
namespace {

[[noreturn]] void refuse(const State &state, const std::string &why) {
  throw Error("state '" + state.name() + "' " + why);
}

runtime::TensorStorage zerosFor(const State &state, int64_t bytes) {
  runtime::Expected<runtime::TensorStorage> memory = runtime::TensorStorage::zeros(bytes);
  if (!memory)
    refuse(state, "has no memory: " + memory.error().message());
  return std::move(*memory);
}

/// Each rank's list, one after another.
std::vector<int64_t> gathered(std::span<const int64_t> own, runtime::Ranks &ranks) {
  std::vector<int64_t> all(own.size() * static_cast<size_t>(ranks.count()));
  if (runtime::Error error = runtime::gatherAll(ranks, own.data(), all.data(), static_cast<int64_t>(own.size_bytes())))
    throw Error("parts of states: " + error.message());
  return all;
}

int64_t sumOf(std::span<const int64_t> numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

void keepPart(const State &state, const std::vector<int64_t> &parts, size_t rank) {
  if (detail::partBytesOf(state) == parts)
    return;
  if (state.isPart() || sumOf(parts) != state.wholeBytes())
    refuse(state, "has " + std::to_string(state.bytes()) + " bytes, and a step wants a part of " +
                      std::to_string(parts[rank]) +
                      "; all steps that update it need the same ranks and FunctionOptions::zero");
  const auto *from = static_cast<const char *>(state.rawForReading());
  if (!runtime::isCounted(from))
    refuse(state,
           "lies in memory of someone else, who expects its whole value there; FunctionOptions::zero needs states "
           "with memory of their own");
  runtime::TensorStorage part = zerosFor(state, parts[rank]);
  if (parts[rank] > 0)
    std::memcpy(part.data(), from + sumOf(std::span(parts).first(rank)), static_cast<size_t>(parts[rank]));
  detail::memoryOf(state) = runtime::MirroredTensor(std::move(part));
  detail::partBytesOf(state) = parts;
}

/// The whole value, where it is wanted; all ranks come here.
std::optional<runtime::TensorStorage> joined(const State &state, runtime::Ranks &ranks, bool isWanted) {
  const std::vector<int64_t> &parts = detail::partBytesOf(state);
  const int64_t most = *std::ranges::max_element(parts);
  const auto gather = [&](const void *own, void *all) {
    if (runtime::Error error = runtime::gatherAll(ranks, own, all, most))
      refuse(state, "cannot be put together: " + error.message());
  };
  if (std::ranges::all_of(parts, [&](int64_t part) { return part == most; })) { // they lie one after another
    runtime::TensorStorage whole = zerosFor(state, state.wholeBytes());
    gather(state.rawForReading(), whole.data());
    return isWanted ? std::optional(std::move(whole)) : std::nullopt;
  }
  const runtime::TensorStorage own = zerosFor(state, most), all = zerosFor(state, most * ranks.count());
  if (state.bytes() > 0)
    std::memcpy(own.data(), state.rawForReading(), static_cast<size_t>(state.bytes()));
  gather(own.data(), all.data());
  if (!isWanted)
    return std::nullopt;
  runtime::TensorStorage whole = zerosFor(state, state.wholeBytes());
  auto *to = static_cast<char *>(whole.data());
  for (size_t rank = 0; rank < parts.size(); to += parts[rank++])
    std::memcpy(to, static_cast<const char *>(all.data()) + static_cast<int64_t>(rank) * most,
                static_cast<size_t>(parts[rank]));
  return whole;
}

void requireRanks(const State &state, const runtime::Ranks *ranks) {
  if (!ranks)
    refuse(state, "is one rank's part; its ranks are needed to have it whole");
}

/// The whole value on the first rank; what they have on the others.
State wholeOf(const State &state, runtime::Ranks &ranks) {
  std::optional<runtime::TensorStorage> memory = joined(state, ranks, ranks.rank() == 0);
  if (!memory)
    return state;
  State whole(state.name(), state.shape(), state.dtype());
  detail::memoryOf(whole) = runtime::MirroredTensor(std::move(*memory));
  return whole;
}

} // namespace

void keepParts(std::span<const State> states, std::span<const int64_t> bytes, runtime::Ranks &ranks) {
  const std::vector<int64_t> all = gathered(bytes, ranks);
  for (size_t i = 0; i < states.size(); ++i) {
    std::vector<int64_t> parts;
    for (size_t at = i; at < all.size(); at += states.size())
      parts.push_back(all[at]);
    if (!std::ranges::all_of(parts, [&](int64_t part) { return part == states[i].wholeBytes(); }))
      keepPart(states[i], parts, static_cast<size_t>(ranks.rank()));
  }
}

std::vector<State> wholeStates(std::span<const State> states, runtime::Ranks *ranks) {
  std::vector<State> list;
  for (const State &state : states) {
    if (state.isPart())
      requireRanks(state, ranks);
    list.push_back(state.isPart() ? wholeOf(state, *ranks) : state);
  }
  return list;
}

std::vector<StateParts> makeWhole(std::span<const State> states, runtime::Ranks *ranks, WholeOn where) {
  std::vector<StateParts> list;
  for (const State &state : states) {
    if (!state.isPart())
      continue;
    requireRanks(state, ranks);
    list.push_back({state, detail::partBytesOf(state)});
    const bool isWanted = where == WholeOn::allRanks || ranks->rank() == 0;
    std::optional<runtime::TensorStorage> memory = joined(state, *ranks, isWanted);
    if (!memory)
      continue;
    detail::memoryOf(state) = runtime::MirroredTensor(std::move(*memory));
    detail::partBytesOf(state).clear();
  }
  return list;
}

void cutAgain(std::span<const StateParts> list, runtime::Ranks *ranks) {
  for (const StateParts &each : list) {
    requireRanks(each.state, ranks);
    keepPart(each.state, each.bytes, static_cast<size_t>(ranks->rank()));
  }
}

} // namespace tcc
