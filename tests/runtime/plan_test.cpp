// Round trip, and refusal of every plan that could make the runtime touch what it must not.
#include "runtime/json_reader.h"
#include "test_plans.h"
#include <functional>
#include <gtest/gtest.h>
#include <random>

namespace tcc::runtime {
namespace {

using test::launchPlan;
using test::stepPlan;

TEST(Plan, roundTripIsTheIdentity) {
  for (const Plan &plan : {stepPlan(), launchPlan()}) {
    const auto again = planFromJson(planToJson(plan));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(*again, plan);
  }
}

TEST(Plan, emptyPlanIsValid) {
  const auto plan = planFromJson(planToJson(Plan{}));
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->plannedBytes(), 0);
}

TEST(Plan, plannedBytesAddEverything) {
  const Plan plan = stepPlan();
  EXPECT_EQ(plan.plannedBytes(), plan.arenaBytes + 8 * 24 * 4 + 2 * 8 * 40 * 4 + 24 * 40 * 4 + 40 * 4 + 4);
  EXPECT_EQ(launchPlan().plannedBytes(), 64 * 128 * 2 + 400 + 120 + 64 * 128 * 2 + 32);
}

template <typename Call>
Call &call(Plan &plan, size_t instruction) {
  return std::get<Call>(plan.instructions[instruction].call);
}

struct Fault {
  const char *expected; // part of the message
  std::function<void(Plan &)> inject;
};

const Fault faults[] = {
    {"arena of -1", [](Plan &p) { p.arenaBytes = -1; }},
    {"arena of", [](Plan &p) { p.arenaBytes = INT64_MAX; }},
    {"0 threads", [](Plan &p) { p.threads = 0; }},
    {"name of its own", [](Plan &p) { p.states[1].name = p.states[0].name; }},
    {"name of its own", [](Plan &p) { p.inputs[0].name.clear(); }},
    {"unknown dtype", [](Plan &p) { p.inputs[0].dtype = static_cast<DType>(200); }},
    {"rank 9", [](Plan &p) { p.inputs[0].shape.assign(9, 1); }},
    {"negative dim", [](Plan &p) { p.inputs[0].shape = {-1}; }},
    {"2^46 bytes", [](Plan &p) { p.inputs[0].shape = {int64_t{1} << 40, int64_t{1} << 40}; }},
    {"2^46 bytes in all", [](Plan &p) { p.arenaBytes = maxPlanBytes; }},
    {"bytes of constants", [](Plan &p) { p.constants.push_back(std::string(maxConstantBytes, 'x')); }},
    {"unknown space", [](Plan &p) { p.buffers[0].space = static_cast<Space>(9); }},
    {"names input 1", [](Plan &p) { p.buffers[0].index = 1; }},
    {"names arena 1", [](Plan &p) { p.buffers[3].index = 1; }},
    {"covers bytes", [](Plan &p) { p.buffers[0].bytes += 1; }},
    {"covers bytes", [](Plan &p) { p.buffers[0].offset = 4; }},
    {"covers bytes", [](Plan &p) { p.buffers[0].offset = -4; }},
    {"covers bytes", [](Plan &p) { p.buffers[0].bytes = -1; }},
    {"covers bytes", [](Plan &p) { p.buffers[0].offset = p.buffers[0].bytes = INT64_MAX; }},
    {"symbol of its own", [](Plan &p) { p.kernels[0].symbol = "a b"; }},
    {"symbol of its own", [](Plan &p) { p.kernels[0].symbol = p.kernels[1].symbol; }},
    {"results are the last", [](Plan &p) { p.kernels[0].results = 4; }},
    {"kernel 3 does not exist", [](Plan &p) { call<KernelCall>(p, 1).kernel = 3; }},
    {"buffer 10 does not exist", [](Plan &p) { call<KernelCall>(p, 1).segments[0].args[0] = 10; }},
    {"does not exist", [](Plan &p) { call<KernelCall>(p, 1).segments[0].args[0] = noBuffer; }},
    {"has 2 arguments", [](Plan &p) { call<KernelCall>(p, 1).segments[0].args.pop_back(); }},
    {"written but lies in an input", [](Plan &p) { call<KernelCall>(p, 1).segments[0].args[2] = 0; }},
    {"written but lies in an input or constant", [](Plan &p) { call<KernelCall>(p, 1).segments[0].args[2] = 7; }},
    {"granularity is 0", [](Plan &p) { call<KernelCall>(p, 1).granularity = 0; }},
    {"extent is -1", [](Plan &p) { call<KernelCall>(p, 1).segments[0].extent = -1; }},
    {"extent is",
     [](Plan &p) {
       auto &segments = call<KernelCall>(p, 1).segments;
       segments[0].extent = maxPlanBytes;
       segments.push_back(segments[0]);
     }},
    {"flops or bytes", [](Plan &p) { p.instructions[0].flops = -1; }},
    {"needs", [](Plan &p) { call<MatmulCall>(p, 0).desc.k += 1; }},
    {"needs", [](Plan &p) { call<MatmulCall>(p, 0).desc.c.rowStride += 1; }},
    {"overlaps itself", [](Plan &p) { call<MatmulCall>(p, 0).desc.c.rowStride -= 1; }},
    {"overlaps itself", [](Plan &p) { call<MatmulCall>(p, 0).desc.batch = {1, 2}; }},
    {"negative stride", [](Plan &p) { call<MatmulCall>(p, 0).desc.a.rowStride = -1; }},
    {"out of range", [](Plan &p) { call<MatmulCall>(p, 0).desc.m = -1; }},
    {"2^46", [](Plan &p) { call<MatmulCall>(p, 0).desc.m = maxPlanBytes; }},
    {"product of", [](Plan &p) { call<MatmulCall>(p, 0).desc.b.dtype = DType::i32; }},
    {"bias buffer", [](Plan &p) { call<MatmulCall>(p, 0).bias = 2; }},
    {"aux buffer", [](Plan &p) { call<MatmulCall>(p, 0).aux = 2; }},
    {"slopes of GELU", [](Plan &p) { call<MatmulCall>(p, 0).desc.geluGradient = true; }},
    {"bias buffer", [](Plan &p) { call<MatmulCall>(p, 0).desc.bias = DType::f32; }},
    {"an addend is given to a product that does not accumulate", [](Plan &p) { call<MatmulCall>(p, 2).addend = 1; }},
    {"addend has 160 bytes",
     [](Plan &p) {
       call<MatmulCall>(p, 2).desc.accumulate = true;
       call<MatmulCall>(p, 2).addend = 2;
     }},
    {"overlaps another operand", // in place there is none
     [](Plan &p) {
       call<MatmulCall>(p, 2).desc.accumulate = true;
       call<MatmulCall>(p, 2).addend = 5;
     }},
    {"does not exist", [](Plan &p) { call<MatmulCall>(p, 0).a = noBuffer; }},
    {"does not exist", [](Plan &p) { call<MatmulCall>(p, 0).c = noBuffer; }},
    {"written but lies", [](Plan &p) { call<MatmulCall>(p, 0).c = 0; }},
    {"scratch lies outside", [](Plan &p) { call<MatmulCall>(p, 0).scratch = 1; }},
    {"c and scratch", [](Plan &p) { call<MatmulCall>(p, 0).scratch = 3; }},
    {"scratch lies outside", [](Plan &p) { call<MatmulCall>(p, 0).packed = 1; }},
    {"c and scratch", [](Plan &p) { call<MatmulCall>(p, 0).packed = 3; }},
    {"overlaps another operand", [](Plan &p) { call<MatmulCall>(p, 2).packed = 4; }},
    {"packed b that it does not name", [](Plan &p) { call<MatmulCall>(p, 0).isPacked = true; }},
    {"overlaps another operand", [](Plan &p) { call<MatmulCall>(p, 2).scratch = 4; }},
    {"overlaps another operand", [](Plan &p) { call<MatmulCall>(p, 2).b = 5; }},
    {"the sizes are equal", [](Plan &p) { call<CopyCall>(p, 5).target = 1; }},
    {"copy overlap", [](Plan &p) { call<CopyCall>(p, 5).target = 8; }},
    {"written but lies", [](Plan &p) { call<CopyCall>(p, 5) = {7, 7}; }},
};

// For the launches' plan.
const Fault launchFaults[] = {
    {"alignment of 0", [](Plan &p) { p.alignment = 0; }},
    {"alignment of 96", [](Plan &p) { p.alignment = 96; }},
    {"alignment of 8192", [](Plan &p) { p.alignment = 8192; }},
    {"names table 1", [](Plan &p) { p.buffers[4].index = 1; }},
    {"covers bytes", [](Plan &p) { p.buffers[4].bytes = 40; }},
    {"table 0: a pointer slot is at byte 25", [](Plan &p) { p.tables[0].slots[1].offset = 25; }},
    {"table 0: a pointer slot is at byte 28", [](Plan &p) { p.tables[0].slots[1].offset = 28; }},
    {"in order", [](Plan &p) { p.tables[0].slots[1].offset = 0; }},
    {"table 0: buffer 0 is written", [](Plan &p) { p.tables[0].slots[1].buffer = 0; }},
    {"table 0: buffer 5 does not exist", [](Plan &p) { p.tables[0].slots[1].buffer = 5; }},
    {"constants and tables", [](Plan &p) { p.tables[0].bytes.resize(maxConstantBytes + 1); }},
    {"input or constant or table", [](Plan &p) { call<FillCall>(p, 0).target = 4; }},
    {"does not exist", [](Plan &p) { call<FillCall>(p, 0).target = noBuffer; }},
    {"kernel 2 does not exist", [](Plan &p) { call<LaunchCall>(p, 1).kernel = 2; }},
    {"the grid has -2", [](Plan &p) { call<LaunchCall>(p, 1).grid[0] = -2; }},
    {"the grid has 65536", [](Plan &p) { call<LaunchCall>(p, 1).grid[1] = 65536; }},
    {"a block has 0", [](Plan &p) { call<LaunchCall>(p, 1).block[2] = 0; }},
    {"a block has 16", [](Plan &p) { call<LaunchCall>(p, 1).block[1] = 16; }},
    {"a cluster has 0", [](Plan &p) { call<LaunchCall>(p, 1).cluster[0] = 0; }},
    {"divides the grid", [](Plan &p) { call<LaunchCall>(p, 1).grid[0] = 3; }},
    {"shared memory", [](Plan &p) { call<LaunchCall>(p, 1).sharedBytes = -1; }},
    {"bytes of parameters", [](Plan &p) { call<LaunchCall>(p, 1).parameters.resize(maxParameterBytes + 1); }},
    {"takes 4", [](Plan &p) { call<LaunchCall>(p, 1).parameterOffsets.pop_back(); }},
    {"a parameter starts at byte 152", [](Plan &p) { call<LaunchCall>(p, 1).parameterOffsets[3] = 152; }},
    {"a parameter starts at byte 128", [](Plan &p) { call<LaunchCall>(p, 1).parameterOffsets[2] = 128; }},
    {"a parameter starts at byte -1", [](Plan &p) { call<LaunchCall>(p, 1).parameterOffsets[0] = -1; }},
    {"a pointer slot is at byte 152", [](Plan &p) { call<LaunchCall>(p, 1).pointerSlots[1].offset = 152; }},
    {"written but lies", [](Plan &p) { call<LaunchCall>(p, 1).pointerSlots[0].written = true; }},
    {"neither read nor written", [](Plan &p) { call<LaunchCall>(p, 1).pointerSlots[0].read = false; }},
    {"a map slot is at byte 32", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].offset = 32; }},
    {"a map slot is at byte 64", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].offset = 64; }},
    {"written but lies", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].written = true; }},
    {"has 2 sizes, 0 strides", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].strides.clear(); }},
    {"elements of 3 bytes", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].elementBytes = 3; }},
    {"swizzles 16", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].swizzleBytes = 16; }},
    {"box 257", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].box[1] = 257; }},
    {"stride 250", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].strides[0] = 250; }},
    {"reaches beyond", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots[0].sizes[1] = 65; }},
    {"64 at most", [](Plan &p) { call<LaunchCall>(p, 1).mapSlots.resize(65, call<LaunchCall>(p, 1).mapSlots[0]); }},
};

TEST(Plan, everyFaultOfALaunchIsRefusedWithItsReason) {
  for (const Fault &fault : launchFaults) {
    Plan plan = launchPlan();
    ASSERT_FALSE(validatePlan(plan)) << validatePlan(plan).message();
    fault.inject(plan);
    const Error error = validatePlan(plan);
    ASSERT_TRUE(error) << "not refused: " << fault.expected;
    EXPECT_NE(error.message().find(fault.expected), std::string::npos) << error.message();
  }
}

TEST(Plan, everyFaultIsRefusedWithItsReason) {
  for (const Fault &fault : faults) {
    Plan plan = stepPlan();
    ASSERT_FALSE(validatePlan(plan));
    fault.inject(plan);
    const Error error = validatePlan(plan);
    ASSERT_TRUE(error) << "not refused: " << fault.expected;
    EXPECT_NE(error.message().find(fault.expected), std::string::npos) << error.message();
  }
}

TEST(PlanJson, refusesWhatIsNotAPlan) {
  const std::pair<std::string, const char *> cases[] = {
      {"", "not valid JSON"},
      {"{", "not valid JSON"},
      {"[]", "object with `version`"},
      {"{}", "`version` is missing"},
      {R"({"version": 1})", "has version 1; this runtime reads version 9"},
      {R"({"version": 9})", "`name` is missing"},
      {R"({"version": 1.5})", "non-integer"},
      {R"({"version": 18446744073709551615})", "non-integer"},
      {std::string(1000000, '['), "nests deeper"},
      {std::string("\xff\xfe"), "not valid JSON"},
  };
  for (const auto &[text, expected] : cases) {
    const auto plan = planFromJson(text);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message().find(expected), std::string::npos) << plan.error().message();
  }
}

TEST(Json, textIsBuiltAsTheLibraryBuildsIt) {
  for (
      const std::string text :
      {R"({"a":[1,-2,3.5,18446744073709551615,1e300,null,true,false,"x\u00e9\n"],"b":{"c":[],"d":{}},"e":[[{"f":[{}]}]]})",
       R"([{"a":1},{"a":1,"b":2,"c":3},{},[],{"a":{"b":[{}, {"c":0}]}}])", "7", "\"text\"", "null"}) {
    const auto built = parseJson(text, 1 << 20, "text");
    ASSERT_TRUE(built) << text;
    EXPECT_EQ(*built, Json::parse(text));
    EXPECT_EQ(writeJson(*built), writeJson(Json::parse(text)));
  }
  EXPECT_EQ(*parseJson(planToJson(stepPlan()), 1 << 20, "plan"), Json::parse(planToJson(stepPlan())));
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parseJson(nested(32), 1 << 20, "text"));
  EXPECT_EQ(parseJson(nested(33), 1 << 20, "text").error().message(), "text nests deeper than 32 levels");
  for (const char *text : {"[1,]", "{\"a\"}", "[1] 2", "[", "{\"a\":1", "'x'"})
    EXPECT_EQ(parseJson(text, 1 << 20, "text").error().message(), "text is not valid JSON") << text;
}

TEST(PlanJson, oversizedTextIsRefusedUnread) {
  EXPECT_FALSE(planFromJson(std::string(static_cast<size_t>(maxPlanTextBytes) + 1, ' ')));
}

// Whatever is changed: a clear refusal, or a plan that validates. Never a crash.
void expectSafe(const std::string &text) {
  const auto plan = planFromJson(text);
  if (plan)
    EXPECT_FALSE(validatePlan(*plan));
  else
    EXPECT_FALSE(plan.error().message().empty());
}

// Replaces each value of the tree in turn by `replacement` and reads the result.
void replaceEach(Json &root, Json &node, const Json &replacement, int &count) {
  if (node.is_structured())
    for (Json &child : node)
      replaceEach(root, child, replacement, count);
  Json old = replacement;
  node.swap(old);
  expectSafe(writeJson(root));
  ++count;
  node.swap(old);
}

TEST(PlanJson, everyValueReplacedByOthers) {
  for (const Plan &plan : {stepPlan(), launchPlan()}) {
    Json root = *parseJson(planToJson(plan), maxPlanTextBytes, "plan");
    int count = 0;
    for (const Json &replacement :
         {Json(), Json(-1), Json(0), Json(1), Json(INT64_MAX), Json(UINT64_MAX), Json(INT64_MIN), Json(4294967295),
          Json(1e300), Json("zz"), Json(true), Json::array(), Json::object(), Json(Json::array({1, 2, 3}))})
      replaceEach(root, root, replacement, count);
    EXPECT_GT(count, 1000);
  }
}

TEST(PlanJson, everyMemberRemoved) {
  for (const Plan &plan : {stepPlan(), launchPlan()}) {
    const Json root = *parseJson(planToJson(plan), maxPlanTextBytes, "plan");
    std::function<void(const Json::json_pointer &)> visit = [&](const Json::json_pointer &at) {
      const Json &node = root.at(at);
      if (node.is_object())
        for (const auto &[key, value] : node.items()) {
          Json changed = root;
          changed.at(at).erase(key);
          const auto plan = planFromJson(writeJson(changed));
          EXPECT_FALSE(plan) << "accepted without " << (at / key).to_string();
          visit(at / key);
        }
      else if (node.is_array())
        for (size_t i = 0; i < node.size(); ++i)
          visit(at / i);
    };
    visit(Json::json_pointer());
  }
}

TEST(PlanJson, randomDamage) {
  const std::string texts[] = {planToJson(stepPlan()), planToJson(launchPlan())};
  std::mt19937 random(7);
  for (const std::string &text : texts)
    for (int round = 0; round < 3000; ++round) {
      std::string damaged = text;
      for (int edits = 1 + static_cast<int>(random() % 3); edits > 0; --edits) {
        const size_t at = random() % damaged.size();
        switch (random() % 3) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, 1 + random() % 20);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20));
        }
      }
      expectSafe(damaged);
    }
}

} // namespace
} // namespace tcc::runtime
