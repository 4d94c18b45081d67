// Makes the value of each kind of node: loads, literals, numbers, random bits, elementwise computation and choices.
#include "codegen/cpu/node_values.h"
#include "codegen/cpu/math_approximation.h"
#include "codegen/cpu/philox.h"
#include <map>

using namespace mlir;

namespace tcc::cpu {

//===- on demand -----------------------------------------------------------------------------------------------===//

void NodeValues::computeRowNode(unsigned id, RowScope &row) {
  const KernelNode &node = info.nodes[id];
  auto operand = [&](unsigned i) { return row.values.lookup(node.operands[i]); };
  Type type = b.computed(b.element(node.type));
  Value value;
  switch (node.kind) {
  case KernelNode::Kind::load:
    value = loadScalar(node, row);
    break;
  case KernelNode::Kind::literal:
    value = b.literal(type, node.value);
    break;
  case KernelNode::Kind::index:
    value = number(node, scalarIndex(node.index, row, Value()));
    break;
  case KernelNode::Kind::random:
    value = random(node, operand, /*vector=*/false);
    break;
  case KernelNode::Kind::compute:
    value = compute(id, operand, /*vector=*/false);
    break;
  case KernelNode::Kind::choose:
    value = choose(
        node, operand, [&](unsigned guard) { return insideRow(guard, row); },
        [](unsigned) { return std::optional<bool>(); }, type);
    break;
  case KernelNode::Kind::rowReduce:
    llvm_unreachable("row reductions are finished by their pass");
  }
  row.values[id] = value;
}

Value NodeValues::inLanes(unsigned id, LaneScope &lanes) {
  const KernelNode &node = info.nodes[id];
  if (auto known = lanes.values.find(id); known != lanes.values.end())
    return known->second;
  Value value;
  if (!node.perColumn)
    value = b.splat(lanes.row.values.lookup(id));
  else if (plan.scratchSlot[id] >= 0 && lanes.stage > plan.keptFrom[id])
    value = b.loadLanes(scratchAddress(id, lanes), b.builder.getF32Type(), lanes.mask);
  else
    value = makeLanes(id, lanes);
  lanes.values[id] = value;
  return value;
}

Value NodeValues::makeLanes(unsigned id, LaneScope &lanes) {
  const KernelNode &node = info.nodes[id];
  auto operand = [&](unsigned i) { return inLanes(node.operands[i], lanes); };
  Type type = b.vector(b.computed(b.element(node.type)));
  switch (node.kind) {
  case KernelNode::Kind::load:
    return loadLanes(node, lanes);
  case KernelNode::Kind::literal:
    return b.literal(type, node.value);
  case KernelNode::Kind::index:
    return number(node, laneIndex(node.index, lanes, laneIndexType(node.index)));
  case KernelNode::Kind::random:
    return random(node, operand, /*vector=*/true);
  case KernelNode::Kind::compute:
    return compute(id, operand, /*vector=*/true);
  case KernelNode::Kind::choose:
    return choose(
        node, operand, [&](unsigned guard) { return insideLanes(guard, lanes); },
        [&](unsigned guard) { return isInsidePart(guard, lanes); }, type);
  case KernelNode::Kind::rowReduce:
    break;
  }
  llvm_unreachable("row reductions are row-level values");
}

Value NodeValues::scratchAddress(unsigned id, LaneScope &lanes) {
  int64_t first = plan.scratchSlot[id] * info.space.columns;
  return b.offset(scratch, b.builder.getF32Type(), b.add(lanes.column, first));
}

//===- computation ---------------------------------------------------------------------------------------------===//

namespace {

/// The sigmoids of a node. sigmoid(x) and sigmoid(-x) of one x share their parts.
class Sigmoids {
public:
  /// `isNear`: whether 16 bits are enough.
  Sigmoids(LaneBuilder &b, bool isNear, ArrayRef<std::optional<SigmoidOfStep>> sigmoids,
           const std::vector<bool> &needed)
      : b(b), isNear(isNear) {
    for (auto [sigmoid, isNeeded] : llvm::zip_equal(sigmoids, needed))
      if (isNeeded && sigmoid)
        sides[sigmoid->x].isNeeded[sigmoid->isMirrored] = true;
  }

  /// `x`: the value with the number of `step.x`.
  Value of(const SigmoidOfStep &step, Value x) {
    Sides &side = sides[step.x];
    if (!side.isNeeded[!step.isMirrored]) {
      if (isNear)
        return nearSigmoid(b, x, step.isMirrored);
      return sigmoid(b, step.isMirrored ? b.create<arith::NegFOp>(x) : x);
    }
    if (!side.both.first)
      side.both = isNear ? nearSigmoids(b, x) : sigmoids(b, x);
    return step.isMirrored ? side.both.second : side.both.first;
  }

private:
  struct Sides {
    bool isNeeded[2] = {};        // sigmoid(x), and sigmoid(-x)
    std::pair<Value, Value> both; // null until they are made
  };

  LaneBuilder &b;
  bool isNear;
  std::map<unsigned, Sides> sides; // by the number of x
};

} // namespace

// A node's sigmoids are recognised by its steps alone, and a node is one op of the graph, so a value has the same bits
// in every kernel. Where 16 bits are enough, vectors of a target with scaling are approximated. What is enough follows
// from all that reads the value in this kernel, so steady code has no approximations.
Value NodeValues::compute(unsigned id, Operand operand, bool vector) {
  const KernelNode &node = info.nodes[id];
  const ScalarSteps &steps = node.steps;
  const size_t count = node.operands.size();
  SmallVector<Value> numbered;
  for (unsigned i = 0; i < count; ++i)
    numbered.push_back(operand(i));
  const bool approximates = vector && b.target.hasScaling() && !b.target.steady;
  std::vector<std::optional<SigmoidOfStep>> found(steps.steps.size());
  for (size_t i = 0; i < found.size(); ++i)
    found[i] = sigmoidOf(steps, count, i);
  const std::vector<bool> needed = neededSteps(steps, count, found);
  Sigmoids sigmoids(b, approximates && narrow[id], found, needed);
  for (auto [i, step] : llvm::enumerate(steps.steps)) {
    Type type = vector ? Type(b.vector(b.element(step.type))) : b.element(step.type);
    if (!needed[i]) {
      numbered.push_back(Value());
      continue;
    }
    if (step.opcode == Opcode::constant) {
      numbered.push_back(b.literal(type, step.literal));
      continue;
    }
    if (found[i]) {
      numbered.push_back(sigmoids.of(*found[i], numbered[found[i]->x]));
      continue;
    }
    SmallVector<Value> operands;
    for (unsigned k = 0; k < facts(step.opcode).operands; ++k)
      operands.push_back(numbered[step.operands[k]]);
    if (approximates && isExpBelowMaximum(info, id)) {
      numbered.push_back(nearExp(b, operands[0]));
      continue;
    }
    numbered.push_back(b.step(step.opcode, type, operands));
    if (isExpAtMostOne(info, id, i))
      numbered.back().getDefiningOp()->setAttr(isAtMostOneExpAttr, b.builder.getUnitAttr());
  }
  return b.round(numbered[steps.result], b.element(node.type));
}

Value NodeValues::choose(const KernelNode &node, Operand operand, function_ref<Value(unsigned)> inside,
                         function_ref<std::optional<bool>(unsigned)> known, Type type) {
  Value result = b.literal(type, 0);
  unsigned firstGuard = node.guards.size();
  for (unsigned i = node.operands.size(); i-- > 0;) {
    firstGuard -= node.guardCounts[i];
    const ArrayRef<unsigned> guards = ArrayRef(node.guards).slice(firstGuard, node.guardCounts[i]);
    if (llvm::any_of(guards, [&](unsigned guard) { return known(guard) == false; }))
      continue;
    Value condition;
    for (unsigned guard : guards)
      if (!known(guard))
        condition = b.both(condition, inside(guard));
    Value part = operand(i);
    result = condition ? b.create<arith::SelectOp>(condition, part, result) : part;
  }
  return result;
}

/// The integer `index`, a scalar or lanes of 32 or 64 bits, as the node's type.
Value NodeValues::number(const KernelNode &node, Value index) {
  Type element = b.element(node.type), type = b.computed(element);
  Type from = getElementTypeOrSelf(index.getType());
  if (isa<VectorType>(index.getType()))
    type = b.vector(type);
  if (isa<FloatType>(element))
    return b.round(b.create<arith::SIToFPOp>(type, index), element);
  if (from == element)
    return index;
  if (from.getIntOrFloatBitWidth() > element.getIntOrFloatBitWidth())
    return b.create<arith::TruncIOp>(type, index);
  return b.create<arith::ExtSIOp>(type, index);
}

// Lanes with even and with odd numbers each have a call, for Philox' words are as wide as two lanes. Bit 3 of row and
// column, absent from the counter, chooses the word; so LLVM finds that neighbouring vectors of an unrolled loop have
// the same calls.
Value NodeValues::random(const KernelNode &node, Operand operand, bool vector) {
  Type i32 = b.builder.getI32Type(), i64 = b.builder.getI64Type();
  Type lanes = vector ? Type(b.vector(i32)) : i32;
  Type wide = vector ? Type(VectorType::get({b.lanes / 2}, i64)) : i64;
  auto integer = [&](int64_t value) { return b.integer(lanes, value); };
  Value seed = operand(0), seedLow = seed, seedHigh = integer(0);
  if (Type type = seed.getType(); getElementTypeOrSelf(type).isInteger(64)) {
    seedLow = b.create<arith::TruncIOp>(lanes, seed);
    seedHigh = b.create<arith::TruncIOp>(lanes, b.create<arith::ShRUIOp>(seed, b.integer(type, 32)));
  }
  auto clear = [&](Value place) { return b.create<arith::AndIOp>(place, integer(~8)); };
  const std::array<Value, 4> counter = {operand(1), clear(operand(2)), clear(operand(3)), seedHigh};
  Value stream = integer(static_cast<int32_t>(node.stream));
  Philox philox(b, wide);
  auto call = [&](bool isOdd) {
    auto word = [&](Value of) -> Value {
      if (!vector)
        return b.create<arith::ExtUIOp>(wide, of);
      Value pair = b.create<LLVM::BitcastOp>(wide, of);
      return isOdd ? b.create<arith::ShRUIOp>(pair, b.integer(wide, 32)) : pair;
    };
    return philox({word(counter[0]), word(counter[1]), word(counter[2]), word(counter[3])}, word(seedLow),
                  word(stream));
  };
  std::array<Value, 4> words = call(false);
  const std::array<Value, 4> odd = vector ? call(true) : words;
  for (unsigned i = 0; i < 4; ++i) {
    Value all = philox.low(words[i]);
    if (vector) {
      Value raised = b.create<arith::ShLIOp>(odd[i], b.integer(wide, 32));
      words[i] = b.create<LLVM::BitcastOp>(lanes, b.create<arith::OrIOp>(all, raised));
    } else {
      words[i] = b.create<arith::TruncIOp>(i32, all);
    }
  }
  auto isSet = [&](Value place) {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::ne, b.create<arith::AndIOp>(place, integer(8)), integer(0));
  };
  Value rowIsSet = isSet(operand(2)), columnIsSet = isSet(operand(3));
  auto ofColumn = [&](unsigned i) { return b.create<arith::SelectOp>(columnIsSet, words[i + 1], words[i]); };
  return b.create<arith::SelectOp>(rowIsSet, ofColumn(2), ofColumn(0));
}

//===- loads ---------------------------------------------------------------------------------------------------===//

static Value outsideValue(LaneBuilder &b, Type type) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(type));
  return b.literal(type, isFloat ? std::numeric_limits<double>::quiet_NaN() : 0);
}

/// A row number as 64 bits.
static Value wide(LaneBuilder &b, Value rowNumber) {
  if (getElementTypeOrSelf(rowNumber.getType()).isInteger(64))
    return rowNumber;
  Type i64 = b.builder.getI64Type();
  return b.create<arith::ExtSIOp>(isa<VectorType>(rowNumber.getType()) ? Type(b.vector(i64)) : i64, rowNumber);
}

// A scalar load is always made, at element 0 where a guard fails: a tensor that is read has at least one element.
Value NodeValues::loadScalar(const KernelNode &node, RowScope &row) {
  Type element = b.element(node.type), type = b.computed(element);
  bool gathers = !node.operands.empty();
  if (gathers && node.gatherRows * node.gatherStride == 0)
    return outsideValue(b, type);
  if (!node.guards.empty() && info.arguments[node.argument].elements == 0)
    return b.literal(type, 0);
  Value index = scalarIndex(node.index, row, Value()), inside, known;
  for (unsigned guard : node.guards)
    inside = b.both(inside, insideRow(guard, row));
  if (gathers) {
    Value number = wide(b, row.values.lookup(node.operands[0]));
    known = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, number, b.i64(node.gatherRows));
    index = b.add(index, b.mul(number, node.gatherStride));
  }
  if (Value safe = b.both(inside, known))
    index = b.create<arith::SelectOp>(safe, index, b.i64(0));
  Value value = b.load(b.offset(arguments[node.argument], element, index), element);
  if (known)
    value = b.create<arith::SelectOp>(known, value, outsideValue(b, type));
  if (inside)
    value = b.create<arith::SelectOp>(inside, value, b.literal(type, 0));
  return value;
}

bool NodeValues::readsWholeRows(const KernelNode &node) const {
  auto isOfRow = [&](unsigned guard) { return !info.dependsOnColumn(derived(guard).value); };
  return !node.guards.empty() && node.operands.empty() && laneStride(node.index) == 1 &&
         isa<FloatType>(b.element(node.type)) && llvm::all_of(node.guards, isOfRow) &&
         info.arguments[node.argument].elements > 0; // so it has a row
}

/// A row that does not exist is read as the first one and becomes zeros. A load that a mask of the row hides would do
/// as well, but a CPU fetches less ahead of masked loads. Zeros come from bits, since LLVM makes a masked load of a
/// select.
Value NodeValues::loadOfRow(const KernelNode &node, LaneScope &lanes) {
  Value exists;
  for (unsigned guard : node.guards)
    exists = b.both(exists, insideRow(guard, lanes.row));
  Value start = b.create<arith::SelectOp>(exists, scalarIndex(node.index, lanes.row, b.i64(0)), b.i64(0));
  Type element = b.element(node.type), i32 = b.builder.getI32Type();
  Value value =
      b.loadLanes(b.offset(arguments[node.argument], element, b.add(start, lanes.column)), element, lanes.mask);
  Value kept = b.splat(b.create<arith::SelectOp>(exists, b.integer(i32, -1), b.integer(i32, 0)));
  Value bits = b.create<arith::AndIOp>(b.create<arith::BitcastOp>(b.vector(i32), value), kept);
  return b.create<arith::BitcastOp>(value.getType(), bits);
}

bool NodeValues::isAlwaysThere(const KernelNode &node) const {
  const int64_t place = node.index.constant;
  return node.index.terms.empty() && place >= 0 && place < info.arguments[node.argument].elements;
}

Value NodeValues::loadLanes(const KernelNode &node, LaneScope &lanes) {
  Type element = b.element(node.type);
  Type type = b.vector(b.computed(element));
  Value base = arguments[node.argument];
  Value inside, known; // whether all guards hold; whether the table has the row
  bool gathers = !node.operands.empty();
  if (gathers && node.gatherRows * node.gatherStride == 0)
    return outsideValue(b, type);
  if (readsWholeRows(node))
    return loadOfRow(node, lanes);
  if (llvm::any_of(node.guards, [&](unsigned guard) { return isInsidePart(guard, lanes) == false; }))
    return b.literal(type, 0);
  for (unsigned guard : node.guards)
    if (!isInsidePart(guard, lanes))
      inside = b.both(inside, insideLanes(guard, lanes));
  bool rowPerLane = gathers && info.nodes[node.operands[0]].perColumn;
  std::optional<int64_t> stride = laneStride(node.index);
  Value value;
  if (!rowPerLane && stride == 1) {
    Value index = scalarIndex(node.index, lanes.row, lanes.column);
    if (gathers) {
      Value number = wide(b, lanes.row.values.lookup(node.operands[0]));
      Value isRow = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, number, b.i64(node.gatherRows));
      number = b.create<arith::SelectOp>(isRow, number, b.i64(0));
      index = b.add(index, b.mul(number, node.gatherStride));
      known = b.splat(isRow);
    }
    const Value address = b.offset(base, element, index);
    const Value mask = b.both(lanes.mask, inside);
    if (plan.prefetchBytes > 0 && !mask && walksThroughMemory(info, node))
      b.prefetch(address, plan.prefetchBytes);
    value = b.loadLanes(address, element, mask);
  } else if (!gathers && stride == 0 && (!inside || isAlwaysThere(node))) {
    value = b.splat(b.load(b.offset(base, element, scalarIndex(node.index, lanes.row, lanes.column)), element));
    if (inside)
      value = b.create<arith::SelectOp>(inside, value, b.literal(type, 0));
  } else {
    Type offsetType = gathers ? Type(b.builder.getI64Type()) : laneIndexType(node.index);
    Value offsets = laneIndex(node.index, lanes, offsetType);
    if (gathers) {
      Value number = wide(b, inLanes(node.operands[0], lanes));
      known = b.create<arith::CmpIOp>(arith::CmpIPredicate::ult, number, b.integer(number.getType(), node.gatherRows));
      offsets = b.add(offsets, b.mul(number, node.gatherStride));
    }
    value = b.gatherLanes(base, element, offsets, b.both(b.both(lanes.mask, inside), known));
  }
  if (known)
    value = b.create<arith::SelectOp>(known, value, outsideValue(b, type));
  if (known && inside)
    value = b.create<arith::SelectOp>(inside, value, b.literal(type, 0));
  return value;
}

} // namespace tcc::cpu
