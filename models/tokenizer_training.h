// A byte-level BPE tokenizer learned from a text: the merges that the `tokenizers` package's BpeTrainer finds.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tcc::models {

/// Learns merges within GPT-2's pieces of `text` (any bytes; <|endoftext|> stands between texts) until there are `size`
/// tokens, or until no pair is left. The tokens are <|endoftext|>, the 256 bytes, then one for each merge. The
/// commonest pair is merged first; of equally common pairs the one with the smaller ids. Writes
/// `folder`/tokenizer.json, after making the folder if it is missing, and returns the number of tokens. Throws Error if
/// the folder has a tokenizer or cannot be written.
int64_t trainTokenizer(const std::string &folder, std::string_view text, int64_t size);

/// The smallest size: the bytes and <|endoftext|>.
constexpr int64_t leastVocabulary = 257;

} // namespace tcc::models
