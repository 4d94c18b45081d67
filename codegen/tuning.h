// What -O3 chooses by measuring: how kernels are compiled, among ways that give the same bits. The choices are kept in
// a tuning file, so that the same ones come back.
#pragma once
#include "runtime/error.h"
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tcc {

inline constexpr double usualTuningSeconds = 20;

struct TuningOptions {
  /// The tuning file (runtime/tuning_file.h) with the choices that were made before; new ones are added to it. Empty:
  /// they are not kept.
  std::string file = {};
  bool isOfUser = false; ///< whether a file that cannot be read is an error
  int threads = 1;       ///< that run the step
  /// For so long kernels are measured, those that move most bytes first. 0: only what the file has is chosen.
  double seconds = usualTuningSeconds;
};

/// A kernel that is compiled otherwise than without tuning.
struct TunedKernel {
  size_t kernel = 0;  ///< its number in the plan
  std::string choice; ///< FormKernel::tuning
  double gain = 0;    ///< how many times as fast it was measured to be; 0: the choice was kept from before
};

struct TuningReport {
  std::string whyNot;   ///< why nothing was tuned; empty: kernels were looked at
  int64_t measured = 0; ///< kernels
  int64_t kept = 0;     ///< kernels whose choice the file had
  int64_t small = 0;    ///< kernels that move too few bytes to be measured
  int64_t left = 0;     ///< kernels for which no time was left
  double seconds = 0;   ///< that measuring took
  std::string notKept;  ///< why the file does not have the choices
  std::vector<TunedKernel> tuned;
  /// What was chosen for each kernel that was measured or known, by its key in tuning files. Kernels whose default was
  /// best have an empty choice.
  std::map<std::string, std::string> choices;

  /// "measured 14 kernels in 6.2 s, 5 of them are 1.04 to 1.35 times as fast; …"; empty if nothing was to be tuned.
  std::string text() const;
};

} // namespace tcc
