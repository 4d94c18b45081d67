// c_api/tcc_runtime.h as text, which every step's header has inside.
#pragma once
#include <string_view>

namespace tcc {

std::string_view runtimeHeader();

} // namespace tcc
