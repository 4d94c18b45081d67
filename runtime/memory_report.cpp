// (1) Every value that counts at the peak is one entry: tensors outside the arena, and what lives in the arena at its
// fullest instruction. (2) Entries are added up by a key: layer, source line, or value.
#include "runtime/memory_report.h"
#include "runtime/json_reader.h"
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

namespace tcc::runtime {
namespace {

constexpr size_t mostRows = 12; // of each list

struct Entry {
  std::string name, source; // the source's line, or empty
  int64_t bytes = 0;
};

std::string megabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%12.3f MB", static_cast<double>(bytes) * 1e-6);
  return text;
}

std::string textOf(const SourceLocation &source) {
  return source.file + ":" + std::to_string(source.line);
}

/// The op that a label names first: "h.3.mlp.gelu" of "h.3.mlp.gelu+bias" and of "h.3.mlp.gelu: matmul …".
std::string_view firstName(std::string_view label) {
  return label.substr(0, label.find_first_of(":+, "));
}

/// "h.3" of "h.3.mlp.gelu", "loss" of "loss.cross_entropy": up to the first number, else the first word.
std::string layerOf(std::string_view label) {
  const std::string_view name = firstName(label);
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    const std::string_view word = name.substr(begin, end - begin);
    if (word == "*" || std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); }))
      return std::string(name.substr(0, end));
    begin = end + 1;
  }
  return std::string(name.substr(0, name.find('.')));
}

std::vector<Entry> entriesAt(const Plan &plan, const FullestMoment &moment) {
  std::vector<Entry> entries;
  for (auto [what, specs] : {std::pair{"state ", &plan.states}, {"input ", &plan.inputs}, {"output ", &plan.outputs}})
    for (const TensorSpec &spec : *specs)
      entries.push_back({what + spec.name, "", spec.bytes()});
  for (const LiveValue &value : moment.values) {
    const Instruction &maker = plan.instructions[value.maker];
    entries.push_back({maker.label, maker.sources.empty() ? "" : textOf(maker.sources.front()), value.bytes});
  }
  return entries;
}

/// The entries added up by key, most bytes first.
template <typename Key, typename Note>
std::vector<MemoryRow> rowsBy(const std::vector<Entry> &entries, Key key, Note note) {
  std::map<std::string, MemoryRow> rows;
  for (const Entry &entry : entries) {
    const std::string name = key(entry);
    if (name.empty() || entry.bytes == 0)
      continue;
    MemoryRow &row = rows[name];
    if (row.count++ == 0)
      row = {name, note(entry), 0, 1};
    row.bytes += entry.bytes;
  }
  std::vector<MemoryRow> list;
  for (auto &[name, row] : rows)
    list.push_back(std::move(row));
  std::stable_sort(list.begin(), list.end(), [](const MemoryRow &a, const MemoryRow &b) { return a.bytes > b.bytes; });
  return list;
}

/// A value's name without what stands before it.
std::string_view withoutKind(std::string_view name) {
  for (const std::string_view kind : {"state ", "input ", "output "})
    if (name.starts_with(kind))
      return name.substr(kind.size());
  return name;
}

std::vector<MemoryRow> byLayer(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return layerOf(withoutKind(entry.name)); },
      [](const Entry &) { return std::string(); });
}

std::vector<MemoryRow> byLine(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return entry.source; },
      [](const Entry &entry) { return "`" + std::string(firstName(entry.name)) + "`"; });
}

std::vector<MemoryRow> byValue(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return entry.name; }, [](const Entry &entry) { return entry.source; });
}

std::string list(const std::string &title, const std::vector<MemoryRow> &rows) {
  std::string text = title + "\n";
  int64_t others = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i >= mostRows) {
      others += rows[i].bytes;
      continue;
    }
    const MemoryRow &row = rows[i];
    text += megabytes(row.bytes) + "  " + row.key + (row.count > 1 ? " ×" + std::to_string(row.count) : "") +
            (row.note.empty() ? "" : "  " + row.note) + "\n";
  }
  if (rows.size() > mostRows)
    text += megabytes(others) + "  … " + std::to_string(rows.size() - mostRows) + " more\n";
  return text;
}

} // namespace

PeakReport memoryReport(const Plan &plan) {
  const FullestMoment moment = fullestMoment(plan);
  const ArenaParts parts = arenaParts(plan);
  const int64_t states = totalBytes(plan.states), tensors = totalBytes(plan.inputs) + totalBytes(plan.outputs);
  PeakReport report;
  report.function = plan.name;
  report.plannedBytes = plan.plannedBytes();
  report.arenaBytes = plan.arenaBytes;
  for (const PeakReport::Part &part : {PeakReport::Part{"states", states},
                                       {"inputs and outputs", tensors},
                                       {"constants", report.plannedBytes - states - tensors - plan.arenaBytes},
                                       {"arena: gradients that updates wait for", parts.updates},
                                       {"arena: activations and their gradients", parts.values},
                                       {"arena: scratch", parts.scratch},
                                       {"arena: gaps", parts.unused}})
    if (part.bytes != 0)
      report.parts.push_back(part);
  report.fullest = moment.instruction;
  for (const Instruction &each : plan.instructions)
    report.instructions.push_back({each.label, each.sources.empty() ? "" : textOf(each.sources.front())});
  const std::vector<Entry> entries = entriesAt(plan, moment);
  report.layers = byLayer(entries);
  report.lines = byLine(entries);
  report.values = byValue(entries);
  report.arena = arenaValues(plan);
  return report;
}

std::string PeakReport::text() const {
  std::string text = "memory of `" + function + "` as planned\n";
  for (const Part &part : parts)
    text += megabytes(part.bytes) + "  " + part.what + "\n";
  text += megabytes(plannedBytes) + "  together\n";
  if (!instructions.empty()) {
    const auto &[label, source] = instructions[fullest];
    text += "the arena is fullest at `" + label + "`" + (source.empty() ? "" : " (" + source + ")") + ", instruction " +
            std::to_string(fullest + 1) + " of " + std::to_string(instructions.size()) + "\n";
  }
  return text + list("by layer", layers) + list("the arena by source line", lines) + list("by value", values);
}

std::string PeakReport::json() const {
  const auto rows = [](const std::vector<MemoryRow> &list) {
    Json array = Json::array();
    for (const MemoryRow &row : list)
      array.push_back({{"key", row.key}, {"bytes", row.bytes}, {"count", row.count}, {"note", row.note}});
    return array;
  };
  Json sums = Json::array(), rectangles = Json::array(), peak;
  for (const Part &part : parts)
    sums.push_back({{"what", part.what}, {"bytes", part.bytes}});
  for (const LiveValue &value : arena)
    rectangles.push_back({{"kind", name(value.kind)},
                          {"offset", value.offset},
                          {"bytes", value.bytes},
                          {"first", value.maker},
                          {"last", value.last},
                          {"label", instructions[value.maker].label},
                          {"source", instructions[value.maker].source}});
  if (!instructions.empty())
    peak = {{"instruction", fullest},
            {"label", instructions[fullest].label},
            {"source", instructions[fullest].source},
            {"instructions", instructions.size()}};
  return writeJson({{"version", 1},
                    {"function", function},
                    {"planned_bytes", plannedBytes},
                    {"arena_bytes", arenaBytes},
                    {"parts", sums},
                    {"fullest", peak},
                    {"by_layer", rows(layers)},
                    {"by_line", rows(lines)},
                    {"by_value", rows(values)},
                    {"arena", rectangles}});
}

std::string largestLines(const Plan &plan, size_t most) {
  std::vector<Entry> entries = entriesAt(plan, fullestMoment(plan));
  for (Entry &entry : entries)
    if (entry.source.empty())
      entry.source = entry.name;
  std::string text;
  std::vector<MemoryRow> rows = byLine(entries);
  rows.resize(std::min(rows.size(), most));
  for (const MemoryRow &row : rows)
    text += "\n" + megabytes(row.bytes) + "  " + row.key + (row.count > 1 ? " ×" + std::to_string(row.count) : "") +
            "  " + row.note;
  return text;
}

} // namespace tcc::runtime
