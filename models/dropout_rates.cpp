#include "models/dropout_rates.h"
#include "frontend/quotes.h"
#include "models/config_reader.h"

#include <fmt/format.h>

namespace tcc::models {

std::string DropoutRates::describe() const {
  if (embedding == attention && attention == residual)
    return fmt::format("{}", embedding);
  std::string text;
  for (const auto &[place, rate] :
       {std::pair("embedding", embedding), std::pair("attention", attention), std::pair("residual", residual)})
    if (rate > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", place, rate);
  return text;
}

double readDropoutRate(const ConfigReader &reader, const char *key) {
  const double rate = reader.number(key, 0);
  if (!(rate >= 0 && rate < 1))
    throw Error(fmt::format("{}: `{}` is {}, a number from 0 on and below 1 is expected", reader.path, key, rate));
  return rate;
}

} // namespace tcc::models
