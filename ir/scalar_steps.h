// What a compute node does, without MLIR: a straight line of steps on scalars. A step's opcode comes from one table;
// emitters write it in their own language, or in arith and math ops by the names that the table has.
#pragma once
#include "ir/element_type.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>
#include <vector>

namespace tcc {

/// What a step computes. Names with F are for f32 values, names with I for i1, i32 or i64 values, signed and wrapping.
enum class Opcode : uint8_t {
  constant,
  addF,
  subF,
  mulF,
  divF,
  negF,
  absF,
  maxF,
  minF, // NaN if either is NaN; 0 is above -0
  sqrtF,
  expF,
  logF,
  tanhF,
  sinF,
  cosF,
  erfF,
  expm1F,
  log1pF,
  floorF,
  ceilF,
  roundF, // to the nearest whole number; if two are as near, to the even one
  truncF,
  powF, // as C's pow
  remF, // as C's fmod, exact
  eqF,
  neF,
  ltF,
  leF,
  gtF,
  geF, // NaN is unequal to everything and neither below nor above anything
  addI,
  subI,
  mulI,
  divI, // truncates; the divisor is not 0, and it is not -1 if the dividend is the least integer
  remI, // the rest of divI
  absI,
  maxI,
  minI,
  andI,
  orI,
  xorI,
  eqI,
  neI,
  ltI,
  leI,
  gtI,
  geI,
  select,     // operand 0 ? operand 1 : operand 2; operand 0 is an i1
  floatToInt, // truncates; the value must fit
  intToFloat, // signed
  unsignedToFloat,
  extendSigned, // to a wider integer
  extendZero,
  truncate, // to a narrower integer: its low bits
  bitcast,  // an f32 as the i32 of its bits, or back
};

/// How the type of a step's value follows from the types of its operands.
enum class StepType : uint8_t { ofOperands, boolean, stated };

struct OpcodeFacts {
  Opcode opcode;
  const char *name;     // as KernelInfo::print spells it
  const char *mlirName; // of the op in arith or math
  int predicate;        // the predicate of arith.cmpf or arith.cmpi; -1 for other ops
  unsigned operands;
  StepType type;
  unsigned cost; // as a number of vector operations of a CPU
};

const OpcodeFacts &facts(Opcode opcode);
/// The opcode of an arith or math op; null where the table has no row for it.
const OpcodeFacts *findOpcode(std::string_view mlirName, int predicate);

struct ScalarStep {
  Opcode opcode = Opcode::constant;
  ElementType type = ElementType::f32; // f32, i1, i32 or i64
  std::array<uint8_t, 3> operands{};   // numbers of values
  ScalarLiteral literal;               // of a constant

  bool operator==(const ScalarStep &) const = default;
};

/// A straight line of steps. Values are numbered: first come the node's operands, each in the computed type of its
/// element type, then the value of each step. If the node's type is a 16-bit float, its value is the result rounded to
/// that type; no step rounds.
struct ScalarSteps {
  llvm::SmallVector<ScalarStep, 1> steps;
  unsigned result = 0; // the number of the value that is the result

  unsigned cost() const;
  /// Whether each step gives the same bits on every target. Such a step approximates nothing, and reads no bits as a
  /// number.
  bool isExact() const;
  /// The results of exact steps for several elements. Each operand has one value, which all elements share, or one for
  /// each element. i1 is 0 or 1. Gives nothing where an integer, in an operand or on the way, is so large that it may
  /// wrap or that a double does not hold it.
  std::optional<std::vector<double>> exactValues(llvm::ArrayRef<llvm::ArrayRef<double>> operands) const;
  /// The result as text, "divf(1, sqrt(%3))"; operand(i) gives the text of the node's operand i, of which there are
  /// `operands`.
  std::string text(unsigned operands, llvm::function_ref<std::string(unsigned)> operand) const;
  bool operator==(const ScalarSteps &) const = default;
};

/// A literal as dumps print it: "0.5", "-inf", "3".
std::string literalText(ScalarLiteral literal, ElementType type);

} // namespace tcc
