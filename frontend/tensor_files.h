// Finds tensors by name in safetensors files. All interfaces save states to such files and load them from there.
#pragma once
#include "frontend/safetensors.h"
#include "runtime/plan_lists.h"

namespace tcc {

/// What happens if a file has tensors that nobody asked for.
enum class Others : bool { refused, ignored };

/// The format's name of an element type.
TensorDtype fileDtype(runtime::DType dtype);

/// The values that the file has for tensors of these names, shapes and dtypes, in their order. Throws Error, which says
/// all that is wrong, unless each of them is there; other tensors of the file are an error where they are refused.
std::vector<std::span<const std::byte>> valuesOf(const SafetensorsFile &file,
                                                 std::span<const runtime::TensorSpec> wanted, Others others);

} // namespace tcc
