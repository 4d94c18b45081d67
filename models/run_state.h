// RunState: what a checkpoint says of its run in addition to tensors: how far the run has come, which run it is, and
// which settings it has.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tcc::models {

struct RunState {
  int64_t step = 0;    ///< steps done; also the position in the data and in every stream of random numbers
  int64_t skipped = 0; ///< of them, updates that were left out
  double lossFirst = 0, lossLast = 0;
  std::optional<double> seconds; ///< time in the steps, where the run's end or its learning rate depends on it

  /// What a run must have in common with its checkpoint: model, optimizer, seed, batch, data, …
  std::map<std::string, std::string> identity;
  /// What it may change when it goes on: learning rate, number of steps, …
  std::map<std::string, std::string> settings;
};

/// Writes `path` atomically; equal states make equal bytes.
void writeRunState(const std::string &path, const RunState &state);
/// Throws Error where `path` is no such file.
RunState readRunState(const std::string &path);

/// Throws Error where the checkpoint in `folder` is not one of the run that `mine` describes: the first
/// difference, the checkpoint's value and this run's. Differing settings are told to `report`.
void checkSameRun(const std::string &folder, const RunState &checkpoint, const RunState &mine,
                  const std::function<void(std::string_view)> &report);

} // namespace tcc::models
