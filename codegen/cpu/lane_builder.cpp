// bf16 stays an integer in memory and the upper half of an f32 in registers, so that no target sees a bf16 vector;
// only the rounding instruction, where there is one, does.
#include "codegen/cpu/lane_builder.h"
#include "ir/tensor_bytes.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace tcc::cpu {

//===- types ---------------------------------------------------------------------------------------------------===//

Type LaneBuilder::computed(Type element) {
  return isa<FloatType>(element) ? builder.getF32Type() : element;
}

Type LaneBuilder::stored(Type element) {
  if (element.isInteger(1))
    return builder.getI8Type();
  return element.isBF16() || (element.isF16() && !target.hasF16) ? builder.getI16Type() : element;
}

int64_t LaneBuilder::bytes(Type element) {
  return elementBytes(element);
}

Type LaneBuilder::like(Value value, Type element) {
  return isa<VectorType>(value.getType()) ? Type(vector(element)) : element;
}

//===- literals and scalars ------------------------------------------------------------------------------------===//

Value LaneBuilder::i64(int64_t value) {
  return create<arith::ConstantOp>(builder.getI64IntegerAttr(value));
}

Value LaneBuilder::literal(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  if (!isa<FloatType>(element))
    return integer(type, static_cast<int64_t>(value));
  TypedAttr attr = builder.getFloatAttr(element, value);
  if (auto shaped = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(shaped, attr);
  return create<arith::ConstantOp>(attr);
}

Value LaneBuilder::literal(Type type, ScalarLiteral value) {
  if (isa<FloatType>(getElementTypeOrSelf(type)))
    return literal(type, value.asFloat());
  return integer(type, value.asInteger());
}

Value LaneBuilder::integer(Type type, int64_t value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr = IntegerAttr::get(element, llvm::APInt(element.getIntOrFloatBitWidth(), value, true, true));
  if (auto shaped = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(shaped, attr);
  return create<arith::ConstantOp>(attr);
}

static bool isLiteral(Value value, int64_t wanted) {
  auto constant = value.getDefiningOp<arith::ConstantOp>();
  auto integer = constant ? dyn_cast<IntegerAttr>(constant.getValue()) : IntegerAttr();
  return integer && integer.getValue().getSExtValue() == wanted;
}

Value LaneBuilder::add(Value a, Value b) {
  if (isLiteral(a, 0))
    return b;
  return isLiteral(b, 0) ? a : create<arith::AddIOp>(a, b);
}
Value LaneBuilder::add(Value a, int64_t b) {
  return b == 0 ? a : create<arith::AddIOp>(a, integer(a.getType(), b));
}
Value LaneBuilder::mul(Value a, int64_t b) {
  return b == 1 ? a : create<arith::MulIOp>(a, integer(a.getType(), b));
}
Value LaneBuilder::div(Value a, int64_t b) {
  return b == 1 ? a : create<arith::DivUIOp>(a, integer(a.getType(), b));
}
Value LaneBuilder::mod(Value a, int64_t b) {
  return create<arith::RemUIOp>(a, integer(a.getType(), b));
}

Value LaneBuilder::step(Opcode opcode, Type type, ValueRange operands) {
  const OpcodeFacts &row = facts(opcode);
  OperationState state(loc, row.mlirName);
  state.addOperands(operands);
  state.addTypes(type);
  if (row.predicate >= 0)
    state.addAttribute("predicate", builder.getI64IntegerAttr(row.predicate));
  return builder.create(state)->getResult(0);
}

//===- lanes ---------------------------------------------------------------------------------------------------===//

Value LaneBuilder::splat(Value scalar) {
  VectorType type = vector(scalar.getType());
  if (auto constant = scalar.getDefiningOp<arith::ConstantOp>())
    return create<arith::ConstantOp>(SplatElementsAttr::get(type, Attribute(constant.getValue())));
  Value poison = create<LLVM::PoisonOp>(type);
  Value first = create<LLVM::InsertElementOp>(poison, scalar, integer(builder.getI32Type(), 0));
  return create<LLVM::ShuffleVectorOp>(first, poison, SmallVector<int32_t>(lanes, 0));
}

Value LaneBuilder::iota(Type element, int64_t factor) {
  SmallVector<APInt> numbers;
  for (unsigned i = 0; i < lanes; ++i)
    numbers.emplace_back(element.getIntOrFloatBitWidth(), i * factor, true, true);
  return create<arith::ConstantOp>(DenseElementsAttr::get(vector(element), numbers));
}

Value LaneBuilder::firstLanes(unsigned count) {
  SmallVector<bool> mask(lanes, false);
  std::fill_n(mask.begin(), count, true);
  return create<arith::ConstantOp>(DenseElementsAttr::get(vector(builder.getI1Type()), mask));
}

Value LaneBuilder::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return create<arith::AndIOp>(a, b);
}

Value LaneBuilder::reduce(Value value, function_ref<Value(Value, Value)> combine) {
  for (int32_t half = lanes / 2; half >= 1; half /= 2) {
    SmallVector<int32_t> low, high;
    for (int32_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(i + half);
    }
    value =
        combine(create<LLVM::ShuffleVectorOp>(value, value, low), create<LLVM::ShuffleVectorOp>(value, value, high));
  }
  return create<LLVM::ExtractElementOp>(value, integer(builder.getI32Type(), 0));
}

//===- f16 without instructions for it ---------------------------------------------------------------------------===//

/// Exponents are moved to f32's by a product, which makes normal numbers of subnormal ones.
Value LaneBuilder::fromHalf(Value half) {
  Type i32 = like(half, builder.getI32Type()), f32 = like(half, builder.getF32Type());
  Value bits = create<arith::ExtUIOp>(i32, half);
  auto masked = [&](int64_t mask) { return create<arith::AndIOp>(bits, integer(i32, mask)); };
  Value magnitude = create<arith::BitcastOp>(f32, create<arith::ShLIOp>(masked(0x7fff), integer(i32, 13)));
  Value number = create<arith::BitcastOp>(i32, create<arith::MulFOp>(magnitude, literal(f32, 0x1p112)));
  Value isFinite = create<arith::CmpIOp>(arith::CmpIPredicate::ne, masked(0x7c00), integer(i32, 0x7c00));
  Value special = create<arith::OrIOp>(number, integer(i32, 0x7f800000));
  Value sign = create<arith::ShLIOp>(masked(0x8000), integer(i32, 16));
  return create<arith::BitcastOp>(f32, create<arith::OrIOp>(create<arith::SelectOp>(isFinite, number, special), sign));
}

/// As runtime::floatToF16 does it: to nearest, ties to even.
Value LaneBuilder::toHalf(Value value) {
  Type i32 = like(value, builder.getI32Type()), f32 = like(value, builder.getF32Type());
  Value bits = create<arith::BitcastOp>(i32, value);
  auto shifted = [&](Value x, int64_t by) { return create<arith::ShRUIOp>(x, integer(i32, by)); };
  auto masked = [&](Value x, int64_t mask) { return create<arith::AndIOp>(x, integer(i32, mask)); };
  Value magnitude = masked(bits, 0x7fffffff);
  auto isLess = [&](int64_t limit) {
    return create<arith::CmpIOp>(arith::CmpIPredicate::ult, magnitude, integer(i32, limit));
  };
  Value odd = masked(shifted(magnitude, 13), 1);
  Value rounded = create<arith::AddIOp>(create<arith::AddIOp>(magnitude, integer(i32, 0xfff - 0x38000000)), odd);
  // Adding 0.5 aligns subnormal results with the mantissa and rounds.
  Value aligned = create<arith::AddFOp>(create<arith::BitcastOp>(f32, magnitude), literal(f32, 0.5));
  Value subnormal = create<arith::SubIOp>(create<arith::BitcastOp>(i32, aligned), integer(i32, 0x3f000000));
  Value nan = create<arith::OrIOp>(masked(shifted(magnitude, 13), 0x3ff), integer(i32, 0x7e00));
  Value large = create<arith::SelectOp>(isLess(0x7f800001), integer(i32, 0x7c00), nan);
  Value half = create<arith::SelectOp>(isLess(0x477ff000), shifted(rounded, 13), large);
  half = create<arith::SelectOp>(isLess(0x38800000), subnormal, half);
  half = create<arith::OrIOp>(half, masked(shifted(bits, 16), 0x8000));
  return create<arith::TruncIOp>(like(value, builder.getI16Type()), half);
}

//===- memory --------------------------------------------------------------------------------------------------===//

Value LaneBuilder::fromStored(Value value, Type element) {
  if (element.isInteger(1))
    return create<arith::CmpIOp>(arith::CmpIPredicate::ne, value, integer(value.getType(), 0));
  if (element.isBF16()) {
    Value wide = create<arith::ExtUIOp>(like(value, builder.getI32Type()), value);
    Value bits = create<arith::ShLIOp>(wide, integer(wide.getType(), 16));
    return create<arith::BitcastOp>(like(value, builder.getF32Type()), bits);
  }
  if (element.isF16())
    return target.hasF16 ? create<arith::ExtFOp>(like(value, builder.getF32Type()), value) : fromHalf(value);
  return value;
}

Value LaneBuilder::toStored(Value value, Type element) {
  if (element.isInteger(1))
    return create<arith::ExtUIOp>(like(value, builder.getI8Type()), value);
  if (element.isBF16()) { // rounded already
    Value bits = create<arith::BitcastOp>(like(value, builder.getI32Type()), value);
    Value high = create<arith::ShRUIOp>(bits, integer(bits.getType(), 16));
    return create<arith::TruncIOp>(like(value, builder.getI16Type()), high);
  }
  if (element.isF16())
    return target.hasF16 ? create<arith::TruncFOp>(like(value, element), value) : toHalf(value);
  return value;
}

Value LaneBuilder::round(Value value, Type element) {
  Type f32 = like(value, builder.getF32Type()), i32 = like(value, builder.getI32Type());
  if (element.isF16())
    return fromStored(toStored(value, element), element);
  if (!element.isBF16())
    return value;
  // To nearest, ties to even, on the bits; NaN keeps its upper half and becomes quiet. AVX-512's instruction for it
  // takes denormals for 0, so that results would depend on the machine.
  Value bits = create<arith::BitcastOp>(i32, value);
  Value odd = create<arith::AndIOp>(create<arith::ShRUIOp>(bits, integer(i32, 16)), integer(i32, 1));
  Value rounded = create<arith::AddIOp>(create<arith::AddIOp>(bits, integer(i32, 0x7fff)), odd);
  Value quiet = create<arith::OrIOp>(bits, integer(i32, 0x400000));
  Value isNan = create<arith::CmpFOp>(arith::CmpFPredicate::UNO, value, value);
  Value chosen = create<arith::SelectOp>(isNan, quiet, rounded);
  return create<arith::BitcastOp>(f32, create<arith::AndIOp>(chosen, integer(i32, -65536)));
}

Value LaneBuilder::offset(Value base, Type element, Value elements) {
  if (isLiteral(elements, 0))
    return base;
  Type type = isa<VectorType>(elements.getType()) ? Type(vector(pointer())) : pointer();
  return create<LLVM::GEPOp>(type, stored(element), base, ValueRange(elements));
}

Value LaneBuilder::load(Value address, Type element) {
  return fromStored(create<LLVM::LoadOp>(stored(element), address, bytes(element)), element);
}

Value LaneBuilder::loadLanes(Value address, Type element, Value mask) {
  VectorType type = vector(stored(element));
  if (!mask)
    return fromStored(create<LLVM::LoadOp>(type, address, bytes(element)), element);
  Value zero = literal(type, 0);
  return fromStored(create<LLVM::MaskedLoadOp>(type, address, mask, zero, static_cast<uint32_t>(bytes(element))),
                    element);
}

void LaneBuilder::prefetch(Value address, int64_t bytes, bool forWriting) {
  constexpr unsigned intoEveryLevel = 3, ofData = 1; // as LLVM numbers them
  const Value ahead = LLVM::GEPOp::create(builder, loc, pointer(), builder.getI8Type(), address,
                                          ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(static_cast<int32_t>(bytes))});
  LLVM::Prefetch::create(builder, loc, ahead, static_cast<unsigned>(forWriting), intoEveryLevel, ofData);
}

Value LaneBuilder::gatherLanes(Value base, Type element, Value offsets, Value mask) {
  VectorType type = vector(stored(element));
  if (!mask)
    mask = firstLanes(lanes);
  Value zero = literal(type, 0);
  return fromStored(create<LLVM::masked_gather>(type, offset(base, element, offsets), mask, ValueRange(zero),
                                                static_cast<uint32_t>(bytes(element))),
                    element);
}

void LaneBuilder::store(Value value, Value address, Type element) {
  LLVM::StoreOp::create(builder, loc, toStored(value, element), address, bytes(element));
}

void LaneBuilder::storeLanes(Value value, Value address, Type element, Value mask) {
  if (!mask)
    return store(value, address, element);
  Value stored = toStored(value, element);
  // The first lane alone is stored as a scalar: of a truncated vector LLVM would store what was there before, too wide.
  DenseElementsAttr known;
  if (matchPattern(mask, m_Constant(&known)) && llvm::count(known.getValues<bool>(), true) == 1) {
    stored = create<LLVM::ExtractElementOp>(stored, create<LLVM::ConstantOp>(builder.getI32Type(), 0));
    LLVM::StoreOp::create(builder, loc, stored, address, bytes(element));
    return;
  }
  LLVM::MaskedStoreOp::create(builder, loc, stored, address, mask, static_cast<uint32_t>(bytes(element)));
}

SmallVector<Value> LaneBuilder::loop(Value begin, Value end, int64_t step, ValueRange carried,
                                     function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(builder, loc, begin, end, i64(step), carried,
                                 [&](OpBuilder &inner, Location, Value i, ValueRange values) {
                                   OpBuilder::InsertionGuard guard(builder);
                                   builder.setInsertionPoint(inner.getInsertionBlock(), inner.getInsertionPoint());
                                   SmallVector<Value> results = body(i, values);
                                   scf::YieldOp::create(builder, loc, results);
                                 });
  return SmallVector<Value>(loop.getResults());
}

void LaneBuilder::when(Value condition, function_ref<void()> body) {
  auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body();
}

} // namespace tcc::cpu
