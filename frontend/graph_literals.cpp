#include "frontend/graph_literals.h"
#include "frontend/diagnostics.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Error.h"

using namespace mlir;

namespace tcc {
namespace {

bool isBeyond(StringRef number, Type element) {
  if (number.starts_with_insensitive("0x"))
    return false;
  if (auto type = dyn_cast<FloatType>(element)) {
    APFloat value(type.getFloatSemantics());
    llvm::Expected<APFloat::opStatus> status = value.convertFromString(number, APFloat::rmNearestTiesToEven);
    if (status)
      return *status & APFloat::opOverflow;
    llvm::consumeError(status.takeError());
    return false;
  }
  const unsigned width = element.getIntOrFloatBitWidth();
  const bool isNegative = number.consume_front("-");
  APInt magnitude;
  if (width == 1 || number.getAsInteger(10, magnitude))
    return false;
  const APInt largest = APInt::getSignedMaxValue(width).zext(std::max(width, magnitude.getBitWidth()) + 1);
  return magnitude.zext(largest.getBitWidth()).ugt(isNegative ? largest + 1 : largest);
}

} // namespace

std::string beyondType(StringRef number, Type element) {
  std::string text = "'" + number.str() + "' is beyond ", largest;
  llvm::raw_string_ostream(text) << element;
  if (auto type = dyn_cast<FloatType>(element)) {
    SmallString<16> digits;
    APFloat::getLargest(type.getFloatSemantics()).toString(digits, /*FormatPrecision=*/3);
    largest = digits.str();
  } else {
    largest = llvm::toString(APInt::getSignedMaxValue(element.getIntOrFloatBitWidth()), 10, /*Signed=*/true);
  }
  return text + ", whose largest number is " + largest;
}

std::optional<LiteralProblem> numberBeyondType(ConstantOp op, StringRef text, const LineIndex &lines) {
  const TextPlace place = placeOf(op.getLoc());
  const size_t start = place.line ? text.find("dense<", lines.offset(place.line, place.column)) : StringRef::npos;
  if (start == StringRef::npos)
    return std::nullopt;
  const Type element = tensorType(op.getResult()).getElementType();
  const size_t end = std::min(text.find('>', start), text.size());
  for (size_t at = start; at < end;) {
    size_t begin = text.find_first_of("0123456789", at);
    if (begin >= end)
      return std::nullopt;
    at = std::min(end, text.find_first_of(", \t\n]>", begin));
    if (text[begin - 1] == '-')
      --begin;
    if (const StringRef number = text.slice(begin, at); isBeyond(number, element))
      return LiteralProblem{{begin, at}, beyondType(number, element)};
  }
  return std::nullopt;
}

} // namespace tcc
