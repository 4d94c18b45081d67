// A divergence analysis of PTX: which registers may differ between lanes, which branches do they decide, which
// instructions lie between such a branch and the place where its ways meet again.
//   1. parse each function into instructions with scoped register names, and these into basic blocks;
//   2. find each block's immediate postdominator;
//   3. until nothing changes: mark registers that depend on the lane, and what a split warp writes; mark blocks between
//      a branch on such a register and its postdominator as split;
//   4. report collectives in split blocks.
#include "tests/cuda_compiled/convergence.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

namespace tcc::test {
namespace {

bool startsWith(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}

/// Whether `part` is one of the opcode's parts between dots.
bool hasPart(std::string_view opcode, std::string_view part) {
  for (std::size_t at = 0; at <= opcode.size();) {
    std::size_t end = std::min(opcode.find('.', at), opcode.size());
    if (opcode.substr(at, end - at) == part)
      return true;
    at = end + 1;
  }
  return false;
}

struct Instruction {
  int line = 0;
  std::string text, predicate, opcode;
  std::vector<std::string> written, read;
  std::string target; // of a branch
};

struct Function {
  std::string name;
  bool isKernel;
  std::vector<Instruction> instructions;
  std::map<std::string, std::size_t> labels; // the instruction that follows
};

[[noreturn]] void refuse(int line, const std::string &what) {
  throw std::runtime_error("PTX line " + std::to_string(line) + ": " + what);
}

// --- Parsing ------------------------------------------------------------------------------------------------------

bool isNameLetter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

/// The names in a text, special registers with their part ("%tid.x").
std::vector<std::string> namesIn(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    if (!isNameLetter(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && isNameLetter(text[end]))
      ++end;
    if (text[at] == '%' && end + 1 < text.size() && text[end] == '.' &&
        std::string_view("xyzw").find(text[end + 1]) != std::string_view::npos)
      end += 2;
    if (!std::isdigit(static_cast<unsigned char>(text[at])))
      names.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return names;
}

/// Operands between commas that stand in no bracket.
std::vector<std::string> operandsOf(std::string_view text) {
  std::vector<std::string> operands;
  int depth = 0;
  std::string operand;
  for (char c : text) {
    depth += c == '{' || c == '[' || c == '(';
    depth -= c == '}' || c == ']' || c == ')';
    if (c == ',' && depth == 0) {
      operands.push_back(std::move(operand));
      operand.clear();
    } else if (!operand.empty() || !std::isspace(static_cast<unsigned char>(c))) {
      operand += c;
    }
  }
  if (!operand.empty())
    operands.push_back(std::move(operand));
  return operands;
}

class Parser {
public:
  explicit Parser(const std::string &ptx) : text(ptx) {}

  std::vector<Function> functions() {
    std::vector<Function> found;
    for (std::string statement = next(); !statement.empty() || at < text.size(); statement = next()) {
      if (opened && depth == 1) { // the head of a function
        std::size_t name = statement.find(".entry");
        name = name == std::string::npos ? statement.find(".func") : name;
        if (name == std::string::npos)
          refuse(line, "a scope outside functions: " + statement);
        name = statement.find_first_of(" \t", name);
        std::string_view rest = std::string_view(statement).substr(name);
        if (std::size_t first = rest.find_first_not_of(" \t\n"); rest[first] == '(') // what a function returns
          rest.remove_prefix(rest.find(')') + 1);
        found.push_back({namesIn(rest).at(0), statement.find(".entry") != std::string::npos, {}, {}});
        scopes = {{}};
        continue;
      }
      if (depth == 0 || statement.empty())
        continue;
      add(found.back(), statement);
    }
    return found;
  }

private:
  const std::string &text;
  std::size_t at = 0;
  int line = 1, statementLine = 1, depth = 0, scopesSeen = 0;
  bool opened = false; // the statement ended with a scope's beginning
  std::vector<std::map<std::string, std::string>> scopes;

  /// The next statement, without its end: up to ";", a label's ":", or a brace that is no vector's.
  std::string next() {
    std::string statement;
    opened = false;
    int vectors = 0, brackets = 0;
    for (; at < text.size(); ++at) {
      char c = text[at];
      if (c == '/' && at + 1 < text.size() && text[at + 1] == '/') {
        at = std::min(text.find('\n', at), text.size()) - 1;
        continue;
      }
      line += c == '\n';
      if (statement.empty()) {
        if (std::isspace(static_cast<unsigned char>(c)))
          continue;
        statementLine = line;
      }
      bool heads = statement.find(".entry") != std::string::npos || statement.find(".func") != std::string::npos;
      bool variable = !heads && statement.find('=') != std::string::npos; // a table of constants
      if (c == '{' && (statement.empty() || (heads && brackets == 0))) {
        ++at, ++depth;
        opened = true;
        if (depth > 1)
          scopes.emplace_back();
        return statement;
      }
      if (c == '}' && vectors == 0 && !variable) {
        ++at, --depth;
        if (!scopes.empty())
          scopes.pop_back();
        return statement;
      }
      vectors += c == '{';
      vectors -= c == '}';
      brackets += c == '(';
      brackets -= c == ')';
      if (c == ';' || (c == '\n' && depth == 0 && startsWith(statement, ".") && !heads && isDirective(statement))) {
        ++at;
        return statement;
      }
      if (c == ':' && vectors == 0 && statement.find_first_of(" \t\n") == std::string::npos) {
        ++at;
        return statement + ":";
      }
      statement += c;
    }
    return statement;
  }
  /// ".version 9.0": a line without an end of its own.
  static bool isDirective(const std::string &statement) {
    for (const char *word : {".version", ".target", ".address_size", ".file", ".section"})
      if (startsWith(statement, word))
        return true;
    return false;
  }

  std::string scoped(const std::string &name) const {
    for (std::size_t i = scopes.size(); i-- > 0;)
      if (auto found = scopes[i].find(name); found != scopes[i].end())
        return found->second;
    return name;
  }

  void add(Function &function, const std::string &statement) {
    if (statement.back() == ':') {
      function.labels[statement.substr(0, statement.size() - 1)] = function.instructions.size();
      return;
    }
    if (statement[0] == '.') {
      if (startsWith(statement, ".reg") && scopes.size() > 1) {
        ++scopesSeen;
        std::vector<std::string> names = namesIn(statement.substr(4));
        for (std::size_t i = 1; i < names.size(); ++i) // after the type
          scopes.back()[names[i]] = names[i] + "#" + std::to_string(scopesSeen);
      }
      return; // declarations, .loc, .pragma
    }
    Instruction made;
    made.line = statementLine;
    made.text = statement;
    std::replace(made.text.begin(), made.text.end(), '\t', ' ');
    std::string_view rest = made.text;
    if (rest[0] == '@') {
      std::size_t end = rest.find_first_of(" \n");
      made.predicate = scoped(namesIn(rest.substr(0, end)).at(0));
      rest = rest.substr(end);
      rest = rest.substr(rest.find_first_not_of(" \n"));
    }
    std::size_t end = std::min(rest.find_first_of(" \n"), rest.size());
    made.opcode = rest.substr(0, end);
    std::vector<std::string> operands = operandsOf(rest.substr(end));
    if (startsWith(made.opcode, "brx"))
      refuse(made.line, "an indexed branch");
    if (startsWith(made.opcode, "bra")) {
      made.target = operands.at(0);
      function.instructions.push_back(std::move(made));
      return;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      // The first operand is the result, unless it is an address or the instruction has none.
      bool isResult = i == 0 && operands[i][0] != '[' && !isCollectiveWithoutResult(made.opcode);
      for (const std::string &name : namesIn(operands[i]))
        (isResult ? made.written : made.read).push_back(scoped(name));
    }
    function.instructions.push_back(std::move(made));
  }
  static bool isCollectiveWithoutResult(const std::string &opcode) {
    return startsWith(opcode, "bar.") || startsWith(opcode, "barrier.") || startsWith(opcode, "wgmma.wait") ||
           startsWith(opcode, "setmaxnreg");
  }
};

// --- Blocks -------------------------------------------------------------------------------------------------------

bool ends(const Instruction &instruction) {
  for (const char *opcode : {"bra", "ret", "exit", "trap"})
    if (instruction.opcode == opcode || startsWith(instruction.opcode, std::string(opcode) + "."))
      return true;
  return false;
}

struct Block {
  std::size_t first, last; // instructions, last one past
  std::vector<std::size_t> next;
};

/// The blocks in order, and an empty one at the end where all ways end.
std::vector<Block> blocksOf(const Function &function) {
  std::size_t count = function.instructions.size();
  std::set<std::size_t> starts = {0};
  for (const auto &[label, at] : function.labels)
    if (at < count)
      starts.insert(at);
  for (std::size_t i = 0; i + 1 < count; ++i)
    if (ends(function.instructions[i]))
      starts.insert(i + 1);
  std::vector<Block> blocks;
  std::map<std::size_t, std::size_t> blockAt;
  for (auto start = starts.begin(); start != starts.end(); ++start) {
    blockAt[*start] = blocks.size();
    blocks.push_back({*start, std::next(start) == starts.end() ? count : *std::next(start), {}});
  }
  std::size_t exit = blocks.size();
  blocks.push_back({count, count, {}});
  for (std::size_t b = 0; b < exit; ++b) {
    const Instruction &last = function.instructions[blocks[b].last - 1];
    bool branches = ends(last);
    if (branches && !last.target.empty()) {
      auto label = function.labels.find(last.target);
      if (label == function.labels.end())
        refuse(last.line, "no label " + last.target);
      auto target = blockAt.find(label->second);
      blocks[b].next.push_back(target == blockAt.end() ? exit : target->second);
    } else if (branches) {
      blocks[b].next.push_back(exit);
    }
    if (!branches || !last.predicate.empty())
      blocks[b].next.push_back(b + 1);
  }
  return blocks;
}

using Flags = std::vector<bool>;

/// For each block, the blocks that are on every way from it to the end. A block without a way to the end (it loops for
/// ever) is as if it had one.
std::vector<Flags> postdominators(std::vector<Block> blocks) {
  std::size_t exit = blocks.size() - 1;
  Flags reaches(blocks.size(), false);
  auto spread = [&](std::size_t from) {
    reaches[from] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = 0; b < exit; ++b)
        if (!reaches[b] &&
            std::any_of(blocks[b].next.begin(), blocks[b].next.end(), [&](std::size_t n) { return reaches[n]; }))
          changed = reaches[b] = true;
    }
  };
  spread(exit);
  for (std::size_t b = 0; b < exit; ++b)
    if (!reaches[b]) {
      blocks[b].next.push_back(exit);
      spread(b);
    }
  std::vector<Flags> all(blocks.size(), Flags(blocks.size(), true));
  all[exit] = Flags(blocks.size(), false);
  all[exit][exit] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t b = exit; b-- > 0;) {
      Flags common(blocks.size(), true);
      for (std::size_t n : blocks[b].next)
        for (std::size_t i = 0; i < blocks.size(); ++i)
          common[i] = common[i] && all[n][i];
      common[b] = true;
      if (common != all[b]) {
        all[b] = std::move(common);
        changed = true;
      }
    }
  }
  return all;
}

// --- Divergence ---------------------------------------------------------------------------------------------------

/// Special registers that all lanes of a warp have in common.
bool isCommonSpecial(const std::string &name) {
  for (const char *word : {"%ctaid", "%nctaid", "%ntid", "%warpid", "%nwarpid", "%smid", "%nsmid", "%gridid",
                           "%cluster", "%total_smem_size", "%dynamic_smem_size", "%envreg"})
    if (startsWith(name, word))
      return true;
  return false;
}
bool isLaneSpecial(const std::string &name) {
  for (const char *word : {"%tid", "%laneid", "%lanemask", "%clock", "%globaltimer"})
    if (startsWith(name, word))
      return true;
  return false;
}

class Analysis {
public:
  explicit Analysis(const Function &function)
      : function(function), blocks(blocksOf(function)), dominators(postdominators(blocks)), splitBy(blocks.size()) {}

  std::vector<std::string> findings() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
        for (std::size_t i = blocks[b].first; i < blocks[b].last; ++i)
          changed |= mark(function.instructions[i], splitBy[b]);
        changed |= split(b);
      }
    }
    std::vector<std::string> texts;
    for (std::size_t b = 0; b + 1 < blocks.size(); ++b)
      for (std::size_t i = blocks[b].first; i < blocks[b].last; ++i) {
        const Instruction &instruction = function.instructions[i];
        if (!isCollectiveInstruction(instruction.opcode))
          continue;
        if (!function.isKernel)
          refuse(instruction.line, "a collective in the function " + function.name + ", whose calls are not followed");
        std::string start = function.name + ": line " + std::to_string(instruction.line) + ": `" + instruction.opcode +
                            "` is reached by some lanes alone, ";
        if (!splitBy[b].empty())
          texts.push_back(start + "after `" + lastOf(*splitBy[b].begin()).text + "` in line " +
                          std::to_string(lastOf(*splitBy[b].begin()).line));
        else if (varying.count(instruction.predicate))
          texts.push_back(start + "by its predicate " + instruction.predicate);
      }
    return texts;
  }

private:
  const Function &function;
  std::vector<Block> blocks;
  std::vector<Flags> dominators;
  std::vector<std::set<std::size_t>> splitBy; // the blocks whose branches split the warp here
  std::set<std::string> varying;              // registers that may differ between lanes

  const Instruction &lastOf(std::size_t block) const { return function.instructions[blocks[block].last - 1]; }

  bool reads(const Instruction &instruction) const {
    return std::any_of(instruction.read.begin(), instruction.read.end(),
                       [&](const std::string &name) { return isLaneSpecial(name) || varying.count(name); });
  }
  /// Whether the result differs between lanes though nothing that is read does, or the other way about.
  std::optional<bool> known(const Instruction &instruction, bool sourceLaneVaries) const {
    const std::string &opcode = instruction.opcode;
    if (startsWith(opcode, "shfl.sync.idx"))
      return sourceLaneVaries;
    for (const char *word : {"vote.sync", "redux.sync", "match.all.sync"})
      if (startsWith(opcode, word))
        return false;
    for (const char *word : {"shfl", "match", "elect", "activemask", "atom", "mbarrier.test_wait", "mbarrier.try_wait",
                             "ld.local", "ldmatrix", "mma", "wgmma", "wmma", "movmatrix", "call"})
      if (startsWith(opcode, word))
        return true;
    if (startsWith(opcode, "ld.param")) // the kernel's parameters; others are what a function returned
      return !function.isKernel || std::any_of(instruction.read.begin(), instruction.read.end(), [&](const auto &name) {
        return name[0] == '%' ? varying.count(name) != 0 : name.find("_param_") == std::string::npos;
      });
    return std::nullopt;
  }

  /// Whether `copy` sets a register to what each branch that splits the warp here has left in it: lanes that do not
  /// come here have the same. A copy for a place where ways meet is written on each way.
  bool repeatsTheBranches(const Instruction &copy, const std::set<std::size_t> &branches) const {
    auto writes = [](const Instruction &instruction, const std::string &name) {
      return std::count(instruction.written.begin(), instruction.written.end(), name) != 0;
    };
    auto isRepeated = [&](std::size_t b) {
      for (std::size_t i = blocks[b].last; i-- > blocks[b].first;) {
        const Instruction &before = function.instructions[i];
        if (writes(before, copy.written[0]))
          return before.text == copy.text;
        if (!copy.read.empty() && writes(before, copy.read[0]))
          return false;
      }
      return false;
    };
    return startsWith(copy.text, "mov.") && std::all_of(branches.begin(), branches.end(), isRepeated);
  }

  bool mark(const Instruction &instruction, const std::set<std::size_t> &branches) {
    if (instruction.written.empty())
      return false;
    for (const std::string &name : instruction.read)
      if (name[0] == '%' && !isLaneSpecial(name) && !isCommonSpecial(name) && name.find('.') != std::string::npos)
        refuse(instruction.line, "special register " + name);
    bool sourceLane = false;
    if (startsWith(instruction.opcode, "shfl.sync.idx")) {
      std::vector<std::string> operands =
          operandsOf(std::string_view(instruction.text)
                         .substr(instruction.text.find(instruction.opcode) + instruction.opcode.size()));
      for (const std::string &name : namesIn(operands.at(2)))
        sourceLane |= varying.count(name) != 0;
    }
    bool varies = known(instruction, sourceLane).value_or(reads(instruction));
    bool isSplit = !branches.empty() && !repeatsTheBranches(instruction, branches);
    if (!varies && !isSplit && !varying.count(instruction.predicate))
      return false;
    bool changed = false;
    for (const std::string &name : instruction.written)
      changed |= name != "_" && varying.insert(name).second;
    return changed;
  }

  /// Marks what lies between a branch that splits a warp and the place where its ways meet.
  bool split(std::size_t b) {
    if (blocks[b].next.size() < 2 || !varying.count(lastOf(b).predicate))
      return false;
    bool changed = false;
    std::vector<std::size_t> open = blocks[b].next;
    Flags seen(blocks.size(), false);
    while (!open.empty()) {
      std::size_t at = open.back();
      open.pop_back();
      if (seen[at] || (dominators[b][at] && at != b))
        continue; // the first postdominator on a way is the nearest
      seen[at] = true;
      changed |= splitBy[at].insert(b).second;
      open.insert(open.end(), blocks[at].next.begin(), blocks[at].next.end());
    }
    return changed;
  }
};

} // namespace

bool isCollectiveInstruction(std::string_view opcode) {
  return hasPart(opcode, "sync") || hasPart(opcode, "aligned") || startsWith(opcode, "bar.") ||
         startsWith(opcode, "barrier.") || startsWith(opcode, "activemask");
}

bool isCollectiveIntrinsic(std::string_view name) {
  for (std::string_view start :
       {"__sync", "__shfl", "__any", "__all", "__ballot", "__match", "__reduce", "__activemask"})
    if (startsWith(name, start))
      return true;
  return name.size() > 5 && name.substr(name.size() - 5) == "_sync";
}

std::vector<std::string> divergentCollectives(const std::string &ptx) {
  std::vector<std::string> texts;
  std::string text = ptx.c_str(); // NVRTC's ends with a zero byte
  for (const Function &function : Parser(text).functions()) {
    if (function.instructions.empty())
      continue;
    std::vector<std::string> more = Analysis(function).findings();
    texts.insert(texts.end(), more.begin(), more.end());
  }
  return texts;
}

} // namespace tcc::test
