#include "models/tokenizer_files.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/json_file.h"
#include "models/tokenizer_json.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tcc::models {

namespace {

constexpr const char *tokenizerConfigName = "tokenizer_config.json", *specialTokensName = "special_tokens_map.json";
constexpr const char *fileNames[] = {"tokenizer.json",      tokenizerConfigName, specialTokensName, "added_tokens.json",
                                     "chat_template.jinja", "vocab.json",        "merges.txt",      "tokenizer.model"};
constexpr int64_t sideFileLimit = int64_t(256) << 20;

using SideJson = nlohmann::ordered_json;

const std::string *contentOf(const TokenizerFiles &tokenizer, std::string_view name) {
  const auto found = std::ranges::find(tokenizer.files, name, &TokenizerFiles::File::name);
  return found == tokenizer.files.end() ? nullptr : &found->content;
}

/// What AutoTokenizer needs beside tokenizer.json.
std::string usualConfig(const Tokenizer *tokenizer, const TokenizerFiles &made, int64_t positions) {
  SideJson json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                   {"model_max_length", positions},
                   {"clean_up_tokenization_spaces", false}};
  for (const auto &[key, id] : {std::pair("bos_token", made.ends.begin), std::pair("eos_token", made.ends.end)})
    if (id)
      json[key] = tokenizer->decode({&*id, 1});
  return json.dump(2) + "\n";
}

/// A file beside a tokenizer, an object; nothing where it is not there.
std::optional<runtime::Json> sideFile(const std::string &folder, const char *name) {
  const std::string path = inFolder(folder, name);
  if (!fileExists(path))
    return std::nullopt;
  auto json =
      parseJsonFile<runtime::Json>(MappedFile(path), {.bytes = sideFileLimit, .kind = "a tokenizer's settings"});
  if (!json.is_object())
    throw Error(fmt::format("{}: no JSON object", path));
  return json;
}

} // namespace

std::string namedToken(const runtime::Json &json, const char *key) {
  const runtime::Json value = json.value(key, runtime::Json());
  if (value.is_string())
    return value;
  return value.is_object() && value.value("content", runtime::Json()).is_string() ? value["content"] : "";
}

runtime::Json tokenizerSettings(const std::string &folder) {
  return sideFile(folder, tokenizerConfigName).value_or(runtime::Json::object());
}

TextEnds textEnds(const Tokenizer &tokenizer, const std::string &folder) {
  std::string begin, end;
  bool said = false;
  for (const char *name : {tokenizerConfigName, specialTokensName})
    if (const auto json = said ? std::nullopt : sideFile(folder, name)) {
      begin = namedToken(*json, "bos_token");
      end = namedToken(*json, "eos_token");
      said = json->contains("bos_token") || json->contains("eos_token");
    }
  const auto first = [&](std::initializer_list<const char *> names) -> std::string {
    const auto found =
        std::ranges::find_if(names, [&](const char *name) { return tokenizer.addedId(name).has_value(); });
    return found == names.end() ? "" : *found;
  };
  if (!said) {
    begin = first({"<|begin_of_text|>", "<s>", "<|endoftext|>"});
    end = first({"<|end_of_text|>", "</s>", "<|endoftext|>"});
  }
  const auto idOf = [&](const std::string &token) -> std::optional<int32_t> {
    const std::vector<int32_t> ids = tokenizer.encode(token);
    return ids.size() == 1 ? std::optional(ids[0]) : std::nullopt;
  };
  return {idOf(begin), idOf(end)};
}

TokenizerFiles tokenizerFilesOf(const std::string &folder, int64_t positions) {
  TokenizerFiles made;
  for (const char *name : fileNames)
    if (const std::string path = inFolder(folder, name); fileExists(path)) {
      const MappedFile file(path);
      if (file.size() > sideFileLimit)
        throw Error(fmt::format("{}: {} bytes, at most {} are expected", path, file.size(), sideFileLimit));
      made.files.push_back({name, std::string(file.text())});
    }
  if (!Tokenizer::isIn(folder))
    return made;
  std::optional<Tokenizer> tokenizer;
  try {
    tokenizer.emplace(folder);
  } catch (const Error &) {
    return made; // a kind that others read
  }
  made.ends = textEnds(*tokenizer, folder);
  if (!contentOf(made, "tokenizer.json"))
    made.files.push_back({"tokenizer.json", Tokenizer::jsonOfVocabulary(folder)});
  if (!contentOf(made, tokenizerConfigName))
    made.files.push_back({tokenizerConfigName, usualConfig(&*tokenizer, made, positions)});
  return made;
}

TokenizerFiles byteTokenizerFiles(int64_t positions) {
  TokenizerFiles made;
  made.replaces = true;
  const std::array<std::string, 256> &bytes = byteCharacters();
  made.files.push_back({"tokenizer.json", tokenizerJson({bytes.begin(), bytes.end()}, {}, {}, /*splits=*/false)});
  made.files.push_back({tokenizerConfigName, usualConfig(nullptr, made, positions)});
  return made;
}

void writeTokenizerFiles(const std::string &folder, const TokenizerFiles &tokenizer) {
  if (tokenizer.files.empty())
    return;
  for (const auto &[name, content] : tokenizer.files) {
    AtomicFile file(inFolder(folder, name));
    file.write(content);
    file.commit();
  }
  for (const char *name : fileNames)
    if (std::error_code ignored; !contentOf(tokenizer, name))
      std::filesystem::remove(inFolder(folder, name), ignored);
}

std::optional<Tokenizer> folderTokenizer(const std::string &folder) {
  std::optional<Tokenizer> tokenizer;
  if (Tokenizer::isIn(folder))
    tokenizer.emplace(folder);
  if (tokenizer && tokenizer->isOfBytes())
    tokenizer.reset();
  return tokenizer;
}

std::vector<std::string> tokenizerFilePaths(const std::string &folder) {
  std::vector<std::string> paths;
  for (const char *name : fileNames)
    paths.push_back(inFolder(folder, name));
  return paths;
}

} // namespace tcc::models
