// An instruction of any kind for a plan that a test makes by hand.
#pragma once
#include "runtime/plan.h"

namespace tcc::runtime::test {

template <typename Call>
Instruction instruction(Call call, std::string label) {
  Instruction made;
  made.call = std::move(call);
  made.label = std::move(label);
  return made;
}

} // namespace tcc::runtime::test
