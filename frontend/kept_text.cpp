#include "frontend/kept_text.h"
#include <mutex>
#include <unordered_set>

namespace tcc {
namespace {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
};

} // namespace

const std::string *keptText(std::string_view text) {
  static std::mutex mutex;
  static auto *texts = new std::unordered_set<std::string, TextHash, std::equal_to<>>; // also while the process ends
  const std::lock_guard lock(mutex);
  const auto known = texts->find(text);
  return known != texts->end() ? &*known : &*texts->emplace(text).first;
}

} // namespace tcc
