// Scalars for TensorBoard: a file of records, each an Event message of its protocol.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tcc::models {

/// CRC-32C (Castagnoli), as TFRecord masks it.
uint32_t crc32c(std::string_view bytes);

class TensorBoardLog {
public:
  /// Makes `folder` where it is missing, and a new file events.out.tfevents.* in it. Throws Error where it cannot.
  explicit TensorBoardLog(const std::string &folder);
  TensorBoardLog(const TensorBoardLog &) = delete;
  TensorBoardLog &operator=(const TensorBoardLog &) = delete;
  ~TensorBoardLog();

  /// Adds named values of one step, at `wallTime` (seconds since 1970). A file that cannot be written is given up; see
  /// complete().
  void scalars(int64_t step, double wallTime, const std::vector<std::pair<std::string, double>> &values);
  bool complete() const { return !broken; }

private:
  void record(const std::string &event);

  std::FILE *file = nullptr;
  bool broken = false;
};

} // namespace tcc::models
