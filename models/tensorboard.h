// TensorBoardLog: writes scalars to a file that TensorBoard reads. The file is a TFRecord file; each record holds one
// Event message of TensorBoard's protocol.
#pragma once
#include "models/log_file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::models {

/// The checksum that TFRecord files have: CRC-32C (Castagnoli), with TFRecord's mask applied.
uint32_t crc32c(std::string_view bytes);

class TensorBoardLog {
public:
  /// Makes a new file events.out.tfevents.* in `folder`, and the folder if it does not exist. Throws Error if it
  /// cannot.
  explicit TensorBoardLog(const std::string &folder);

  /// Adds named values of one step, at `wallTime` (seconds since 1970). After a write that fails nothing more is
  /// written, and complete() is false.
  void scalars(int64_t step, double wallTime, const std::vector<std::pair<std::string, double>> &values);
  bool complete() const { return file.complete(); }

private:
  void record(const std::string &event);

  LogFile file;
};

} // namespace tcc::models
