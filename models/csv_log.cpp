#include "models/csv_log.h"
#include "frontend/files.h"
#include "frontend/quotes.h"

#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>

namespace tcc::models {

namespace {

constexpr std::string_view columns = "step,loss,val_loss,lr,norm,ms,tokens_per_second,tokens,elapsed_s,skipped,mfu";

/// The number that a line begins with, or -1: the line was cut, or is of something else.
int64_t stepOfLine(std::string_view line) {
  int64_t step = -1;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + line.size(), step);
  return problem == std::errc() && end != line.data() + line.size() && *end == ',' ? step : -1;
}

/// Leaves the lines of the steps before `step`.
void keepLinesBefore(const std::string &path, int64_t step) {
  std::ifstream in(path);
  std::string line;
  if (!in || !std::getline(in, line))
    return;
  if (line != columns)
    throw Error(fmt::format("{}: its first line is {}; a log of another run begins with {}", path, inQuotes(line),
                            inQuotes(columns)));
  std::string kept = line + "\n";
  while (std::getline(in, line))
    if (const int64_t its = stepOfLine(line); !in.eof() && its >= 0 && its < step)
      kept += line + "\n";
  AtomicFile file(path);
  file.write(kept);
  file.commit();
}

} // namespace

CsvLog::CsvLog(const std::string &path, int64_t firstStep) {
  if (firstStep > 0)
    keepLinesBefore(path, firstStep);
  file = LogFile(path, firstStep > 0 ? "ae" : "we", fmt::format("--csv {}: cannot write the log", path));
  std::error_code problem;
  if (firstStep == 0 || std::filesystem::file_size(path, problem) == 0)
    file.write(fmt::format("{}\n", columns));
  file.requireComplete();
}

void CsvLog::step(const StepRecord &record) {
  const auto text = [](const std::optional<double> &value) { return value ? fmt::format("{}", *value) : ""; };
  const bool isShare = record.machineShare && *record.machineShare <= 1; // else the peak is wrong
  file.write(fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", record.step, record.loss, text(record.validationLoss),
                         record.learningRate, record.norm, record.ms, record.tokensPerSecond, record.tokens,
                         record.elapsed, record.skipped, text(isShare ? record.machineShare : std::nullopt)));
}

} // namespace tcc::models
