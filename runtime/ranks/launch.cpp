// Which rank a process was started as: what launchers say in the environment.
#include "runtime/ranks/ranks.h"
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace tcc::runtime {
namespace {

/// A launcher, and the variables by which it says rank and count.
struct Launcher {
  const char *name, *rank, *count;
};
// In this order: srun and mpirun may both have left something, and the innermost one counts.
constexpr std::array<Launcher, 5> launchers{{{"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                             {"MPICH's mpirun", "PMI_RANK", "PMI_SIZE"},
                                             {"PMIx", "PMIX_RANK", "PMIX_SIZE"},
                                             {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
                                             {"torchrun", "RANK", "WORLD_SIZE"}}};

std::optional<int64_t> numberIn(const char *variable) {
  const char *text = std::getenv(variable);
  if (!text)
    return std::nullopt;
  const std::string_view view(text);
  int64_t value = -1;
  const auto [end, problem] = std::from_chars(view.data(), view.data() + view.size(), value);
  return problem == std::errc() && end == view.data() + view.size() ? value : -1;
}

} // namespace

Expected<Launch> findLaunch() {
  for (const Launcher &launcher : launchers) {
    const std::optional<int64_t> rank = numberIn(launcher.rank), count = numberIn(launcher.count);
    if (!rank || !count) // a shell of `salloc` has one of srun's
      continue;
    if (*rank < 0 || *count < 1 || *rank >= *count)
      return Error(std::string("the environment's ") + launcher.rank + " and " + launcher.count + " are '" +
                   std::getenv(launcher.rank) + "' and '" + std::getenv(launcher.count) + "'; they are numbers that " +
                   launcher.name + " sets, the first one below the second");
    return Launch{*rank, *count, launcher.name};
  }
  return Launch{};
}

} // namespace tcc::runtime
