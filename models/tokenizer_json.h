// The text of a tokenizer.json of a byte-level BPE.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// The text, as the `tokenizers` package writes it. `tokens`, in the order of their ids, and `merges` are written in
/// byteCharacters(). `special` are tokens that stand between texts. `splits` says whether texts are split by GPT-2's
/// pattern.
std::string tokenizerJson(const std::vector<std::string> &tokens, const std::vector<std::array<std::string, 2>> &merges,
                          const std::vector<std::string> &special, bool splits = true);

} // namespace tcc::models
