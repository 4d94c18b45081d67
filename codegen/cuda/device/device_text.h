// The text of the device primitives, to be put before kernel text and given to NVRTC.
#pragma once

#include <string>
#include <string_view>

namespace tcc::cuda {

/// How much of the prelude a kernel needs: everything for sm_80 and later; mbarrier, TMA and setmaxnreg too
/// (sm_90a, sm_100a); wgmma too (sm_90a only).
enum class Prelude { Portable, Tma, Wgmma };

/// The least prelude that has the primitives which stand in kernel text.
Prelude preludeOf(std::string_view kernelText);

/// The prelude's text. It ends with a `#line` directive, so that kernel text appended to it has its own line numbers
/// under the name kernel.cu.
std::string deviceText(Prelude prelude);

/// One file's text, for example "generic.cuh". Throws std::invalid_argument for an unknown name.
std::string_view deviceFile(std::string_view name);

} // namespace tcc::cuda
