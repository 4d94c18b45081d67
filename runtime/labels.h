// Labels of instructions, "h.3.mlp.gelu+bias": what several of them are called together.
#pragma once
#include <string>
#include <string_view>

namespace tcc::runtime {

/// The label with a star for each number behind a word and a dot: "h.*.mlp.gelu+bias", one for all layers.
std::string labelPattern(std::string_view label);

/// A label for two: words that differ become stars, "h.*.mlp.gelu"; where the numbers of words differ too, the words
/// that both end with behind a star, "*.bias"; "first, …" where they share none. Of what stands behind a '+', what the
/// one has alone becomes "…".
std::string joinedLabel(std::string_view a, std::string_view b);

} // namespace tcc::runtime
