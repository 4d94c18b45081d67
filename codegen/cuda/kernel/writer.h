// Writer: lines of text, indented by the number of open braces.
#pragma once
#include <string>
#include <utility>

namespace tcc::cuda {

class Writer {
public:
  /// Adds a line. Directives of the preprocessor are not indented.
  void line(const std::string &content) {
    text += (content.front() == '#' ? std::string() : std::string(2 * depth, ' ')) + content + "\n";
  }
  /// "head {"
  void open(const std::string &head) {
    line(head + " {");
    ++depth;
  }
  void close() {
    --depth;
    line("}");
  }
  std::string take() { return std::move(text); }

private:
  std::string text;
  size_t depth = 0;
};

} // namespace tcc::cuda
