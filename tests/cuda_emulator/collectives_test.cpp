// Each primitive that needs a whole warp on the device needs it in the emulator too. The list comes from the device's
// text: what it says by intrinsics and PTX decides, so that a new primitive must have its call here.
#include "codegen/cuda/device/device_text.h"
#include "tests/cuda_compiled/convergence.h"
#include "tests/cuda_emulator/samples.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

namespace tcc::emulator {
namespace {

std::string withoutComments(const std::string &text) {
  return std::regex_replace(text, std::regex("//[^\n]*"), "");
}

struct DeviceFunction {
  std::string name, body;
  bool isPrimitive; // not a member of a class
};

/// The functions that a device text defines, "DEVICE int name(…) {…}".
std::vector<DeviceFunction> functionsOf(const std::string &text) {
  std::vector<DeviceFunction> functions;
  static const std::regex head(R"(DEVICE\s[^(){};]*?(\w+)\s*\()");
  std::vector<bool> isClass; // of each open brace
  std::size_t scanned = 0;
  auto scan = [&](std::size_t end) {
    for (; scanned < end; ++scanned)
      if (text[scanned] == '"') {
        scanned = text.find('"', scanned + 1);
      } else if (text[scanned] == '{') {
        std::size_t start = text.find_last_of(";}{", scanned - 1) + 1;
        static const std::regex isStruct(R"(\b(struct|class)\b)");
        isClass.push_back(std::regex_search(text.begin() + static_cast<long>(start),
                                            text.begin() + static_cast<long>(scanned), isStruct));
      } else if (text[scanned] == '}' && !isClass.empty()) {
        isClass.pop_back();
      }
  };
  for (std::sregex_iterator at(text.begin(), text.end(), head), none; at != none; ++at) {
    auto place = static_cast<std::size_t>(at->position());
    if (text.rfind("#define", place) != std::string::npos && text.rfind("#define", place) > text.rfind('\n', place))
      continue;
    scan(place);
    bool member = std::find(isClass.begin(), isClass.end(), true) != isClass.end();
    std::size_t open = text.find('{', place), end = open, depth = 0;
    do {
      if (text[end] == '"')
        end = text.find('"', end + 1);
      depth += text[end] == '{';
      depth -= text[end] == '}';
      ++end;
    } while (depth > 0 && end < text.size());
    functions.push_back({(*at)[1], text.substr(open, end - open), !member});
  }
  return functions;
}

/// Whether a body has a collective of the device itself: an intrinsic, or an instruction in its `asm`.
bool hasCollective(const std::string &body) {
  static const std::regex intrinsic(R"(\b__\w+)"), quoted(R"re("([^"]*)")re"), opcode(R"([a-z][\w.:]*)");
  for (std::sregex_iterator at(body.begin(), body.end(), intrinsic), none; at != none; ++at)
    if (test::isCollectiveIntrinsic(at->str()))
      return true;
  for (std::sregex_iterator text(body.begin(), body.end(), quoted), none; text != none; ++text) {
    std::string assembly = (*text)[1];
    for (std::sregex_iterator at(assembly.begin(), assembly.end(), opcode); at != none; ++at)
      if (test::isCollectiveInstruction(at->str()))
        return true;
  }
  return false;
}

/// Names of the primitives of a device text that are collectives, or call one.
std::set<std::string> collectivesOf(const std::string &deviceText) {
  std::vector<DeviceFunction> functions = functionsOf(withoutComments(deviceText));
  std::set<std::string> names;
  for (bool changed = true; changed;) {
    changed = false;
    for (const DeviceFunction &function : functions) {
      bool found = hasCollective(function.body);
      for (const std::string &name : names)
        found |= std::regex_search(function.body, std::regex("\\b" + name + R"(\s*(<[^;{}()]*>)?\s*\()"));
      changed |= found && names.insert(function.name).second;
    }
  }
  std::set<std::string> primitives;
  for (const DeviceFunction &function : functions)
    if (function.isPrimitive && names.count(function.name))
      primitives.insert(function.name);
  return primitives;
}

struct Call {
  std::string text;
  std::string before = {}, after = {}; // by all threads
};

/// A call of each collective. `x` is a float, `i` an int, `d` 16 floats of a wgmma, `a` four words; `tile` is shared
/// memory with something in it.
const std::map<std::string, Call> &calls() {
  static const std::map<std::string, Call> all = [] {
    std::map<std::string, Call> made = {
        {"warp_index", {"i += warp_index();"}},
        {"block_barrier", {"block_barrier();"}},
        {"warp_barrier", {"warp_barrier();"}},
        {"named_barrier_sync", {"named_barrier_sync(1, 128);"}},
        {"named_barrier_arrive", {"named_barrier_arrive(1, 128);"}},
        {"vote_any", {"i += vote_any(i > 3);"}},
        {"vote_all", {"i += vote_all(i > 3);"}},
        {"vote_ballot", {"i += static_cast<int>(vote_ballot(i > 3));"}},
        {"elect_one", {"i += elect_one();"}},
        {"registers_release", {"registers_release<40>();"}},
        {"registers_acquire", {"registers_acquire<64>();", "registers_release<40>();"}},
        {"ldmatrix_x4", {"ldmatrix_x4(a[0], a[1], a[2], a[3], tile + 16 * lane_index());"}},
        {"ldmatrix_x4_trans", {"ldmatrix_x4_trans(a[0], a[1], a[2], a[3], tile + 16 * lane_index());"}},
        {"ldmatrix_x2", {"ldmatrix_x2(a[0], a[1], tile + 16 * lane_index());"}},
        {"ldmatrix_x2_trans", {"ldmatrix_x2_trans(a[0], a[1], tile + 16 * lane_index());"}},
        {"mma_m16n8k16_bf16", {"mma_m16n8k16_bf16(e, a, 0, 0);"}},
        {"mma_m16n8k16_f16", {"mma_m16n8k16_f16(e, a, 0, 0);"}},
        {"mma_m16n8k16", {"mma_m16n8k16<bf16>(e, a, 0, 0);"}},
        {"warp_reduce", {"x += warp_reduce<SumOf>(x);"}},
        {"block_reduce", {"x += block_reduce<MaxOf>(x, scratch);"}},
        {"wgmma_fence", {"wgmma_fence();"}},
        {"wgmma_commit", {"wgmma_commit();", "wgmma_fence();", "wgmma_wait<0>();"}},
        {"wgmma_wait", {"wgmma_wait<0>();", "wgmma_fence(); wgmma_commit();"}},
        {"wgmma_shared",
         {"wgmma_shared<bf16>(d, descriptor, descriptor, false);", "wgmma_fence();",
          "wgmma_commit(); wgmma_wait<0>(); wgmma_hold(d);"}},
        {"wgmma_registers",
         {"wgmma_registers<bf16>(d, a, descriptor, false);", "wgmma_fence();",
          "wgmma_commit(); wgmma_wait<0>(); wgmma_hold(d);"}},
    };
    for (const char *name : {"shuffle_xor", "shuffle_down", "shuffle_up", "shuffle_from"})
      made[name] = {std::string("x += ") + name + "(x, 1);"};
    for (const char *name :
         {"quad_reduce_sum", "quad_reduce_max", "warp_reduce_sum", "warp_reduce_max", "warp_reduce_min"})
      made[name] = {std::string("x += ") + name + "(x);"};
    for (const char *name : {"block_reduce_sum", "block_reduce_max"})
      made[name] = {std::string("x += ") + name + "(x, scratch);"};
    return made;
  }();
  return all;
}

/// A kernel in which the first `lanes` lanes of each warp make the call.
std::string kernelWith(const std::string &name, const Call &call) {
  return "KERNEL(of_" + name +
         ", 128, 1)(float *out, int lanes) {\n"
         "  DYNAMIC_SHARED(tile, 1024);\n  SHARED(float, scratch, 32);\n"
         "  for (int at = thread_x(); at < 2048; at += 128)\n    store_4(tile + 4 * at, 0);\n"
         "  fence_proxy_async();\n  block_barrier();\n"
         "  float x = 1.0f, d[16] = {}, e[4] = {};\n  int i = thread_x();\n  u32 a[4] = {};\n"
         "  const u64 descriptor = wgmma_descriptor(tile, 16, 1024, swizzle_128);\n  " +
         call.before + "\n  if (lane_index() < lanes) {\n    " + call.text + "\n  }\n  " + call.after +
         "\n  out[thread_x()] = x + d[0] + e[0] + static_cast<float>(i + static_cast<int>(a[0] + descriptor));\n}\n";
}

TEST(Collectives, ofTheDeviceAreThoseOfTheEmulator) {
  std::set<std::string> listed = collectivesOf(cuda::deviceText(cuda::Prelude::Wgmma));
  EXPECT_GT(listed.size(), 30u);
  std::string text;
  for (const std::string &name : listed) {
    auto call = calls().find(name);
    ASSERT_NE(call, calls().end()) << "the device's `" << name
                                   << "` needs all lanes of a warp: give it a call in this test, and make it a "
                                      "collective in the emulator";
    text += kernelWith(name, call->second);
  }
  for (const auto &[name, call] : calls())
    EXPECT_TRUE(listed.count(name)) << "`" << name << "` is no collective of the device";
  Module module = Module::compile(text);
  for (const std::string &name : listed) {
    SCOPED_TRACE(name);
    for (const Schedule &schedule : testSchedules()) {
      DeviceBuffer out(128 * 4, "out");
      LaunchResult whole = launch(module, "of_" + name, {1}, {128}, 8192, schedule, out.data(), 32);
      EXPECT_TRUE(whole.ok()) << whole.text();
      LaunchResult half = launch(module, "of_" + name, {1}, {128}, 8192, schedule, out.data(), 16);
      EXPECT_TRUE(half.has(FindingKind::Divergence)) << "half of a warp gets through it: " << half.text();
    }
  }
}

// The list sees each way in which a primitive can be a collective, and takes nothing else for one.
TEST(Collectives, areListedByWhatTheyDo) {
  std::string text = R"cuda(
DEVICE int by_intrinsic(int x) { return __reduce_add_sync(0xffffffffu, x); }
DEVICE void by_barrier() { __syncthreads(); }
DEVICE void by_assembly() { asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; }" ::: "memory"); }
DEVICE void by_alignment() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); }
DEVICE void by_cluster() { asm volatile("barrier.cluster.arrive;"); }
template <int n>
DEVICE int by_call(int x) { return by_intrinsic(x) + n; }
struct Ops {
  template <int n>
  DEVICE void member() { by_call<n>(1); }
};
DEVICE void by_member() { Ops::template member<3>(); }
DEVICE void alone() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); } // no .sync in it
DEVICE float bits(int x) { return __int_as_float(x); }
DEVICE bool waits() { asm volatile("mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"); return true; }
)cuda";
  EXPECT_EQ(collectivesOf(text), (std::set<std::string>{"by_intrinsic", "by_barrier", "by_assembly", "by_alignment",
                                                        "by_cluster", "by_call", "by_member"}));
}

// The shuffle that a kernel of column sums once made within a branch: lanes that have no column wait for the totals.
TEST(Collectives, aWarpIndexWithinABranchStandsForEver) {
  auto text = [](bool atEntry) {
    return std::string("KERNEL(totals, 64, 1)(float *out) {\n  SHARED(float, totals, 64);\n  const int warp = "
                       "warp_index();\n  if (lane_index() < 5)\n    totals[") +
           (atEntry ? "warp" : "warp_index()") +
           " * 32 + lane_index()] = 1.0f;\n  block_barrier();\n  if (thread_x() < 5)\n"
           "    out[thread_x()] = totals[thread_x()] + totals[32 + thread_x()] + static_cast<float>(warp);\n}\n";
  };
  DeviceBuffer out(5 * 4, "out");
  for (const Schedule &schedule : testSchedules()) {
    EXPECT_TRUE(launch(Module::compile(text(true)), "totals", {1}, {64}, 0, schedule, out.data()).ok());
    LaunchResult wrong = launch(Module::compile(text(false)), "totals", {1}, {64}, 0, schedule, out.data());
    EXPECT_TRUE(wrong.has(FindingKind::Divergence)) << wrong.text();
    EXPECT_NE(wrong.text().find("kernel.cu:5"), std::string::npos) << wrong.text();
  }
}

} // namespace
} // namespace tcc::emulator
