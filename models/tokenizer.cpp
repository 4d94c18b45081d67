#include "models/tokenizer.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checksum.h"
#include "models/json_file.h"
#include "models/tokenizer_json.h"
#include "models/unicode.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

using TokenizerJson = nlohmann::json;

constexpr int64_t fileLimit = int64_t(256) << 20, idLimit = int64_t(1) << 24;
constexpr const char *tokenizerName = "tokenizer.json", *vocabularyName = "vocab.json", *mergesName = "merges.txt";
constexpr const char *separatorName = "<|endoftext|>"; ///< of vocab.json

std::string_view textOf(const MappedFile &file) {
  if (file.size() > fileLimit)
    throw Error(fmt::format("{}: {} bytes, at most {} are expected", file.path(), file.size(), fileLimit));
  return file.text();
}

TokenizerJson parsed(const MappedFile &file) {
  TokenizerJson json = parseJsonFile<TokenizerJson>(file, {.bytes = fileLimit});
  if (!json.is_object())
    throw Error(fmt::format("{}: not a JSON object", file.path()));
  return json;
}

using Vocabulary = std::map<int64_t, std::string>;

Vocabulary readIds(const TokenizerJson &json, const std::string &path) {
  if (!json.is_object())
    throw Error(fmt::format("{}: the vocabulary is not an object of tokens and ids", path));
  Vocabulary tokens;
  for (const auto &[token, id] : json.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t(idLimit))
      throw Error(fmt::format("{}: token {} has the id {}, a whole number up to {} is expected", path, inQuotes(token),
                              inQuotes(id.dump()), idLimit));
    if (const auto [at, isNew] = tokens.emplace(id.get<int64_t>(), token); !isNew)
      throw Error(fmt::format("{}: id {} is that of {} and of {}", path, id.get<int64_t>(), inQuotes(at->second),
                              inQuotes(token)));
  }
  return tokens;
}

/// In the order of ids. Ids that added tokens have may be absent from the vocabulary; any other one must be there.
std::vector<std::string> tokenList(const Vocabulary &vocabulary, const std::string &path) {
  std::vector<std::string> tokens;
  for (const auto &[id, token] : vocabulary) {
    if (id != int64_t(tokens.size()))
      throw Error(fmt::format("{}: the vocabulary has no token of id {}, but one of id {}", path, tokens.size(), id));
    tokens.push_back(token);
  }
  return tokens;
}

std::string kindOf(const TokenizerJson &json) {
  return json.is_object() && json.contains("type") && json["type"].is_string() ? json["type"].get<std::string>() : "";
}

} // namespace

/// What of a tokenizer.json this tokenizer has; anything else is refused by its name.
struct Tokenizer::Reader {
  Tokenizer &tokenizer;
  const std::string &path;

  [[noreturn]] void refuse(const std::string &what, const std::string &rule) const {
    throw Error(fmt::format("{}: {}: {}", path, what, rule));
  }

  void normalizer(const TokenizerJson &json) const {
    const std::string kind = kindOf(json);
    if (json.is_null())
      return;
    if (kind == "Sequence" && json.contains("normalizers") && json["normalizers"].is_array()) {
      for (const TokenizerJson &part : json["normalizers"])
        normalizer(part);
      return;
    }
    if (kind != "NFC" && kind != "NFD" && kind != "NFKC" && kind != "NFKD")
      refuse(fmt::format("normalizer {}", inQuotes(kind)), "only NFC, NFD, NFKC and NFKD are supported");
    tokenizer.normalizers.push_back(kind);
  }

  void splitter(const TokenizerJson &json) const {
    const std::string kind = kindOf(json);
    if (kind == "Sequence" && json.contains("pretokenizers") && json["pretokenizers"].is_array()) {
      for (const TokenizerJson &part : json["pretokenizers"])
        splitter(part);
      return;
    }
    if (kind == "ByteLevel") {
      tokenizer.prefixSpace |= json.value("add_prefix_space", true);
      if (json.value("use_regex", true))
        tokenizer.patterns.emplace_back(gpt2Pattern, path);
      return;
    }
    if (kind != "Split")
      refuse(fmt::format("splitter {}", inQuotes(kind)), "only Split and ByteLevel are supported");
    const TokenizerJson pattern = json.value("pattern", TokenizerJson());
    if (!pattern.is_object() || !pattern.contains("Regex") || !pattern["Regex"].is_string())
      refuse("Split", "only a pattern of kind Regex is supported");
    if (json.value("behavior", "") != "Isolated" || json.value("invert", false))
      refuse(fmt::format("Split with behavior {}", inQuotes(json.value("behavior", ""))),
             "only Isolated without invert is supported");
    tokenizer.patterns.emplace_back(pattern["Regex"].get<std::string>(), path);
  }

  std::vector<std::pair<std::string, std::string>> merges(const TokenizerJson &json) const {
    std::vector<std::pair<std::string, std::string>> list;
    if (!json.is_array())
      refuse("`merges`", "a list is expected");
    for (const TokenizerJson &merge : json) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        list.emplace_back(merge[0], merge[1]);
      } else if (merge.is_string()) {
        const std::string text = merge;
        const size_t space = text.find(' ');
        if (space == std::string::npos)
          refuse(fmt::format("merge {}", list.size() + 1), "two tokens with a space between them are expected");
        list.emplace_back(text.substr(0, space), text.substr(space + 1));
      } else {
        refuse(fmt::format("merge {}", list.size() + 1), "two tokens are expected");
      }
    }
    return list;
  }

  void addedTokens(const TokenizerJson &json) const {
    if (json.is_null())
      return;
    if (!json.is_array())
      refuse("`added_tokens`", "a list is expected");
    for (const TokenizerJson &token : json) {
      if (!token.is_object() || !token.contains("content") || !token["content"].is_string() || !token.contains("id") ||
          !token["id"].is_number_unsigned() || token["id"].get<uint64_t>() > uint64_t(idLimit))
        refuse("`added_tokens`", "a content and an id are expected of each");
      const std::string content = token["content"];
      for (const char *flag : {"lstrip", "rstrip", "single_word"})
        if (token.value(flag, false))
          refuse(fmt::format("added token {}", inQuotes(content)), fmt::format("`{}` is not supported", flag));
      if (!content.empty())
        tokenizer.added.push_back({content, token["id"].get<int32_t>(), token.value("normalized", false)});
    }
  }
};

Tokenizer::Tokenizer(const std::string &folder) {
  std::error_code ignored;
  if (std::filesystem::exists(inFolder(folder, tokenizerName), ignored))
    readTokenizerJson(inFolder(folder, tokenizerName));
  else
    readVocabulary(folder);
  size = pairs->size();
  for (const Added &token : added)
    size = std::max<int64_t>(size, token.id + 1);
  std::stable_sort(added.begin(), added.end(),
                   [](const Added &a, const Added &b) { return a.content.size() > b.content.size(); });
}

bool Tokenizer::isIn(const std::string &folder) {
  std::error_code ignored;
  return std::filesystem::exists(inFolder(folder, tokenizerName), ignored) ||
         (std::filesystem::exists(inFolder(folder, vocabularyName), ignored) &&
          std::filesystem::exists(inFolder(folder, mergesName), ignored));
}

void Tokenizer::readTokenizerJson(const std::string &path) {
  const MappedFile file(path);
  const TokenizerJson json = parsed(file);
  const Reader reader{*this, path};
  try {
    const TokenizerJson model = json.value("model", TokenizerJson());
    if (const std::string kind = kindOf(model); kind != "BPE")
      reader.refuse(fmt::format("a tokenizer of kind {}", inQuotes(kind)), "only BPE is supported");
    if (model.value("byte_fallback", false))
      reader.refuse("a tokenizer with byte fallback (as Llama 2's)", "only byte-level ones are supported");
    for (const char *key : {"unk_token", "continuing_subword_prefix", "end_of_word_suffix", "dropout"})
      if (const TokenizerJson value = model.value(key, TokenizerJson()); !value.is_null() && value != "" && value != 0)
        reader.refuse(fmt::format("`{}` is {}", key, inQuotes(value.dump())), "only null is supported");
    reader.normalizer(json.value("normalizer", TokenizerJson()));
    reader.splitter(json.value("pre_tokenizer", TokenizerJson()));
    reader.addedTokens(json.value("added_tokens", TokenizerJson()));
    Vocabulary vocabulary = readIds(model.value("vocab", TokenizerJson()), path);
    for (const Added &token : added) // an added token's id is no hole
      vocabulary.emplace(token.id, token.content);
    pairs =
        std::make_unique<BytePairs>(tokenList(vocabulary, path), reader.merges(model.value("merges", TokenizerJson())),
                                    model.value("ignore_merges", false), path);
  } catch (const TokenizerJson::exception &) {
    throw Error(fmt::format("{}: a value is of another kind than a tokenizer.json has there", path));
  }
  checksum = checksumOf(file.bytes());
}

namespace {

/// The tokens of merges.txt in pairs.
std::vector<std::pair<std::string, std::string>> readMerges(const MappedFile &merges) {
  std::vector<std::pair<std::string, std::string>> list;
  std::string_view rest = textOf(merges);
  for (int64_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version"))
      continue;
    const size_t space = line.find(' ');
    if (space == 0 || space == std::string_view::npos || space + 1 == line.size())
      throw Error(fmt::format("{}: line {}: {}, two tokens with a space between them are expected", merges.path(),
                              number, inQuotes(line)));
    list.emplace_back(line.substr(0, space), line.substr(space + 1));
  }
  return list;
}

/// The tokens of vocab.json.
std::vector<std::string> readTokens(const MappedFile &vocabulary) {
  return tokenList(readIds(parsed(vocabulary), vocabulary.path()), vocabulary.path());
}

} // namespace

std::string Tokenizer::jsonOfVocabulary(const std::string &folder) {
  const MappedFile vocabulary(inFolder(folder, vocabularyName)), merges(inFolder(folder, mergesName));
  std::vector<std::array<std::string, 2>> list;
  for (const auto &[left, right] : readMerges(merges))
    list.push_back({left, right});
  return tokenizerJson(readTokens(vocabulary), list, {separatorName});
}

void Tokenizer::readVocabulary(const std::string &folder) {
  const MappedFile vocabulary(inFolder(folder, vocabularyName)), merges(inFolder(folder, mergesName));
  const std::vector<std::pair<std::string, std::string>> list = readMerges(merges);
  const std::vector<std::string> tokens = readTokens(vocabulary);
  if (const auto end = std::find(tokens.begin(), tokens.end(), separatorName); end != tokens.end())
    added.push_back({*end, int32_t(end - tokens.begin()), false});
  pairs = std::make_unique<BytePairs>(tokens, list, false, merges.path());
  patterns.emplace_back(gpt2Pattern, vocabulary.path());
  Checksum sum;
  sum.add(vocabulary.bytes());
  sum.add(merges.bytes());
  checksum = sum.text();
}

template <typename Plain, typename Token>
void Tokenizer::splitAtAdded(std::string_view text, bool normalized, Plain plain, Token token) const {
  std::array<bool, 256> begins{};
  for (const Added &entry : added)
    begins[uint8_t(entry.content[0])] |= entry.normalized == normalized;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const auto starts = [&](const Added &entry) {
      return entry.normalized == normalized && text.substr(at).starts_with(entry.content);
    };
    const auto found = begins[uint8_t(text[at])] ? std::find_if(added.begin(), added.end(), starts) : added.end();
    if (found == added.end()) {
      ++at;
      continue;
    }
    if (at > done)
      plain(text.substr(done, at - done));
    token(found->id);
    done = at += found->content.size();
  }
  if (done < text.size())
    plain(text.substr(done));
}

/// One part without added tokens, normalised: split by each pattern in turn, then merged piece by piece.
void Tokenizer::encodePlain(std::string_view text, std::vector<int32_t> &ids) const {
  std::string prefixed;
  if (prefixSpace && !text.starts_with(' ')) {
    prefixed = " " + std::string(text);
    text = prefixed;
  }
  std::vector<std::string_view> pieces = {text};
  for (const TextPattern &pattern : patterns) {
    std::vector<std::string_view> finer;
    for (const std::string_view piece : pieces) {
      const std::vector<std::string_view> parts = pattern.pieces(piece);
      finer.insert(finer.end(), parts.begin(), parts.end());
    }
    pieces = std::move(finer);
  }
  for (const std::string_view piece : pieces)
    pairs->encode(piece, ids);
}

std::vector<int32_t> Tokenizer::encode(std::string_view bytes) const {
  std::vector<int32_t> ids;
  const std::string text = validUtf8(bytes);
  const auto token = [&](int32_t id) { ids.push_back(id); };
  splitAtAdded(
      text, false,
      [&](std::string_view part) {
        std::string normal(part);
        for (const std::string &form : normalizers)
          normal = normalizedUtf8(normal, form);
        splitAtAdded(normal, true, [&](std::string_view plain) { encodePlain(plain, ids); }, token);
      },
      token);
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const auto special = std::find_if(added.begin(), added.end(), [&](const Added &token) { return token.id == id; });
    if (special != added.end())
      bytes += special->content;
    else if (id >= 0 && id < pairs->size())
      bytes += pairs->bytes(id);
  }
  return bytes;
}

std::optional<int32_t> Tokenizer::addedId(std::string_view content) const {
  const auto found = std::ranges::find(added, content, &Added::content);
  return found == added.end() ? std::nullopt : std::optional(found->id);
}

std::optional<int32_t> Tokenizer::startOfText() const {
  for (const char *name : {"<|endoftext|>", "<|begin_of_text|>", "<s>", "<|end_of_text|>"})
    if (const std::optional<int32_t> id = addedId(name))
      return id;
  return std::nullopt;
}

bool Tokenizer::isOfBytes() const {
  if (size != 256 || pairs->size() != 256 || !added.empty() || !normalizers.empty() || prefixSpace)
    return false;
  for (int32_t id = 0; id < 256; ++id)
    if (pairs->bytes(id) != std::string(1, char(id)))
      return false;
  return true;
}

} // namespace tcc::models
