// BreakReport: which graph breaks a function had, why, what each one cost, and why the function was compiled again.
// Function::report() gives it.
#pragma once
#include "frontend/shape.h"
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tcc {

/// One place of the user's code that asks for a value in the middle of a step.
struct BreakSite {
  std::string file;
  uint32_t line = 0, column = 0;
  std::string source; ///< the line's text; empty where the file cannot be read
  std::string why;    ///< "`item()` asks for one number"
  std::string instead;
  int64_t times = 0;
  int64_t inStep = 0;      ///< of these, how often the step waited there and went on, without computing anything again
  int64_t segments = 0;    ///< segments that were compiled for this place alone
  int64_t kernels = 0;     ///< kernels of these segments, which a step without the break would not have
  int64_t bytesToHost = 0; ///< bytes copied to the host, over all calls
  int64_t opsAgain = 0;    ///< ops that were computed again after the break, over all calls
  double measuredMs = std::numeric_limits<double>::quiet_NaN(); ///< for one call: its share of measureBreaks()'s result
  double milliseconds = 0; ///< what the break cost over all calls, without compiling; NaN: not measured
};

/// Why a function was compiled once more although it had been compiled before.
struct RecompileReason {
  std::string reason; ///< names the guard or the captured constant that changed
  int64_t times = 0;
};

struct BreakReport {
  std::string function;
  int64_t calls = 0, callsWithBreaks = 0;
  int64_t compiled = 0; ///< how many segments and steps were compiled
  /// Milliseconds of a call, as measureBreaks() found them: with the breaks, and as one step. NaN if it was not called.
  double withBreaksMs = std::numeric_limits<double>::quiet_NaN(), oneStepMs = withBreaksMs;
  std::vector<BreakSite> sites;
  std::vector<RecompileReason> recompiles;

  /// The report for people, one place after another; "no graph breaks" if there are none.
  std::string text() const;
  /// {"function", "calls", …, "breaks": [{"file", "line", …}], "recompiles": [{"reason", "times"}]}.
  std::string json() const;
};

/// Line `line` of a file without the blanks around it; empty where it cannot be read.
std::string sourceLine(const std::string &file, uint32_t line);

} // namespace tcc
