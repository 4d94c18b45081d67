// Ctrl-C and SIGTERM as a wish that the training loop grants at its next step.
#pragma once

namespace tcc::models {

/// While it lives, the first SIGINT or SIGTERM is noted, and said on stderr unless `quiet`; the next one ends the
/// process at once, as it would without this. A signal that is ignored stays ignored. One at a time.
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
