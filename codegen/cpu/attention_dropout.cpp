// Which pairs of a block dropout keeps. Random bits are those of random_bits of [batch, heads, queries, keys]: one call
// of Philox serves queries {t, t + 8} and keys {s, s + 8}, and eight calls are made at once, of neighbouring queries.
#include "codegen/cpu/attention_function.h"
#include "codegen/cpu/philox.h"

using namespace mlir;

namespace tcc::cpu {

using Number = AttentionNumber;

namespace {

constexpr int64_t calls = 8;                                 // at once
constexpr int64_t bytesOfKey = AttentionBlocks::queries / 8; // in the table of kept pairs
constexpr int64_t keptKeys = AttentionBlocks::keptKeys, both = 2 * calls;

/// Values of the calls that are made at once.
class Calls {
public:
  explicit Calls(LaneBuilder &b) : philox(b, VectorType::get({calls}, b.builder.getI64Type())), b(b) {}

  Philox philox;

  Value splat(Value scalar) {
    Value poison = b.create<LLVM::PoisonOp>(type);
    Value one = b.create<LLVM::InsertElementOp>(poison, scalar, b.integer(b.builder.getI32Type(), 0));
    return b.create<LLVM::ShuffleVectorOp>(one, poison, SmallVector<int32_t>(calls, 0));
  }
  /// first, first + 1, …
  Value following(Value first) {
    SmallVector<int64_t> numbers = llvm::to_vector(llvm::seq<int64_t>(0, calls));
    return b.create<arith::AddIOp>(splat(first),
                                   b.create<arith::ConstantOp>(DenseElementsAttr::get(type, ArrayRef(numbers))));
  }
  /// A bit for each call: whether the low half of its word is at least `below`.
  Value atLeast(Value word, Value below) {
    Value isKept = b.create<arith::CmpIOp>(arith::CmpIPredicate::uge, philox.low(word), below);
    return b.create<LLVM::BitcastOp>(b.builder.getI8Type(), isKept);
  }

private:
  LaneBuilder &b;
  VectorType type = VectorType::get({calls}, b.builder.getI64Type());
};

} // namespace

// An address is read in any case: the seed's first word where the wanted one is not there.
void AttentionFunction::loadDropout() {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  auto word = [&](unsigned pointer, Number words, int64_t which) {
    Value isThere = t.is(arith::CmpIPredicate::sgt, number(words), b.i64(which));
    Value place = b.create<arith::SelectOp>(isThere, b.i64(which), b.i64(0));
    Value loaded = b.create<LLVM::LoadOp>(i32, b.offset(pointers[operandCount + pointer], i32, place), 4);
    return b.create<arith::SelectOp>(isThere, b.create<arith::ExtUIOp>(i64, loaded), b.i64(0));
  };
  seedLow = word(0, Number::seedWords, 0);
  seedHigh = word(0, Number::seedWords, 1);
  firstBatch = word(1, Number::hasFirst, 0);
}

// Fills the table for 16 keys and 16 queries at a time, if one of the queries sees one of the keys. The rest of the
// table is read only for pairs that the mask hides.
void AttentionFunction::findKept(const AttentionBlock &block) {
  if (!dropout)
    return;
  Calls made(b);
  Value head = b.add(t.times(b.add(firstBatch, block.batch), number(Number::heads)), block.head);
  Value outer = made.splat(head), high = made.splat(seedHigh), below = made.splat(number(Number::dropBelow));
  Value key0 = made.splat(seedLow), key1 = made.splat(number(Number::stream));
  Value start = t.sub(block.firstKey, b.mod(block.firstKey, keptKeys)), end = b.add(block.firstKey, block.keyCount);
  t.forEach(start, end, keptKeys, [&](Value key) {
    Value from = t.most(key, block.firstKey), count = t.sub(t.least(b.add(key, keptKeys), end), from);
    auto [first, last] = queriesThatSee(block, t.sub(from, block.firstKey), count);
    t.forEach(b.mul(b.div(first, both), both), last, both, [&](Value query) {
      Value queries = made.following(b.add(block.firstQuery, query));
      t.forEach(b.i64(0), b.i64(keptKeys / 2), 1, [&](Value row) {
        Value near = b.add(key, row);
        Philox::Words words = made.philox({outer, queries, made.splat(near), high}, key0, key1);
        Value offset = b.add(b.mul(t.sub(near, start), bytesOfKey), b.div(query, 8));
        for (int64_t i = 0; i < 4; ++i) { // word 2·a + b is that of query + 8a and key + 8b
          Value byte = b.add(offset, i % 2 * (keptKeys / 2) * bytesOfKey + i / 2);
          Value address = b.offset(place(blocks.kept), b.builder.getI8Type(), byte);
          LLVM::StoreOp::create(b.builder, b.loc, made.atLeast(words[i], below), address, 1);
        }
      });
    });
  });
}

Value AttentionFunction::isKept(const AttentionBlock &block, Value key, Value query) {
  if (!dropout)
    return {};
  Type i8 = b.builder.getI8Type();
  Value row = b.add(key, b.mod(block.firstKey, keptKeys));
  Value address = b.offset(place(blocks.kept), i8, b.add(b.mul(row, bytesOfKey), b.div(query, 8)));
  Value bits = b.create<LLVM::LoadOp>(b.builder.getIntegerType(std::max<unsigned>(8, blocks.lanes)), address, 1);
  if (blocks.lanes < 8) { // a part of the byte
    Value shift = b.create<arith::TruncIOp>(i8, b.mod(query, 8));
    bits = b.create<arith::TruncIOp>(b.builder.getIntegerType(blocks.lanes), b.create<arith::ShRUIOp>(bits, shift));
  }
  return b.create<LLVM::BitcastOp>(b.vector(b.builder.getI1Type()), bits);
}

Value AttentionFunction::whereKept(Value kept, Value x) {
  return kept ? b.create<arith::SelectOp>(kept, x, t.floats(0)) : x;
}

} // namespace tcc::cpu
