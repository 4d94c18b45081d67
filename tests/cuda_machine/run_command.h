// A command of a shell, for tests of programs.
#pragma once
#include <cstdio>
#include <string>
#include <sys/wait.h>

namespace tcc {

struct CommandResult {
  int status = -1;    ///< the exit status, or the negative number of the signal that ended it
  std::string output; ///< both streams
};

inline CommandResult runCommand(const std::string &command) {
  CommandResult result;
  FILE *pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe)
    return result;
  char part[4096];
  while (size_t count = fread(part, 1, sizeof part, pipe))
    result.output.append(part, count);
  const int status = pclose(pipe);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return result;
}

} // namespace tcc
