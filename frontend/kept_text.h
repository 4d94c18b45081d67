// Texts that live as long as the process: names of scopes and of files, to which records point.
#pragma once
#include <string>
#include <string_view>

namespace tcc {

/// The one copy of `text` that the process keeps. Any thread may call this.
const std::string *keptText(std::string_view text);

} // namespace tcc
