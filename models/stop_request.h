// StopRequest: Ctrl-C and SIGTERM end the training loop at its next step.
#pragma once

namespace tcc::models {

/// As long as it lives, the first SIGINT or SIGTERM is only remembered, and reported on stderr unless `quiet`. The next
/// one ends the process at once, as usual. A signal that is ignored stays ignored. Only one object may exist at a time.
class StopRequest {
public:
  explicit StopRequest(bool quiet);
  StopRequest(const StopRequest &) = delete;
  StopRequest &operator=(const StopRequest &) = delete;
  ~StopRequest();

  /// The signal that came; 0 while none has.
  int signal() const;
};

} // namespace tcc::models
