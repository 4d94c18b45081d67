#include "models/example_tokens.h"
#include "models/token_header.h"

#include <cstring>

namespace tcc::models {

void ExampleTokens::add(std::span<const int32_t> ids, bool learned) {
  for (const int32_t id : ids)
    tokens.push_back(uint32_t(id) | (learned ? 0 : example_file::notLearned));
  learnedCount += learned ? int64_t(ids.size()) : 0;
}

void ExampleTokens::endExample() {
  if (size() > (ends.empty() ? 0 : ends.back()))
    ends.push_back(size());
}

void ExampleTokens::write(const std::string &path) const {
  TokenHeader header;
  const int32_t kind[] = {example_file::magic, example_file::version};
  const int64_t counts[] = {examples(), size()};
  std::memcpy(header.bytes.data(), kind, sizeof kind);
  std::memcpy(header.bytes.data() + sizeof kind, counts, sizeof counts);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(ends)), std::as_bytes(std::span(tokens))};
  header.writeFile(path, parts);
}

} // namespace tcc::models
