#include "models/tokenizer_json.h"

#include <nlohmann/json.hpp>

namespace tcc::models {

std::string tokenizerJson(const std::vector<std::string> &tokens, const std::vector<std::array<std::string, 2>> &merges,
                          const std::vector<std::string> &special, bool splits) {
  using Ordered = nlohmann::ordered_json;
  Ordered::object_t vocabulary; // a list of pairs: its own emplace looks through all of them
  Ordered added = Ordered::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    vocabulary.emplace_back(tokens[i], i);
    for (const std::string &token : special)
      if (token == tokens[i])
        added.push_back({{"id", i},
                         {"content", token},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", true}});
  }
  const Ordered byteLevel = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", splits}};
  const Ordered json = {{"version", "1.0"},
                        {"truncation", nullptr},
                        {"padding", nullptr},
                        {"added_tokens", added},
                        {"normalizer", nullptr},
                        {"pre_tokenizer", byteLevel},
                        {"post_processor", nullptr},
                        {"decoder", byteLevel},
                        {"model",
                         {{"type", "BPE"},
                          {"dropout", nullptr},
                          {"unk_token", nullptr},
                          {"continuing_subword_prefix", nullptr},
                          {"end_of_word_suffix", nullptr},
                          {"fuse_unk", false},
                          {"byte_fallback", false},
                          {"ignore_merges", false},
                          {"vocab", vocabulary},
                          {"merges", merges}}}};
  return json.dump(2) + "\n";
}

} // namespace tcc::models
