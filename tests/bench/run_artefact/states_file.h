// The f32 tensors of a safetensors file, by name: what train_gpt --save and torch_gpt.py --export write.
#pragma once
#include "runtime/error.h"

#include <map>
#include <string>

namespace tcc::runtime {

/// Raw bytes by tensor name. Errors: a file that cannot be read or is no safetensors file of f32 tensors.
Expected<std::map<std::string, std::string>> readStates(const std::string &path);

} // namespace tcc::runtime
