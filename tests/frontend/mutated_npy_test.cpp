// Damaged .npy files: an Error or an array of the size that the file has, never a crash.
#include "frontend/npy.h"
#include "tests/mutate.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace tcc;

namespace {

TEST(MutatedNpy, NeverCrashes) {
  std::filesystem::path folder =
      std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : std::filesystem::temp_directory_path();
  std::string path = (folder / ("tcc-npy-" + std::to_string(::getpid()))).string();
  std::vector<float> numbers(30, 2.5f);
  writeNpy(path, Array::of(numbers, {5, 6}));
  std::ifstream in(path, std::ios::binary);
  std::string original{std::istreambuf_iterator<char>(in), {}};
  std::mt19937 random(3);
  int taken = 0, refused = 0;
  for (int round = test::mutationRounds(2000); round > 0; --round) {
    std::ofstream(path, std::ios::binary) << test::mutated(original, random);
    for (DType dtype : {DType::f32, DType::i32})
      try {
        EXPECT_LE(readNpy(path, dtype).shape().elements(), 1000);
        ++taken;
      } catch (const Error &) {
        ++refused;
      }
  }
  std::filesystem::remove(path);
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, taken / 10);
}

} // namespace
