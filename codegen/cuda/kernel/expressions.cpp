#include "codegen/cuda/kernel/expressions.h"
#include <cmath>
#include <cstdio>

namespace tcc::cuda {

//===- types and literals --------------------------------------------------------------------------------------===//

std::string valueType(ElementType type) {
  switch (facts(type).computed) {
  case ElementType::f32:
    return "float";
  case ElementType::i1:
    return "bool";
  default:
    return std::string(facts(type).name);
  }
}

std::string elementType(ElementType type) {
  if (type == ElementType::f32)
    return "float";
  return type == ElementType::i1 ? "u8" : std::string(facts(type).name);
}

std::string literal(ScalarLiteral value, ElementType type) {
  char text[64];
  if (facts(type).isFloat) {
    auto number = static_cast<float>(value.asFloat());
    if (std::isfinite(number)) {
      std::snprintf(text, sizeof text, "%.9g", number);
      std::string result = text;
      return result + (result.find_first_of(".e") == std::string::npos ? ".0f" : "f");
    }
    std::snprintf(text, sizeof text, "float_from_bits(0x%08xu)", std::bit_cast<uint32_t>(number));
    return text;
  }
  int64_t integer = value.asInteger();
  if (type == ElementType::i1)
    return (integer & 1) != 0 ? "true" : "false";
  if (type == ElementType::i32) {
    auto narrow = static_cast<int32_t>(integer);
    return narrow == INT32_MIN ? "(-2147483647 - 1)" : std::to_string(narrow);
  }
  return integer == INT64_MIN ? "(-9223372036854775807ll - 1)" : std::to_string(integer) + "ll";
}

std::string zero(ElementType type) {
  return literal(ScalarLiteral::ofInteger(0), type); // the bits of 0.0 are those of 0
}

std::string outsideValue(ElementType type) {
  return facts(type).isFloat ? "float_from_bits(0x7fc00000u)" : zero(type);
}

//===- indices -------------------------------------------------------------------------------------------------===//

bool fits32(const IndexExpr &expr) {
  constexpr double most = 2147483647.0;
  double reach = std::fabs(static_cast<double>(expr.constant));
  for (const IndexTerm &term : expr.terms)
    reach += std::fabs(static_cast<double>(term.coefficient)) * static_cast<double>(term.extent);
  return reach <= most;
}

static std::string axisName(unsigned axis) {
  static constexpr const char *names[] = {"o", "r", "c"};
  return axis < axis::firstDerived ? names[axis] : "d" + std::to_string(axis);
}

std::string indexText(const IndexExpr &expr) {
  bool wide = !fits32(expr);
  std::string text;
  auto append = [&](int64_t coefficient, const std::string &factor) {
    bool negative = coefficient < 0;
    std::string size = std::to_string(negative ? -coefficient : coefficient) + (wide ? "ll" : "");
    std::string part = factor.empty() ? size : factor + (coefficient == 1 || coefficient == -1 ? "" : " * " + size);
    if (text.empty())
      text = (negative ? "-" : "") + part;
    else
      text += (negative ? " - " : " + ") + part;
  };
  for (const IndexTerm &term : expr.terms) {
    std::string factor = axisName(term.axis);
    if (wide)
      factor = "static_cast<i64>(" + factor + ")";
    if (term.divisor != 1)
      factor += " / " + std::to_string(term.divisor);
    if (term.modulus != 0)
      factor = (term.divisor != 1 ? "(" + factor + ")" : factor) + " % " + std::to_string(term.modulus);
    if (term.divisor != 1 || term.modulus != 0)
      factor = "(" + factor + ")";
    append(term.coefficient, factor);
  }
  if (expr.constant != 0 || text.empty())
    append(expr.constant, "");
  return text;
}

//===- elements ------------------------------------------------------------------------------------------------===//

std::string loaded(const std::string &element, ElementType type) {
  if (type == ElementType::bf16 || type == ElementType::f16)
    return "to_float(" + element + ")";
  return type == ElementType::i1 ? "(" + element + " != 0)" : element;
}

std::string stored(const std::string &value, ElementType type) {
  if (type == ElementType::bf16 || type == ElementType::f16)
    return "from_float<" + elementType(type) + ">(" + value + ")";
  return type == ElementType::i1 ? "static_cast<u8>(" + value + ")" : value;
}

std::string rounded(const std::string &value, ElementType type) {
  return type == ElementType::bf16 || type == ElementType::f16 ? loaded(stored(value, type), type) : value;
}

//===- scalar steps --------------------------------------------------------------------------------------------===//

namespace {

/// "+" for what is written between its operands; null for others.
const char *infix(Opcode opcode, bool ofBool) {
  switch (opcode) {
  case Opcode::addF:
    return "+";
  case Opcode::subF:
    return "-";
  case Opcode::mulF:
    return "*";
  case Opcode::eqF:
  case Opcode::eqI:
    return "==";
  case Opcode::neF:
  case Opcode::neI:
    return "!=";
  case Opcode::ltF:
  case Opcode::ltI:
    return "<";
  case Opcode::leF:
  case Opcode::leI:
    return "<=";
  case Opcode::gtF:
  case Opcode::gtI:
    return ">";
  case Opcode::geF:
  case Opcode::geI:
    return ">=";
  case Opcode::andI:
    return ofBool ? "&&" : "&";
  case Opcode::orI:
    return ofBool ? "||" : "|";
  case Opcode::xorI:
    return ofBool ? "!=" : "^";
  case Opcode::divI:
    return "/";
  case Opcode::remI:
    return "%";
  default:
    return nullptr;
  }
}

/// The primitive that is called with the operands; null for others.
const char *primitive(Opcode opcode) {
  switch (opcode) {
  case Opcode::divF:
    return "divide_f32";
  case Opcode::absF:
    return "abs_f32";
  case Opcode::maxF:
    return "max_nan_f32";
  case Opcode::minF:
    return "min_nan_f32";
  case Opcode::sqrtF:
    return "sqrt_f32";
  case Opcode::expF:
    return "exp_f32";
  case Opcode::logF:
    return "log_f32";
  case Opcode::tanhF:
    return "tanh_f32";
  case Opcode::sinF:
    return "sin_f32";
  case Opcode::cosF:
    return "cos_f32";
  case Opcode::erfF:
    return "erf_f32";
  case Opcode::expm1F:
    return "expm1_f32";
  case Opcode::log1pF:
    return "log1p_f32";
  case Opcode::floorF:
    return "floor_f32";
  case Opcode::ceilF:
    return "ceil_f32";
  case Opcode::roundF:
    return "round_f32";
  case Opcode::truncF:
    return "trunc_f32";
  case Opcode::powF:
    return "pow_f32";
  case Opcode::remF:
    return "remainder_f32";
  case Opcode::addI:
    return "wrapping_add";
  case Opcode::subI:
    return "wrapping_subtract";
  case Opcode::mulI:
    return "wrapping_multiply";
  default:
    return nullptr;
  }
}

std::string converted(const ScalarStep &step, const TypedText &from) {
  std::string type = valueType(step.type);
  bool ofBool = from.type == ElementType::i1;
  switch (step.opcode) {
  case Opcode::intToFloat: // the one bit of an i1 is its sign
    return ofBool ? "(" + from.text + " ? -1.0f : 0.0f)" : "static_cast<float>(" + from.text + ")";
  case Opcode::extendSigned:
    return ofBool ? "static_cast<" + type + ">(" + from.text + " ? -1 : 0)"
                  : "static_cast<" + type + ">(" + from.text + ")";
  case Opcode::unsignedToFloat:
  case Opcode::extendZero: {
    std::string bits =
        ofBool ? from.text
               : std::string("static_cast<") + (from.type == ElementType::i32 ? "u32" : "u64") + ">(" + from.text + ")";
    return "static_cast<" + type + ">(" + bits + ")";
  }
  case Opcode::truncate:
    return step.type == ElementType::i1 ? "((" + from.text + " & 1) != 0)"
                                        : "static_cast<" + type + ">(" + from.text + ")";
  case Opcode::bitcast:
    return step.type == ElementType::f32 ? "float_from_bits(static_cast<u32>(" + from.text + "))"
                                         : "static_cast<" + type + ">(bits_of(" + from.text + "))";
  default: // floatToInt: the value fits
    return "static_cast<" + type + ">(" + from.text + ")";
  }
}

} // namespace

std::string stepText(const ScalarStep &step, llvm::ArrayRef<TypedText> operands) {
  if (step.opcode == Opcode::constant)
    return literal(step.literal, step.type);
  const std::string &a = operands[0].text;
  if (const char *sign = infix(step.opcode, operands[0].type == ElementType::i1))
    return a + " " + sign + " " + operands[1].text;
  if (const char *name = primitive(step.opcode))
    return std::string(name) + "(" + a + (operands.size() > 1 ? ", " + operands[1].text : "") + ")";
  switch (step.opcode) {
  case Opcode::negF:
    return "-" + a;
  case Opcode::absI:
    return a + " < 0 ? wrapping_subtract(" + zero(step.type) + ", " + a + ") : " + a;
  case Opcode::maxI:
    return a + " > " + operands[1].text + " ? " + a + " : " + operands[1].text;
  case Opcode::minI:
    return a + " < " + operands[1].text + " ? " + a + " : " + operands[1].text;
  case Opcode::select:
    return a + " ? " + operands[1].text + " : " + operands[2].text;
  default:
    return converted(step, operands[0]);
  }
}

} // namespace tcc::cuda
