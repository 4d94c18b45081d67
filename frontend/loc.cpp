// Places that are known at run time: each different one is kept once, so that a Loc is a pointer.
#include "frontend/loc.h"
#include "frontend/kept_text.h"
#include "runtime/mix_bits.h"
#include <mutex>
#include <unordered_set>

namespace tcc {

size_t Loc::FrameHash::operator()(const Frame &frame) const noexcept {
  uint64_t hash = reinterpret_cast<uintptr_t>(frame.file) ^ reinterpret_cast<uintptr_t>(frame.scope) << 1;
  hash ^= uint64_t{frame.line} << 32 | frame.column;
  return runtime::mixBits(hash);
}

Loc Loc::at(std::string_view file, uint32_t line, uint32_t column, std::string_view scope) {
  static std::mutex mutex;
  static auto *frames = new std::unordered_set<Frame, FrameHash>; // also while the process ends
  while (scope.ends_with('.'))
    scope.remove_suffix(1);
  const Frame frame{keptText(file), line, column, scope.empty() ? nullptr : keptText(scope)};
  Loc loc;
  const std::lock_guard lock(mutex);
  loc.bits = reinterpret_cast<uintptr_t>(&*frames->insert(frame).first) + 1;
  return loc;
}

} // namespace tcc
