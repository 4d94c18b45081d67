// Helpers of the tests of models/: files in memory, a text to train on, children, errors as text.
#pragma once
#include "frontend/quotes.h"
#include "tests/files.h"

#include <cstddef>
#include <cstdlib>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace tcc::models {

using test::memoryFolder;
using test::readAll;
using test::TemporaryFolder;

/// The exit status of a child, or the negative number of the signal that ended it.
inline int wait(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
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

/// A text that a small model learns soon: one sentence again and again.
inline std::string easyText(int sentences) {
  std::string text;
  for (int i = 0; i < sentences; ++i)
    text += "the cat sat on the mat and the dog sat on the log. ";
  return text;
}

/// The objects of a text that has one on each line.
template <typename Json = nlohmann::json>
std::vector<Json> jsonLines(const std::string &text) {
  std::vector<Json> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

inline void expectContains(const std::string &text, const std::string &part) {
  EXPECT_NE(text.find(part), std::string::npos) << "`" << text << "` does not contain `" << part << "`";
}

} // namespace tcc::models
