// Reading and writing the planner's attributes.
#include "passes/memory_places.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tcc {

int64_t byteSize(RankedTensorType type) {
  return type.getNumElements() * std::max(1u, type.getElementTypeBitWidth() / 8);
}

Place placeOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    bool state = bool(function.getArgAttr(argument.getArgNumber(), stateAttr));
    int64_t index = 0;
    for (unsigned i = 0; i < argument.getArgNumber(); ++i)
      index += bool(function.getArgAttr(i, stateAttr)) == state;
    return {state ? PlaceSpace::state : PlaceSpace::input, index, 0};
  }
  auto result = cast<OpResult>(value);
  auto places = result.getOwner()->getAttrOfType<ArrayAttr>(placesAttr);
  ArrayRef<int64_t> numbers = cast<DenseI64ArrayAttr>(places[result.getResultNumber()]).asArrayRef();
  return {static_cast<PlaceSpace>(numbers[0]), numbers[1], numbers[2]};
}

void setPlaces(Operation *op, ArrayRef<Place> places) {
  Builder builder(op->getContext());
  SmallVector<Attribute> list;
  for (const Place &place : places)
    list.push_back(builder.getDenseI64ArrayAttr({static_cast<int64_t>(place.space), place.index, place.offset}));
  op->setAttr(placesAttr, builder.getArrayAttr(list));
}

Place returnPlace(Operation *terminator, unsigned i) {
  auto function = cast<func::FuncOp>(terminator->getParentOp());
  if (auto updates = function.getResultAttrOfType<StringAttr>(i, updatesAttr))
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), stateAttr) &&
          function.getArgAttr(argument.getArgNumber(), nameAttr) == updates)
        return placeOf(argument);
  int64_t index = 0;
  for (unsigned k = 0; k < i; ++k)
    index += !function.getResultAttr(k, updatesAttr);
  return {PlaceSpace::output, index, 0};
}

} // namespace tcc
