// Text of users in HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace tcc {

/// `text`, escaped so that it can stand between tags and within quotes. Control characters but the end of a line, which
/// XML does not have, become blanks. UTF-8 stays as it is.
std::string markupText(std::string_view text);

} // namespace tcc
