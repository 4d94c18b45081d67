// What code is made by.
#pragma once
#include <string>

namespace tcc {

/// A digest of tcc's sources and of how they were compiled, and the version of the LLVM that is loaded: what is kept on
/// disk is for the build that made it.
std::string buildText();

} // namespace tcc
