// Files that appear whole, leftovers of killed writers, and outputs that are other files of the same run.
#include "runtime/files.h"
#include "tests/files.h"
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tcc::runtime {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
protected:
  std::string at(const std::string &name) const { return folder.path(name); }
  std::string write(const std::string &name, const std::string &text) const { return folder.write(name, text); }
  std::string read(const std::string &name) const { return test::readAll(at(name)); }
  size_t count() const { return folder.count(); }

  test::TemporaryFolder folder;
};

TEST_F(Files, AppearOnlyWhenCommitted) {
  const std::string path = write("f", "old");
  {
    auto abandoned = AtomicFile::create(path);
    ASSERT_TRUE(abandoned);
    ASSERT_FALSE(abandoned->write("half"));
  }
  EXPECT_EQ(read("f"), "old");
  EXPECT_EQ(count(), 1u);
  ASSERT_FALSE(writeFileAtomically(path, "new"));
  EXPECT_EQ(read("f"), "new");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, KeepThePermissionsOfWhatTheyReplace) {
  const std::string path = write("f", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_FALSE(writeFileAtomically(path, "new"));
  EXPECT_EQ(fs::status(path).permissions(), static_cast<fs::perms>(0640));
  const mode_t mask = ::umask(027);
  ASSERT_FALSE(writeFileAtomically(at("fresh"), "new"));
  ::umask(mask);
  EXPECT_EQ(fs::status(at("fresh")).permissions(), static_cast<fs::perms>(0640));
}

TEST_F(Files, GoThroughLinksAlsoThoseThatLeadNowhereYet) {
  write("file", "old");
  fs::create_symlink("file", at("link"));
  fs::create_symlink("fresh", at("dangling"));
  ASSERT_FALSE(writeFileAtomically(at("link"), "new"));
  ASSERT_FALSE(writeFileAtomically(at("dangling"), "new"));
  EXPECT_EQ(read("file"), "new");
  EXPECT_EQ(read("fresh"), "new");
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_TRUE(fs::is_symlink(at("dangling")));
}

TEST_F(Files, WhatAKilledWriterLeftIsRemovedByTheNextOne) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    auto file = AtomicFile::create(at("f"));
    const bool good = file && !file->write("half");
    [[maybe_unused]] const ssize_t told = ::write(ready[1], good ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  char answer = 'n';
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  EXPECT_EQ(count(), 1u) << "the temporary file";
  write("f.tmp-backup", "a user's own");
  ASSERT_FALSE(writeFileAtomically(at("f"), "mine")) << "while the other writer is at work";
  EXPECT_EQ(count(), 3u) << "a living writer keeps its temporary file";
  ASSERT_EQ(::kill(writer, SIGKILL), 0);
  ASSERT_EQ(::waitpid(writer, nullptr, 0), writer);
  ASSERT_FALSE(writeFileAtomically(at("f"), "next"));
  EXPECT_EQ(read("f"), "next");
  EXPECT_EQ(count(), 2u) << "f and the user's own";
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(Files, ErrorsNameThePath) {
  const auto message = [&](const std::string &name) { return writeFileAtomically(at(name), "x").message(); };
  EXPECT_NE(message("no/such/f").find("cannot write `" + at("no/such/f") + "`: No such file"), std::string::npos);
  fs::create_directory(at("folder"));
  EXPECT_NE(message("folder").find("Is a directory"), std::string::npos);
  EXPECT_NE(writeFileAtomically("/dev/full", "x").message().find("No space left"), std::string::npos);
  EXPECT_FALSE(readFile(at("absent")));
  EXPECT_FALSE(readFile(folder.path("")));
}

/// The message of a run that reads and writes these files of the folder.
class FileUsesTest : public Files {
protected:
  std::string conflict(const std::vector<std::string> &read, const std::vector<std::string> &written) const {
    FileUses files;
    for (const std::string &name : read)
      files.reads("input " + name, at(name));
    for (const std::string &name : written)
      files.writes("output " + name, at(name));
    return files.check().message();
  }
};

TEST_F(FileUsesTest, AnOutputIsNoInputAndNoOtherOutput) {
  write("a", "");
  write("b", "");
  fs::create_symlink("a", at("soft"));
  fs::create_symlink("fresh", at("dangling"));
  fs::create_hard_link(at("a"), at("hard"));
  fs::create_directory(at("folder"));
  EXPECT_EQ(conflict({"a", "b"}, {"c", "d"}), "");
  EXPECT_EQ(conflict({"a", "a", "soft"}, {}), "") << "files may be read twice";
  EXPECT_EQ(
      conflict({"a"}, {"a"}),
      "output a is the same file as input a, which is read; no output may be a file that is read or another output");
  EXPECT_NE(conflict({"a"}, {"soft"}), "");
  EXPECT_NE(conflict({"a"}, {"hard"}), "");
  EXPECT_NE(conflict({"soft"}, {"b", "folder/../hard"}), "");
  EXPECT_EQ(conflict({"a"}, {"b", "b"}),
            "output b is the same file as output b; no output may be a file that is read or another output");
  EXPECT_NE(conflict({}, {"fresh", "fresh"}), "") << "though it does not exist yet";
  EXPECT_NE(conflict({}, {"fresh", "folder/../fresh"}), "");
  EXPECT_NE(conflict({}, {"fresh", "dangling"}), "");
  EXPECT_NE(conflict({}, {"made", "made/"}), "") << "a folder that will be made";
  EXPECT_NE(conflict({}, {"new/x", "new/../new/x"}), "");
}

TEST_F(FileUsesTest, DevicesAndPipesAreEqualToNothing) {
  FileUses files;
  files.reads("input", "/dev/null");
  files.writes("one", "/dev/null");
  files.writes("two", "/dev/null");
  ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
  files.reads("pipe", at("pipe"));
  files.writes("pipe", at("pipe"));
  EXPECT_EQ(files.check().message(), "");
}

TEST_F(FileUsesTest, TheStreamsOfTheProcessCountWhereTheyAreFiles) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int out = ::open(at("log").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(out, STDERR_FILENO);
    FileUses harmless, onto;
    harmless.standardStreams(false);
    harmless.writes("o", at("other"));
    onto.standardStreams(false);
    onto.writes("--json log", at("log"));
    ::_exit(!harmless.check() && onto.check() ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
} // namespace tcc::runtime
