#include "frontend/custom_instance.h"
#include <bit>
#include <deque>
#include <map>
#include <mutex>

namespace tcc {
namespace {

std::mutex mutex;

std::deque<CustomInstance> &instances() {
  static std::deque<CustomInstance> list; // whose elements stay in place
  return list;
}

/// All that a step depends on, so that equal keys are one instance.
class Key {
public:
  std::string text;

  Key &add(std::string_view value) {
    text += std::to_string(value.size()) + ':';
    text += value;
    return *this;
  }
  Key &add(int64_t value) {
    text += std::to_string(value) + ';';
    return *this;
  }
  Key &add(std::span<const int64_t> values) {
    add(static_cast<int64_t>(values.size()));
    for (int64_t value : values)
      add(value);
    return *this;
  }
  Key &add(const std::vector<ValueType> &types) {
    add(static_cast<int64_t>(types.size()));
    for (const ValueType &type : types)
      add(static_cast<int64_t>(type.dtype)).add(std::span<const int64_t>(type.shape));
    return *this;
  }
  Key &add(const std::optional<Record> &record) {
    add(static_cast<int64_t>(record.has_value()));
    if (!record)
      return *this;
    add(std::bit_cast<int64_t>(recordHash(*record)));
    for (const Literal &literal : record->literals)
      add(std::bit_cast<int64_t>(literal.value));
    return *this;
  }
};

std::string keyOf(const CustomInstance &made) {
  Key key;
  key.add(made.name).add(made.operands).add(made.results).add(made.body).add(made.gradient);
  key.add(made.library).add(made.symbol).add(made.kernelText).add(made.kernelName);
  key.add(std::span<const int64_t>(made.grid)).add(std::span<const int64_t>(made.block)).add(made.sharedBytes);
  key.add(std::span<const int64_t>(made.kernelArguments)).add(made.flops).add(made.bytes);
  key.add(std::bit_cast<int64_t>(made.tolerance)).add(made.hostFunction).add(made.hostReference);
  return std::move(key.text);
}

} // namespace

uint64_t internCustom(CustomInstance instance) {
  static std::map<std::string, uint64_t> numbers;
  std::string key = keyOf(instance);
  const std::lock_guard lock(mutex);
  const auto [known, inserted] = numbers.try_emplace(std::move(key), instances().size());
  if (inserted)
    instances().push_back(std::move(instance));
  return known->second;
}

const CustomInstance &customInstance(uint64_t number) {
  const std::lock_guard lock(mutex);
  return instances()[number];
}

} // namespace tcc
