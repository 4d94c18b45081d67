// scanGraphText: checks limits of a .graph text before MLIR's parser sees it, since that parser overflows the stack on
// deep nesting, and sizes on huge shapes. This header needs no MLIR.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tcc {

/// What a text may hold.
struct GraphLimits {
  int64_t bytes = int64_t{64} << 20;
  int64_t tokens = int64_t{1} << 23;   ///< words, numbers, strings and single signs
  int64_t depth = 256;                 ///< of nested brackets
  int64_t rank = 8;                    ///< of a tensor type
  int64_t elements = int64_t{1} << 40; ///< product of a tensor type's static sizes
  int64_t literalBytes = 64 << 10;     ///< text of one dense<...>
  int64_t results = 1 << 20;           ///< N of %value#N
  int64_t allResults = 1 << 25;        ///< the sum of the largest N of each name
  bool hostCode = false;               ///< custom ops that are functions of this process
};

struct TextProblem {
  unsigned line = 0, column = 0; ///< from 1
  std::string message;
};

/// The first violated limit, or nothing. One pass, no allocation that grows with the text.
std::optional<TextProblem> scanGraphText(std::string_view text, const GraphLimits &limits = {});

} // namespace tcc
