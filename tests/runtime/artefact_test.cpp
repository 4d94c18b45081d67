// Bytes in and out; every truncation and every flipped bit refused; files never half written.
#include "runtime/executable.h"
#include "runtime/files.h"
#include "test_plans.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace tcc::runtime {
namespace {

Artefact smallArtefact() {
  return {test::stepPlan(),
          std::string("\x7f"
                      "ELF\0stand-in",
                      13),
          {{"target", "x86-64"}}};
}

std::string temporaryPath(const std::string &name) {
  return testing::TempDir() + "tcc_runtime_" + name;
}

TEST(Artefact, roundTripIsTheIdentity) {
  const Artefact artefact = smallArtefact();
  const auto bytes = serializeArtefact(artefact);
  ASSERT_TRUE(bytes);
  const auto again = parseArtefact(*bytes);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->plan, artefact.plan);
  EXPECT_EQ(again->code, artefact.code);
  EXPECT_EQ(again->metadata, artefact.metadata);
  EXPECT_EQ(*serializeArtefact(*again), *bytes); // one form for one content
}

TEST(Artefact, refusesToSerializeABadPlan) {
  Artefact artefact = smallArtefact();
  artefact.plan.arenaBytes = -1;
  EXPECT_FALSE(serializeArtefact(artefact));
}

TEST(Artefact, everyTruncationIsRefused) {
  const std::string bytes = *serializeArtefact(smallArtefact());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto artefact = parseArtefact(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(artefact) << length;
    ASSERT_FALSE(artefact.error().message().empty());
  }
  EXPECT_FALSE(parseArtefact(bytes + '\0'));
}

TEST(Artefact, everyFlippedBitIsRefused) {
  std::string bytes = *serializeArtefact(smallArtefact());
  for (size_t position = 0; position < bytes.size(); ++position)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[position] ^= static_cast<char>(1 << bit);
      ASSERT_FALSE(parseArtefact(bytes)) << position << " bit " << bit;
      bytes[position] ^= static_cast<char>(1 << bit);
    }
  EXPECT_TRUE(parseArtefact(bytes));
}

TEST(Artefact, executableRefusesDamagedBytes) {
  std::string bytes = *serializeArtefact(test::stepArtefact());
  ASSERT_TRUE(Executable::load(bytes));
  for (size_t position = 0; position < bytes.size(); position += 97) {
    bytes[position] ^= 1;
    EXPECT_FALSE(Executable::load(bytes));
    bytes[position] ^= 1;
    EXPECT_FALSE(Executable::load(std::string_view(bytes).substr(0, position)));
  }
}

TEST(Artefact, filesAreReplacedWhole) {
  const std::string path = temporaryPath("artefact.tcca");
  Artefact artefact = smallArtefact();
  ASSERT_FALSE(writeArtefact(artefact, path));
  artefact.metadata["more"] = "text";
  ASSERT_FALSE(writeArtefact(artefact, path));
  const auto again = readArtefact(path);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->metadata, artefact.metadata);
  std::filesystem::remove(path);
}

TEST(Artefact, fileErrorsNameThePath) {
  const std::string missing = temporaryPath("missing/file");
  const Error write = writeArtefact(smallArtefact(), missing);
  ASSERT_TRUE(write);
  EXPECT_NE(write.message().find(missing), std::string::npos);
  const auto read = readArtefact(missing);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().message().find(missing), std::string::npos);
  EXPECT_FALSE(readArtefact(testing::TempDir()));
}

TEST(Artefact, aFailedWriteLeavesNothingBehind) {
  // The rename onto a folder fails; the temporary file must be gone and the folder as it was.
  const std::string folder = temporaryPath("folder");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder + "/target");
  EXPECT_TRUE(writeArtefact(smallArtefact(), folder + "/target"));
  size_t entries = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folder))
    ++entries;
  EXPECT_EQ(entries, 1u);
  std::filesystem::remove_all(folder);
}

TEST(Artefact, aDamagedFileIsNamed) {
  const std::string path = temporaryPath("damaged.tcca");
  std::string bytes = *serializeArtefact(smallArtefact());
  bytes[bytes.size() / 2] ^= 4;
  ASSERT_FALSE(writeFileAtomically(path, bytes));
  const auto artefact = readArtefact(path);
  ASSERT_FALSE(artefact);
  EXPECT_NE(artefact.error().message().find(path), std::string::npos);
  EXPECT_NE(artefact.error().message().find("checksum"), std::string::npos);
  std::filesystem::remove(path);
}

} // namespace
} // namespace tcc::runtime
