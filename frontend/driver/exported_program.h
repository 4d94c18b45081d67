// Programs of torch.export (.pt2) as inputs: the package for PyTorch writes them as graphs, and their values as a file.
#pragma once
#include "frontend/array.h"
#include "frontend/driver/options.h"
#include "frontend/safetensors.h"
#include "runtime/plan_lists.h"
#include <map>
#include <optional>
#include <string>

namespace tcc::driver {

struct ProgramText {
  std::string text;                      ///< .graph text
  std::optional<SafetensorsFile> values; ///< of an exported program's parameters, buffers and constants, by arguments
};

/// What an input says: a .graph file as it is; a .pt2 file as a graph, by the Python that TCC_PYTHON names (python3),
/// with its values if the options run it. Throws Error where the file cannot be read, where that Python has no package,
/// and where the program has what graphs cannot hold.
ProgramText readProgram(const std::string &path, const Options &options);

/// Adds to `given` the file's values of those arguments that have none there.
void addValues(const SafetensorsFile &file, const std::vector<runtime::TensorSpec> &arguments,
               std::map<std::string, Array> &given);

} // namespace tcc::driver
