// Examples for fine-tuning: JSON lines of texts, prompts with completions, or conversations, made tokens once, kept in
// the user's cache, and packed into rows.
#pragma once
#include "models/data.h"
#include "models/tokenizer.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc::models {

/// Whether `path` names a file of examples, by its ending `.jsonl`.
bool isExampleFile(std::string_view path);

/// What turns texts into tokens: a folder's tokenizer and chat template; if `tokenizer` is null, each byte is a token.
struct ExampleReader {
  const Tokenizer *tokenizer = nullptr;
  std::string folder; ///< of the tokenizer, and of its chat template
};

/// The path of a file (TokenFormat::Examples) with the examples of `path` as tokens. It lies in `cache`, or in
/// $XDG_CACHE_HOME/tcc/tokens if that is empty, where it is found by the checksums of lines, tokenizer and template. If
/// it is not there, it is made. `report` is told what was done. A line is one of
///     {"text": "…"}                                          all of it is learned
///     {"prompt": "…", "completion": "…"}                     the completion is
///     {"messages": [{"role": "user", "content": "…"}, …]}    the assistant's messages are, in the folder's template
/// Texts and completions end with the tokenizer's end token, where it has one. Throws Error with file and line for
/// another line, and for conversations without a template.
std::string exampleFile(const std::string &path, const ExampleReader &reader,
                        const std::function<void(std::string_view)> &report, std::string cache = {});

/// A stretch of an example in a row: tokens first … first + count, the last of which is a target only.
struct ExamplePiece {
  int64_t first = 0, count = 0;
};

/// Examples in rows of T positions. An example longer than a row is cut into pieces of T; pieces without a token to
/// learn are left out. Rows are filled by best fit, the longest pieces first; a piece does not see where its row's
/// other pieces end, so attention looks at them too.
class ExampleRows {
public:
  /// The rows for the examples in `range`. If `packs` is false, each piece has a row of its own. Throws Error if there
  /// is no token to learn.
  ExampleRows(const TokenSource &source, TokenRange range, int64_t sequence, bool packs);

  int64_t size() const { return int64_t(starts.size()) - 1; }
  /// The pieces of a row, at most T positions together.
  std::span<const ExamplePiece> row(int64_t i) const;
  int64_t examples() const { return exampleCount; }
  /// "120 examples in 31 rows of 64; 3 are longer and were cut; 4 % of the positions are empty".
  std::string describe() const;

private:
  int64_t columns, exampleCount = 0, longer = 0;
  std::vector<ExamplePiece> pieces; // by row
  std::vector<int64_t> starts;      // of each row in `pieces`, and the end
};

} // namespace tcc::models
