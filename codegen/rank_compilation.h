// RankCompilation: what each rank of a run does while they compile one function. Their programs are equal or differ in
// the parts that they have (--zero). One of those with equal programs compiles and sends the others the step.
#pragma once
#include "runtime/ranks/ranks.h"

namespace tcc {

/// All ranks call the same functions in the same order.
class RankCompilation {
public:
  /// `digest` is that of the rank's program with all that its step depends on; if it is empty, no other rank's step is
  /// taken. `isKept`: whether this rank has the step already.
  static runtime::Expected<RankCompilation> agree(runtime::Ranks &ranks, const std::string &digest, bool isKept);

  bool compiles() const { return compiling[own()]; }
  bool isAnyCompiling() const;
  /// The rank whose step this one takes; itself where it compiles or has the step.
  int64_t source() const { return sources[own()]; }
  /// Whether others take this rank's step.
  bool isSource() const;

  /// Gives this rank's error, or that of another one, which its message names. `explanation` stands for a message that
  /// is empty.
  runtime::Error shareError(const runtime::Error &problem, const std::string &explanation) const;
  /// Sends `entry`, which is not empty where isSource(), to the ranks that take this one's step; gives what this rank
  /// takes. Errors: the other one has none, since an error was found after all had agreed to go on.
  runtime::Expected<std::string> exchange(const std::string &entry) const;

private:
  explicit RankCompilation(runtime::Ranks &ranks) : ranks(&ranks) {}
  size_t own() const { return static_cast<size_t>(ranks->rank()); }

  runtime::Ranks *ranks;
  std::vector<int64_t> sources; // by rank
  std::vector<bool> compiling;
};

} // namespace tcc
