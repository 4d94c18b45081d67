// LogFile: a file that a run adds to. Where it can no longer be written, training goes on without it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace tcc::models {

/// Opens a file in a mode of fopen() and locks it for this process, so that two runs cannot mix their lines; a pipe or
/// a device is only opened. Throws Error if it cannot, or if another run has the file: `failure`, a colon, and the
/// reason. A file that another run has is left as it is.
std::FILE *openLocked(const std::string &path, const char *mode, const std::string &failure);

class LogFile {
public:
  LogFile() = default;
  /// Opens the file as openLocked() does.
  LogFile(const std::string &path, const char *mode, std::string failure);

  /// Adds bytes, which are in the file afterwards. After a write that fails nothing more is written.
  void write(std::string_view bytes);
  bool complete() const { return reason == 0; }
  /// Throws Error, as the constructor does, where a write has failed.
  void requireComplete() const;
  /// Leaves the first `bytes` bytes, after which the next ones come. Throws Error if it cannot.
  void cut(int64_t bytes);

private:
  std::unique_ptr<std::FILE, int (*)(std::FILE *)> file{nullptr, std::fclose};
  std::string failure;
  int reason = 0; ///< errno of the write that failed
};

} // namespace tcc::models
