// The text of the device primitives, the prelude, which stands before kernel text when NVRTC compiles it.
#pragma once

#include <string>
#include <string_view>

namespace tcc::cuda {

/// How much of the prelude a kernel needs. Portable: what sm_80 and later have. Tma: also mbarrier, TMA and setmaxnreg
/// (sm_90a, sm_100a). Wgmma: also wgmma (sm_90a alone).
enum class Prelude { Portable, Tma, Wgmma };

/// The smallest prelude that has all primitives which the kernel text uses.
Prelude preludeOf(std::string_view kernelText);

/// The prelude's text. It ends with a `#line` directive, so that kernel text appended to it has its own line numbers
/// under the name kernel.cu.
std::string deviceText(Prelude prelude);

/// One file's text, for example "generic.cuh". Throws std::invalid_argument for an unknown name.
std::string_view deviceFile(std::string_view name);

} // namespace tcc::cuda
