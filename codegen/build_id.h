// Which build of tcc and which LLVM make code.
#pragma once
#include <string>

namespace tcc {

/// A digest of tcc's sources and of how they were compiled, and the version of the LLVM that is loaded. What is kept on
/// disk may be used only by the build that made it.
std::string buildText();

} // namespace tcc
