// (1) Every value that counts at the peak is one entry: tensors outside the arena, and what lives in the arena at its
// fullest instruction. (2) Entries are added up by a key: layer, source line, or value.
#include "runtime/memory_report.h"
#include "runtime/memory_parts.h"
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

/// A row of a list: several entries.
struct Row {
  std::string key, note;
  int64_t bytes = 0;
  size_t count = 0;
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
std::vector<Row> rowsBy(const std::vector<Entry> &entries, Key key, Note note) {
  std::map<std::string, Row> rows;
  for (const Entry &entry : entries) {
    const std::string name = key(entry);
    if (name.empty() || entry.bytes == 0)
      continue;
    Row &row = rows[name];
    if (row.count++ == 0)
      row = {name, note(entry), 0, 1};
    row.bytes += entry.bytes;
  }
  std::vector<Row> list;
  for (auto &[name, row] : rows)
    list.push_back(std::move(row));
  std::stable_sort(list.begin(), list.end(), [](const Row &a, const Row &b) { return a.bytes > b.bytes; });
  return list;
}

/// A value's name without what stands before it.
std::string_view withoutKind(std::string_view name) {
  for (const std::string_view kind : {"state ", "input ", "output "})
    if (name.starts_with(kind))
      return name.substr(kind.size());
  return name;
}

std::vector<Row> byLayer(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return layerOf(withoutKind(entry.name)); },
      [](const Entry &) { return std::string(); });
}

std::vector<Row> byLine(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return entry.source; },
      [](const Entry &entry) { return "`" + std::string(firstName(entry.name)) + "`"; });
}

std::vector<Row> byValue(const std::vector<Entry> &entries) {
  return rowsBy(
      entries, [](const Entry &entry) { return entry.name; }, [](const Entry &entry) { return entry.source; });
}

std::string list(const std::string &title, const std::vector<Row> &rows) {
  std::string text = title + "\n";
  int64_t others = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i >= mostRows) {
      others += rows[i].bytes;
      continue;
    }
    const Row &row = rows[i];
    text += megabytes(row.bytes) + "  " + row.key + (row.count > 1 ? " ×" + std::to_string(row.count) : "") +
            (row.note.empty() ? "" : "  " + row.note) + "\n";
  }
  if (rows.size() > mostRows)
    text += megabytes(others) + "  … " + std::to_string(rows.size() - mostRows) + " more\n";
  return text;
}

} // namespace

std::string memoryReport(const Plan &plan) {
  const FullestMoment moment = fullestMoment(plan);
  const ArenaParts parts = arenaParts(plan);
  const int64_t states = totalBytes(plan.states), tensors = totalBytes(plan.inputs) + totalBytes(plan.outputs);
  const int64_t others = plan.plannedBytes() - states - tensors - plan.arenaBytes;
  std::string text = "memory of `" + plan.name + "` as planned\n";
  const auto row = [&](int64_t bytes, const std::string &what) {
    if (bytes != 0)
      text += megabytes(bytes) + "  " + what + "\n";
  };
  row(states, "states");
  row(tensors, "inputs and outputs");
  row(others, "constants");
  row(parts.updates, "arena: gradients that updates wait for");
  row(parts.values, "arena: activations and their gradients");
  row(parts.scratch, "arena: scratch");
  row(parts.unused, "arena: gaps");
  row(plan.plannedBytes(), "together");
  if (!plan.instructions.empty()) {
    const Instruction &fullest = plan.instructions[moment.instruction];
    text += "the arena is fullest at `" + fullest.label + "`" +
            (fullest.sources.empty() ? "" : " (" + textOf(fullest.sources.front()) + ")") + ", instruction " +
            std::to_string(moment.instruction + 1) + " of " + std::to_string(plan.instructions.size()) + "\n";
  }
  const std::vector<Entry> entries = entriesAt(plan, moment);
  return text + list("by layer", byLayer(entries)) + list("the arena by source line", byLine(entries)) +
         list("by value", byValue(entries));
}

std::string largestLines(const Plan &plan, size_t most) {
  std::vector<Entry> entries = entriesAt(plan, fullestMoment(plan));
  for (Entry &entry : entries)
    if (entry.source.empty())
      entry.source = entry.name;
  std::string text;
  std::vector<Row> rows = byLine(entries);
  rows.resize(std::min(rows.size(), most));
  for (const Row &row : rows)
    text += "\n" + megabytes(row.bytes) + "  " + row.key + (row.count > 1 ? " ×" + std::to_string(row.count) : "") +
            "  " + row.note;
  return text;
}

} // namespace tcc::runtime
