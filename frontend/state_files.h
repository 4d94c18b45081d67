// saveStates and loadStates: parameters, moments and whatever else lives across calls as files in the safetensors
// format, which Python reads too.
#pragma once
#include "frontend/array.h"
#include "frontend/tensor_files.h"
#include <span>
#include <string>

namespace tcc {

/// Writes the states under their names, each with its dtype. The file appears whole or not at all: an older one stays
/// until the new one is on the disk. Throws Error for two states of one name, for a part of a state, and where the
/// system cannot write.
void saveStates(const std::string &path, std::span<const State> states);

/// Gives each state the value that the file has under its name. The whole file and each state's name, shape and dtype
/// are checked first: where anything is wrong, Error says what, and no state has changed.
void loadStates(const std::string &path, std::span<const State> states, Others others = Others::refused);

} // namespace tcc
