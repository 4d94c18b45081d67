// usualColumns: comparisons with the number of the column that have the same result at most columns of a long row: a
// mask of padding holds in nearly all, and the column of a target is in hardly any. They are decided once for a group
// of columns, and computed at each column only in groups where the result differs.
#pragma once
#include "ir/kernel.h"

namespace tcc::cuda {

/// A node that compares the number of the column with one value of the row. `usual` is its result at all columns of a
/// group for which usualCondition() holds.
struct UsualColumn {
  unsigned node;
  bool usual;
  Opcode opcode;    // the comparison with the column on the left side
  unsigned value;   // the node with which the column is compared
  int64_t constant; // what is added to the column's number
};

/// Those of `nodes` that are such comparisons.
std::vector<UsualColumn> usualColumns(const KernelInfo &form, llvm::ArrayRef<unsigned> nodes);

/// An expression for whether the comparison has its usual result at each of the `width` columns from `group` on.
/// `group` is an expression, and `value` is the text of the value that is compared with.
std::string usualCondition(const UsualColumn &column, const std::string &group, int width, const std::string &value);

} // namespace tcc::cuda
