// A byte-level BPE tokenizer learned from a text: the merges that the `tokenizers` package's BpeTrainer finds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tcc::models {

/// Learns merges of GPT-2's pieces of `text` (any bytes; <|endoftext|> stands between texts) until there are `size`
/// tokens: <|endoftext|>, 256 bytes, then one a merge, the commonest pair first, among equally common ones that of the
/// smaller ids. Fewer where no pair is left. Writes `folder`/tokenizer.json (the folder made where missing) and returns
/// the number of tokens. Throws Error where the folder has a tokenizer or cannot be written.
int64_t trainTokenizer(const std::string &folder, std::string_view text, int64_t size);

/// The smallest size: the bytes and <|endoftext|>.
constexpr int64_t leastVocabulary = 257;

} // namespace tcc::models
