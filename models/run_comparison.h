// compareRuns: finds the first step at which two runs differ, by their logs or their checkpoints.
#pragma once
#include <string>

namespace tcc::models {

struct RunDifference {
  bool differ = false;
  std::string text; ///< one line: the first step and tensor or figure that differs, or how much is equal
};

/// `a` and `b` are both JSON logs of train_gpt (loss, norm, and the parameters' checksums of --hash-every), or both
/// folders of checkpoints (every tensor of each step that both have). Throws Error if they cannot be read, are of
/// different kinds, or have no step in common.
RunDifference compareRuns(const std::string &a, const std::string &b);

} // namespace tcc::models
