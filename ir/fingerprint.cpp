// MLIR's OperationFingerPrint hashes the same words by SHA-1, which costs four times the walk.
#include "ir/fingerprint.h"
#include "mlir/IR/Block.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace tcc {
namespace {

class Words {
public:
  void add(Operation *op) {
    add(op, op->getName().getAsOpaquePointer(), op->getLoc().getAsOpaquePointer(),
        op->getRawDictionaryAttrs().getAsOpaquePointer());
    words.push_back(size_t{op->hashProperties()});
    words.push_back(uint64_t{op->getNumOperands()} << 32 | op->getNumResults());
    for (Value operand : op->getOperands())
      add(operand.getAsOpaquePointer());
    for (Type type : op->getResultTypes())
      add(type.getAsOpaquePointer());
    for (Region &region : op->getRegions())
      add(region);
  }

  void add(Region &region) {
    for (Block &block : region) {
      add(&block);
      for (BlockArgument argument : block.getArguments())
        add(argument.getAsOpaquePointer(), argument.getType().getAsOpaquePointer(),
            argument.getLoc().getAsOpaquePointer());
      for (Operation &op : block)
        add(&op);
    }
    add(&region); // its end
  }

  Fingerprint fingerprint() const {
    ArrayRef<uint8_t> bytes(reinterpret_cast<const uint8_t *>(words.data()), words.size() * sizeof(uint64_t));
    llvm::XXH128_hash_t hash = llvm::xxh3_128bits(bytes);
    return {hash.low64, hash.high64};
  }

private:
  SmallVector<uint64_t, 0> words;

  template <typename... Pointers>
  void add(const void *first, Pointers... rest) {
    for (const void *pointer : {first, static_cast<const void *>(rest)...})
      words.push_back(reinterpret_cast<uintptr_t>(pointer));
  }
};

template <typename Ir>
Fingerprint of(Ir &&ir) {
  Words words;
  words.add(ir);
  return words.fingerprint();
}

} // namespace

Fingerprint fingerprintOf(Operation *op) {
  return of(op);
}

Fingerprint fingerprintOf(Region &region) {
  return of(region);
}

} // namespace tcc
