#include "tests/cuda_machine/nccl/settings.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>

namespace tcc::nccl {

Settings currentSettings() {
  Settings settings;
  const std::map<std::string, int *> words = {{"version", &settings.version}, {"polls", &settings.polls},
                                              {"seconds", &settings.seconds}, {"rank", &settings.rank},
                                              {"stuck", &settings.stuck},     {"hang", &settings.hang},
                                              {"broken", &settings.broken},   {"code", &settings.code}};
  const char *given = std::getenv("TCC_NCCL_MACHINE");
  std::istringstream in(given ? given : "");
  for (std::string word; std::getline(in, word, ',');) {
    const std::size_t equals = word.find('=');
    const auto found = words.find(word.substr(0, equals));
    const std::string digits = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (found == words.end() || digits.empty() || digits.size() > 8 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      std::fprintf(stderr, "TCC_NCCL_MACHINE: no setting is called `%s`\n", word.c_str());
      std::abort();
    }
    *found->second = std::stoi(digits);
  }
  return settings;
}

} // namespace tcc::nccl
