// MemoryFile: a file in memory that has no name, for libraries that read files. A process that is killed leaves nothing
// behind.
#pragma once
#include "runtime/error.h"
#include "llvm/ADT/StringRef.h"
#include <cerrno>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tcc {

class MemoryFile {
public:
  MemoryFile() = default;
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() {
    if (descriptor >= 0)
      ::close(descriptor);
  }

  /// Makes the file; may be called once. Errors are those of the system.
  runtime::Error create(llvm::StringRef bytes) {
    descriptor = ::memfd_create("tcc", MFD_CLOEXEC);
    if (descriptor < 0)
      return failed("make");
    while (!bytes.empty()) {
      const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR)
        continue;
      if (written <= 0)
        return failed("write");
      bytes = bytes.drop_front(static_cast<size_t>(written));
    }
    return {};
  }
  /// A path that is valid in this process alone.
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }

private:
  int descriptor = -1;

  static runtime::Error failed(const char *what) {
    return runtime::Error(std::string("cannot ") + what + " a file in memory: " + std::strerror(errno));
  }
};

} // namespace tcc
