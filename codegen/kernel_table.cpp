#include "codegen/kernel_table.h"
#include "runtime/labels.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc {

unsigned KernelTable::add(KernelInfo form, KernelNames names, bool joined) {
  form = normalized(std::move(form));
  size_t hash = hashOf(form);
  auto [first, last] = byHash.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (FormKernel &source = std::get<FormKernel>(list[known->second]); source.form == form) {
      (joined ? source.joined : source.alone) = true;
      source.names.label = runtime::joinedLabel(source.names.label, names.label);
      ++source.kernels;
      return known->second;
    }
  unsigned number = list.size();
  std::string symbol = "k" + std::to_string(number) + "_" + names.work;
  symbol.resize(std::min<size_t>(symbol.size(), 48));
  byHash.emplace(hash, number);
  list.push_back(FormKernel{std::move(symbol), std::move(form), std::move(names), !joined, joined});
  return number;
}

unsigned KernelTable::add(TextKernel kernel) {
  for (auto [number, known] : llvm::enumerate(list))
    if (symbolOf(known) == kernel.symbol)
      return number;
  list.push_back(std::move(kernel));
  return list.size() - 1;
}

} // namespace tcc
