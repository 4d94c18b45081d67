#include "ir/scalar_steps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace tcc {
namespace {

using enum Opcode;
constexpr auto same = StepType::ofOperands;
constexpr auto boolean = StepType::boolean;
constexpr auto stated = StepType::stated;

// Predicates of arith: cmpf oeq 1, ogt 2, oge 3, olt 4, ole 5, une 13; cmpi eq 0, ne 1, slt 2, sle 3, sgt 4, sge 5.
constexpr OpcodeFacts table[] = {
    {constant, "constant", "arith.constant", -1, 0, stated, 0},
    {addF, "addf", "arith.addf", -1, 2, same, 1},
    {subF, "subf", "arith.subf", -1, 2, same, 1},
    {mulF, "mulf", "arith.mulf", -1, 2, same, 1},
    {divF, "divf", "arith.divf", -1, 2, same, 5},
    {negF, "negf", "arith.negf", -1, 1, same, 1},
    {absF, "absf", "math.absf", -1, 1, same, 1},
    {maxF, "maxf", "arith.maximumf", -1, 2, same, 1},
    {minF, "minf", "arith.minimumf", -1, 2, same, 1},
    {sqrtF, "sqrt", "math.sqrt", -1, 1, same, 5},
    {expF, "exp", "math.exp", -1, 1, same, 16},
    {logF, "log", "math.log", -1, 1, same, 16},
    {tanhF, "tanh", "math.tanh", -1, 1, same, 16},
    {sinF, "sin", "math.sin", -1, 1, same, 16},
    {cosF, "cos", "math.cos", -1, 1, same, 16},
    {erfF, "erf", "math.erf", -1, 1, same, 16},
    {expm1F, "expm1", "math.expm1", -1, 1, same, 18},
    {log1pF, "log1p", "math.log1p", -1, 1, same, 24},
    {floorF, "floor", "math.floor", -1, 1, same, 1},
    {ceilF, "ceil", "math.ceil", -1, 1, same, 1},
    {roundF, "round", "math.roundeven", -1, 1, same, 1},
    {truncF, "trunc", "math.trunc", -1, 1, same, 1},
    {powF, "pow", "math.powf", -1, 2, same, 80},
    {remF, "remf", "arith.remf", -1, 2, same, 40},
    {eqF, "eqf", "arith.cmpf", 1, 2, boolean, 1},
    {neF, "nef", "arith.cmpf", 13, 2, boolean, 1},
    {ltF, "ltf", "arith.cmpf", 4, 2, boolean, 1},
    {leF, "lef", "arith.cmpf", 5, 2, boolean, 1},
    {gtF, "gtf", "arith.cmpf", 2, 2, boolean, 1},
    {geF, "gef", "arith.cmpf", 3, 2, boolean, 1},
    {addI, "addi", "arith.addi", -1, 2, same, 1},
    {subI, "subi", "arith.subi", -1, 2, same, 1},
    {mulI, "muli", "arith.muli", -1, 2, same, 1},
    {divI, "divi", "arith.divsi", -1, 2, same, 16},
    {remI, "remi", "arith.remsi", -1, 2, same, 16},
    {absI, "absi", "math.absi", -1, 1, same, 1},
    {maxI, "maxi", "arith.maxsi", -1, 2, same, 1},
    {minI, "mini", "arith.minsi", -1, 2, same, 1},
    {andI, "andi", "arith.andi", -1, 2, same, 1},
    {orI, "ori", "arith.ori", -1, 2, same, 1},
    {xorI, "xori", "arith.xori", -1, 2, same, 1},
    {eqI, "eqi", "arith.cmpi", 0, 2, boolean, 1},
    {neI, "nei", "arith.cmpi", 1, 2, boolean, 1},
    {ltI, "lti", "arith.cmpi", 2, 2, boolean, 1},
    {leI, "lei", "arith.cmpi", 3, 2, boolean, 1},
    {gtI, "gti", "arith.cmpi", 4, 2, boolean, 1},
    {geI, "gei", "arith.cmpi", 5, 2, boolean, 1},
    {select, "select", "arith.select", -1, 3, same, 1},
    {floatToInt, "fptosi", "arith.fptosi", -1, 1, stated, 1},
    {intToFloat, "sitofp", "arith.sitofp", -1, 1, stated, 1},
    {unsignedToFloat, "uitofp", "arith.uitofp", -1, 1, stated, 1},
    {extendSigned, "extsi", "arith.extsi", -1, 1, stated, 1},
    {extendZero, "extui", "arith.extui", -1, 1, stated, 1},
    {truncate, "trunci", "arith.trunci", -1, 1, stated, 1},
    {bitcast, "bitcast", "arith.bitcast", -1, 1, stated, 0},
};

constexpr bool tableIsInOrder() {
  for (size_t i = 0; i < std::size(table); ++i)
    if (static_cast<size_t>(table[i].opcode) != i)
      return false;
  return std::size(table) == static_cast<size_t>(bitcast) + 1;
}
static_assert(tableIsInOrder(), "the table has a row for each opcode, in the order of the enum");

} // namespace

const OpcodeFacts &facts(Opcode opcode) {
  return table[static_cast<size_t>(opcode)];
}

const OpcodeFacts *findOpcode(std::string_view mlirName, int predicate) {
  for (const OpcodeFacts &row : table)
    if (row.predicate == predicate && row.mlirName == mlirName)
      return &row;
  return nullptr;
}

unsigned ScalarSteps::cost() const {
  unsigned sum = 0;
  for (const ScalarStep &step : steps)
    sum += facts(step.opcode).cost;
  return sum;
}

std::string literalText(ScalarLiteral literal, ElementType type) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (facts(type).isFloat)
    stream << llvm::format("%.9g", literal.asFloat());
  else
    stream << literal.asInteger();
  return text;
}

// A step that is used twice is named by its number: "addf(s1, s1) where s1 = exp(%0)".
std::string ScalarSteps::text(unsigned operands, llvm::function_ref<std::string(unsigned)> operand) const {
  llvm::SmallVector<unsigned> uses(operands + steps.size(), 0);
  for (const ScalarStep &step : steps)
    for (unsigned i = 0; i < facts(step.opcode).operands; ++i)
      ++uses[step.operands[i]];
  llvm::SmallVector<std::string> values;
  for (unsigned i = 0; i < operands; ++i)
    values.push_back(operand(i));
  std::string shared; // steps that several others take have a name
  for (const ScalarStep &step : steps) {
    if (step.opcode == Opcode::constant) {
      values.push_back(literalText(step.literal, step.type));
      continue;
    }
    std::string arguments;
    for (unsigned i = 0; i < facts(step.opcode).operands; ++i)
      arguments += (i == 0 ? "" : ", ") + values[step.operands[i]];
    std::string name = facts(step.opcode).name;
    if (facts(step.opcode).type == StepType::stated)
      name += " to " + std::string(facts(step.type).name);
    std::string text = name + "(" + arguments + ")";
    if (uses[values.size()] > 1) {
      std::string known = "s" + std::to_string(values.size());
      shared += (shared.empty() ? " where " : ", ") + known + " = " + text;
      text = known;
    }
    values.push_back(text);
  }
  return values[result] + shared;
}

} // namespace tcc
