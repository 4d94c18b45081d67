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
  return cpuArtefact(test::stepPlan(),
                     std::string("\x7f"
                                 "ELF\0stand-in",
                                 13),
                     {{"build", "x86-64"}});
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
  EXPECT_EQ(again->targets, artefact.targets);
  EXPECT_EQ(again->metadata, artefact.metadata);
  EXPECT_EQ(*serializeArtefact(*again), *bytes); // one form for one content
}

TEST(Artefact, refusesToSerializeABadPlan) {
  Artefact artefact = smallArtefact();
  artefact.targets[0].plan.arenaBytes = -1;
  EXPECT_FALSE(serializeArtefact(artefact));
}

TEST(Artefact, equalPartsOfSeveralTargetsAreStoredOnce) {
  Artefact artefact = smallArtefact();
  const size_t alone = serializeArtefact(artefact)->size(), plan = planToJson(test::stepPlan()).size();
  TargetCode other = artefact.targets[0];
  other.target = "cuda:sm_90a";
  other.code.push_back("another object");
  artefact.targets.push_back(other);
  const std::string bytes = *serializeArtefact(artefact);
  EXPECT_LT(bytes.size(), alone + 200);
  EXPECT_GT(plan, 1000u); // so it is there once
  const auto again = parseArtefact(bytes);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->targets, artefact.targets);
  artefact.targets[1].plan.name = "other";
  EXPECT_GT(serializeArtefact(artefact)->size(), alone + plan);
}

TEST(Artefact, olderVersionsAreRefusedByNumber) {
  std::string bytes = *serializeArtefact(smallArtefact());
  bytes[8] = 1;
  EXPECT_EQ(parseArtefact(bytes).error().message(),
            "artefact has format version 1; this runtime reads version 4: compile it again");
  bytes[8] = 5;
  EXPECT_EQ(parseArtefact(bytes).error().message(), "artefact has format version 5; this runtime reads version 4");
}

TEST(Artefact, targetsAndCodeObjectsMustMakeSense) {
  auto refused = [](auto change, const char *expected) {
    Artefact artefact = smallArtefact();
    change(artefact);
    const auto bytes = serializeArtefact(artefact);
    ASSERT_FALSE(bytes) << expected;
    EXPECT_NE(bytes.error().message().find(expected), std::string::npos) << bytes.error().message();
  };
  refused([](Artefact &a) { a.targets.clear(); }, "code for 0 targets");
  refused([](Artefact &a) { a.targets.resize(65, a.targets[0]); }, "code for 65 targets");
  refused([](Artefact &a) { a.targets[0].target = ":sm_90a"; }, "start with a kind of device");
  refused([](Artefact &a) { a.targets[0].plan.kernels[1].module = 1; }, "`descend` for cpu is in code object 1");
  refused([](Artefact &a) { a.targets[0].code.clear(); }, "there are 0");
}

// The contents' JSON changed and the checksum made to fit: whatever stands there, a refusal or an artefact that holds.
TEST(Artefact, contentsAreBelievedOnlyWithinTheirBounds) {
  const std::string bytes = *serializeArtefact(smallArtefact());
  const size_t begin = bytes.find("{\"metadata\""),
               length = static_cast<unsigned char>(bytes[16]) + 256 * static_cast<unsigned char>(bytes[17]);
  const std::string contents = bytes.substr(begin, length);
  for (const auto &[from, to] : {std::pair{"\"plan\":1", "\"plan\":0"},
                                 {"\"plan\":1", "\"plan\":2"},
                                 {"\"plan\":1", "\"plan\":9"},
                                 {"[2]", "[9]"},
                                 {"[2]", "[ ]"},
                                 {"[2]", "[0]"},
                                 {"\"needs\"", "\"nee_s\""},
                                 {"\"cpu\"", "\":pu\""},
                                 {"{\"build", "[\"build"}}) {
    std::string changed = bytes;
    changed.replace(begin + contents.find(from), std::strlen(from), to);
    EXPECT_FALSE(parseArtefact(test::withChecksum(changed))) << to;
  }
  EXPECT_TRUE(parseArtefact(test::withChecksum(bytes)));
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
