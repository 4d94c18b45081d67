// SharedCode: the machine code of a list of kernels, each kernel's made once in a process. Kernels of steps with other
// shapes have the same code, for two reasons: it is made of a form that says no more than code depends on (sharedForm),
// and names and numbers of rows are given when it is linked.
#pragma once
#include "codegen/cpu/emit_kernels.h"

namespace tcc::cpu {

/// What of a kernel its code is made of.
struct SharedForm {
  /// The kernel's form, with least sizes in the place of those on which no code depends: how many rows there are, and
  /// how many elements tensors have.
  KernelInfo form;
  /// How many rows an outer block has, where the code reads this number when it runs.
  std::optional<int64_t> rows;
};

/// Kernels of which `form` is equal, and whether they have `rows`, have equal code.
SharedForm sharedForm(KernelInfo form);

/// More rows than this are part of the code.
inline constexpr int64_t mostRows = (int64_t(1) << 31) - 1;

/// All members of the form, one after the other: equal bytes are equal forms.
std::string bytesOf(const KernelInfo &form);

class SharedCode {
public:
  /// The kernels must outlive this.
  SharedCode(llvm::ArrayRef<KernelSource> kernels, const EmitOptions &options);

  /// The numbers of the kernels that have no object: this process has not compiled them.
  std::vector<size_t> missing() const;
  bool has(size_t i) const { return parts[i].object != nullptr; }
  /// The object of kernel `i`, made by this class at another time; in other processes too.
  const std::string &object(size_t i) const { return *parts[i].object; }
  void add(size_t i, std::string object);

  /// An error names the kernel that cannot be made.
  runtime::Error compileMissing();
  /// The shared object of all kernels. It depends on the list alone, not on what was compiled before.
  runtime::Expected<std::string> link() const;
  /// Forgets what this process has compiled, for tests.
  static void forget();

private:
  struct Part {
    KernelSource source; // as it is emitted
    std::string symbol;  // in the shared object
    std::optional<int64_t> rows;
    std::string key;
    std::shared_ptr<const std::string> object;
  };

  const EmitOptions &options;
  std::vector<Part> parts; // one a kernel
};

} // namespace tcc::cpu
