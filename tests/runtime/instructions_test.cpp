// Every kind of instruction in the list, without naming one: each is filled by its fields alone.
#include "runtime/plan.h"
#include "runtime/plan_uses.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace tcc::runtime {
namespace {

/// Gives each member a value of its own, and lists two entries.
struct Filler {
  std::vector<BufferId> *ids;
  int next = 1;

  void kernel(const char *, uint32_t &number) { number = 0; }
  void buffer(const char *, BufferId &id) {
    id = static_cast<BufferId>(ids->size());
    ids->push_back(id);
  }
  void buffers(const char *key, std::vector<BufferId> &list) {
    list.resize(3);
    for (BufferId &id : list)
      buffer(key, id);
  }
  void integer(const char *, auto &value, int64_t least = 0, int64_t most = INT64_MAX) {
    value = static_cast<std::remove_reference_t<decltype(value)>>(std::clamp<int64_t>(next++, least, most));
  }
  void integers(const char *, std::vector<int64_t> &values, auto &&...) { values = {next++, next++}; }
  template <size_t N>
  void integers(const char *, std::array<int64_t, N> &values) {
    for (int64_t &value : values)
      value = next++;
  }
  void boolean(const char *, bool &value) { value = true; }
  void text(const char *, std::string &value) { value = "text" + std::to_string(next++); }
  void hex(const char *, std::string &bytes) { bytes = "bytes"; }
  void dtype(const char *, auto &value) { value = DType::bf16; }
  void object(const char *, auto &&members) { members(*this); }
  template <typename Struct>
  void list(const char *, std::vector<Struct> &entries, int64_t) {
    entries.resize(2);
    for (Struct &entry : entries)
      Struct::visitFields(entry, *this);
  }
};

/// Names of all members, in order.
struct Names {
  std::vector<std::string> keys;

  void add(const char *key) { keys.emplace_back(key); }
  void kernel(const char *key, auto &&...) { add(key); }
  void buffer(const char *key, auto &&...) { add(key); }
  void buffers(const char *key, auto &&...) { add(key); }
  void integer(const char *key, auto &&...) { add(key); }
  void integers(const char *key, auto &&...) { add(key); }
  void boolean(const char *key, auto &&...) { add(key); }
  void text(const char *key, auto &&...) { add(key); }
  void hex(const char *key, auto &&...) { add(key); }
  void dtype(const char *key, auto &&...) { add(key); }
  void object(const char *key, auto &&) { add(key); }
  void list(const char *key, auto &&...) { add(key); }
};

template <typename Test>
void forEachFilled(Test &&test) {
  forEachKind([&]<typename Kind>(std::type_identity<Kind>) {
    SCOPED_TRACE(std::string(Kind::words.op));
    std::vector<BufferId> ids;
    Instruction instruction;
    instruction.call = Kind();
    Filler filler{&ids};
    Kind::visitFields(std::get<Kind>(instruction.call), filler);
    test(instruction, ids);
  });
}

const KernelCode threeArguments{"k", 3, 1, "", 0};
const PlanLists oneKernel{{}, {&threeArguments, 1}, {}};

TEST(Instructions, EachKindHasAWordOfItsOwn) {
  std::map<std::string_view, int> words;
  forEachKind([&]<typename Kind>(std::type_identity<Kind>) {
    ++words[Kind::words.op];
    EXPECT_FALSE(Kind::words.category.empty());
  });
  EXPECT_EQ(words.size(), std::variant_size_v<AnyCall>);
}

TEST(Instructions, MembersHaveNamesOfTheirOwnInJson) {
  forEachFilled([](const Instruction &instruction, const std::vector<BufferId> &) {
    Names names;
    Instruction::visitFields(instruction, names);
    EXPECT_EQ(std::set(names.keys.begin(), names.keys.end()).size(), names.keys.size());
    EXPECT_FALSE(std::ranges::count(names.keys, "op")) << "the kind's own word";
  });
}

TEST(Instructions, EveryBufferThatAKindNamesIsReadOrWritten) {
  forEachFilled([](Instruction &instruction, const std::vector<BufferId> &ids) {
    std::multiset<BufferId> visited;
    visitBuffers(instruction, oneKernel, [&](BufferId &id, const BufferUse &use) {
      EXPECT_TRUE(use.read || use.written);
      EXPECT_TRUE(use.written || !use.scratch);
      visited.insert(id);
      id += 1000;
    });
    EXPECT_EQ(visited, std::multiset(ids.begin(), ids.end()));
    visitBuffers(std::as_const(instruction), oneKernel,
                 [&](BufferId id, const BufferUse &) { EXPECT_GE(id, 1000u) << "a copy was changed"; });
  });
}

TEST(Instructions, PartsOfAKindAreCounted) {
  forEachFilled([](Instruction &instruction, const std::vector<BufferId> &) {
    size_t sum = 0;
    visitParts(instruction, [&](uint32_t &part) { sum += part = 5; });
    EXPECT_EQ(partsOf(instruction), sum);
    EXPECT_EQ(isControl(instruction), sum > 0);
  });
}

TEST(Instructions, BuffersThatAreNotThereAreRefusedWhateverTheKind) {
  forEachFilled([](const Instruction &instruction, const std::vector<BufferId> &ids) {
    for (BufferId missing : ids) {
      Plan plan;
      plan.kernels = {threeArguments};
      plan.states = {{"s", DType::i1, {1}}};
      plan.buffers.assign(ids.size(), {Space::state, 0, 0, 1});
      plan.instructions = {instruction};
      visitBuffers(plan.instructions[0], plan.lists(), [&](BufferId &id, const BufferUse &) {
        if (id == missing)
          id = static_cast<BufferId>(ids.size());
      });
      const std::string message = validatePlan(plan).message();
      EXPECT_NE(message.find("buffer " + std::to_string(ids.size()) + " does not exist"), std::string::npos) << message;
    }
  });
}

TEST(Instructions, KernelsThatAreNotThereAreRefusedWhateverTheKind) {
  forEachFilled([](const Instruction &instruction, const std::vector<BufferId> &ids) {
    Plan plan;
    plan.states = {{"s", DType::i1, {1}}};
    plan.buffers.assign(ids.size(), {Space::state, 0, 0, 1});
    plan.instructions = {instruction};
    bool hasKernel = false;
    visitKernels(instruction, [&](uint32_t) { hasKernel = true; });
    const bool isRefused =
        validatePlan(plan).message().find("kernel 0 does not exist; there are 0") != std::string::npos;
    EXPECT_EQ(isRefused, hasKernel);
  });
}

TEST(Instructions, WhatIsWrittenLiesInNoInputWhateverTheKind) {
  forEachFilled([](const Instruction &instruction, const std::vector<BufferId> &ids) {
    Plan plan;
    plan.kernels = {threeArguments};
    plan.inputs = {{"x", DType::i1, {1}}};
    plan.buffers.assign(ids.size(), {Space::input, 0, 0, 1});
    plan.instructions = {instruction};
    bool writes = false;
    visitBuffers(instruction, plan.lists(), [&](BufferId, const BufferUse &use) { writes |= use.written; });
    const std::string message = validatePlan(plan).message();
    EXPECT_EQ(message.find("is written but lies in an input") != std::string::npos, writes) << message;
  });
}

TEST(Instructions, KernelsAreRenumberedWhereverTheyAreNamed) {
  int named = 0;
  forEachFilled([&](Instruction &instruction, const std::vector<BufferId> &) {
    visitKernels(instruction, [&](uint32_t &kernel) {
      ++named;
      kernel = 7;
    });
    visitKernels(std::as_const(instruction), [](uint32_t kernel) { EXPECT_EQ(kernel, 7u); });
  });
  EXPECT_GE(named, 2) << "calls and launches";
}

} // namespace
} // namespace tcc::runtime
