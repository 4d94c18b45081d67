#include "models/log_file.h"
#include "frontend/error.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace tcc::models {

LogFile::LogFile(const std::string &path, const char *mode, std::string failure)
    : file(std::fopen(path.c_str(), mode), std::fclose), failure(std::move(failure)) {
  if (!file)
    reason = errno;
  requireComplete();
}

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
