// Labels of several instructions together, made from their own labels such as "h.3.mlp.gelu+bias".
#pragma once
#include <string>
#include <string_view>

namespace tcc::runtime {

/// The label with a star in place of each number that follows a word and a dot: "h.*.mlp.gelu+bias", one for all
/// layers.
std::string labelPattern(std::string_view label);

/// One label for two. Words that differ become stars: "h.*.mlp.gelu". If the labels have different numbers of words, a
/// star stands for all but the last words that both share: "*.bias". If they share none, the result is "first, …".
/// After a '+', what only one of them has becomes "…".
std::string joinedLabel(std::string_view a, std::string_view b);

} // namespace tcc::runtime
