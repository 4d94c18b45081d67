// WandbRun: a run as the offline folder of Weights & Biases, which `wandb sync` uploads and its readers open:
// FOLDER/offline-run-DATE_TIME-ID/run-ID.wandb. The file is a log of records in LevelDB's format, each a Record message
// of wandb's protocol (wandb/proto/wandb_internal.proto of its repository).
#pragma once
#include "models/log_file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::models {

/// Names and values, which are JSON.
using WandbValues = std::vector<std::pair<std::string, std::string>>;

class WandbRun {
public:
  struct Start {
    std::string folder;    ///< of --wandb, which is made where it is missing
    std::string name;      ///< what people call the run
    WandbValues config;    ///< what it was started with
    int64_t firstStep = 0; ///< above 0: the newest run of the folder goes on from this step
  };

  /// Throws Error where the folder cannot be written, and where its newest run cannot be read.
  explicit WandbRun(const Start &start);

  /// Adds the values of a step, `runtime` seconds into the run. They are also the run's summary until the next step.
  /// After a write that fails nothing more is written, and complete() is false.
  void step(int64_t step, double runtime, WandbValues values);
  /// The end of the run.
  void finish(int exitCode, double runtime, const WandbValues &summary);
  bool complete() const { return file.complete(); }
  /// The folder of the run, which `wandb sync` takes.
  const std::string &place() const { return folder; }
  /// Whether steps were found that the run goes on from.
  bool goesOn() const { return isContinued; }

private:
  void begin(const Start &start);
  bool findNewest(const Start &start);
  void open(const char *mode);
  void record(uint64_t kind, std::string_view message);
  void write(std::string_view record);

  std::string folder, path, id;
  LogFile file;
  int64_t offset = 0; ///< in the file
  int64_t records = 0;
  bool isContinued = false;
};

/// A record of such a file: its bytes, and where the next one begins.
struct WandbRecord {
  std::string bytes;
  int64_t end = 0;
};
/// The records of a file's bytes, up to the first that is damaged or was not written whole. Empty for other files.
std::vector<WandbRecord> wandbRecords(std::string_view file);

} // namespace tcc::models
