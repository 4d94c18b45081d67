// Programs of torch.export (.pt2) as inputs: the package for PyTorch writes them as graphs.
#pragma once
#include <string>

namespace tcc::driver {

/// Whether a file is such a program, by its name.
bool isExportedProgram(const std::string &path);
/// The program as .graph text, by the Python that TCC_PYTHON names (python3). Throws Error where it has no package, or
/// the program has what graphs cannot hold.
std::string graphOfExportedProgram(const std::string &path);

} // namespace tcc::driver
