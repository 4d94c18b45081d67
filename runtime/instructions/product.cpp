#include "runtime/instructions/product.h"

namespace tcc::runtime {

std::string MatmulCall::validate(const PlanLists &plan) const {
  auto extents = gemmExtents(desc);
  if (!extents)
    return extents.error().message();
  if ((bias != noBuffer) != desc.bias.has_value())
    return "a bias buffer is given exactly when the product has a bias";
  if (addend != noBuffer && !desc.accumulate)
    return "an addend is given to a product that does not accumulate";
  if ((aux != noBuffer) != desc.geluGradient)
    return "an aux buffer is given exactly when the product has slopes of GELU";
  struct Operand {
    const char *name;
    BufferId id;
    int64_t bytes;
  };
  for (auto [operand, id, bytes] :
       {Operand{"a", a, extents->a}, Operand{"b", b, extents->b}, Operand{"c", c, extents->c},
        Operand{"bias", bias, extents->bias}, Operand{"addend", addend, extents->c}, Operand{"aux", aux, extents->c}})
    if (id != noBuffer && plan.buffers[id].bytes < bytes)
      return std::string(operand) + " has " + std::to_string(plan.buffers[id].bytes) + " bytes; the product " +
             describe(desc) + " needs " + std::to_string(bytes);
  for (BufferId own : {scratch, packed})
    if (own != noBuffer && plan.buffers[own].space != Space::arena)
      return "scratch lies outside the arena";
  if (isPacked && packed == noBuffer)
    return "the product reads a packed b that it does not name";
  for (BufferId other : {a, b, bias, addend, aux})
    if (plan.overlap(c, other) || plan.overlap(scratch, other) || plan.overlap(packed, other))
      return "c or scratch overlaps another operand of the product";
  if (plan.overlap(c, scratch) || plan.overlap(c, packed) || plan.overlap(scratch, packed))
    return "c and scratch of the product overlap";
  return {};
}

} // namespace tcc::runtime
