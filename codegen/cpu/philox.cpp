#include "codegen/cpu/philox.h"

using namespace mlir;

namespace tcc::cpu {

Philox::Words Philox::operator()(Words counter, Value key0, Value key1) {
  for (unsigned round = 0; round < 10; ++round) {
    Value first = product(counter[0], 0xD2511F53), second = product(counter[2], 0xCD9E8D57);
    counter = {mix(second, counter[1], key0), second, mix(first, counter[3], key1), first};
    key0 = b.create<arith::AddIOp>(key0, integer(0x9E3779B9));
    key1 = b.create<arith::AddIOp>(key1, integer(0xBB67AE85));
  }
  return counter;
}

Value Philox::low(Value word) {
  return b.create<arith::AndIOp>(word, integer(0xFFFFFFFF));
}

Value Philox::product(Value word, int64_t factor) {
  return b.create<arith::MulIOp>(low(word), integer(factor));
}

Value Philox::mix(Value product, Value word, Value key) {
  Value high = b.create<arith::ShRUIOp>(product, integer(32));
  return b.create<arith::XOrIOp>(b.create<arith::XOrIOp>(high, word), key);
}

} // namespace tcc::cpu
