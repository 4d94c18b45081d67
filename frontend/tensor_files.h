// Tensors by name as safetensors files: what states of every interface are saved to and loaded from.
#pragma once
#include "frontend/safetensors.h"
#include "runtime/plan_lists.h"

namespace tcc {

/// What becomes of tensors of a file that nobody asked for.
enum class Others : bool { refused, ignored };

/// The format's name of an element type.
TensorDtype fileDtype(runtime::DType dtype);

/// The values that the file has for tensors of these names, shapes and dtypes, in their order. Throws Error, which says
/// all that is wrong, unless each of them is there; other tensors of the file are an error where they are refused.
std::vector<std::span<const std::byte>> valuesOf(const SafetensorsFile &file,
                                                 std::span<const runtime::TensorSpec> wanted, Others others);

} // namespace tcc
