#include "models/sampling.h"
#include "frontend/quotes.h"
#include "models/counter_random.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <vector>

namespace tcc::models {

namespace {

/// Ids of the finite logits, the `count` likeliest of them; in descending order where `count` cuts or `sorted` asks.
std::vector<int32_t> likeliest(std::span<const float> logits, size_t count, bool sorted) {
  std::vector<int32_t> ids;
  ids.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i)
    if (std::isfinite(logits[i]))
      ids.push_back(int32_t(i));
  if (count >= ids.size() && !sorted)
    return ids;
  count = std::min(count, ids.size());
  auto likelier = [&](int32_t a, int32_t b) {
    float x = logits[size_t(a)], y = logits[size_t(b)];
    return x > y || (x == y && a < b);
  };
  std::partial_sort(ids.begin(), ids.begin() + std::ptrdiff_t(count), ids.end(), likelier);
  ids.resize(count);
  return ids;
}

/// Length of the printable UTF-8 sequence at the front of `text`, 0 where there is none.
size_t printableLength(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? uint8_t(text[i]) : 0; };
  auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  uint8_t first = at(0);
  if (first < 0x80)
    return (first >= 0x20 && first != 0x7f) || first == '\n' || first == '\t' ? 1 : 0;
  if (first >= 0xc2 && first < 0xe0)
    return follows(1) && !(first == 0xc2 && at(1) < 0xa0) ? 2 : 0; // U+0080 to U+009F are controls
  if (first >= 0xe0 && first < 0xf0) {
    bool overlong = first == 0xe0 && at(1) < 0xa0, surrogate = first == 0xed && at(1) >= 0xa0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xf0 && first < 0xf5) {
    bool overlong = first == 0xf0 && at(1) < 0x90, beyond = first == 0xf4 && at(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

} // namespace

int32_t sampleToken(std::span<const float> logits, const SamplingOptions &options, int64_t position) {
  size_t count = options.temperature <= 0 ? 1 : options.topK > 0 ? size_t(options.topK) : logits.size();
  std::vector<int32_t> ids = likeliest(logits, count, options.topP < 1);
  if (ids.empty())
    throw Error("none of the logits is finite, the model has diverged (try a smaller --lr)");
  if (ids.size() == 1)
    return ids.front();
  float largest = logits[size_t(ids.front())];
  for (int32_t id : ids)
    largest = std::max(largest, logits[size_t(id)]);
  std::vector<double> cumulative(ids.size());
  double sum = 0;
  for (size_t i = 0; i < ids.size(); ++i)
    cumulative[i] = sum += std::exp((double(logits[size_t(ids[i])]) - largest) / options.temperature);
  if (options.topP < 1) { // the first ones that reach the share, at least one
    const auto end = std::lower_bound(cumulative.begin(), cumulative.end() - 1, options.topP * sum);
    sum = *end;
    ids.resize(size_t(end - cumulative.begin()) + 1);
  }
  constexpr uint64_t stream = streamOf("sample");
  double chosen = unitBits(randomBits(options.seed, stream, uint64_t(position))) * sum;
  auto at = std::upper_bound(cumulative.begin(), cumulative.end(), chosen);
  return ids[size_t(std::min<std::ptrdiff_t>(at - cumulative.begin(), std::ptrdiff_t(ids.size()) - 1))];
}

std::string renderTokens(std::span<const int32_t> tokens, int64_t vocabulary) {
  if (vocabulary != 256)
    return fmt::format("{}", fmt::join(tokens, " "));
  std::string bytes(tokens.begin(), tokens.end()), text;
  for (std::string_view rest = bytes; !rest.empty();) {
    size_t length = printableLength(rest);
    text += length ? rest.substr(0, length) : "·";
    rest.remove_prefix(std::max<size_t>(length, 1));
  }
  return text;
}

} // namespace tcc::models
