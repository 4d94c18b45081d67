#include "frontend/state_files.h"
#include <cstring>

namespace tcc {

/// Throws Error for a state that is one rank's part.
static void requireWhole(std::span<const State> states) {
  for (const State &state : states)
    if (state.isPart())
      throw Error("state '" + state.name() +
                  "' is one rank's part; files have whole states, which wholeStates() gives (state_parts.h)");
}

void saveStates(const std::string &path, std::span<const State> states) {
  requireWhole(states);
  std::vector<TensorToWrite> tensors;
  for (const State &state : states)
    tensors.push_back(
        {state.name(),
         fileDtype(state.dtype()),
         {state.shape().begin(), state.shape().end()},
         std::span(static_cast<const std::byte *>(state.rawForReading()), static_cast<size_t>(state.bytes()))});
  writeSafetensors(path, tensors);
}

void loadStates(const std::string &path, std::span<const State> states, Others others) {
  requireWhole(states);
  const SafetensorsFile file(path);
  std::vector<runtime::TensorSpec> wanted;
  for (const State &state : states)
    wanted.push_back({state.name(), state.dtype(), {state.shape().begin(), state.shape().end()}});
  const std::vector<std::span<const std::byte>> values = valuesOf(file, wanted, others);
  // The states' memory, which a lost device may refuse; then the values.
  std::vector<void *> targets;
  for (const State &state : states)
    targets.push_back(state.raw());
  for (size_t i = 0; i < states.size(); ++i)
    if (!values[i].empty())
      std::memcpy(targets[i], values[i].data(), values[i].size());
}

} // namespace tcc
