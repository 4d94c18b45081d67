#include "runtime/tuning_file.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime {

namespace {

constexpr std::int64_t tuningVersion = 1;
constexpr std::int64_t mostBytes = std::int64_t{1} << 24;

std::string hex(std::uint64_t word) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(word));
  return text;
}

std::string hex(const Algorithm &algorithm) {
  std::string text;
  for (std::uint64_t word : algorithm)
    text += hex(word);
  return text;
}

std::optional<Algorithm> parseAlgorithm(const std::string &text) {
  if (text.size() != 16 * Algorithm().size())
    return std::nullopt;
  Algorithm algorithm{};
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char *digits = "0123456789abcdef";
    const char *digit = std::strchr(digits, text[i]);
    if (!digit || !*digit)
      return std::nullopt;
    algorithm[i / 16] = algorithm[i / 16] << 4 | static_cast<std::uint64_t>(digit - digits);
  }
  return algorithm;
}

std::string checksum(const std::string &key, const std::string &algorithm) {
  const std::string both = key + "\n" + algorithm;
  return hex(XXH3_64bits(both.data(), both.size()));
}

} // namespace

Expected<TuningFile::Content> TuningFile::read(const std::string &path) {
  Content content;
  std::error_code status;
  if (!std::filesystem::exists(path, status))
    return content;
  auto text = readFile(path);
  if (!text)
    return text.error();
  const std::string what = "tuning file `" + path + "`";
  auto json = parseJson(*text, mostBytes, what);
  if (!json)
    return json.error();
  JsonReader reader(what);
  if (const std::int64_t version = reader.integer(*json, "version"); !reader.error() && version != tuningVersion)
    reader.fail("version " + std::to_string(version) + "; this runtime reads version " + std::to_string(tuningVersion));
  const auto readEntries = [&](const char *name, const char *member, auto take) {
    const Json &list = reader.member(*json, name);
    if (!reader.error() && !list.is_object())
      reader.fail(std::string("`") + name + "` is not an object");
    if (reader.error())
      return;
    for (const auto &[key, entry] : list.items()) {
      const std::string value = reader.string(entry, member), sum = reader.string(entry, "checksum");
      if (reader.error())
        return;
      if (sum != checksum(key, value) || !take(key, value))
        content.damaged = key;
    }
  };
  readEntries("products", "algorithm", [&](const std::string &key, const std::string &value) {
    const auto parsed = parseAlgorithm(value);
    if (parsed)
      content.products[key] = *parsed;
    return parsed.has_value();
  });
  if (json->is_object() && json->contains("choices"))
    readEntries("choices", "choice", [&](const std::string &key, const std::string &value) {
      content.choices[key] = value;
      return true;
    });
  if (Error error = reader.error())
    return error;
  return content;
}

Expected<TuningFile> TuningFile::open(const std::string &path) {
  TuningFile file;
  file.path = path;
  if (path.empty())
    return file;
  auto content = read(path);
  if (!content)
    return content.error();
  file.content = std::move(*content);
  return file;
}

Error TuningFile::check(const std::string &path) {
  auto file = open(path);
  if (!file)
    return file.error();
  if (!file->content.damaged.empty())
    return Error("tuning file `" + path + "` is damaged: the checksum of its entry `" + file->content.damaged +
                 "` does not fit; without the entry it is measured anew");
  std::error_code status;
  return std::filesystem::exists(path, status) ? Error::success() : file->write();
}

std::optional<Algorithm> TuningFile::find(const std::string &key) const {
  const auto found = content.products.find(key);
  return found == content.products.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::string> TuningFile::choice(const std::string &key) const {
  const auto found = content.choices.find(key);
  return found == content.choices.end() ? std::nullopt : std::optional(found->second);
}

void TuningFile::drop(const std::string &key) {
  if (auto found = content.products.find(key); found != content.products.end()) {
    dropped.insert(*found);
    content.products.erase(found);
  }
}

/// What other processes have added since the file was read.
Error TuningFile::takeOthers() {
  auto others = read(path);
  if (!others)
    return others.error();
  for (const auto &[name, choice] : others->products)
    if (const auto old = dropped.find(name); old == dropped.end() || old->second != choice)
      content.products.insert_or_assign(name, choice);
  for (const auto &[name, choice] : others->choices)
    content.choices.insert_or_assign(name, choice);
  return {};
}

Error TuningFile::write() const {
  Json products = Json::object(), choices = Json::object();
  for (const auto &[name, choice] : content.products) {
    const std::string text = hex(choice);
    products[name] = {{"algorithm", text}, {"checksum", checksum(name, text)}};
  }
  for (const auto &[name, choice] : content.choices)
    choices[name] = {{"choice", choice}, {"checksum", checksum(name, choice)}};
  const Json all{{"version", tuningVersion}, {"products", products}, {"choices", choices}};
  return writeFileAtomically(path, all.dump(1) + "\n");
}

Expected<Algorithm> TuningFile::add(const std::string &key, const Algorithm &algorithm) {
  if (path.empty())
    return content.products[key] = algorithm;
  if (Error error = takeOthers())
    return error;
  const Algorithm chosen = content.products.emplace(key, algorithm).first->second;
  if (Error error = write())
    return error;
  return chosen;
}

Expected<std::string> TuningFile::addChoice(const std::string &key, const std::string &choice) {
  std::map<std::string, std::string> one{{key, choice}};
  if (Error error = addChoices(one))
    return error;
  return one[key];
}

Error TuningFile::addChoices(std::map<std::string, std::string> &choices) {
  if (!path.empty())
    if (Error error = takeOthers())
      return error;
  for (auto &[key, choice] : choices)
    choice = content.choices.emplace(key, choice).first->second;
  return path.empty() ? Error::success() : write();
}

} // namespace tcc::runtime
