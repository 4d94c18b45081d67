// Files in and out: a read-only memory map, and a file that appears whole or not at all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tcc::models {

/// A regular file mapped read-only. Opening takes address space, not memory. Throws InputError for a missing,
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

private:
  void release();

  std::string filePath;
  const std::byte *mapping = nullptr;
  int64_t byteCount = 0;
};

/// Writes `path` under a temporary name beside it; commit() makes it durable and gives it its name (fsync, rename,
/// fsync of the folder). Without commit the temporary file is removed and an older `path` stays as it was. Each
/// failure throws InputError with the path and the system's reason.
class AtomicFile {
public:
  explicit AtomicFile(const std::string &path);
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

private:
  std::string filePath;
  std::string temporaryPath;
  int descriptor = -1;
};

} // namespace tcc::models
