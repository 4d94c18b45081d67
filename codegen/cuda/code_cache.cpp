// An entry: magic, a hash of the key, the code, a hash of all before it. The file's name is another hash of the key.
#include "codegen/cuda/code_cache.h"
#include "runtime/files.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tcc::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view magic = "tcckern1";
constexpr std::string_view extension = ".kernels";
constexpr size_t hashBytes = 16;

std::string hash(std::string_view bytes, uint64_t seed = 0) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
  return {reinterpret_cast<const char *>(canonical.digest), hashBytes};
}

/// That nobody else can put code there.
runtime::Error checkOwner(const std::string &folder) {
  struct stat status = {};
  if (::lstat(folder.c_str(), &status) != 0)
    return runtime::Error("`" + folder + "`: " + std::strerror(errno));
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)))
    return runtime::Error("`" + folder + "` is no folder that its user alone can write to; no code is taken from it");
  return runtime::Error::success();
}

} // namespace

CodeCache CodeCache::ofUser() {
  const char *variable = std::getenv("TCC_CACHE_DIR");
  const std::string given = variable ? variable : "";
  if (given.empty())
    return CodeCache(runtime::cacheFolder("kernels"));
  return CodeCache(given.starts_with('/') ? given + "/kernels" : ""); // a word such as `off` is no folder
}

std::string CodeCache::fileOf(std::string_view key) const {
  std::string name = folder + "/";
  for (unsigned char byte : hash(key)) {
    constexpr char digits[] = "0123456789abcdef";
    name += {digits[byte >> 4], digits[byte & 15]};
  }
  return name.append(extension);
}

std::optional<std::string> CodeCache::find(std::string_view key) const {
  if (folder.empty() || checkOwner(folder))
    return std::nullopt;
  std::string file = fileOf(key);
  auto bytes = runtime::readFile(file);
  if (!bytes)
    return std::nullopt;
  constexpr size_t before = magic.size() + hashBytes;
  const std::string head = std::string(magic) + hash(key, 1);
  const size_t end = bytes->size() - hashBytes;
  if (bytes->size() < before + hashBytes || !bytes->starts_with(head) ||
      hash(std::string_view(*bytes).substr(0, end)) != std::string_view(*bytes).substr(end)) {
    ::unlink(file.c_str()); // it will be made again
    return std::nullopt;
  }
  ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0); // used now
  return bytes->substr(before, end - before);
}

runtime::Error CodeCache::store(std::string_view key, std::string_view code) const {
  if (folder.empty())
    return runtime::Error::success();
  std::error_code problem;
  if (!fs::exists(folder, problem)) {
    fs::create_directories(fs::path(folder).parent_path(), problem);
    ::mkdir(folder.c_str(), 0700); // another process may have made it
  }
  if (runtime::Error error = checkOwner(folder))
    return error;
  std::string entry = std::string(magic) + hash(key, 1) + std::string(code);
  entry += hash(entry);
  if (runtime::Error error = runtime::writeFileAtomically(fileOf(key), entry))
    return error;
  dropOldest();
  return runtime::Error::success();
}

void CodeCache::dropOldest() const {
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code problem; // another process may be dropping as well
  for (const fs::directory_entry &file : fs::directory_iterator(folder, problem)) {
    if (file.path().extension() != extension)
      continue;
    std::error_code gone;
    Entry entry{file.last_write_time(gone), static_cast<int64_t>(file.file_size(gone)), file.path()};
    if (gone)
      continue;
    total += entry.bytes;
    entries.push_back(std::move(entry));
  }
  if (total <= mostBytes)
    return;
  std::sort(entries.begin(), entries.end(), [](const Entry &a, const Entry &b) { return a.used < b.used; });
  for (const Entry &entry : entries) {
    if (total <= mostBytes / 4 * 3) // room for some, so that not each store drops
      return;
    fs::remove(entry.path, problem);
    total -= entry.bytes;
  }
}

} // namespace tcc::cuda
