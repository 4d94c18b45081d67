// CheckpointStore: a folder with one entry for each checkpoint. An entry is written whole or not at all, and checked
// when it is read; the oldest entries are removed.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// The checkpoints of one run: folders `step-000000120` with the run's files and `manifest.json`, which names each file
/// with its size and checksum. Whatever moment the program or the machine stops at, every entry of such a name is
/// whole: an entry is made under another name, brought to the disk file by file, manifest last, and then renamed.
class CheckpointStore {
public:
  /// Makes the folder if it is missing, locks it for this process and removes what an interrupted run left
  /// half-written. Throws Error if that cannot be done, or if another run has the folder.
  CheckpointStore(const std::string &folder, int64_t keep);
  CheckpointStore(const CheckpointStore &) = delete;
  CheckpointStore &operator=(const CheckpointStore &) = delete;
  ~CheckpointStore();

  const std::string &folder() const { return root; }
  /// Steps of all entries, damaged ones too, in ascending order.
  std::vector<int64_t> steps() const;
  std::string path(int64_t step) const;

  /// Calls fill(folder), which writes the files of a checkpoint into an empty folder, and makes it the entry of `step`,
  /// in place of an older one of the same step. Then it removes, of those up to that step, the entries that
  /// newestIntact() found damaged, and the oldest ones, so that `keep` remain. Throws Error if the system cannot write;
  /// what was there before then stays, and nothing half-written does.
  void write(int64_t step, const std::function<void(const std::string &folder)> &fill);

  /// newestIntactCheckpoint() of this folder.
  std::optional<int64_t> newestIntact(const std::function<void(std::string_view)> &report);

private:
  void removeInterrupted();
  void removeEntry(const std::string &path);
  void removeOldest(int64_t step);

  std::string root;
  int64_t keep;
  std::set<int64_t> damaged;
  int descriptor = -1; // of the folder, which carries the lock
};

/// The steps of the checkpoints in `folder`, damaged ones too, in ascending order; none where there is no such folder.
/// Makes and takes nothing. Throws Error for a folder that cannot be read.
std::vector<int64_t> checkpointSteps(const std::string &folder);

/// The latest checkpoint in `folder` whose files are all as they were written. `report` is told of each later
/// checkpoint that is damaged.
std::optional<int64_t> newestIntactCheckpoint(const std::string &folder,
                                              const std::function<void(std::string_view)> &report);

/// checkpointPath() gives the folder of a step's checkpoint in the folder of its run; stepOfCheckpoint() gives the step
/// for the name of such a folder.
std::string checkpointPath(const std::string &folder, int64_t step);
std::optional<int64_t> stepOfCheckpoint(std::string_view name);

/// The file that every checkpoint has.
inline constexpr std::string_view checkpointManifest = "manifest.json";

/// What is wrong with the checkpoint in `folder`, which is that of step `step`; empty if nothing is.
std::string checkpointDamage(const std::string &folder, int64_t step);

} // namespace tcc::models
