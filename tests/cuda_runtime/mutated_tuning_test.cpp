// Damaged tuning files: an error by the file's name, or the entries whose checksums hold.
#include "runtime/files.h"
#include "runtime/tuning_file.h"
#include "tests/files.h"
#include "tests/mutate.h"
#include <gtest/gtest.h>

namespace tcc::runtime::cuda {
namespace {

TEST(MutatedTuningFile, GivesItsEntriesOrAnError) {
  const test::TemporaryFolder folder(test::memoryFolder());
  const std::string path = folder / "tuning.json";
  const std::string keys[] = {"bf16 64x64x64 nt", "f32 128x50304x768 tn"};
  const Algorithm chosen[] = {{1, 2, 3, 4, 5, 6, 7, 8}, {~std::uint64_t(0), 9}};
  auto file = TuningFile::open(path);
  ASSERT_TRUE(file);
  for (size_t i = 0; i < std::size(keys); ++i)
    ASSERT_TRUE(file->add(keys[i], chosen[i]));
  const std::string original = *readFile(path);
  std::mt19937 random(4);
  int found = 0, refused = 0;
  for (int round = test::mutationRounds(1000); round > 0; --round) {
    ASSERT_FALSE(writeFileAtomically(path, test::mutated(original, random)));
    const auto damaged = TuningFile::open(path);
    if (!damaged) {
      ++refused;
      EXPECT_NE(damaged.error().message().find(path), std::string::npos) << damaged.error().message();
      continue;
    }
    for (size_t i = 0; i < std::size(keys); ++i)
      if (const auto algorithm = damaged->find(keys[i])) {
        ++found;
        EXPECT_EQ(*algorithm, chosen[i]);
      }
  }
  EXPECT_GT(found, 0);
  EXPECT_GT(refused, 0);
}

} // namespace
} // namespace tcc::runtime::cuda
