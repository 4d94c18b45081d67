#include "runtime/cache.h"
#include "runtime/overload.h"
#include <algorithm>
#include <bit>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <ranges>

namespace tcc::runtime {
namespace {

// The same text for a guard's value and for a stored copy of it.
struct ValueText {
  template <typename Shape>
    requires std::ranges::range<Shape> && std::same_as<std::ranges::range_value_t<Shape>, int64_t>
  std::string operator()(const Shape &shape) const {
    std::string text;
    for (int64_t dim : shape)
      text += (text.empty() ? "" : "x") + std::to_string(dim);
    return text.empty() ? "scalar" : text;
  }
  std::string operator()(DType dtype) const { return std::string(name(dtype)); }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(uint64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const {
    char digits[40];
    return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr); // shortest that reads back
  }
  std::string operator()(std::string_view text) const { return std::string(text); }
};

constexpr size_t maxEvictedNotes = 4096;

// Values are equal as bits: a NaN constant equals itself, and 0.0 is not -0.0.
bool sameDouble(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

std::string explainDifference(GuardKind kind, std::string_view what, const std::string &before,
                              const std::string &after, std::string_view file, uint32_t line) {
  const std::string change = before + " → " + after;
  const std::string named(what);
  switch (kind) {
  case GuardKind::program:
    return "program " + named + (named.empty() ? "" : " ") + "changed";
  case GuardKind::device:
    return "device " + change;
  case GuardKind::dtype:
  case GuardKind::shape:
    return named + " " + change;
  case GuardKind::constant:
    break;
  }
  std::string text = "constant " + named + (named.empty() ? "" : " ") + change;
  if (!file.empty()) {
    const size_t slash = file.find_last_of('/');
    text +=
        " at " + std::string(file.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(line);
  }
  return text + ": make it an input";
}

} // namespace

void hashGuard(RollingHash &hash, const Guard &guard) {
  hash.add(static_cast<uint64_t>(guard.kind));
  hash.add(guard.what);
  hash.add(static_cast<uint64_t>(guard.value.index()));
  std::visit(Overload{[&](std::span<const int64_t> shape) {
                        hash.add(static_cast<uint64_t>(shape.size()));
                        for (int64_t dim : shape)
                          hash.add(static_cast<uint64_t>(dim));
                      },
                      [&](DType dtype) { hash.add(static_cast<uint64_t>(dtype)); },
                      [&](int64_t value) { hash.add(static_cast<uint64_t>(value)); },
                      [&](uint64_t value) { hash.add(value); },
                      [&](double value) { hash.add(std::bit_cast<uint64_t>(value)); },
                      [&](std::string_view text) { hash.add(text); }},
             guard.value);
}

uint64_t hashGuards(std::span<const Guard> guards) {
  RollingHash hash;
  for (const Guard &guard : guards)
    hashGuard(hash, guard);
  return hash.value();
}

GuardCache::GuardCache(int64_t byteCap, std::function<void(std::string_view)> report, SharedBytes total)
    : byteCap(byteCap), report(std::move(report)),
      total(total ? std::move(total) : std::make_shared<std::atomic<int64_t>>(0)) {
  if (!this->report)
    this->report = [](std::string_view reason) {
      std::fprintf(stderr, "tcc: %.*s\n", static_cast<int>(reason.size()), reason.data());
    };
}

bool GuardCache::matches(const StoredGuard &stored, const Guard &guard) {
  if (stored.kind != guard.kind || stored.value.index() != guard.value.index() || stored.what != guard.what)
    return false;
  return std::visit(Overload{[&](std::span<const int64_t> shape) {
                               const auto &before = std::get<std::vector<int64_t>>(stored.value);
                               return std::equal(before.begin(), before.end(), shape.begin(), shape.end());
                             },
                             [&](double value) { return sameDouble(std::get<double>(stored.value), value); },
                             [&](std::string_view text) { return std::get<std::string>(stored.value) == text; },
                             [&](auto value) { return std::get<decltype(value)>(stored.value) == value; }},
                    guard.value);
}

bool GuardCache::matches(const Entry &entry, std::span<const Guard> guards) {
  return std::equal(entry.guards.begin(), entry.guards.end(), guards.begin(), guards.end(),
                    [](const StoredGuard &stored, const Guard &guard) { return matches(stored, guard); });
}

GuardCache::EntryList::iterator GuardCache::locate(std::span<const Guard> guards, uint64_t hash) {
  auto [first, last] = index.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (matches(*it->second, guards))
      return it->second;
  return entries.end();
}

std::shared_ptr<void> GuardCache::find(std::span<const Guard> guards, uint64_t hash) {
  if (auto entry = locate(guards, hash); entry != entries.end()) {
    ++counts.hits;
    entries.splice(entries.begin(), entries, entry);
    return entry->value;
  }
  ++counts.misses;
  missReason = explainMiss(guards, hash);
  if (!entries.empty() || !evicted.empty()) {
    ++counts.recompiles;
    report(missReason);
  }
  return nullptr;
}

// The nearest entry has the fewest guards that differ; the most recently used one of them explains the miss.
std::string GuardCache::explainMiss(std::span<const Guard> guards, uint64_t hash) const {
  if (evicted.contains(hash))
    return "recompiled: evicted from the cache, which holds " + std::to_string(byteCap) + " bytes; raise its cap";
  if (entries.empty())
    return "compiled: first call";
  const Entry *nearest = nullptr;
  size_t fewest = 0;
  for (const Entry &entry : entries) {
    const size_t shared = std::min(entry.guards.size(), guards.size());
    size_t different = std::max(entry.guards.size(), guards.size()) - shared;
    for (size_t i = 0; i < shared; ++i)
      different += !matches(entry.guards[i], guards[i]);
    if (!nearest || different < fewest) {
      nearest = &entry;
      fewest = different;
    }
  }
  const size_t shared = std::min(nearest->guards.size(), guards.size());
  // A program changes with the shapes and types of its inputs: then these are the reason.
  bool inputsDiffer = false;
  for (size_t i = 0; i < shared; ++i)
    inputsDiffer |= (guards[i].kind == GuardKind::shape || guards[i].kind == GuardKind::dtype) &&
                    !matches(nearest->guards[i], guards[i]);
  std::string text;
  for (size_t i = 0; i < shared; ++i) {
    const StoredGuard &before = nearest->guards[i];
    const Guard &after = guards[i];
    if (matches(before, after) || (inputsDiffer && after.kind == GuardKind::program))
      continue;
    text += text.empty() ? "" : "; ";
    if (before.kind != after.kind || before.what != after.what)
      text += "input `" + before.what + "` → `" + std::string(after.what) + "`";
    else
      text += explainDifference(after.kind, after.what, std::visit(ValueText{}, before.value),
                                std::visit(ValueText{}, after.value), after.file, after.line);
  }
  if (nearest->guards.size() != guards.size())
    text += (text.empty() ? "" : "; ") + std::to_string(nearest->guards.size()) + " → " +
            std::to_string(guards.size()) + " inputs and constants";
  return "recompiled: " + text;
}

void GuardCache::insert(std::span<const Guard> guards, uint64_t hash, std::shared_ptr<void> value, int64_t bytes) {
  if (auto old = locate(guards, hash); old != entries.end())
    erase(old);
  Entry entry{hash, {}, std::move(value), bytes};
  entry.guards.reserve(guards.size());
  for (const Guard &guard : guards) {
    StoredGuard stored{guard.kind, std::string(guard.what), {}, std::string(guard.file), guard.line};
    std::visit(Overload{[&](std::span<const int64_t> shape) { stored.value = std::vector(shape.begin(), shape.end()); },
                        [&](std::string_view text) { stored.value = std::string(text); },
                        [&](auto value) { stored.value = value; }},
               guard.value);
    entry.guards.push_back(std::move(stored));
  }
  entries.push_front(std::move(entry));
  index.emplace(hash, entries.begin());
  ownBytes += bytes;
  *total += bytes;
  evicted.erase(hash);
  evict();
}

void GuardCache::erase(EntryList::iterator entry) {
  auto [first, last] = index.equal_range(entry->hash);
  index.erase(std::find_if(first, last, [&](const auto &pair) { return pair.second == entry; }));
  ownBytes -= entry->bytes;
  *total -= entry->bytes;
  entries.erase(entry);
}

void GuardCache::evict() {
  while (*total > byteCap && entries.size() > 1) {
    ++counts.evictions;
    if (evicted.size() >= maxEvictedNotes)
      evicted.clear();
    evicted.insert(entries.back().hash);
    erase(std::prev(entries.end()));
  }
}

void GuardCache::clear() {
  entries.clear();
  index.clear();
  evicted.clear();
  *total -= ownBytes;
  ownBytes = 0;
}

} // namespace tcc::runtime
