#include "models/train_log.h"
#include "frontend/files.h"
#include "frontend/quotes.h"
#include "models/json_file.h"
#include "models/log_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tcc::models {

namespace {

using Json = nlohmann::ordered_json;

/// 1234567 as "1,234,567".
std::string grouped(double value) {
  if (!std::isfinite(value))
    return fmt::to_string(value);
  std::string digits = fmt::format("{:.0f}", std::abs(value)), out = value < 0 ? "-" : "";
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0)
      out += ',';
    out += digits[i];
  }
  return out;
}

std::string clock(double seconds) {
  int64_t whole = int64_t(std::ceil(std::max(seconds, 0.0)));
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string megabytes(int64_t bytes) {
  return fmt::format("{:.1f} MB", double(bytes) / 1e6);
}

bool wantsTerminal(std::FILE *stream) {
  const char *kind = std::getenv("TERM");
  return ::isatty(::fileno(stream)) && kind && std::strcmp(kind, "dumb") != 0;
}

/// The width of a terminal, which a window may change at any time.
size_t columnsOf(std::FILE *stream) {
  constexpr size_t usual = 80; // of a terminal that does not say it
  winsize size{};
  return ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

template <typename Fields, typename Text>
std::string joined(const Fields &fields, Text text) {
  std::string line;
  for (const auto &field : fields)
    line += (line.empty() ? "" : "  ") + field.*text;
  return line;
}

bool wantsColour() {
  const char *refused = std::getenv("NO_COLOR"); // no-color.org: present and not empty
  return !refused || !*refused;
}

/// Leaves in a log the lines of the steps before `step`: those after it, and a summary, are of a run that ended before
/// it could go on from them.
void keepStepsBefore(const std::string &path, int64_t step) {
  std::ifstream in(path);
  if (!in)
    return;
  std::string kept;
  for (std::string line; std::getline(in, line);) {
    const Json json = parseLogLine(line);
    if (json.is_object() && json.value("step", Json()).is_number_integer() && json["step"] < step)
      kept += line + "\n";
  }
  AtomicFile file(path);
  file.write(kept);
  file.commit();
}

} // namespace

double modelFlopsUse(double flopsPerToken, double tokensPerSecond, double peakFlops) {
  double use = flopsPerToken * tokensPerSecond / peakFlops;
  if (!(use >= 0 && use <= 1))
    throw Error(fmt::format("{:.3g} operations a second at {} tokens/s are above the measured peak of {:.3g}: the "
                            "peak or the time is wrong",
                            flopsPerToken * tokensPerSecond, grouped(tokensPerSecond), peakFlops));
  return use;
}

double StepTimes::medianMs() const {
  std::vector<float> rest(all.begin() + (all.size() > 1 ? 1 : 0), all.end());
  if (rest.empty())
    return 0;
  auto middle = rest.begin() + std::ptrdiff_t(rest.size() / 2);
  std::nth_element(rest.begin(), middle, rest.end());
  if (rest.size() % 2 == 1)
    return double(*middle);
  return (double(*middle) + double(*std::max_element(rest.begin(), middle))) / 2;
}

double StepTimes::meanMs() const {
  if (all.size() > 1)
    return (sum - double(all[0])) / double(all.size() - 1);
  return sum;
}

TrainLog::TrainLog(const Options &options)
    : options(options), terminal(wantsTerminal(options.progress)), colour(terminal && wantsColour()) {
  if (options.jsonFile.empty())
    return;
  if (options.firstStep > 0 && options.jsonFile != "-")
    keepStepsBefore(options.jsonFile, options.firstStep);
  const char *mode = options.firstStep > 0 ? "ae" : "we";
  json = options.jsonFile == "-" ? stdout
                                 : openLocked(options.jsonFile, mode, options.jsonFile + ": cannot write the log");
}

TrainLog::~TrainLog() {
  endRewrittenLine();
  if (json && json != stdout)
    std::fclose(json);
}

void TrainLog::endRewrittenLine() {
  if (lineOpen)
    std::fputc('\n', options.progress);
  lineOpen = false;
}

/// Progress whose reader is gone is no reason to end a run.
void TrainLog::put(const std::string &text) {
  std::fputs(text.c_str(), options.progress);
  std::fflush(options.progress);
}

void TrainLog::message(std::string_view text) {
  if (options.quiet)
    return;
  endRewrittenLine();
  put(fmt::format("{}\n", text));
}

void TrainLog::warning(std::string_view text) {
  endRewrittenLine();
  put(fmt::format("warning: {}\n", text));
}

void TrainLog::error(std::string_view text) {
  endRewrittenLine();
  put(fmt::format("error: {}\n", text));
}

void TrainLog::compiled(const CompileSummary &summary) {
  message(fmt::format("compiled {} ops → {} kernels, {} matrix products, {} planned, in {:.2f} s{}", summary.ops,
                      summary.kernels, summary.matmuls, megabytes(summary.plannedBytes), summary.seconds,
                      summary.cache == "hit" ? " (from the cache)" : ""));
  if (summary.cache != "hit" && !summary.cacheReason.empty())
    message("cache " + summary.cacheReason);
}

std::vector<TrainLog::Field> TrainLog::progressFields(const StepRecord &record) const {
  std::string of = options.length.steps ? fmt::format("/{}", *options.length.steps) : "";
  std::vector<Field> fields = {{0, fmt::format("step {}{}", record.step, of)},
                               {0, fmt::format("loss {:.4f}", record.loss)}};
  if (record.validationLoss)
    fields.push_back({1, fmt::format("held out {:.4f}", *record.validationLoss)});
  std::string speed = fmt::format("{} tokens/s", grouped(record.averageTokensPerSecond));
  if (record.machineShare)
    speed +=
        fmt::format(" ({:.0f} %{} of the machine)", *record.machineShare * 100, *record.machineShare > 1 ? "!" : "");
  fields.push_back({3, speed});
  if (record.countedBytes > 0)
    fields.push_back(
        {4, fmt::format("{} of {} planned", megabytes(record.countedBytes), megabytes(record.plannedBytes))});
  const double done = options.length.progress(record.step + 1, record.elapsed);
  const double before = options.length.progress(options.firstStep, firstElapsed);
  if (done > before)
    fields.push_back({2, fmt::format("ETA {}", clock((record.elapsed - firstElapsed) * (1 - done) / (done - before)))});
  return fields;
}

/// The line of a step where the next line overwrites it. Fields are left out until it fits the terminal's width: the
/// beginning of a line that wraps would stay.
std::string TrainLog::rewrittenLine(const StepRecord &record) const {
  std::vector<Field> fields = progressFields(record);
  const size_t most = columnsOf(options.progress) - 1; // a cursor after the last column may be in either line
  std::string line = joined(fields, &Field::text);
  while (line.size() > most && fields.size() > 2) {
    fields.erase(std::ranges::max_element(fields, {}, &Field::rank));
    line = joined(fields, &Field::text);
  }
  return line.substr(0, most);
}

void TrainLog::step(const StepRecord &record) {
  if (firstElapsed < 0)
    firstElapsed = record.elapsed - record.ms / 1e3;
  Json json = {{"step", record.step},       {"loss", record.loss},
               {"ms", record.ms},           {"tokens_per_second", record.tokensPerSecond},
               {"lr", record.learningRate}, {"norm", record.norm},
               {"tokens", record.tokens},   {"elapsed_s", record.elapsed},
               {"skipped", record.skipped}};
  if (record.machineShare && *record.machineShare <= 1) // else the peak is wrong
    json["mfu"] = *record.machineShare;
  if (record.validationLoss)
    json["val_loss"] = *record.validationLoss;
  for (const auto &[name, hash] : record.parameterHashes)
    json["parameters"][name] = hash;
  writeJson(json.dump());
  if (options.quiet)
    return;
  bool last = options.length.finished(record.step + 1, record.elapsed) || record.validationLoss;
  double interval = terminal ? 0.1 : options.plainSeconds;
  if (lastShown >= 0 && record.elapsed - lastShown < interval && !last) {
    unshown = record;
    return;
  }
  lastShown = record.elapsed;
  unshown.reset();
  if (!terminal || record.validationLoss) { // a line of its own
    put((lineOpen ? "\r\x1b[K" : "") + joined(progressFields(record), &Field::text) + "\n");
    lineOpen = false;
    return;
  }
  put("\r\x1b[K" + rewrittenLine(record));
  lineOpen = true;
}

void TrainLog::finish(const RunSummary &s, double elapsed) {
  if (unshown) {
    put(fmt::format("{}{}\n", lineOpen ? "\r\x1b[K" : "", joined(progressFields(*unshown), &Field::text)));
    lineOpen = false;
    unshown.reset();
  }
  endRewrittenLine();
  if (!options.quiet) {
    std::string mfu = s.mfu ? fmt::format(", {:.0f} % of the machine's peak", *s.mfu * 100) : "";
    put(fmt::format("{}trained {} for {}: loss {:.4f} → {:.4f}, {} tokens/s (median step {:.1f} ms{}), peak {}{}\n",
                    colour ? "\x1b[1m" : "", s.model, clock(elapsed), s.lossFirst, s.lossLast,
                    grouped(s.tokensPerSecond), s.stepMsMedian, mfu, megabytes(s.peakBytes), colour ? "\x1b[0m" : ""));
  }
  Json line = {{"model", s.model},
               {"params", s.params},
               {"batch", s.batch},
               {"seq", s.seq},
               {"dtype", s.dtype},
               {"target", s.target},
               {"tokens_per_second", s.tokensPerSecond},
               {"step_ms_median", s.stepMsMedian},
               {"mfu", s.mfu ? Json(*s.mfu) : Json()},
               {"first_step_s", s.firstStepSeconds},
               {"compile_s", s.compileSeconds},
               {"cache", s.cache},
               {"loss_first", s.lossFirst},
               {"loss_last", s.lossLast},
               {"planned_bytes", s.plannedBytes},
               {"peak_bytes", s.peakBytes},
               {"kernels", s.kernels},
               {"matmuls", s.matmuls},
               {"recompiles", s.recompiles},
               {"threads", s.threads}};
  if (!s.config.empty())
    line["config"] = s.config;
  if (s.validationLoss)
    line["val_loss_last"] = *s.validationLoss;
  writeJson(line.dump());
}

void TrainLog::writeJson(const std::string &line) {
  if (options.keepsLines)
    kept += line + "\n";
  if (json == stdout && terminal && ::isatty(STDOUT_FILENO))
    endRewrittenLine(); // both may be one terminal
  if (!json || broken || (std::fputs((line + "\n").c_str(), json) >= 0 && std::fflush(json) == 0))
    return;
  broken = true;
  const char *reason = std::strerror(errno);
  warning(fmt::format("{}: cannot write the log: {}; training goes on without it",
                      options.jsonFile == "-" ? "stdout" : options.jsonFile, reason));
}

} // namespace tcc::models
