// Cuts a Jinja template into pieces: text that is written as it stands, and tags as tokens.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models::jinja {

struct Token {
  enum class Kind : uint8_t { name, text, number, sign, end };
  Kind kind = Kind::end;
  std::string word;
  int line = 1;
};

struct Piece {
  enum class Kind : uint8_t { text, print, statement };
  Kind kind = Kind::text;
  int line = 1;
  std::string text;          // what Kind::text writes
  std::vector<Token> tokens; // what the other kinds hold, with an end token
};

/// The pieces of a template, in order, without comments. The line's end after a block is removed, and so are the blanks
/// between a line's start and a block; `-` at a tag's border removes all blanks there. Throws Error: "line N: why".
std::vector<Piece> piecesOf(std::string_view text);

/// Throws Error: "line N: why".
[[noreturn]] void failAt(int line, std::string_view why);

} // namespace tcc::models::jinja
