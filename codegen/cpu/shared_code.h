// SharedCode: the machine code of a list of kernels, which a process makes only once for each kernel. Steps with other
// shapes share it, for two reasons: code is made from a form without the sizes on which no code depends (sharedForm),
// and names and numbers of rows are set when it is linked.
#pragma once
#include "codegen/cpu/emit_kernels.h"
#include "runtime/ranks/ranks.h"

namespace tcc::cpu {

/// The part of a kernel on which its code depends.
struct SharedForm {
  /// The kernel's form with the least possible sizes where no code depends on them: the number of rows, and the numbers
  /// of elements of tensors.
  KernelInfo form;
  /// How many rows an outer block has, if the code reads this number when it runs.
  std::optional<int64_t> rows;
};

/// Two kernels have equal code if their `form` is equal and both or neither have `rows`.
SharedForm sharedForm(KernelInfo form);

/// The most rows that code can read when it runs; a larger number becomes a part of the code.
inline constexpr int64_t mostRows = (int64_t(1) << 31) - 1;

/// All members of the form as bytes. Forms are equal if and only if these are.
std::string bytesOf(const KernelInfo &form);

class SharedCode {
public:
  /// The kernels must outlive this.
  SharedCode(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options);

  /// The numbers of the kernels that have no object, since this process has not compiled them.
  std::vector<size_t> missing() const;
  bool has(size_t i) const { return parts[i].object != nullptr; }
  /// The object of kernel `i`, which must have one. It can be given to add(), also in another process.
  const std::string &object(size_t i) const { return *parts[i].object; }
  void add(size_t i, std::string object);

  /// An error names the kernel that cannot be made.
  runtime::Error compileMissing();
  /// A collective: what several ranks lack is compiled by one of them, which sends it to the others. A kernel that this
  /// rank should have made and could not is missing afterwards, on all ranks. Errors: those of the engine. `build` is
  /// that of this program, since code of another one may differ.
  runtime::Error compileTogether(runtime::Ranks &ranks, std::string_view build);
  /// How many kernels have come from other ranks.
  size_t receivedCount() const;
  bool isReceived(size_t i) const { return parts[i].isReceived; }
  /// The shared object of all kernels. It depends on the list alone, not on what was compiled before.
  runtime::Expected<std::string> link() const;
  /// Forgets what this process has compiled, for tests.
  static void forget();

private:
  struct Part {
    KernelSource source; // as it is emitted
    std::string symbol;  // its name in the shared object
    std::optional<int64_t> rows;
    std::string key;
    std::shared_ptr<const std::string> object;
    bool isReceived = false;
  };

  /// The parts that lack code, by key, in the order in which they should be compiled.
  struct Lack {
    std::vector<size_t> same; // the parts with one key
    int64_t work;             // how long it takes to compile, in no unit
  };
  std::vector<Lack> lacks() const;
  runtime::Error compile(llvm::ArrayRef<Lack> lacks);
  void give(const Lack &lack, std::string object);

  const EmitOptions &options;
  std::vector<Part> parts; // one a kernel
};

} // namespace tcc::cpu
