// Files in and out: a read-only memory map, and a file that appears whole or not at all.
#pragma once
#include "runtime/files.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tcc {

/// A regular file mapped read-only. Opening takes address space, not memory. Throws Error for a missing,
/// unreadable or irregular file (folder, pipe, device). An empty file maps to zero bytes.
class MappedFile {
public:
  explicit MappedFile(const std::string &path);
  MappedFile(MappedFile &&other) noexcept;
  MappedFile &operator=(MappedFile &&other) noexcept;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  const std::string &path() const { return filePath; }
  /// Size in bytes.
  int64_t size() const { return byteCount; }
  const std::byte *data() const { return mapping; }
  std::span<const std::byte> bytes() const { return {mapping, size_t(byteCount)}; }
  /// The same bytes as characters.
  std::string_view text() const { return {reinterpret_cast<const char *>(mapping), size_t(byteCount)}; }

private:
  void release();

  std::string filePath;
  const std::byte *mapping = nullptr;
  int64_t byteCount = 0;
};

using runtime::cacheFolder;

/// Whether something is at `path`; false too where it cannot be asked.
bool fileExists(const std::string &path);

/// The path of the entry `name` of `folder`.
std::string inFolder(const std::string &folder, std::string_view name);

/// runtime::AtomicFile, the file that appears whole or not at all, whose failures throw Error.
class AtomicFile {
public:
  explicit AtomicFile(const std::string &path);

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

private:
  runtime::AtomicFile file;
};

} // namespace tcc
