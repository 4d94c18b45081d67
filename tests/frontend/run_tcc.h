// Runs the built program `tcc` and catches what it says; for tests that are given TCC_PROGRAM and TCC_SOURCE.
#pragma once
#include "tests/expect_text.h"
#include "tests/files.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

namespace tcc::test {

struct Result {
  int status = -1;
  std::string out, err;
};

/// A folder of this test process, removed at its end.
inline const std::filesystem::path &folder() {
  static const TemporaryFolder made;
  static const std::filesystem::path path = std::filesystem::path(made.path("any")).parent_path();
  return path;
}

inline std::string slurp(const std::filesystem::path &path) {
  return readAll(path);
}

/// A file in the folder; its path.
inline std::string file(const std::string &name, const std::string &text) {
  const auto path = folder() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

/// Runs tcc with shell-quoted arguments, what stands in `environment` before them.
inline Result runTcc(const std::string &arguments, const std::string &environment = "") {
  const auto out = folder() / "out", err = folder() / "err";
  const std::string command =
      environment + " '" TCC_PROGRAM "' " + arguments + " >" + out.string() + " 2>" + err.string();
  Result result;
  const int status = std::system(command.c_str());
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.out = slurp(out);
  result.err = slurp(err);
  return result;
}

/// The same in a folder that is made, so that files without -o are found.
inline Result runTccIn(const std::filesystem::path &place, const std::string &arguments) {
  std::filesystem::create_directories(place);
  return runTcc(arguments, "cd '" + place.string() + "' &&");
}

/// How many lines a text has.
inline int lines(const std::string &text) {
  return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
}

/// A graph of one op.
inline const std::string good =
    "func.func @f(%x: tensor<4x8xf32> {tcc.name = \"x\"}) -> (tensor<4x8xf32> {tcc.name = \"y\"}) {\n"
    "  %r = tcc.gelu %x : tensor<4x8xf32>\n  func.return %r : tensor<4x8xf32>\n}\n";

inline std::string model(const std::string &name) {
  return TCC_SOURCE "/models/" + name + ".graph";
}

} // namespace tcc::test
