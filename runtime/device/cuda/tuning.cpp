#include "runtime/device/cuda/tuning.h"
#include "runtime/files.h"
#include "runtime/json_reader.h"

#include <cstdio>
#include <cstring>
#include <filesystem>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::runtime::cuda {

namespace {

constexpr std::int64_t formatVersion = 1;
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

Expected<std::map<std::string, Algorithm>> readProducts(const std::string &path) {
  std::map<std::string, Algorithm> products;
  std::error_code status;
  if (!std::filesystem::exists(path, status))
    return products;
  auto text = readFile(path);
  if (!text)
    return text.error();
  const std::string what = "tuning file `" + path + "`";
  auto json = parseJson(*text, mostBytes, what);
  if (!json)
    return json.error();
  JsonReader reader(what);
  if (const std::int64_t version = reader.integer(*json, "version"); !reader.error() && version != formatVersion)
    reader.fail("version " + std::to_string(version) + "; this runtime reads version " + std::to_string(formatVersion));
  const Json &list = reader.member(*json, "products");
  if (!reader.error() && !list.is_object())
    reader.fail("`products` is not an object");
  if (Error error = reader.error())
    return error;
  for (const auto &[key, entry] : list.items()) {
    const std::string algorithm = reader.string(entry, "algorithm"), sum = reader.string(entry, "checksum");
    if (Error error = reader.error())
      return error;
    const auto parsed = parseAlgorithm(algorithm);
    if (parsed && sum == checksum(key, algorithm))
      products[key] = *parsed;
  }
  return products;
}

} // namespace

Expected<TuningFile> TuningFile::open(const std::string &path) {
  TuningFile file;
  file.path = path;
  if (path.empty())
    return file;
  auto products = readProducts(path);
  if (!products)
    return products.error();
  file.products = std::move(*products);
  return file;
}

std::optional<Algorithm> TuningFile::find(const std::string &key) const {
  const auto found = products.find(key);
  return found == products.end() ? std::nullopt : std::optional(found->second);
}

void TuningFile::drop(const std::string &key) {
  if (auto found = products.find(key); found != products.end()) {
    dropped.insert(*found);
    products.erase(found);
  }
}

Expected<Algorithm> TuningFile::add(const std::string &key, const Algorithm &algorithm) {
  if (path.empty())
    return products[key] = algorithm;
  auto others = readProducts(path);
  if (!others)
    return others.error();
  for (const auto &[name, choice] : *others)
    if (const auto old = dropped.find(name); old == dropped.end() || old->second != choice)
      products.insert_or_assign(name, choice);
  const Algorithm chosen = products.emplace(key, algorithm).first->second;
  Json list = Json::object();
  for (const auto &[name, choice] : products) {
    const std::string text = hex(choice);
    list[name] = {{"algorithm", text}, {"checksum", checksum(name, text)}};
  }
  if (Error error = writeFileAtomically(path, Json{{"version", formatVersion}, {"products", list}}.dump(1) + "\n"))
    return error;
  return chosen;
}

} // namespace tcc::runtime::cuda
