// Options in a file (--config): reads the file, and gives the arguments of a command line that mean the same.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace tcc::models {

/// A text in a file of options.
struct FileValue {
  std::string text;
  bool isPlain = true; ///< without quotes, so that true and false are words
  std::string place;   ///< "run.yaml:3:8"
};

/// A key with its value, or with the values of its list.
struct FileOption {
  FileValue key;
  std::vector<FileValue> values;
  bool isList = false;
};

/// Reads a file of options. Throws Error if the file is none. The function is in options_file.h, since it needs LLVM.
using ReadOptionsFile = std::function<std::vector<FileOption>(const std::string &path)>;

/// The arguments that stand for one key of the file, or for one item of its list where the option is repeated.
struct FileArguments {
  std::string name;                   ///< of the option: "--batch"
  std::vector<std::string> arguments; ///< none for a flag that is false
  std::string place;                  ///< of the value
};

/// The arguments of a command line that mean the same as the file. `app` has the program's options (declareOptions).
/// Throws Error for a key that is no option, and for a value of the wrong kind: a list for an option that takes one
/// value, or something else than true or false for a flag. The values themselves are not checked.
std::vector<FileArguments> argumentsOf(const std::vector<FileOption> &file, const CLI::App &app);

/// The arguments as one line for a log, with quotes where they are needed; "none" if there are none.
std::string textOf(const std::vector<std::string> &arguments);

/// The place of the option in the file that `message` names, such as "run.yaml:3:8"; empty where it names none.
std::string placeOfNamed(const std::string &message, const std::vector<FileArguments> &file);

/// The name (without dashes) of the declared option or flag of the compiler that is spelled almost like `flag`; empty
/// where none is.
std::string nearestOption(const CLI::App &app, std::string_view flag);

} // namespace tcc::models
