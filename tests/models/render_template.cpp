// Renders a Jinja template, for jinja_parity.py: `render_template` reads lines of JSON, {"template": …, "variables":
// …}, and answers each with {"text": …} or {"error": …}.
#include "frontend/error.h"
#include "models/jinja.h"

#include <iostream>
#include <string>

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    tcc::runtime::Json answer;
    try {
      const auto asked = tcc::runtime::parseJson(line, int64_t(line.size()), "a line");
      if (!asked)
        throw tcc::Error(asked.error().message());
      answer["text"] =
          tcc::models::JinjaTemplate((*asked)["template"].get<std::string>()).render((*asked)["variables"]);
    } catch (const tcc::Error &error) {
      answer = {{"error", error.what()}};
    }
    std::cout << tcc::runtime::writeJson(answer) << '\n' << std::flush;
  }
}
