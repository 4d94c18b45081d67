#include "models/file_options.h"
#include "frontend/compiler_flags.h"
#include "frontend/quotes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <optional>

namespace tcc::models {

namespace {

int editDistance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0];
    row[0] = int(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      int replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

[[noreturn]] void refuse(const FileValue &value, const std::string &what) {
  throw usageError(fmt::format("{}: {}", value.place, what));
}

/// How a key becomes arguments. The two names are those of one option where it may or may not have a value (-Rpass).
struct Spelling {
  std::string flag;        ///< "--quiet", written where the key is true; empty: it needs a value
  std::string option;      ///< "--batch" or "-O", which a value follows; empty: it takes none
  bool isJoined = false;   ///< the value follows at once, as in -O2
  bool isRepeated = false; ///< a list gives the option several times
  bool hasCommas = false;  ///< a list becomes one value: a,b
};

std::optional<Spelling> spellingOfProgram(const std::string &key, const CLI::App &app) {
  const CLI::Option *option = app.get_option_no_throw("--" + key);
  if (!option || key.starts_with("-"))
    return std::nullopt;
  Spelling spelling;
  (option->get_expected_max() == 0 ? spelling.flag : spelling.option) = "--" + key;
  spelling.isRepeated = option->get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return spelling;
}

std::string withoutDashes(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('-'), text.size()));
  return std::string(text.ends_with('=') ? text.substr(0, text.size() - 1) : text);
}

std::optional<Spelling> spellingOfCompiler(const std::string &key) {
  Spelling spelling;
  for (const CompilerFlag &flag : compilerFlags()) {
    const std::string_view name = flag.spelling;
    if (withoutDashes(name) != key)
      continue;
    if (!*flag.value) {
      spelling.flag = name;
    } else {
      spelling.isJoined = !name.ends_with('=');
      spelling.option = name.substr(0, name.size() - (spelling.isJoined ? 0 : 1));
    }
  }
  spelling.isRepeated = spelling.option == "-f";
  spelling.hasCommas = spelling.option == "-march";
  return spelling.flag.empty() && spelling.option.empty() ? std::nullopt : std::optional(spelling);
}

[[noreturn]] void refuseKey(const FileValue &key, const CLI::App &app) {
  std::string meant = key.text;
  std::ranges::replace(meant, '_', '-');
  const std::string bare = withoutDashes(meant);
  if (bare.starts_with("fno-"))
    refuse(key,
           fmt::format("unknown option {}; a pass is switched off by `f: {}`", inQuotes(key.text), bare.substr(1)));
  const std::string nearest = nearestOption(app, "--" + bare);
  refuse(key, fmt::format("unknown option {}{} (a key is the name of an option of --help, without its dashes)",
                          inQuotes(key.text), nearest.empty() ? "" : fmt::format(", did you mean `{}`?", nearest)));
}

Spelling spellingOf(const FileValue &key, const CLI::App &app) {
  for (const char *refused : {"config", "help", "version"})
    if (key.text == refused)
      refuse(key, fmt::format("`{}` is of the command line alone, no option of a file", refused));
  if (const auto spelling = spellingOfProgram(key.text, app))
    return *spelling;
  if (const auto spelling = spellingOfCompiler(key.text))
    return *spelling;
  refuseKey(key, app);
}

bool isWord(const FileValue &value, std::string_view word) {
  return value.isPlain && value.text == word;
}

/// An option with its value, which may be empty or begin with a dash.
void add(FileArguments &to, const Spelling &spelling, const std::string &value) {
  if (spelling.isJoined) {
    to.arguments.push_back(spelling.option + value);
  } else if (value.empty()) {
    to.arguments.push_back(spelling.option);
    to.arguments.push_back(value);
  } else {
    to.arguments.push_back(spelling.option + "=" + value);
  }
}

FileArguments argumentsOf(const FileOption &option, const Spelling &spelling) {
  const std::string &key = option.key.text;
  FileArguments result{.name = spelling.option.empty() ? spelling.flag : spelling.option,
                       .arguments = {},
                       .place = option.values.empty() ? option.key.place : option.values.front().place};
  if (option.isList && !spelling.isRepeated && !spelling.hasCommas)
    refuse(option.key, fmt::format("`{}` has one value, a list is given", key));
  if (option.values.empty())
    refuse(option.key, fmt::format("the list of `{}` is empty, a value is expected", key));
  const FileValue &first = option.values.front();
  const bool isTrue = isWord(first, "true"), isFalse = isWord(first, "false");
  if (spelling.option.empty() && !isTrue && !isFalse)
    refuse(first, fmt::format("`{}` is {}, true or false is expected", key, inQuotes(first.text)));
  if (!spelling.flag.empty() && !option.isList && (isTrue || isFalse)) {
    if (isTrue)
      result.arguments.push_back(spelling.flag);
    return result;
  }
  std::string together;
  for (const FileValue &value : option.values) {
    if (isWord(value, "true") || isWord(value, "false"))
      refuse(value, fmt::format("`{}` needs a value, {} is none (in quotes it is a text)", key, value.text));
    together += (together.empty() ? "" : ",") + value.text;
    if (!spelling.hasCommas)
      add(result, spelling, value.text);
  }
  if (spelling.hasCommas)
    add(result, spelling, together);
  return result;
}

} // namespace

std::vector<FileArguments> argumentsOf(const std::vector<FileOption> &file, const CLI::App &app) {
  std::vector<FileArguments> all;
  for (const FileOption &option : file) {
    const Spelling spelling = spellingOf(option.key, app);
    if (!option.isList || !spelling.isRepeated || option.values.empty())
      all.push_back(argumentsOf(option, spelling));
    else
      for (const FileValue &item : option.values)
        all.push_back(argumentsOf({.key = option.key, .values = {item}}, spelling));
  }
  return all;
}

std::string textOf(const std::vector<std::string> &arguments) {
  const auto isOdd = [](unsigned char c) { return c <= ' ' || c == '`' || c >= 0x7F; };
  std::string text;
  for (const std::string &argument : arguments)
    text += (text.empty() ? "" : " ") +
            (argument.empty() || std::ranges::any_of(argument, isOdd) ? inQuotes(argument) : argument);
  return text.empty() ? "none" : text;
}

std::string placeOfNamed(const std::string &message, const std::vector<FileArguments> &file) {
  const auto isInside = [](char c) { return c == '-' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  std::string place;
  size_t first = std::string::npos;
  for (const FileArguments &option : file)
    for (size_t at = message.find(option.name); at < first; at = message.find(option.name, at + 1))
      if (const size_t end = at + option.name.size(); end == message.size() || !isInside(message[end])) {
        first = at;
        place = option.place;
      }
  return place;
}

std::string nearestOption(const CLI::App &app, std::string_view flag) {
  flag = flag.substr(0, flag.find('='));
  std::string best;
  // Names that are this short differ by few letters without being misspelt.
  int bestDistance = std::min(3, int(withoutDashes(flag).size()));
  const auto consider = [&](const std::string &name) {
    if (int distance = editDistance(flag, "--" + name); distance < bestDistance) {
      bestDistance = distance;
      best = name;
    }
  };
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      consider(name);
  for (const CompilerFlag &known : compilerFlags())
    if (std::string_view(known.spelling).starts_with("--"))
      consider(withoutDashes(known.spelling));
  return best;
}

} // namespace tcc::models
