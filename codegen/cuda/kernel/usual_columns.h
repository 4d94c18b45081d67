// In long rows, most groups of columns are alike: a mask of padding holds in all of them, a target is in none. Such
// comparisons are decided once a group, and only a group that differs computes them at each column.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// A node that compares the number of the column with one value of the row, and what it gives at all columns of a group
/// for which the condition holds.
struct UsualColumn {
  unsigned node;
  bool usual;
  Opcode opcode;    // as if the column stood on the left
  unsigned value;   // the node that is compared with
  int64_t constant; // what is added to the column's number
};

/// Those of `nodes` that are such comparisons.
std::vector<UsualColumn> usualColumns(const KernelInfo &form, llvm::ArrayRef<unsigned> nodes);

/// Whether the group of `width` columns from `group` on, an expression, has the usual value at each of them; `value` is
/// the compared value's text.
std::string usualCondition(const UsualColumn &column, const std::string &group, int width, const std::string &value);

} // namespace tcc::cuda
