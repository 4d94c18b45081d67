#include "frontend/files.h"
#include "test_files.h"

#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace tcc::models {
namespace {

std::string mapError(const std::string &path) {
  return errorOf([&] { MappedFile file(path); });
}

size_t filesIn(const std::string &folder) {
  return size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(MappedFile, mapsContentAndMoves) {
  TemporaryFolder folder;
  MappedFile first(folder.write("a", "hello"));
  MappedFile second = std::move(first);
  ASSERT_EQ(second.size(), 5);
  EXPECT_EQ(char(second.bytes()[4]), 'o');
  EXPECT_EQ(first.size(), 0);
  second = MappedFile(folder.write("b", ""));
  EXPECT_EQ(second.size(), 0);
}

TEST(MappedFile, refusesWhatIsNoFile) {
  TemporaryFolder folder;
  expectContains(mapError(folder.path("missing")), "missing: cannot open: No such file");
  expectContains(mapError(folder.path("")), "is a folder, a file is expected");
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  expectContains(mapError(folder.path("pipe")), "is a pipe or a device");
}

TEST(AtomicFile, appearsOnlyWhenCommitted) {
  TemporaryFolder folder;
  std::string path = folder.write("f", "old");
  {
    AtomicFile abandoned(path);
    abandoned.write("half");
  }
  EXPECT_EQ(readAll(path), "old");
  AtomicFile file(path);
  file.write("new");
  EXPECT_EQ(readAll(path), "old");
  file.commit();
  EXPECT_EQ(readAll(path), "new");
  EXPECT_EQ(filesIn(folder.path("")), 1u);
}

TEST(AtomicFile, replacesNoPipeAndNoLink) {
  TemporaryFolder folder;
  const std::string pipe = folder.path("pipe"), link = folder.path("link"), file = folder.write("file", "old");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ASSERT_EQ(::symlink(file.c_str(), link.c_str()), 0);
  for (const std::string &path : {pipe, link}) {
    AtomicFile out(path);
    out.write("new");
    out.commit();
  }
  char read[4] = {};
  EXPECT_EQ(::read(reader, read, 3), 3);
  ::close(reader);
  EXPECT_STREQ(read, "new");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(readAll(file), "new");
}

TEST(AtomicFile, saysWhyItCannotWrite) {
  TemporaryFolder folder;
  expectContains(errorOf([&] { AtomicFile file(folder.path("no/such/folder")); }), "no/such/folder`: No such file");
  std::filesystem::create_directory(folder.path("taken"));
  expectContains(errorOf([&] { AtomicFile(folder.path("taken")).commit(); }), "taken`: Is a directory");
  EXPECT_EQ(filesIn(folder.path("")), 1u);
}

TEST(InQuotes, escapesAndShortens) {
  EXPECT_EQ(inQuotes("wte"), "`wte`");
  EXPECT_EQ(inQuotes("\x1b[1m\n"), "`\\x1b[1m\\x0a`");
  EXPECT_EQ(inQuotes(std::string(1000, 'a')), "`" + std::string(80, 'a') + "…`");
}

} // namespace
} // namespace tcc::models
