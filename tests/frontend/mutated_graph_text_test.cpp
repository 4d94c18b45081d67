// What reads a .graph text before and beside MLIR's parser, on damaged texts: no crash, and no range outside the text.
#include "frontend/graph_outline.h"
#include "frontend/graph_scan.h"
#include "tests/files.h"
#include "tests/mutate.h"
#include <gtest/gtest.h>

using namespace tcc;

namespace {

TEST(MutatedGraphText, IsScannedAndOutlinedWithinItself) {
  std::string original;
  for (const char *name : {"models/layer_norm.graph", "models/attention.graph"})
    original += test::readAll(name);
  ASSERT_FALSE(original.empty());
  std::mt19937 random(6);
  int outlined = 0, refused = 0;
  for (int round = test::mutationRounds(1000); round > 0; --round) {
    const std::string text = test::mutated(original.substr(random() % original.size()), random);
    const LineIndex lines(text);
    if (const auto problem = scanGraphText(text)) {
      ++refused;
      EXPECT_LE(lines.offset(problem->line, problem->column), text.size());
    }
    const auto outline = outlineGraph(text);
    if (!outline)
      continue;
    ++outlined;
    EXPECT_LE(outline->bodyRange.end, text.size());
    for (const OutlineStatement &statement : outline->body) {
      ASSERT_LE(statement.range.begin, statement.range.end);
      ASSERT_LE(statement.range.end, text.size());
      EXPECT_EQ(outline->statementAt(statement.range.begin) == nullptr, statement.range.begin == statement.range.end);
      for (const NamedRange &use : statement.uses)
        ASSERT_LE(use.range.end, text.size());
    }
    for (const OutlineType &type : outline->types)
      ASSERT_LE(type.range.end, text.size());
  }
  EXPECT_GT(outlined, 0);
  EXPECT_GT(refused, 0);
}

} // namespace
