// Files of tests: a folder that disappears with its test, a place in memory, a file's content.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>

namespace tcc::test {

/// A new folder, which is removed with all of its files when the object goes.
class TemporaryFolder {
public:
  explicit TemporaryFolder(const std::filesystem::path &base = std::filesystem::temp_directory_path()) {
    std::string pattern = (base / "tcc-test-XXXXXX").string();
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
  std::string operator/(const std::string &name) const { return path(name); }
  /// Writes a file and gives its path.
  std::string write(const std::string &name, const std::string &content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  /// How many entries it has.
  size_t count() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(root), {})); }

private:
  std::filesystem::path root;
};

/// A place in memory, for tests that write thousands of files.
inline std::filesystem::path memoryFolder() {
  std::error_code error;
  return std::filesystem::is_directory("/dev/shm", error) ? "/dev/shm" : std::filesystem::temp_directory_path();
}

/// The content of a file; empty where it cannot be read.
inline std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace tcc::test
