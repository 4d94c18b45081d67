// The plan as JSON text. The reader believes nothing: types and ranges here, meaning in validatePlan().
#include "runtime/json_reader.h"
#include "runtime/plan.h"
#include <algorithm>

namespace tcc::runtime {
namespace {

constexpr int64_t planVersion = 4;
constexpr std::array spaces{Space::arena, Space::input, Space::output, Space::state, Space::constant, Space::table};

// ---- writing

Json idToJson(BufferId id) {
  return id == noBuffer ? Json(-1) : Json(id);
}

std::string toHex(std::string_view bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

Json toJson(const TensorSpec &spec) {
  return {{"name", spec.name}, {"dtype", name(spec.dtype)}, {"shape", spec.shape}};
}

Json toJson(const std::vector<TensorSpec> &specs) {
  Json list = Json::array();
  for (const TensorSpec &spec : specs)
    list.push_back(toJson(spec));
  return list;
}

Json toJson(const Buffer &buffer) {
  return {{"space", name(buffer.space)}, {"index", buffer.index}, {"offset", buffer.offset}, {"bytes", buffer.bytes}};
}

Json toJson(const MatrixLayout &layout) {
  return {{"dtype", name(layout.dtype)},
          {"row_stride", layout.rowStride},
          {"column_stride", layout.columnStride},
          {"batch_strides", layout.batchStrides}};
}

Json toJson(const KernelCall &call) {
  Json segments = Json::array();
  for (const Segment &segment : call.segments) {
    Json args = Json::array();
    for (BufferId id : segment.args)
      args.push_back(idToJson(id));
    segments.push_back({{"args", args}, {"extent", segment.extent}});
  }
  return {{"op", "kernel"}, {"kernel", call.kernel}, {"granularity", call.granularity}, {"segments", segments}};
}

Json toJson(const MatmulCall &call) {
  const GemmDesc &desc = call.desc;
  Json product = {{"batch", desc.batch},
                  {"m", desc.m},
                  {"n", desc.n},
                  {"k", desc.k},
                  {"a", toJson(desc.a)},
                  {"b", toJson(desc.b)},
                  {"c", toJson(desc.c)},
                  {"bias", desc.bias ? Json(name(*desc.bias)) : Json()},
                  {"accumulate", desc.accumulate},
                  {"geluGradient", desc.geluGradient},
                  {"tf32", desc.tf32}};
  return {{"op", "matmul"},
          {"product", product},
          {"a", idToJson(call.a)},
          {"b", idToJson(call.b)},
          {"c", idToJson(call.c)},
          {"bias", idToJson(call.bias)},
          {"addend", idToJson(call.addend)},
          {"aux", idToJson(call.aux)},
          {"scratch", idToJson(call.scratch)}};
}

Json toJson(const CopyCall &call) {
  return {{"op", "copy"}, {"source", idToJson(call.source)}, {"target", idToJson(call.target)}};
}

Json toJson(const std::vector<PointerSlot> &slots) {
  Json list = Json::array();
  for (const PointerSlot &slot : slots)
    list.push_back(
        {{"offset", slot.offset}, {"buffer", idToJson(slot.buffer)}, {"written", slot.written}, {"read", slot.read}});
  return list;
}

Json toJson(const MapSlot &slot) {
  return {{"offset", slot.offset},
          {"buffer", idToJson(slot.buffer)},
          {"written", slot.written},
          {"element_bytes", slot.elementBytes},
          {"swizzle_bytes", slot.swizzleBytes},
          {"sizes", slot.sizes},
          {"strides", slot.strides},
          {"box", slot.box}};
}

Json toJson(const LaunchCall &call) {
  Json maps = Json::array();
  for (const MapSlot &slot : call.mapSlots)
    maps.push_back(toJson(slot));
  return {{"op", "launch"},
          {"kernel", call.kernel},
          {"grid", call.grid},
          {"block", call.block},
          {"cluster", call.cluster},
          {"shared_bytes", call.sharedBytes},
          {"parameters", toHex(call.parameters)},
          {"parameter_offsets", call.parameterOffsets},
          {"pointers", toJson(call.pointerSlots)},
          {"maps", maps}};
}

Json toJson(const FillCall &call) {
  return {{"op", "fill"}, {"target", idToJson(call.target)}, {"value", call.value}};
}

Json toJson(const std::vector<CustomTensor> &tensors) {
  Json list = Json::array();
  for (const CustomTensor &tensor : tensors)
    list.push_back({{"buffer", idToJson(tensor.buffer)}, {"dtype", name(tensor.dtype)}, {"shape", tensor.shape}});
  return list;
}

Json toJson(const CustomCall &call) {
  return {{"op", "custom"},        {"name", call.name},         {"library", call.library},
          {"symbol", call.symbol}, {"in", toJson(call.inputs)}, {"out", toJson(call.outputs)}};
}

Json toJson(const BranchCall &call) {
  return {
      {"op", "branch"}, {"predicate", idToJson(call.predicate)}, {"then", call.then}, {"otherwise", call.otherwise}};
}

Json toJson(const LoopCall &call) {
  Json slices = Json::array();
  for (const LoopSlice &slice : call.slices)
    slices.push_back({{"source", idToJson(slice.source)}, {"target", idToJson(slice.target)}});
  return {{"op", "loop"}, {"count", call.count}, {"body", call.body}, {"slices", slices}};
}

Json toJson(const Instruction &instruction) {
  Json json = std::visit([](const auto &call) { return toJson(call); }, instruction.call);
  json["label"] = instruction.label;
  json["flops"] = instruction.flops;
  json["arithmetic"] = name(instruction.arithmetic);
  json["bytes"] = instruction.bytes;
  json["sources"] = Json::array();
  for (const SourceLocation &source : instruction.sources)
    json["sources"].push_back({{"file", source.file}, {"line", source.line}, {"column", source.column}});
  return json;
}

// ---- reading: the first problem is kept by the JsonReader, the rest reads defaults

DType readDType(JsonReader &reader, const Json &object, const char *key) {
  const std::string text = reader.string(object, key);
  const auto dtype = parseDType(text);
  if (!dtype)
    reader.fail("unknown dtype `" + text + "`");
  return dtype.value_or(DType::f32);
}

BufferId readId(JsonReader &reader, const Json &json) {
  const int64_t id = reader.asInteger(json, -1, int64_t{noBuffer} - 1);
  return id < 0 ? noBuffer : static_cast<BufferId>(id);
}

BufferId readId(JsonReader &reader, const Json &object, const char *key) {
  return readId(reader, reader.member(object, key));
}

template <size_t N>
std::array<int64_t, N> readArray(JsonReader &reader, const Json &object, const char *key) {
  std::array<int64_t, N> values{};
  const Json &list = reader.list(object, key, N);
  if (list.size() != N) {
    reader.fail("`" + std::string(key) + "` has " + std::to_string(list.size()) + " entries; it has " +
                std::to_string(N));
    return values;
  }
  for (size_t i = 0; i < N; ++i)
    values[i] = reader.asInteger(list[i]);
  return values;
}

std::vector<int64_t> readIntegers(JsonReader &reader, const Json &object, const char *key, int64_t most) {
  std::vector<int64_t> values;
  for (const Json &json : reader.list(object, key, most))
    values.push_back(reader.asInteger(json));
  return values;
}

std::string readHex(JsonReader &reader, const Json &json) {
  const std::string text = reader.asString(json);
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i + 1 < text.size() + text.size() % 2; i += 2) {
    const int high = digit(text[i]), low = i + 1 < text.size() ? digit(text[i + 1]) : -1;
    if (high < 0 || low < 0) {
      reader.fail("bytes are not written as pairs of hexadecimal digits");
      return {};
    }
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::vector<TensorSpec> readSpecs(JsonReader &reader, const Json &object, const char *key) {
  std::vector<TensorSpec> specs;
  for (const Json &json : reader.list(object, key, maxPlanItems)) {
    reader.enter(key, specs.size());
    TensorSpec spec{reader.string(json, "name"), readDType(reader, json, "dtype"), {}};
    for (const Json &dim : reader.list(json, "shape", maxRank))
      spec.shape.push_back(reader.asInteger(dim, 0, maxPlanBytes));
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<Buffer> readBuffers(JsonReader &reader, const Json &object) {
  std::vector<Buffer> buffers;
  for (const Json &json : reader.list(object, "buffers", maxPlanItems)) {
    reader.enter("buffers", buffers.size());
    const std::string text = reader.string(json, "space");
    const auto space = std::find_if(spaces.begin(), spaces.end(), [&](Space each) { return name(each) == text; });
    if (space == spaces.end())
      reader.fail("unknown space `" + text + "`");
    buffers.push_back({space == spaces.end() ? Space::arena : *space,
                       static_cast<uint32_t>(reader.integer(json, "index", 0, maxPlanItems)),
                       reader.integer(json, "offset", 0, maxPlanBytes),
                       reader.integer(json, "bytes", 0, maxPlanBytes)});
  }
  return buffers;
}

std::vector<KernelCode> readKernels(JsonReader &reader, const Json &object) {
  std::vector<KernelCode> kernels;
  for (const Json &json : reader.list(object, "kernels", maxPlanItems)) {
    reader.enter("kernels", kernels.size());
    kernels.push_back(
        {reader.string(json, "symbol"), static_cast<uint32_t>(reader.integer(json, "arguments", 0, maxPlanItems)),
         static_cast<uint32_t>(reader.integer(json, "results", 0, maxPlanItems)), reader.string(json, "description"),
         static_cast<uint32_t>(reader.integer(json, "module", 0, maxPlanItems))});
  }
  return kernels;
}

MatrixLayout readLayout(JsonReader &reader, const Json &object, const char *key) {
  const Json &json = reader.member(object, key);
  return {readDType(reader, json, "dtype"), reader.integer(json, "row_stride", 0, maxPlanBytes),
          reader.integer(json, "column_stride", 0, maxPlanBytes), readArray<2>(reader, json, "batch_strides")};
}

KernelCall readKernelCall(JsonReader &reader, const Json &json) {
  KernelCall call;
  call.kernel = static_cast<uint32_t>(reader.integer(json, "kernel", 0, maxPlanItems));
  call.granularity = reader.integer(json, "granularity", 1, maxPlanBytes);
  for (const Json &entry : reader.list(json, "segments", maxPlanItems)) {
    Segment segment;
    for (const Json &id : reader.list(entry, "args", maxPlanItems))
      segment.args.push_back(readId(reader, id));
    segment.extent = reader.integer(entry, "extent", 0, maxPlanBytes);
    call.segments.push_back(std::move(segment));
  }
  return call;
}

MatmulCall readMatmulCall(JsonReader &reader, const Json &json) {
  MatmulCall call;
  const Json &product = reader.member(json, "product");
  call.desc.batch = readArray<2>(reader, product, "batch");
  call.desc.m = reader.integer(product, "m", 0, maxPlanBytes);
  call.desc.n = reader.integer(product, "n", 0, maxPlanBytes);
  call.desc.k = reader.integer(product, "k", 0, maxPlanBytes);
  call.desc.a = readLayout(reader, product, "a");
  call.desc.b = readLayout(reader, product, "b");
  call.desc.c = readLayout(reader, product, "c");
  call.desc.accumulate = reader.boolean(product, "accumulate");
  call.desc.geluGradient = reader.boolean(product, "geluGradient");
  call.desc.tf32 = reader.boolean(product, "tf32");
  if (!reader.member(product, "bias").is_null())
    call.desc.bias = readDType(reader, product, "bias");
  call.a = readId(reader, json, "a");
  call.b = readId(reader, json, "b");
  call.c = readId(reader, json, "c");
  call.bias = readId(reader, json, "bias");
  call.addend = readId(reader, json, "addend");
  call.aux = readId(reader, json, "aux");
  call.scratch = readId(reader, json, "scratch");
  return call;
}

std::vector<PointerSlot> readSlots(JsonReader &reader, const Json &object, const char *key) {
  std::vector<PointerSlot> slots;
  for (const Json &json : reader.list(object, key, maxPlanItems))
    slots.push_back({reader.integer(json, "offset", 0, maxConstantBytes), readId(reader, json, "buffer"),
                     reader.boolean(json, "written"), reader.boolean(json, "read")});
  return slots;
}

LaunchCall readLaunchCall(JsonReader &reader, const Json &json) {
  LaunchCall call;
  call.kernel = static_cast<uint32_t>(reader.integer(json, "kernel", 0, maxPlanItems));
  call.grid = readArray<3>(reader, json, "grid");
  call.block = readArray<3>(reader, json, "block");
  call.cluster = readArray<3>(reader, json, "cluster");
  call.sharedBytes = reader.integer(json, "shared_bytes", 0, maxPlanBytes);
  call.parameters = readHex(reader, reader.member(json, "parameters"));
  call.parameterOffsets = readIntegers(reader, json, "parameter_offsets", maxParameterBytes);
  call.pointerSlots = readSlots(reader, json, "pointers");
  for (const Json &entry : reader.list(json, "maps", maxPlanItems)) {
    MapSlot slot;
    slot.offset = reader.integer(entry, "offset", 0, maxParameterBytes);
    slot.buffer = readId(reader, entry, "buffer");
    slot.written = reader.boolean(entry, "written");
    slot.elementBytes = static_cast<int32_t>(reader.integer(entry, "element_bytes", 1, 8));
    slot.swizzleBytes = static_cast<int32_t>(reader.integer(entry, "swizzle_bytes", 0, 128));
    slot.sizes = readIntegers(reader, entry, "sizes", maxMapRank);
    slot.strides = readIntegers(reader, entry, "strides", maxMapRank);
    slot.box = readIntegers(reader, entry, "box", maxMapRank);
    call.mapSlots.push_back(std::move(slot));
  }
  return call;
}

std::vector<CustomTensor> readTensors(JsonReader &reader, const Json &object, const char *key) {
  std::vector<CustomTensor> tensors;
  for (const Json &json : reader.list(object, key, maxPlanItems)) {
    CustomTensor tensor{readId(reader, json, "buffer"), readDType(reader, json, "dtype"), {}};
    for (const Json &dim : reader.list(json, "shape", maxRank))
      tensor.shape.push_back(reader.asInteger(dim, 0, maxPlanBytes));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

CustomCall readCustomCall(JsonReader &reader, const Json &json) {
  CustomCall call;
  call.name = reader.string(json, "name");
  call.library = reader.string(json, "library");
  call.symbol = reader.string(json, "symbol");
  call.inputs = readTensors(reader, json, "in");
  call.outputs = readTensors(reader, json, "out");
  return call;
}

BranchCall readBranchCall(JsonReader &reader, const Json &json) {
  return {readId(reader, json, "predicate"), static_cast<uint32_t>(reader.integer(json, "then", 0, maxPlanItems)),
          static_cast<uint32_t>(reader.integer(json, "otherwise", 0, maxPlanItems))};
}

LoopCall readLoopCall(JsonReader &reader, const Json &json) {
  LoopCall call{reader.integer(json, "count", 1, maxTurns),
                static_cast<uint32_t>(reader.integer(json, "body", 0, maxPlanItems)),
                {}};
  for (const Json &slice : reader.list(json, "slices", maxPlanItems))
    call.slices.push_back({readId(reader, slice, "source"), readId(reader, slice, "target")});
  return call;
}

Instruction readInstruction(JsonReader &reader, const Json &json) {
  Instruction instruction;
  const std::string op = reader.string(json, "op");
  if (op == "kernel")
    instruction.call = readKernelCall(reader, json);
  else if (op == "matmul")
    instruction.call = readMatmulCall(reader, json);
  else if (op == "copy")
    instruction.call = CopyCall{readId(reader, json, "source"), readId(reader, json, "target")};
  else if (op == "launch")
    instruction.call = readLaunchCall(reader, json);
  else if (op == "fill")
    instruction.call =
        FillCall{readId(reader, json, "target"), static_cast<uint8_t>(reader.integer(json, "value", 0, 255))};
  else if (op == "custom")
    instruction.call = readCustomCall(reader, json);
  else if (op == "branch")
    instruction.call = readBranchCall(reader, json);
  else if (op == "loop")
    instruction.call = readLoopCall(reader, json);
  else
    reader.fail("unknown op `" + op + "`");
  instruction.label = reader.string(json, "label");
  instruction.flops = reader.integer(json, "flops", 0);
  instruction.arithmetic = readDType(reader, json, "arithmetic");
  instruction.bytes = reader.integer(json, "bytes", 0);
  for (const Json &source : reader.list(json, "sources", maxPlanItems))
    instruction.sources.push_back({reader.string(source, "file"),
                                   static_cast<int32_t>(reader.integer(source, "line", 0, INT32_MAX)),
                                   static_cast<int32_t>(reader.integer(source, "column", 0, INT32_MAX))});
  return instruction;
}

} // namespace

std::string planToJson(const Plan &plan) {
  Json json = {{"version", planVersion},          {"name", plan.name},
               {"threads", plan.threads},         {"arena_bytes", plan.arenaBytes},
               {"alignment", plan.alignment},     {"inputs", toJson(plan.inputs)},
               {"outputs", toJson(plan.outputs)}, {"states", toJson(plan.states)}};
  for (const char *key : {"constants", "tables", "buffers", "kernels", "instructions"})
    json[key] = Json::array();
  for (const std::string &constant : plan.constants)
    json["constants"].push_back(toHex(constant));
  for (const PointerTable &table : plan.tables)
    json["tables"].push_back({{"bytes", toHex(table.bytes)}, {"pointers", toJson(table.slots)}});
  for (const Buffer &buffer : plan.buffers)
    json["buffers"].push_back(toJson(buffer));
  for (const KernelCode &kernel : plan.kernels)
    json["kernels"].push_back({{"symbol", kernel.symbol},
                               {"arguments", kernel.arguments},
                               {"results", kernel.results},
                               {"description", kernel.description},
                               {"module", kernel.module}});
  for (const Instruction &instruction : plan.instructions)
    json["instructions"].push_back(toJson(instruction));
  return writeJson(json);
}

Expected<Plan> planFromJson(std::string_view text) {
  auto parsed = parseJson(text, maxPlanTextBytes, "plan");
  if (!parsed)
    return parsed.error();
  const Json &json = *parsed;
  JsonReader reader("plan");
  const int64_t version = reader.integer(json, "version");
  if (!reader.error() && version != planVersion)
    return Error("plan has version " + std::to_string(version) + "; this runtime reads version " +
                 std::to_string(planVersion));
  Plan plan;
  plan.name = reader.string(json, "name");
  plan.threads = static_cast<int32_t>(reader.integer(json, "threads", 1, 4096));
  plan.arenaBytes = reader.integer(json, "arena_bytes", 0, maxPlanBytes);
  plan.alignment = reader.integer(json, "alignment", 1, maxPlanBytes);
  plan.inputs = readSpecs(reader, json, "inputs");
  plan.outputs = readSpecs(reader, json, "outputs");
  plan.states = readSpecs(reader, json, "states");
  reader.leave();
  for (const Json &constant : reader.list(json, "constants", maxPlanItems))
    plan.constants.push_back(readHex(reader, constant));
  for (const Json &table : reader.list(json, "tables", maxPlanItems)) {
    reader.enter("tables", plan.tables.size());
    plan.tables.push_back({readHex(reader, reader.member(table, "bytes")), readSlots(reader, table, "pointers")});
  }
  plan.buffers = readBuffers(reader, json);
  plan.kernels = readKernels(reader, json);
  reader.leave();
  for (const Json &instruction : reader.list(json, "instructions", maxPlanItems)) {
    reader.enter("instructions", plan.instructions.size());
    plan.instructions.push_back(readInstruction(reader, instruction));
  }
  if (Error error = reader.error())
    return error;
  if (Error error = validatePlan(plan))
    return error;
  return plan;
}

} // namespace tcc::runtime
