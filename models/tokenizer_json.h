// The text of a tokenizer.json of a byte-level BPE.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

namespace tcc::models {

/// As the `tokenizers` package writes it: `tokens` by their ids and `merges`, both in byteCharacters; `special` are
/// tokens that stand between texts; `splits`: by GPT-2's pattern, else not at all.
std::string tokenizerJson(const std::vector<std::string> &tokens, const std::vector<std::array<std::string, 2>> &merges,
                          const std::vector<std::string> &special, bool splits = true);

} // namespace tcc::models
