#include "models/log_file.h"
#include "frontend/error.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace tcc::models {

std::FILE *openLocked(const std::string &path, const char *mode, const std::string &failure) {
  const bool isNew = *mode == 'w' && !std::strchr(mode, 'x');
  std::FILE *file = std::fopen(path.c_str(), isNew ? "ae" : mode); // an older file is emptied when it is locked
  struct stat status = {};
  if (!file || ::fstat(::fileno(file), &status) != 0)
    throw Error(fmt::format("{}: {}", failure, std::strerror(errno)));
  if (!S_ISREG(status.st_mode))
    return file;
  const bool isTaken = ::flock(::fileno(file), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (isTaken || (isNew && ::ftruncate(::fileno(file), 0) != 0)) {
    const int problem = errno;
    std::fclose(file);
    throw Error(fmt::format("{}: {}", failure, isTaken ? "another run writes it" : std::strerror(problem)));
  }
  return file;
}

LogFile::LogFile(const std::string &path, const char *mode, std::string failure)
    : file(openLocked(path, mode, failure), std::fclose), failure(std::move(failure)) {}

void LogFile::write(std::string_view bytes) {
  if (complete() &&
      (std::fwrite(bytes.data(), 1, bytes.size(), file.get()) != bytes.size() || std::fflush(file.get()) != 0))
    reason = errno;
}

void LogFile::requireComplete() const {
  if (!complete())
    throw Error(fmt::format("{}: {}", failure, std::strerror(reason)));
}

void LogFile::cut(int64_t bytes) {
  if (::ftruncate(::fileno(file.get()), bytes) != 0 || std::fseek(file.get(), long(bytes), SEEK_SET) != 0)
    reason = errno;
  requireComplete();
}

} // namespace tcc::models
