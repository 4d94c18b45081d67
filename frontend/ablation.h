// Ablation: compares a step with every switch on to the same step with one switch off at a time (switches.h). The
// caller makes each form of the step and says how it runs: the command line runs a graph, train_gpt trains. No MLIR.
#pragma once
#include "runtime/step_bound.h"

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tcc {

/// What a form of a step needs.
struct StepSize {
  int64_t kernels = 0, matmuls = 0, plannedBytes = 0;
};

/// A step in one form, with all switches on or without one of them.
class AblatedStep {
public:
  virtual ~AblatedStep() = default;
  /// Whether `other`, a form that the same caller has made, runs the same code in the same way.
  virtual bool isSameAs(const AblatedStep &other) const = 0;
  virtual StepSize size() const = 0;
  /// Runs some steps: the milliseconds of their median. Throws Error where they fail.
  virtual double milliseconds() = 0;
};

/// Where the middle half of some values lies: from their first to their third quartile.
struct MiddleHalf {
  double low = 1, high = 1;
  bool contains(double value) const { return low <= value && value <= high; }
};

struct AblationRow {
  std::string option; ///< the switch that is off; empty in the first row, the step beside itself
  StepSize size = {};
  bool changesNothing = false;                ///< the step is the same without the switch, so it was not timed
  std::string missing = {};                   ///< why there is no such form of the step; empty: there is
  std::vector<double> ms = {}, besideMs = {}; ///< of each round: without the switch, and with everything on beside it

  double medianMs() const;
  /// For each round the time without the switch as a multiple of the time beside it, sorted: above 1 where the switch
  /// saves time.
  std::vector<double> ratios() const;
  double medianRatio() const;
  /// The quartiles of ratios(), interpolated where a quarter of the way lies between two of them.
  MiddleHalf middleHalf() const;
};

struct Ablation {
  static constexpr int fewestRounds = 3;

  std::string title;        ///< what the step is of
  std::string untimed = {}; ///< why nothing is timed; empty: it is
  int rounds = 5;
  double tokens = 0;                  ///< of a step; 0: that is not known
  std::vector<AblationRow> rows = {}; ///< the step beside itself first
  runtime::StepBound bound = {};      ///< of the step with everything on

  /// Whether the rounds show that the switch changes the time: the middle half of its quotients has no 1 in it, and
  /// their median lies outside of the middle half of the step beside itself. Fewer than `fewestRounds` show nothing,
  /// and neither does -O0, which is not one switch.
  bool isSeen(const AblationRow &row) const;
  /// The switch without which the step takes longest, of those that are seen; null where there is none.
  const AblationRow *dearest() const;
  /// The switches without which the step is seen to be faster.
  std::vector<const AblationRow *> harmful() const;

  std::string head() const;                       ///< the table's first two lines
  std::string text(const AblationRow &row) const; ///< a line
  std::string words() const;                      ///< what comes after the table: one or more lines
  /// {"version", "title", "untimed", "rounds", "rows": [{"off", "kernels", "matmuls", "planned_bytes",
  /// "changes_nothing", "missing", "ms", "time_ratio", "quartiles", "is_seen", "ms_rounds", "beside_ms_rounds"}],
  /// "dearest", "faster_without", "bound"}; what was not measured is null.
  std::string json() const;
  /// Bars of the times, of planned bytes where nothing was timed.
  std::string picture() const;
};

/// A form of the step without `option`. Throws Error where there is none.
using MakeStep = std::function<std::unique_ptr<AblatedStep>(const std::string &option)>;

/// Fills the rows. In each round one form is run right after the other, in turn first, so that a machine that gets
/// slower does so for both. `tell` gets each row when it is done. Throws Error where `whole` fails.
void ablate(Ablation &ablation, AblatedStep &whole, std::span<const std::string> options, const MakeStep &make,
            const std::function<void(const AblationRow &)> &tell);

} // namespace tcc
