// Files for the tests of models/: a folder that disappears with its test, and errors as text.
#pragma once
#include "frontend/quotes.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace tcc::models {

class TemporaryFolder {
public:
  explicit TemporaryFolder(const std::filesystem::path &base = std::filesystem::temp_directory_path()) {
    std::string pattern = (base / "tcc-models-XXXXXX").string();
    if (!::mkdtemp(pattern.data()))
      std::abort();
    root = pattern;
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root, ignored);
  }

  std::string path(const std::string &name) const { return (root / name).string(); }
  std::string write(const std::string &name, const std::string &content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

private:
  std::filesystem::path root;
};

/// The exit status of a child, or the negative number of the signal that ended it.
inline int wait(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// A place in memory, for tests that bring thousands of files to the disk.
inline std::filesystem::path memoryFolder() {
  std::error_code error;
  return std::filesystem::is_directory("/dev/shm", error) ? "/dev/shm" : std::filesystem::temp_directory_path();
}

/// A file in memory alone, for tests that open thousands of variants.
class MemoryFile {
public:
  MemoryFile() : descriptor(::memfd_create("tcc-test", MFD_CLOEXEC)) {
    if (descriptor < 0)
      std::abort();
  }
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;
  ~MemoryFile() { ::close(descriptor); }

  /// Replaces the content and returns a path that opens it.
  std::string write(const std::string &content) const {
    if (::ftruncate(descriptor, 0) != 0 ||
        ::pwrite(descriptor, content.data(), content.size(), 0) != ssize_t(content.size()))
      std::abort();
    return "/proc/self/fd/" + std::to_string(descriptor);
  }

private:
  int descriptor;
};

inline std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The values' bytes as they lie in memory.
template <typename T>
std::string bytesOf(const std::vector<T> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
}

/// The text of the Error that `action` throws; "" where it throws none.
template <typename Action>
std::string errorOf(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << text << "` does not contain `" << part << "`";
}

} // namespace tcc::models
