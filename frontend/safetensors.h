// The safetensors format (u64 header length, JSON header, tensor bytes): a strict reader and a writer.
#pragma once
#include "frontend/files.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tcc {

enum class TensorDtype { Bool, U8, I8, F8E4M3, F8E5M2, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64 };

/// The format's own spelling: "F32", "BF16", …
std::string_view dtypeName(TensorDtype dtype);
/// Size of one element in bytes.
int64_t dtypeBytes(TensorDtype dtype);

/// Whether weights of this dtype are read: SafetensorsFile::readFloats takes them.
bool isReadAsFloat(TensorDtype dtype);

/// One tensor of a file. `begin` and `end` are byte offsets from the end of the header.
struct TensorEntry {
  std::string name;
  TensorDtype dtype = TensorDtype::F32;
  std::vector<int64_t> shape;
  int64_t begin = 0;
  int64_t end = 0;

  /// Number of elements; 1 for rank 0.
  int64_t elements() const { return (end - begin) / dtypeBytes(dtype); }
};

/// A safetensors file, memory-mapped.
class SafetensorsFile {
public:
  /// Opens and checks the whole header: its length (at most 100 MB, within the file), the JSON and its shape, no name
  /// twice, rank at most 32, byte count = product of the shape times the dtype's size, tensors contiguous without hole
  /// or overlap, end of the last one = end of the file. Throws Error naming the file and the byte or tensor.
  /// Takes memory in proportion to the header that is really there, never to a size that it claims.
  explicit SafetensorsFile(const std::string &path);

  const std::string &path() const { return file.path(); }
  /// The tensors in the order of their bytes.
  const std::vector<TensorEntry> &tensors() const { return entries; }
  const std::map<std::string, std::string> &metadata() const { return attributes; }
  /// nullptr where there is no tensor of this name.
  const TensorEntry *find(std::string_view name) const;
  std::span<const std::byte> bytes(const TensorEntry &entry) const;

  /// Copies an F32, F16 or BF16 tensor to floats (16-bit values widen exactly). Throws Error for another dtype or
  /// where `out` has another number of elements.
  void readFloats(const TensorEntry &entry, std::span<float> out) const;

private:
  MappedFile file;
  int64_t dataStart = 0;
  std::vector<TensorEntry> entries;
  std::vector<int32_t> byName; ///< indices of `entries`, sorted by name
  std::map<std::string, std::string> attributes;
};

/// A tensor to write; `bytes` are read until writeSafetensors returns.
struct TensorToWrite {
  std::string name;
  TensorDtype dtype = TensorDtype::F32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes `path` atomically (see AtomicFile), with metadata format = "pt" and the given entries beside it. Wider dtypes
/// come first, so that every tensor is aligned; within a dtype the given order stays. Throws Error for a name
/// given twice, for bytes that disagree with shape and dtype, and where the system cannot write.
void writeSafetensors(const std::string &path, std::span<const TensorToWrite> tensors,
                      const std::map<std::string, std::string> &metadata = {});

} // namespace tcc
