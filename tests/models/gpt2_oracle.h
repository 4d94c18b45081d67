// GPT-2's loss in plain double-precision loops: an oracle that shares nothing with the compiler or its reference.
#pragma once
#include "models/gpt2_config.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tcc::models {

/// Values under gpt2Parameters' names and in their layout.
using OracleWeights = std::map<std::string, std::vector<double>>;

/// Mean cross-entropy of `targets` [B, T] given `tokens` [B, T]; B from their length.
double gpt2OracleLoss(const Gpt2Config &config, const OracleWeights &weights, const std::vector<int32_t> &tokens,
                      const std::vector<int32_t> &targets, int64_t sequence);

} // namespace tcc::models
