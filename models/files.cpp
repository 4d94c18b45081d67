#include "models/files.h"
#include "models/input_error.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tcc::models {

namespace {

[[noreturn]] void fail(const std::string &path, const char *action, int error) {
  throw InputError(fmt::format("{}: cannot {}: {}", path, action, std::strerror(error)));
}

/// Closes a descriptor at the end of its scope.
struct Closer {
  int descriptor;
  ~Closer() { ::close(descriptor); }
};

} // namespace

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
    throw InputError(fmt::format("{}: is a folder, a file is expected", path));
  if (!S_ISREG(status.st_mode))
    throw InputError(fmt::format("{}: is a pipe or a device, a regular file is expected", path));
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

AtomicFile::AtomicFile(const std::string &path) : filePath(path) {
  struct stat status;
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) {
    descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC); // a pipe or a device stays what it is
    if (descriptor < 0)
      fail(path, "open", errno);
    return;
  }
  std::error_code noFile;
  if (const std::filesystem::path target = std::filesystem::canonical(path, noFile); !noFile)
    filePath = target.string(); // behind links
  temporaryPath = filePath + ".tmpXXXXXX";
  descriptor = ::mkostemp(temporaryPath.data(), O_CLOEXEC);
  if (descriptor < 0)
    fail(path, "create", errno);
  // mkostemp makes the file private; an output file has the usual permissions.
  mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(descriptor, 0666 & ~mask);
}

AtomicFile::~AtomicFile() {
  if (descriptor < 0)
    return;
  ::close(descriptor);
  if (!temporaryPath.empty())
    ::unlink(temporaryPath.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      fail(filePath, "write", errno);
    bytes = bytes.subspan(size_t(written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  if (temporaryPath.empty()) {
    if (::close(std::exchange(descriptor, -1)) != 0)
      fail(filePath, "write", errno);
    return;
  }
  if (::fsync(descriptor) != 0)
    fail(filePath, "write", errno);
  if (::rename(temporaryPath.c_str(), filePath.c_str()) != 0)
    fail(filePath, "rename into place", errno);
  ::close(std::exchange(descriptor, -1));
  std::filesystem::path folder = std::filesystem::path(filePath).parent_path();
  int handle = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    return; // The file is in place; some file systems do not open folders.
  Closer closer{handle};
  ::fsync(handle);
}

} // namespace tcc::models
