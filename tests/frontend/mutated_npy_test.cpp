// Damaged .npy files: an Error or an array of the size that the file has, never a crash.
#include "frontend/npy.h"
#include "tests/files.h"
#include "tests/mutate.h"
#include <gtest/gtest.h>

using namespace tcc;

namespace {

TEST(MutatedNpy, NeverCrashes) {
  const test::TemporaryFolder folder(test::memoryFolder());
  const std::string path = folder / "x.npy";
  std::vector<float> numbers(30, 2.5f);
  writeNpy(path, Array::of(numbers, {5, 6}));
  const std::string original = test::readAll(path);
  std::mt19937 random(3);
  int taken = 0, refused = 0;
  for (int round = test::mutationRounds(2000); round > 0; --round) {
    folder.write("x.npy", test::mutated(original, random));
    for (DType dtype : {DType::f32, DType::i32})
      try {
        EXPECT_LE(readNpy(path, dtype).shape().elements(), 1000);
        ++taken;
      } catch (const Error &) {
        ++refused;
      }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, taken / 10);
}

} // namespace
