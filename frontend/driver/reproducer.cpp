// Internal errors: a reproducer is prepared before risky work, so that even a crash can write it.
#include "frontend/driver/driver.h"
#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace tcc::driver {
namespace {

// Plain memory, since a signal handler may touch nothing else.
std::string content;
std::array<char, 512> path{};

void say(const char *text) {
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

/// Writes the reproducer; only calls that a signal handler may make.
void writeReproducer() {
  if (content.empty())
    return;
  const int file = ::open(path.data(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  size_t done = 0;
  while (file >= 0 && done < content.size()) {
    const ssize_t count = ::write(file, content.data() + done, content.size() - done);
    if (count <= 0)
      break;
    done += static_cast<size_t>(count);
  }
  if (file < 0 || done < content.size()) {
    say("tcc: note: the reproducer could not be written to ");
  } else {
    say("tcc: note: the graph and the command line are in ");
  }
  say(path.data());
  say("\n");
  if (file >= 0)
    ::close(file);
}

void onCrash(int) {
  say("tcc: internal error: the compiler crashed\n");
  writeReproducer();
  ::_exit(exitInternal);
}

} // namespace

void armReproducer(std::string text) {
  content = std::move(text);
  const char *folder = std::getenv("TMPDIR");
  std::snprintf(path.data(), path.size(), "%s/tcc-reproducer-%d.graph", folder && *folder ? folder : "/tmp",
                static_cast<int>(::getpid()));
  static std::array<char, 1 << 16> stack;
  stack_t alternative{};
  alternative.ss_sp = stack.data();
  alternative.ss_size = stack.size();
  ::sigaltstack(&alternative, nullptr);
  struct sigaction action{};
  action.sa_handler = onCrash;
  action.sa_flags = SA_ONSTACK | static_cast<int>(SA_RESETHAND);
  for (int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
    ::sigaction(signal, &action, nullptr);
}

int internalError(const std::string &message) {
  say(("tcc: internal error: " + message + "\n").c_str());
  writeReproducer();
  return exitInternal;
}

} // namespace tcc::driver
