// CsvLog: writes a line of comma-separated values for each step, for spreadsheets and pandas.
#pragma once
#include "models/log_file.h"
#include "models/train_log.h"

#include <string>

namespace tcc::models {

class CsvLog {
public:
  /// Begins the file with the names of the columns. If `firstStep` is above 0, the run goes on, and the lines of the
  /// steps before it stay. Throws Error if the file cannot be written, or if it holds something else.
  CsvLog(const std::string &path, int64_t firstStep);

  /// Adds a line. After a write that fails nothing more is written, and complete() is false.
  void step(const StepRecord &record);
  bool complete() const { return file.complete(); }

private:
  LogFile file;
};

} // namespace tcc::models
