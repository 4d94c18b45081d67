// Entries on disk: what comes out is what went in, or nothing, whatever happens to files, folders and processes.
#include "codegen/file_cache.h"
#include "runtime/files.h"
#include "tests/files.h"
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tcc {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kind = FileCache::kernels;

class FileCacheTest : public ::testing::Test {
protected:
  FileCache cache(int64_t mostBytes = FileCache::usualBytes) const { return FileCache(base, mostBytes); }
  std::string folder() const { return base + "/" + std::string(kind); }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> list;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder()))
      list.push_back(entry.path());
    return list;
  }
  static mode_t modeOf(const std::string &path) {
    struct stat status = {};
    return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  /// Runs body in children; how many said that all was well.
  template <typename Body>
  static int inChildren(int count, Body &&body) {
    std::vector<pid_t> children;
    for (int child = 0; child < count; ++child)
      if (pid_t pid = fork(); pid == 0)
        _exit(body(child) ? 0 : 1);
      else
        children.push_back(pid);
    int good = 0;
    for (pid_t child : children) {
      int status = 1;
      waitpid(child, &status, 0);
      good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    return good;
  }

  const test::TemporaryFolder parent;
  const std::string base = parent / "cache";
};

/// An environment variable, or none, until the end of the scope.
class Variable {
public:
  Variable(const char *name, const char *value) : name(name) {
    if (const char *now = std::getenv(name))
      before = now;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { before ? setenv(name, before->c_str(), 1) : unsetenv(name); }

private:
  const char *name;
  std::optional<std::string> before;
};

TEST_F(FileCacheTest, GivesWhatWasStored) {
  const FileCache files = cache();
  EXPECT_FALSE(files.find(kind, "key"));
  const std::string code("machine\0code", 12);
  ASSERT_FALSE(files.store(kind, "key", code));
  EXPECT_EQ(files.find(kind, "key"), code);
  EXPECT_FALSE(files.find(kind, "Key"));
  EXPECT_FALSE(files.find(FileCache::steps, "key")) << "another kind";
  ASSERT_FALSE(files.store(kind, "key", "newer"));
  EXPECT_EQ(files.find(kind, "key"), "newer");
  ASSERT_FALSE(files.store(kind, "empty", ""));
  EXPECT_EQ(files.find(kind, "empty"), "");
  EXPECT_EQ(modeOf(folder()), 0700u);
  EXPECT_EQ(modeOf(base), 0700u);
}

TEST_F(FileCacheTest, IsWhereTheUserHasIt) {
  {
    const Variable own("TCC_CACHE_DIR", "/mine/"), xdg("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(FileCache::userFolder(), "/mine");
  }
  {
    const Variable own("TCC_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(FileCache::userFolder(), "/somewhere/tcc");
  }
  const Variable own("TCC_CACHE_DIR", nullptr), xdg("XDG_CACHE_HOME", nullptr);
  {
    const Variable home("HOME", "/home/somebody");
    EXPECT_EQ(FileCache::userFolder(), "/home/somebody/.cache/tcc");
    EXPECT_EQ(FileCache::ofUser().place(), "/home/somebody/.cache/tcc");
    EXPECT_EQ(FileCache::ofUser().whyOff(), "");
  }
  const Variable home("HOME", nullptr);
  EXPECT_EQ(FileCache::userFolder(), "");
  EXPECT_EQ(FileCache::ofUser().place(), "");
  EXPECT_EQ(FileCache::ofUser().whyOff(), "since none of TCC_CACHE_DIR, XDG_CACHE_HOME and HOME names its folder");
  {
    const Variable word("TCC_CACHE_DIR", "off"), xdgToo("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(FileCache::userFolder(), "");
    EXPECT_EQ(FileCache::ofUser().whyOff(), "by TCC_CACHE_DIR=off");
    EXPECT_EQ(runtime::cacheFolder("limits"), "/somewhere/tcc/limits") << "it says nothing of other things";
  }
  for (const char *relative : {"relative/folder", "offers"}) {
    const Variable word("TCC_CACHE_DIR", relative), xdgToo("XDG_CACHE_HOME", "/somewhere");
    EXPECT_EQ(FileCache::userFolder(), (fs::current_path() / relative).string());
    EXPECT_EQ(runtime::cacheFolder("limits"), (fs::current_path() / relative / "limits").string());
  }
  const FileCache nothing;
  EXPECT_FALSE(nothing.store(kind, "key", "code")) << "keeping nothing is no error";
  EXPECT_FALSE(nothing.find(kind, "key"));
  nothing.wait(kind, "key");
}

TEST_F(FileCacheTest, WhatIsDamagedIsNoEntry) {
  const FileCache files = cache();
  ASSERT_FALSE(files.store(kind, "key", "code of a kernel"));
  const fs::path file = files.fileOf(kind, "key");
  const std::string whole = *runtime::readFile(file.string());
  auto damage = [&](const std::string &bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    std::string wrong;
    EXPECT_FALSE(files.find(kind, "key", &wrong));
    EXPECT_EQ(wrong, "the entry was damaged and is removed");
    EXPECT_FALSE(fs::exists(file)) << "it goes at once";
    wrong.clear();
    EXPECT_FALSE(files.find(kind, "key", &wrong));
    EXPECT_EQ(wrong, "") << "there is none";
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    damage(changed);
    damage(whole.substr(0, i));
  }
  damage(whole + "x");
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(files.find(kind, "key"), "code of a kernel");
  // An entry under another's name, and of another kind.
  ASSERT_FALSE(files.store(kind, "other", "other code"));
  fs::rename(files.fileOf(kind, "other"), file);
  EXPECT_FALSE(files.find(kind, "key"));
  ASSERT_FALSE(files.store(kind, "key", "code of a kernel"));
  ASSERT_FALSE(files.store(FileCache::steps, "key", "a step"));
  fs::rename(file, files.fileOf(FileCache::steps, "key"));
  EXPECT_FALSE(files.find(FileCache::steps, "key"));
  // A file that no memory could hold is looked at no further.
  ASSERT_FALSE(files.store(kind, "key", "code of a kernel"));
  fs::resize_file(file, uintmax_t{1} << 42);
  EXPECT_FALSE(files.find(kind, "key"));
  // What cannot be removed is said to be there.
  fs::create_directory(file);
  std::string wrong;
  EXPECT_FALSE(files.find(kind, "key", &wrong));
  EXPECT_EQ(wrong, "the entry was no readable file of its user's alone and cannot be removed: Is a directory");
}

TEST_F(FileCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  const FileCache files = cache(10000);
  const std::string code(1000, 'c');
  auto age = [&](const std::string &key, int seconds) {
    ASSERT_FALSE(files.store(kind, key, code));
    fs::last_write_time(files.fileOf(kind, key), fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  for (int i = 0; i < 9; ++i)
    age("key" + std::to_string(i), 1000 - i);
  EXPECT_TRUE(files.find(kind, "key0")) << "used now";
  ASSERT_FALSE(files.store(FileCache::steps, "step", code)) << "all kinds share the bound";
  EXPECT_TRUE(files.find(kind, "key0"));
  EXPECT_TRUE(files.find(FileCache::steps, "step"));
  EXPECT_FALSE(files.find(kind, "key1"));
  EXPECT_LE(entries().size(), 7u) << "room for some";
  EXPECT_GE(entries().size(), 5u);
}

/// Each store of a small entry need not look through all of them.
TEST_F(FileCacheTest, ManySmallEntriesAreBounded) {
  const FileCache files = cache(40000);
  for (int i = 0; i < 800; ++i)
    ASSERT_FALSE(files.store(kind, std::to_string(i), std::string(100, 'c')));
  const FileCache::Usage usage = files.usage()[0];
  EXPECT_LE(usage.bytes, 50000) << "a quarter more at most";
  EXPECT_GE(usage.bytes, 30000);
}

TEST_F(FileCacheTest, NothingComesFromAFolderThatOthersMayWriteTo) {
  const FileCache files = cache();
  ASSERT_FALSE(files.store(kind, "key", "code"));
  for (const std::string &open : {folder(), base}) {
    chmod(open.c_str(), 0777);
    EXPECT_FALSE(files.find(kind, "key"));
    EXPECT_NE(files.store(kind, "key", "code").message().find("its user alone can write to"), std::string::npos);
    chmod(open.c_str(), 0700);
    EXPECT_EQ(files.find(kind, "key"), "code");
  }
  fs::rename(folder(), base + "/moved");
  fs::create_directory_symlink(base + "/moved", folder());
  EXPECT_FALSE(files.find(kind, "key")) << "a link is no folder of the cache";
}

/// A folder of the user's may have files of other programs, under the names of our folders too.
TEST_F(FileCacheTest, ForeignFilesStay) {
  fs::create_directories(folder());
  const std::string hex(64, 'a');
  const std::vector<std::string> foreign = {"a.cu", "x.entry", hex, hex + ".txt"};
  for (const std::string &name : foreign)
    std::ofstream(folder() + "/" + name) << std::string(1000, 'f');
  const FileCache files = cache(4000);
  for (int i = 0; i < 8; ++i)
    ASSERT_FALSE(files.store(kind, std::to_string(i), std::string(1000, 'c')));
  ASSERT_FALSE(files.clear());
  EXPECT_EQ(entries().size(), foreign.size());
  EXPECT_EQ(files.usage()[0].bytes, 0);
}

TEST_F(FileCacheTest, AnEntryIsTheUsersOwnFile) {
  const FileCache files = cache();
  ASSERT_FALSE(files.store(kind, "key", "code"));
  const std::string file = files.fileOf(kind, "key");
  EXPECT_EQ(modeOf(file), 0600u);
  chmod(file.c_str(), 0620);
  EXPECT_FALSE(files.find(kind, "key")) << "a group could have written it";
  // Neither read nor written through.
  ASSERT_FALSE(files.store(kind, "key", "code"));
  const std::string elsewhere = parent / "elsewhere";
  fs::rename(file, elsewhere);
  fs::create_symlink(elsewhere, file);
  EXPECT_FALSE(files.find(kind, "key"));
  fs::create_symlink(elsewhere, file);
  ASSERT_FALSE(files.store(kind, "key", "new"));
  EXPECT_EQ(files.find(kind, "key"), "new");
  EXPECT_FALSE(fs::is_symlink(file));
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(files.find(kind, "key"));
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  ASSERT_FALSE(files.store(kind, "key", "newer"));
  EXPECT_EQ(files.find(kind, "key"), "newer");
}

TEST_F(FileCacheTest, WhatIsTooLargePutsNothingOut) {
  const FileCache files = cache(4000);
  ASSERT_FALSE(files.store(kind, "key", "code"));
  EXPECT_TRUE(files.store(kind, "large", std::string(3000, 'c')));
  EXPECT_EQ(files.find(kind, "key"), "code");
}

TEST_F(FileCacheTest, TheUsualFolderIsMadePrivateAndOneOfTheUsersChoiceIsLeftAsItIs) {
  {
    const Variable chosen("TCC_CACHE_DIR", nullptr), usual("XDG_CACHE_HOME", std::string(parent / "xdg").c_str());
    fs::create_directories(parent / "xdg/tcc");
    chmod((parent / "xdg/tcc").c_str(), 02775); // as with the umask 002
    const FileCache files(FileCache::userFolder() + "/");
    ASSERT_FALSE(files.store(kind, "key", "code"));
    EXPECT_EQ(modeOf(parent / "xdg/tcc"), 02755u);
    EXPECT_EQ(files.find(kind, "key"), "code");
  }
  const Variable chosen("TCC_CACHE_DIR", base.c_str());
  const FileCache files(FileCache::userFolder());
  fs::create_directories(base);
  for (mode_t mode : {0775u, 01777u, 02775u}) {
    chmod(base.c_str(), mode);
    EXPECT_NE(files.store(kind, "key", "code").message().find("its user alone can write to"), std::string::npos);
    EXPECT_EQ(modeOf(base), mode);
  }
  fs::remove(base);
  ASSERT_FALSE(files.store(kind, "key", "code"));
  EXPECT_EQ(modeOf(base), 0700u);
}

TEST_F(FileCacheTest, AFolderThatCannotBeWrittenIsAnErrorAndNoMore) {
  std::ofstream(base) << "a file where the folder should be";
  EXPECT_TRUE(cache().store(kind, "key", "code"));
  EXPECT_FALSE(cache().find(kind, "key"));
  cache().wait(kind, "key");
  fs::remove(base);
  // A disk that takes no more bytes.
  EXPECT_EQ(inChildren(1,
                       [&](int) {
                         signal(SIGXFSZ, SIG_IGN);
                         const rlimit limit = {1000, 1000};
                         setrlimit(RLIMIT_FSIZE, &limit);
                         return bool(cache().store(kind, "key", std::string(5000, 'c'))) &&
                                !cache().find(kind, "key") && !cache().store(kind, "small", "code") &&
                                cache().find(kind, "small") == "code";
                       }),
            1);
  EXPECT_EQ(entries().size(), 1u) << "nothing is left of what did not fit";
}

TEST_F(FileCacheTest, ProcessesShareIt) {
  const int good = inChildren(4, [&](int) {
    const FileCache files = cache(20000); // small, so that they drop each other's entries
    bool all = true;
    for (int i = 0; i < 40; ++i) {
      const std::string key = std::to_string(i % 10), code(1000, static_cast<char>('a' + i % 10));
      all &= !files.store(kind, key, code);
      const std::optional<std::string> found = files.find(kind, key);
      all &= !found || *found == code;
    }
    return all;
  });
  EXPECT_EQ(good, 4);
}

/// 200 writers that are killed at some time of their work.
TEST_F(FileCacheTest, AKilledWriterLeavesWholeEntriesOrNone) {
  const FileCache files = cache();
  const std::string code(200000, 'c');
  for (int round = 0; round < 200; ++round) {
    const pid_t pid = fork();
    if (pid == 0)
      while (true)
        for (int i = 0; i < 4; ++i) {
          FileCache::Turn turn = files.wait(kind, std::to_string(i));
          (void)!files.store(kind, std::to_string(i), code);
        }
    usleep(static_cast<useconds_t>(200 + round * 37 % 6000));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    for (int i = 0; i < 4; ++i) {
      const std::optional<std::string> found = files.find(kind, std::to_string(i));
      ASSERT_TRUE(!found || *found == code);
    }
    const auto start = std::chrono::steady_clock::now();
    files.wait(kind, "0");
    ASSERT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << "its lock went with it";
  }
  for (int i = 0; i < 4; ++i)
    ASSERT_FALSE(files.store(kind, std::to_string(i), code));
  EXPECT_LE(entries().size(), 8u) << "what the killed ones left goes when their entries are written again";
}

TEST_F(FileCacheTest, OneAtATimeHasAKey) {
  ASSERT_FALSE(cache().store(kind, "first", "")); // the folder is there
  const std::string counter = base + "/counter";
  std::ofstream(counter) << 0;
  const auto addOne = [&](int) {
    for (int i = 0; i < 50; ++i) {
      const FileCache::Turn turn = cache().wait(kind, "key");
      int count = 0;
      std::ifstream(counter) >> count;
      std::ofstream(counter) << count + 1;
    }
    return true;
  };
  EXPECT_EQ(inChildren(4, addOne), 4);
  int count = 0;
  std::ifstream(counter) >> count;
  EXPECT_EQ(count, 200);
  // Another key does not wait, and a wait ends.
  const FileCache::Turn held = cache().wait(kind, "key");
  const auto start = std::chrono::steady_clock::now();
  const FileCache::Turn other = cache().wait(kind, "other");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  const FileCache::Turn late = cache().wait(kind, "key", 0.05);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
}

TEST_F(FileCacheTest, IsCountedAndCleared) {
  const FileCache files = cache();
  for (int i = 0; i < 5; ++i)
    ASSERT_FALSE(files.store(kind, std::to_string(i), "code"));
  ASSERT_FALSE(files.store(FileCache::steps, "step", std::string(1000, 's')));
  std::vector<FileCache::Usage> usage = files.usage();
  ASSERT_EQ(usage.size(), 2u);
  EXPECT_EQ(usage[0].entries, 5);
  EXPECT_EQ(usage[1].entries, 1);
  EXPECT_GT(usage[1].bytes, 1000);
  EXPECT_EQ(files.newest(FileCache::steps, 10, 4), std::vector<std::string>{"ssss"});
  std::ofstream(base + "/notes.txt") << "the user's";
  ASSERT_FALSE(files.clear());
  for (const FileCache::Usage &kindUsage : files.usage())
    EXPECT_EQ(kindUsage.entries + kindUsage.bytes, 0) << kindUsage.kind;
  EXPECT_TRUE(fs::exists(base + "/notes.txt"));
}

/// Processes that count at once lose nothing; what is damaged, a folder or a device there counts nothing and harms
/// none.
TEST_F(FileCacheTest, UsesAreCounted) {
  using Event = FileCache::Event;
  auto counted = [&] {
    const FileCache::Usage usage = cache().usage()[0];
    return std::array{usage.hits, usage.misses, usage.evictions};
  };
  cache().count(kind, Event::hit);
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{})) << "where nothing was stored, there is no folder";
  ASSERT_FALSE(cache().store(kind, "key", "bytes"));
  EXPECT_EQ(inChildren(4,
                       [&](int) {
                         for (int i = 0; i < 25; ++i) {
                           cache().count(kind, Event::hit);
                           cache().count(kind, Event::miss, 2);
                         }
                         return true;
                       }),
            4);
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{100, 200, 0}));
  EXPECT_EQ(cache().usage()[1].hits, 0) << "of another kind";
  const std::string file = base + "/counts";
  const std::string whole = *runtime::readFile(file);
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    std::ofstream(file, std::ios::binary) << damaged;
    ASSERT_EQ(counted(), (std::array<int64_t, 3>{})) << at;
  }
  std::ofstream(file, std::ios::binary) << whole.substr(0, 20);
  cache().count(kind, Event::miss);
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{0, 1, 0})) << "begins anew";
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  cache().count(kind, Event::miss);
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{}));
  fs::remove(file);
  fs::create_directory(file);
  cache().count(kind, Event::miss);
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{}));
  fs::remove(file);
  const std::string many(200000, 'x');
  for (int i = 0; i < 20; ++i)
    ASSERT_FALSE(cache(1 << 20).store(kind, std::to_string(i), many));
  const int64_t gone = counted()[2];
  EXPECT_EQ(static_cast<size_t>(gone) + entries().size(), 21u);
  EXPECT_GT(gone, 0);
  EXPECT_FALSE(cache().clear());
  EXPECT_EQ(counted(), (std::array<int64_t, 3>{}));
}

} // namespace
} // namespace tcc
