#include "frontend/files.h"
#include "frontend/quotes.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tcc {

namespace {

[[noreturn]] void fail(const std::string &path, const char *action, int error) {
  throw Error(fmt::format("{}: cannot {}: {}", path, action, std::strerror(error)));
}

/// Closes a descriptor at the end of its scope.
struct Closer {
  int descriptor;
  ~Closer() { ::close(descriptor); }
};

} // namespace

bool fileExists(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string inFolder(const std::string &folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

MappedFile::MappedFile(const std::string &path) : filePath(path) {
  // Non-blocking, so that opening a pipe without a writer is an error message and not a wait.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    fail(path, "open", errno);
  Closer closer{descriptor};
  struct stat status;
  if (::fstat(descriptor, &status) != 0)
    fail(path, "read its size", errno);
  if (S_ISDIR(status.st_mode))
    throw Error(fmt::format("{}: is a folder, a file is expected", path));
  if (!S_ISREG(status.st_mode))
    throw Error(fmt::format("{}: is a pipe or a device, a regular file is expected", path));
  byteCount = int64_t(status.st_size);
  if (byteCount == 0)
    return;
  void *address = ::mmap(nullptr, size_t(byteCount), PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (address == MAP_FAILED)
    fail(path, "map", errno);
  mapping = static_cast<const std::byte *>(address);
}

MappedFile::MappedFile(MappedFile &&other) noexcept
    : filePath(std::move(other.filePath)), mapping(std::exchange(other.mapping, nullptr)),
      byteCount(std::exchange(other.byteCount, 0)) {}

MappedFile &MappedFile::operator=(MappedFile &&other) noexcept {
  if (this != &other) {
    release();
    filePath = std::move(other.filePath);
    mapping = std::exchange(other.mapping, nullptr);
    byteCount = std::exchange(other.byteCount, 0);
  }
  return *this;
}

MappedFile::~MappedFile() {
  release();
}

void MappedFile::release() {
  if (mapping)
    ::munmap(const_cast<std::byte *>(mapping), size_t(byteCount));
}

namespace {

void throwOn(const runtime::Error &error) {
  if (error)
    throw Error(error.message());
}

runtime::AtomicFile created(const std::string &path) {
  auto file = runtime::AtomicFile::create(path);
  throwOn(file.error());
  return std::move(*file);
}

} // namespace

AtomicFile::AtomicFile(const std::string &path) : file(created(path)) {}

void AtomicFile::write(std::span<const std::byte> bytes) {
  throwOn(file.write({reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
}

void AtomicFile::write(std::string_view text) {
  throwOn(file.write(text));
}

void AtomicFile::commit() {
  throwOn(file.commit());
}

} // namespace tcc
