// Lines of text, indented by the braces that are open.
#pragma once
#include <string>
#include <utility>

namespace tcc::cuda {

class Writer {
public:
  /// A directive of the preprocessor stands at the margin.
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
