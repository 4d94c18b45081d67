// The plan as JSON text: each struct says its members once (visitFields), which are written by FieldWriter and read by
// FieldReader. The reader believes nothing: types and ranges here, meaning in validatePlan().
#include "runtime/json_reader.h"
#include "runtime/plan.h"
#include <algorithm>
#include <array>

namespace tcc::runtime {
namespace {

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

/// Fields as members of a JSON object, in order.
class FieldWriter {
public:
  template <typename Struct>
  static Json write(const Struct &value) {
    FieldWriter fields;
    Struct::visitFields(value, fields);
    return std::move(fields).take();
  }
  template <typename Struct>
  static Json writeList(const std::vector<Struct> &entries) {
    Json list = Json::array();
    list.get_ref<Json::array_t &>().reserve(entries.size());
    for (const Struct &entry : entries)
      list.push_back(write(entry));
    return list;
  }

  void add(const char *key, Json value) { members.emplace_back(key, std::move(value)); }
  Json take() && { return std::move(members); }

  template <typename Integer>
  void integer(const char *key, Integer value, int64_t = 0, int64_t = 0) {
    add(key, value);
  }
  template <typename Integers>
  void integers(const char *key, const Integers &values, int64_t = 0, int64_t = 0, int64_t = 0) {
    add(key, values);
  }
  void boolean(const char *key, bool value) { add(key, value); }
  void text(const char *key, const std::string &value) { add(key, value); }
  void hex(const char *key, const std::string &bytes) { add(key, toHex(bytes)); }
  void dtype(const char *key, DType value) { add(key, name(value)); }
  void dtype(const char *key, const std::optional<DType> &value) { add(key, value ? Json(name(*value)) : Json()); }
  void space(const char *key, Space value) { add(key, name(value)); }
  void kernel(const char *key, uint32_t number) { add(key, number); }
  void buffer(const char *key, BufferId id) { add(key, idToJson(id)); }
  void buffers(const char *key, const std::vector<BufferId> &ids) {
    Json list = Json::array();
    list.get_ref<Json::array_t &>().reserve(ids.size());
    for (BufferId id : ids)
      list.push_back(idToJson(id));
    add(key, std::move(list));
  }
  template <typename Members>
  void object(const char *key, Members &&visit) {
    FieldWriter inner;
    visit(inner);
    add(key, std::move(inner).take());
  }
  template <typename Struct>
  void list(const char *key, const std::vector<Struct> &entries, int64_t) {
    add(key, writeList(entries));
  }

private:
  Json::object_t members;
};

/// Fields from the members of a JSON object. The first problem is kept by the JsonReader, the rest reads defaults.
class FieldReader {
public:
  FieldReader(JsonReader &reader, const Json &json)
      : reader(reader), json(json), members(json.is_object() ? json.get_ptr<const Json::object_t *>() : nullptr) {}

  template <typename Struct>
  static Struct read(JsonReader &reader, const Json &json) {
    Struct value;
    FieldReader fields(reader, json);
    Struct::visitFields(value, fields);
    return value;
  }

  template <typename Integer>
  void integer(const char *key, Integer &value, int64_t least = INT64_MIN, int64_t most = INT64_MAX) {
    value = static_cast<Integer>(reader.asInteger(member(key), least, most));
  }
  void integers(const char *key, std::vector<int64_t> &values, int64_t mostValues, int64_t least = INT64_MIN,
                int64_t most = INT64_MAX) {
    for (const Json &entry : reader.asList(member(key), key, mostValues))
      values.push_back(reader.asInteger(entry, least, most));
  }
  template <size_t N>
  void integers(const char *key, std::array<int64_t, N> &values) {
    const Json &list = reader.asList(member(key), key, N);
    if (list.size() != N)
      return reader.fail("`" + std::string(key) + "` has " + std::to_string(list.size()) + " entries; it has " +
                         std::to_string(N));
    for (size_t i = 0; i < N; ++i)
      values[i] = reader.asInteger(list[i]);
  }
  void boolean(const char *key, bool &value) { value = reader.asBoolean(member(key), key); }
  void text(const char *key, std::string &value) { value = reader.asString(member(key)); }
  void hex(const char *key, std::string &bytes) { bytes = readHex(reader, member(key)); }
  void dtype(const char *key, DType &value) { readDType(member(key), value); }
  void dtype(const char *key, std::optional<DType> &value) {
    if (const Json &entry = member(key); !entry.is_null())
      readDType(entry, value.emplace());
  }
  void space(const char *key, Space &value) {
    constexpr std::array all{Space::arena, Space::input, Space::output, Space::state, Space::constant, Space::table};
    const std::string text = reader.asString(member(key));
    const auto known = std::find_if(all.begin(), all.end(), [&](Space each) { return name(each) == text; });
    if (known == all.end())
      return reader.fail("unknown space `" + text + "`");
    value = *known;
  }
  void kernel(const char *key, uint32_t &number) { integer(key, number, 0, maxPlanItems); }
  void buffer(const char *key, BufferId &id) { id = readId(member(key)); }
  void buffers(const char *key, std::vector<BufferId> &ids) {
    for (const Json &entry : reader.asList(member(key), key, maxPlanItems))
      ids.push_back(readId(entry));
  }
  template <typename Members>
  void object(const char *key, Members &&visit) {
    FieldReader inner(reader, member(key));
    visit(inner);
  }
  template <typename Struct>
  void list(const char *key, std::vector<Struct> &entries, int64_t most) {
    for (const Json &entry : reader.asList(member(key), key, most))
      entries.push_back(read<Struct>(reader, entry));
  }

  static std::string readHex(JsonReader &reader, const Json &json) {
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

private:
  /// Members are asked for in the order in which they were written: mostly it is the next one.
  const Json &member(const char *key) {
    if (reader.error() || !members)
      return reader.member(json, key);
    const auto isKey = [&](const auto &entry) { return entry.first == key; };
    if (next == members->size() || !isKey(members->data()[next]))
      next = static_cast<size_t>(std::find_if(members->begin(), members->end(), isKey) - members->begin());
    return next == members->size() ? reader.member(json, key) : members->data()[next++].second;
  }
  void readDType(const Json &entry, DType &value) {
    const std::string text = reader.asString(entry);
    const auto known = parseDType(text);
    if (!known)
      reader.fail("unknown dtype `" + text + "`");
    value = known.value_or(DType::f32);
  }
  BufferId readId(const Json &entry) {
    const int64_t id = reader.asInteger(entry, -1, int64_t{noBuffer} - 1);
    return id < 0 ? noBuffer : static_cast<BufferId>(id);
  }

  JsonReader &reader;
  const Json &json;
  const Json::object_t *members;
  size_t next = 0;
};

/// An instruction's kind stands first, as "op".
Json toJson(const Instruction &instruction) {
  FieldWriter fields;
  fields.add("op", wordsOf(instruction).op);
  Instruction::visitFields(instruction, fields);
  return std::move(fields).take();
}

Instruction readInstruction(JsonReader &reader, const Json &json) {
  Instruction instruction;
  const std::string op = reader.string(json, "op");
  bool isKnown = false;
  forEachKind([&]<typename Kind>(std::type_identity<Kind>) {
    if (op == Kind::words.op) {
      instruction.call = Kind();
      isKnown = true;
    }
  });
  if (!isKnown)
    reader.fail("unknown op `" + op + "`");
  FieldReader fields(reader, json);
  Instruction::visitFields(instruction, fields);
  return instruction;
}

/// The entries of a list of the plan, whose places problems name.
template <typename Read>
auto readEntries(JsonReader &reader, const Json &json, const char *key, Read &&read) {
  std::vector<decltype(read(reader, json))> entries;
  const Json &list = reader.list(json, key, maxPlanItems);
  entries.reserve(list.size());
  for (const Json &entry : list) {
    reader.enter(key, entries.size());
    entries.push_back(read(reader, entry));
  }
  reader.leave();
  return entries;
}

} // namespace

std::string planToJson(const Plan &plan) {
  FieldWriter fields;
  fields.integer("version", planVersion);
  fields.text("name", plan.name);
  fields.integer("threads", plan.threads);
  fields.integer("arena_bytes", plan.arenaBytes);
  fields.integer("alignment", plan.alignment);
  fields.list("inputs", plan.inputs, maxPlanItems);
  fields.list("outputs", plan.outputs, maxPlanItems);
  fields.list("states", plan.states, maxPlanItems);
  Json constants = Json::array(), instructions = Json::array();
  for (const std::string &constant : plan.constants)
    constants.push_back(toHex(constant));
  for (const Instruction &instruction : plan.instructions)
    instructions.push_back(toJson(instruction));
  fields.add("constants", std::move(constants));
  fields.list("tables", plan.tables, maxPlanItems);
  fields.list("buffers", plan.buffers, maxPlanItems);
  fields.list("kernels", plan.kernels, maxPlanItems);
  fields.add("instructions", std::move(instructions));
  return writeJson(std::move(fields).take());
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
  plan.inputs = readEntries(reader, json, "inputs", FieldReader::read<TensorSpec>);
  plan.outputs = readEntries(reader, json, "outputs", FieldReader::read<TensorSpec>);
  plan.states = readEntries(reader, json, "states", FieldReader::read<TensorSpec>);
  plan.constants = readEntries(reader, json, "constants", FieldReader::readHex);
  plan.tables = readEntries(reader, json, "tables", FieldReader::read<PointerTable>);
  plan.buffers = readEntries(reader, json, "buffers", FieldReader::read<Buffer>);
  plan.kernels = readEntries(reader, json, "kernels", FieldReader::read<KernelCode>);
  plan.instructions = readEntries(reader, json, "instructions", readInstruction);
  if (Error error = reader.error())
    return error;
  if (Error error = validatePlan(plan))
    return error;
  return plan;
}

} // namespace tcc::runtime
