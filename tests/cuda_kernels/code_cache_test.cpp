// Machine code on disk: what comes out is what went in, or nothing; and each text is compiled once.
#include "codegen/cuda/code_cache.h"
#include "codegen/cuda/modules.h"
#include "codegen/cuda/target.h"
#include "runtime/device/cuda/nvrtc.h"
#include "runtime/files.h"
#include "tests/cuda_machine/machine_test.h"
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tcc::cuda {
namespace {

namespace fs = std::filesystem;
using machine::MachineTest;

class CodeCacheTest : public MachineTest {
protected:
  void SetUp() override {
    MachineTest::SetUp();
    base = (fs::temp_directory_path() / ("tcc_code_cache_" + std::to_string(getpid()))).string();
    fs::remove_all(base);
    setenv("TCC_CACHE_DIR", base.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(base);
    unsetenv("TCC_CACHE_DIR");
    MachineTest::TearDown();
  }
  std::vector<fs::path> entries() const {
    std::vector<fs::path> list;
    for (const fs::directory_entry &entry : fs::directory_iterator(folder()))
      list.push_back(entry.path());
    return list;
  }
  std::string folder() const { return base + "/kernels"; }
  /// How many modules NVRTC compiled for `kernels`, and their code.
  std::pair<uint64_t, std::vector<std::string>>
  compile(const std::vector<KernelSource> &kernels, const std::string &architecture, CodeKind kind = CodeKind::cubin) {
    std::string notes;
    const uint64_t before = counters().compilations;
    auto codes = compileModules(kernels, architecture, kind, notes);
    EXPECT_TRUE(codes) << codes.error().message();
    return {counters().compilations - before, codes ? std::move(*codes) : std::vector<std::string>()};
  }

  std::string base;
};

KernelSource kernel(const std::string &symbol) {
  return TextKernel{symbol, "KERNEL(" + symbol + ", 32, 1)(float *out) {\n  out[thread_x()] = 1.0f;\n}\n"};
}

TEST_F(CodeCacheTest, GivesWhatWasStored) {
  CodeCache cache = CodeCache::ofUser();
  EXPECT_EQ(cache.place(), folder());
  EXPECT_FALSE(cache.find("key"));
  const std::string code("machine\0code", 12);
  ASSERT_FALSE(cache.store("key", code));
  EXPECT_EQ(cache.find("key"), code);
  EXPECT_FALSE(cache.find("Key"));
  ASSERT_FALSE(cache.store("key", "newer"));
  EXPECT_EQ(cache.find("key"), "newer");
  ASSERT_FALSE(cache.store("empty", ""));
  EXPECT_EQ(cache.find("empty"), "");
  struct stat status = {};
  ASSERT_EQ(stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(CodeCacheTest, IsWhereTheUserHasIt) {
  unsetenv("TCC_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "/somewhere", 1);
  EXPECT_EQ(CodeCache::ofUser().place(), "/somewhere/tcc/kernels");
  unsetenv("XDG_CACHE_HOME");
  const std::string home = std::getenv("HOME") ? std::getenv("HOME") : "";
  setenv("HOME", "/home/somebody", 1);
  EXPECT_EQ(CodeCache::ofUser().place(), "/home/somebody/.cache/tcc/kernels");
  unsetenv("HOME");
  EXPECT_EQ(CodeCache::ofUser().place(), "");
  setenv("HOME", home.c_str(), 1);
  for (const char *none : {"off", "relative/folder"}) {
    setenv("TCC_CACHE_DIR", none, 1);
    EXPECT_EQ(CodeCache::ofUser().place(), "") << none;
  }
  EXPECT_FALSE(CodeCache::ofUser().store("key", "code")) << "keeping nothing is no error";
  EXPECT_FALSE(CodeCache::ofUser().find("key"));
}

TEST_F(CodeCacheTest, WhatIsDamagedIsNoEntry) {
  CodeCache cache = CodeCache::ofUser();
  ASSERT_FALSE(cache.store("key", "code of a kernel"));
  ASSERT_EQ(entries().size(), 1u);
  const fs::path file = entries()[0];
  const std::string whole = *runtime::readFile(file.string());
  auto damage = [&](const std::string &bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
    EXPECT_FALSE(cache.find("key"));
    EXPECT_FALSE(fs::exists(file)) << "it goes at once";
  };
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string changed = whole;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    damage(changed);
    damage(whole.substr(0, i));
  }
  damage(whole + "x");
  std::ofstream(file, std::ios::binary) << whole;
  EXPECT_EQ(cache.find("key"), "code of a kernel");
  // An entry under another's name.
  ASSERT_FALSE(cache.store("other", "other code"));
  for (const fs::path &entry : entries())
    if (entry != file)
      fs::rename(entry, file);
  EXPECT_FALSE(cache.find("key"));
}

TEST_F(CodeCacheTest, WhatWasUsedLongestAgoGoesFirst) {
  CodeCache cache(folder(), 10000);
  const std::string code(1000, 'c');
  auto age = [&](const std::string &key, int seconds) { // the newest entry is the key's
    ASSERT_FALSE(cache.store(key, code));
    fs::path newest;
    for (const fs::path &entry : entries())
      if (newest.empty() || fs::last_write_time(entry) > fs::last_write_time(newest))
        newest = entry;
    fs::last_write_time(newest, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  };
  for (int i = 0; i < 9; ++i)
    age("key" + std::to_string(i), 1000 - i);
  EXPECT_TRUE(cache.find("key0")) << "used now";
  ASSERT_FALSE(cache.store("key9", code));
  EXPECT_TRUE(cache.find("key0"));
  EXPECT_TRUE(cache.find("key9"));
  EXPECT_FALSE(cache.find("key1"));
  EXPECT_LE(entries().size(), 8u) << "room for some";
  EXPECT_GE(entries().size(), 6u);
}

TEST_F(CodeCacheTest, NothingComesFromAFolderThatOthersMayWriteTo) {
  CodeCache cache = CodeCache::ofUser();
  ASSERT_FALSE(cache.store("key", "code"));
  chmod(folder().c_str(), 0777);
  EXPECT_FALSE(cache.find("key"));
  EXPECT_NE(cache.store("key", "code").message().find("its user alone can write to"), std::string::npos);
  chmod(folder().c_str(), 0700);
  EXPECT_EQ(cache.find("key"), "code");
}

TEST_F(CodeCacheTest, ProcessesShareIt) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    pid_t pid = fork();
    if (pid == 0) {
      CodeCache cache(folder(), 20000); // small, so that they drop each other's entries
      bool good = true;
      for (int i = 0; i < 40; ++i) {
        const std::string key = std::to_string(i % 10), code(1000, static_cast<char>('a' + i % 10));
        good &= !cache.store(key, code);
        std::optional<std::string> found = cache.find(key);
        good &= !found || *found == code;
      }
      _exit(good ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (pid_t child : children) {
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(CodeCacheTest, ATextIsCompiledOnce) {
  const std::vector<KernelSource> two = {kernel("first"), kernel("second")};
  auto [made, codes] = compile(two, "sm_90a");
  EXPECT_EQ(made, 2u);
  auto [again, same] = compile(two, "sm_90a");
  EXPECT_EQ(again, 0u);
  EXPECT_EQ(same, codes);
  EXPECT_EQ(compile(two, "sm_80").first, 2u) << "another architecture";
  EXPECT_EQ(compile({kernel("first"), kernel("third")}, "sm_90a").first, 1u) << "one other text";
  EXPECT_EQ(compile(two, "sm_90a", CodeKind::ptx).first, 2u) << "another kind of code";
  for (const fs::path &entry : entries())
    fs::resize_file(entry, 20);
  auto [repaired, whole] = compile(two, "sm_90a");
  EXPECT_EQ(repaired, 2u);
  EXPECT_EQ(whole, codes);
  setenv("TCC_CACHE_DIR", "off", 1);
  EXPECT_EQ(compile(two, "sm_90a").first, 2u);
}

TEST_F(CodeCacheTest, ATargetsKeyNamesArchitectureAndCompiler) {
  const auto key = [](const char *architecture) { return CudaTarget({architecture}).codeKey(); };
  const auto known = key("sm_90a");
  ASSERT_TRUE(known) << known.error().message();
  EXPECT_EQ(*key("sm_90a"), *known);
  EXPECT_NE(*key("sm_80"), *known);
  EXPECT_NE(known->find(runtime::cuda::Nvrtc::open().identity()), std::string::npos) << *known;
}

TEST_F(CodeCacheTest, AFullOrForbiddenFolderIsNoError) {
  std::ofstream(base) << "a file where the folder should be";
  EXPECT_EQ(compile({kernel("first")}, "sm_90a").first, 1u);
  std::string notes;
  ASSERT_TRUE(compileModules(std::vector<KernelSource>{kernel("first")}, "sm_90a", CodeKind::cubin, notes));
  EXPECT_NE(notes.find("which takes no more"), std::string::npos) << notes;
}

} // namespace
} // namespace tcc::cuda
