#include "models/stop_request.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <unistd.h>

namespace tcc::models {

namespace {

constexpr std::array signals = {SIGINT, SIGTERM};
constexpr std::string_view notice = "\nending after this step; a second signal ends at once\n";

// What a signal handler may touch.
volatile std::sig_atomic_t received = 0, silent = 0;
std::array<struct sigaction, signals.size()> before;

void restore() {
  for (size_t i = 0; i < signals.size(); ++i)
    ::sigaction(signals[i], &before[i], nullptr);
}

void onSignal(int signal) {
  const int error = errno;
  received = signal;
  restore();
  if (!silent) [[maybe_unused]]
    const ssize_t written = ::write(STDERR_FILENO, notice.data(), notice.size());
  errno = error;
}

} // namespace

StopRequest::StopRequest(bool quiet) {
  received = 0;
  silent = quiet;
  struct sigaction action{};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART; // a log or a file that is being written goes on
  for (size_t i = 0; i < signals.size(); ++i)
    ::sigaction(signals[i], nullptr, &before[i]);
  for (size_t i = 0; i < signals.size(); ++i)
    if (before[i].sa_handler != SIG_IGN)
      ::sigaction(signals[i], &action, nullptr);
}

StopRequest::~StopRequest() {
  restore();
}

int StopRequest::signal() const {
  return received;
}

} // namespace tcc::models
