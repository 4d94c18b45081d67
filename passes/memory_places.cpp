// Reading and writing the planner's attributes.
#include "passes/memory_places.h"

using namespace mlir;

namespace tcc {

Place placeOf(OpResult result) {
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

SignaturePlaces::SignaturePlaces(func::FuncOp function) {
  llvm::DenseMap<StringAttr, BlockArgument> stateByName;
  int64_t inputCount = 0, stateCount = 0, outputCount = 0;
  for (BlockArgument argument : function.getArguments()) {
    DictionaryAttr attributes = function.getArgAttrDict(argument.getArgNumber());
    bool state = attributes && attributes.contains(stateAttr);
    arguments.push_back(state ? Place{PlaceSpace::state, stateCount++} : Place{PlaceSpace::input, inputCount++});
    if (state)
      if (auto name = attributes.getAs<StringAttr>(nameAttr))
        stateByName.try_emplace(name, argument);
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    DictionaryAttr attributes = function.getResultAttrDict(i);
    auto name = attributes ? attributes.getAs<StringAttr>(updatesAttr) : StringAttr();
    BlockArgument state = name ? stateByName.lookup(name) : BlockArgument();
    states.push_back(state);
    results.push_back(state ? arguments[state.getArgNumber()] : Place{PlaceSpace::output, outputCount});
    outputCount += !name;
  }
}

Place SignaturePlaces::of(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return arguments[argument.getArgNumber()];
  return placeOf(cast<OpResult>(value));
}

} // namespace tcc
