#include "codegen/kernel_table.h"
#include "runtime/labels.h"
#include "llvm/ADT/STLExtras.h"

namespace tcc {

unsigned KernelTable::add(KernelInfo form, KernelNames names, bool joined) {
  form = normalized(std::move(form));
  size_t hash = hashOf(form);
  auto [first, last] = byHash.equal_range(hash);
  for (auto known = first; known != last; ++known)
    if (std::get<FormKernel>(list[known->second]).form == form) {
      addAnother(known->second, names.label, joined);
      return known->second;
    }
  unsigned number = list.size();
  std::string symbol = "k" + std::to_string(number) + "_" + names.work;
  symbol.resize(std::min<size_t>(symbol.size(), 48));
  byHash.emplace(hash, number);
  list.push_back(FormKernel{std::move(symbol), std::move(form), std::move(names), !joined, joined});
  return number;
}

void KernelTable::addAnother(unsigned number, const std::string &label, bool joined) {
  FormKernel &source = std::get<FormKernel>(list[number]);
  (joined ? source.joined : source.alone) = true;
  source.names.label = runtime::joinedLabel(source.names.label, label);
  ++source.kernels;
}

unsigned KernelTable::add(TextKernel kernel) {
  for (auto [number, known] : llvm::enumerate(list))
    if (symbolOf(known) == kernel.symbol)
      return number;
  list.push_back(std::move(kernel));
  return list.size() - 1;
}

} // namespace tcc
