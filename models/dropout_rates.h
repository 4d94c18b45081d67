// DropoutRates: which share of which values a training step drops out (Srivastava et al. 2014).
#pragma once
#include <string>

namespace tcc::models {

struct ConfigReader;

/// The rates of dropout, one for each place, from 0 to below 1. Where a kind of model does not have a place, its rate
/// is 0.
struct DropoutRates {
  double embedding = 0; ///< the sum of token and position embedding
  double attention = 0; ///< the weights of attention, which softmax gives
  double residual = 0;  ///< what attention and MLP add to the residual stream

  bool any() const { return embedding > 0 || attention > 0 || residual > 0; }
  /// "0", "0.1" where the three are equal, "embedding 0.1, attention 0.2" where they are not.
  std::string describe() const;
  bool operator==(const DropoutRates &) const = default;
};

/// The rate that a configuration has under `key`; 0 if it is absent. Throws Error for a value that is no rate.
double readDropoutRate(const ConfigReader &reader, const char *key);

} // namespace tcc::models
