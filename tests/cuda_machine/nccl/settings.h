// How the stand-in behaves: words of the environment variable TCC_NCCL_MACHINE, separated by commas.
#pragma once

#include <climits>
#include <string>

namespace tcc::nccl {

struct Settings {
  int version = 22703; ///< what ncclGetVersion tells
  int polls = 2;       ///< a call is over when its state was asked for so often
  int seconds = 300;   ///< after so long an operation that no other rank comes to is a finding
  int rank = -1;       ///< the faults below are of this rank alone; -1: of all
  int stuck = 0;       ///< the number of a call that stays in progress; the first is the one that makes a communicator
  int hang = 0;        ///< the number of an operation that never begins
  int broken = 0;      ///< the number of an operation after which the communicator has an error
  int code = 6;        ///< that error
};

/// What TCC_NCCL_MACHINE says now: version=N, polls=N, seconds=N, rank=N, stuck=N, hang=N, broken=N, code=N. Ends the
/// process for any other word, since a fault that is not planted would prove nothing.
Settings currentSettings();

} // namespace tcc::nccl
