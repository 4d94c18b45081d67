// Options of train_gpt that do nothing without another one.
#pragma once
#include <functional>
#include <string>

namespace tcc::models {

/// The error of the first given option that lacks the one it needs, such as "--keep needs --checkpoint FOLDER"; empty
/// where each has it. `isGiven` takes an option with its dashes.
std::string lackedOption(const std::function<bool(const char *)> &isGiven);

} // namespace tcc::models
