// The libraries of C and C++ that this process has loaded.
#pragma once
#include <string>
#include <vector>

namespace tcc {

/// The paths of the libraries that the runtime inside a step library needs: those of C++, OpenMP and C.
std::vector<std::string> systemLibraries();

} // namespace tcc
