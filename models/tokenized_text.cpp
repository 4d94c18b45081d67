#include "models/tokenized_text.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/checksum.h"
#include "models/token_header.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <limits>

namespace tcc::models {

namespace {

constexpr int32_t shardMagic = 20240801, shardVersion = 7;

} // namespace

bool areKept(const std::string &kept, const std::string &source, const std::function<void(std::string_view)> &report) {
  if (fileExists(kept)) {
    try {
      if (hasItsChecksum(MappedFile(kept))) {
        report(fmt::format("tokens of {} are those of an earlier run: {}", source, kept));
        return true;
      }
      report(fmt::format("{}: damaged, or of another version of tcc; it is made anew", kept));
    } catch (const Error &error) {
      report(fmt::format("{}; it is made anew", error.what()));
    }
  }
  report(fmt::format("tokenising {} …", source));
  return false;
}

bool isTokenFile(const std::string &path) {
  const MappedFile file(path);
  int32_t magic = 0;
  if (file.size() >= 4)
    std::memcpy(&magic, file.data(), 4);
  return path.ends_with(".bin") || magic == shardMagic || magic == 20240520;
}

void writeTokenShard(const std::string &path, std::span<const int32_t> ids) {
  if (ids.size() > size_t(std::numeric_limits<int32_t>::max()))
    throw Error(fmt::format("{}: {} tokens, a shard has at most 2^31 - 1", path, ids.size()));
  TokenHeader header;
  const int32_t first[] = {shardMagic, shardVersion, int32_t(ids.size())};
  std::memcpy(header.bytes.data(), first, sizeof first);
  const std::span<const std::byte> parts[] = {std::as_bytes(ids)};
  header.writeFile(path, parts);
}

std::string keptTokensPath(const std::string &checksum, std::string_view ending, std::string cache) {
  if (cache.empty())
    cache = cacheFolder("tokens");
  if (cache.empty())
    cache = (std::filesystem::temp_directory_path() / "tcc-tokens").string();
  if (const runtime::Error error = runtime::makePrivateFolder(cache))
    throw Error(error.message());
  return (std::filesystem::path(cache) / (checksum + std::string(ending))).string();
}

std::string tokenizedFile(const std::string &path, const Tokenizer &tokenizer,
                          const std::function<void(std::string_view)> &report, std::string cache) {
  const MappedFile text(path);
  if (text.size() == 0)
    throw Error(fmt::format("{}: the file is empty, at least one batch of tokens is needed", path));
  Checksum sum;
  sum.add(text.bytes());
  sum.add(std::as_bytes(std::span(tokenizer.fingerprint())));
  const std::string kept = keptTokensPath(sum.text(), ".tokens", std::move(cache));
  if (areKept(kept, path, report))
    return kept;
  const std::vector<int32_t> ids = tokenizer.encode(text.text());
  writeTokenShard(kept, ids);
  report(fmt::format("{} bytes are {} tokens: {}", text.size(), ids.size(), kept));
  return kept;
}

} // namespace tcc::models
