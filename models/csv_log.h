// CsvLog: a line of comma-separated values a step, for spreadsheets and pandas.
#pragma once
#include "models/train_log.h"

#include <cstdio>
#include <string>

namespace tcc::models {

class CsvLog {
public:
  /// Begins the file with the names of the columns. With `firstStep` above 0 the lines of the steps before it stay, as
  /// those of a run that goes on. Throws Error where the file cannot be written, and where it holds something else.
  CsvLog(const std::string &path, int64_t firstStep);
  CsvLog(const CsvLog &) = delete;
  CsvLog &operator=(const CsvLog &) = delete;
  ~CsvLog();

  /// Adds a line. A file that cannot be written is given up; see complete().
  void step(const StepRecord &record);
  bool complete() const { return !broken; }

private:
  void put(const std::string &line);

  std::FILE *file = nullptr;
  bool broken = false;
};

} // namespace tcc::models
