// Texts between ranks: their lengths go first, so that each rank has memory for what it gets.
#include "runtime/ranks/ranks.h"
#include <algorithm>
#include <vector>

namespace tcc::runtime {

Expected<std::vector<std::string>> gatherTexts(Ranks &ranks, const std::string &own) {
  const auto count = static_cast<size_t>(ranks.count());
  std::vector<int64_t> lengths(count);
  const auto length = static_cast<int64_t>(own.size());
  if (Error error = gatherAll(ranks, &length, lengths.data(), sizeof length))
    return error;
  const auto longest = static_cast<size_t>(*std::ranges::max_element(lengths));
  std::string padded = own, together(longest * count, '\0');
  padded.resize(longest);
  if (longest > 0)
    if (Error error = gatherAll(ranks, padded.data(), together.data(), static_cast<int64_t>(longest)))
      return error;
  std::vector<std::string> texts;
  for (size_t i = 0; i < count; ++i)
    texts.push_back(together.substr(i * longest, static_cast<size_t>(lengths[i])));
  return texts;
}

/// Calls allToAll() and waits for it.
static Error exchange(Ranks &ranks, const void *send, std::span<const int64_t> sendBytes, void *receive,
                      std::span<const int64_t> receiveBytes) {
  const Expected<RankWork> work = ranks.allToAll(send, sendBytes, receive, receiveBytes);
  return work ? ranks.wait(*work) : work.error();
}

Expected<std::vector<std::string>> exchangeTexts(Ranks &ranks, std::span<const std::string> texts) {
  const auto count = static_cast<size_t>(ranks.count());
  std::vector<int64_t> lengths, received(count);
  std::string all;
  for (const std::string &text : texts) {
    lengths.push_back(static_cast<int64_t>(text.size()));
    all += text;
  }
  const std::vector<int64_t> lengthBytes(count, sizeof(int64_t));
  if (Error error = exchange(ranks, lengths.data(), lengthBytes, received.data(), lengthBytes))
    return error;
  int64_t bytes = 0;
  for (int64_t length : received)
    bytes += length;
  std::string together(static_cast<size_t>(bytes), '\0');
  if (Error error = exchange(ranks, all.data(), lengths, together.data(), received))
    return error;
  std::vector<std::string> result;
  size_t begin = 0;
  for (int64_t length : received) {
    result.push_back(together.substr(begin, static_cast<size_t>(length)));
    begin += static_cast<size_t>(length);
  }
  return result;
}

} // namespace tcc::runtime
