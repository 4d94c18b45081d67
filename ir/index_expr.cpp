// Index expressions. Simplification rests on ranges: each term's inner value lies in [0, extent).
#include "ir/index_expr.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace tcc {

IndexExpr IndexExpr::ofAxis(unsigned axis, int64_t extent) {
  IndexExpr expr;
  if (extent > 1)
    expr.terms.push_back({axis, 1, 1, 0, extent});
  return expr;
}

void IndexExpr::addTerm(const IndexTerm &term) {
  for (IndexTerm &own : terms)
    if (own.sameDigit(term)) {
      own.coefficient += term.coefficient;
      return;
    }
  terms.push_back(term);
}

// Drops zero terms, joins neighbouring digits (m·(x div m) + x mod m is x), and orders the terms.
void IndexExpr::canonicalize() {
  bool changed = true;
  while (changed) {
    changed = false;
    llvm::erase_if(terms, [](const IndexTerm &term) { return term.coefficient == 0 || term.extent <= 1; });
    for (size_t i = 0; i < terms.size() && !changed; ++i)
      for (size_t j = 0; j < terms.size() && !changed; ++j) {
        IndexTerm &low = terms[i];
        const IndexTerm &high = terms[j];
        if (i == j || low.axis != high.axis || low.modulus == 0 || high.divisor != low.divisor * low.modulus ||
            high.coefficient != low.coefficient * low.modulus)
          continue;
        low.extent = high.extent * low.modulus;
        low.modulus = high.modulus == 0 ? 0 : low.modulus * high.modulus;
        terms.erase(terms.begin() + j);
        changed = true;
      }
  }
  llvm::sort(terms, [](const IndexTerm &a, const IndexTerm &b) {
    return std::tie(a.axis, b.coefficient, a.divisor, a.modulus) <
           std::tie(b.axis, a.coefficient, b.divisor, b.modulus);
  });
}

IndexExpr IndexExpr::operator+(const IndexExpr &other) const {
  IndexExpr sum = *this;
  sum.constant += other.constant;
  for (const IndexTerm &term : other.terms)
    sum.addTerm(term);
  sum.canonicalize();
  return sum;
}

IndexExpr IndexExpr::operator*(int64_t factor) const {
  IndexExpr product = *this;
  product.constant *= factor;
  for (IndexTerm &term : product.terms)
    term.coefficient *= factor;
  product.canonicalize();
  return product;
}

int64_t IndexExpr::minimum() const {
  int64_t value = constant;
  for (const IndexTerm &term : terms)
    value += std::min<int64_t>(0, term.coefficient * (term.extent - 1));
  return value;
}

int64_t IndexExpr::maximum() const {
  int64_t value = constant;
  for (const IndexTerm &term : terms)
    value += std::max<int64_t>(0, term.coefficient * (term.extent - 1));
  return value;
}

namespace {

/// (term's inner value) div q as a single term's inner value, coefficient 1.
std::optional<IndexExpr> divideDigit(IndexTerm term, int64_t q) {
  if (term.modulus != 0 && term.modulus % q != 0)
    return std::nullopt;
  IndexExpr expr;
  term.coefficient = 1;
  term.divisor *= q;
  term.modulus = term.modulus == 0 ? 0 : term.modulus / q;
  term.extent = (term.extent + q - 1) / q;
  if (term.modulus == 1)
    return expr;
  expr.terms.push_back(term);
  return expr;
}

std::optional<IndexExpr> digitMod(IndexTerm term, int64_t q) {
  if (term.modulus != 0 && term.modulus % q != 0)
    return std::nullopt;
  IndexExpr expr;
  term.coefficient = 1;
  term.modulus = q;
  term.extent = std::min(term.extent, q);
  if (q > 1)
    expr.terms.push_back(term);
  return expr;
}

/// Splits an expression into unit·high + low with 0 <= low < unit, for a unit that divides q.
bool split(const IndexExpr &expr, int64_t q, IndexExpr &high, IndexExpr &low, int64_t &unit) {
  llvm::SmallVector<int64_t> units;
  for (const IndexTerm &term : expr.terms)
    if (term.coefficient > 0 && q % term.coefficient == 0)
      units.push_back(term.coefficient);
  llvm::sort(units, std::greater<>());
  for (int64_t candidate : units) {
    high = low = IndexExpr();
    for (const IndexTerm &term : expr.terms) {
      IndexTerm part = term;
      bool divisible = term.coefficient % candidate == 0;
      part.coefficient = divisible ? term.coefficient / candidate : term.coefficient;
      (divisible ? high : low).terms.push_back(part);
    }
    int64_t remainder = ((expr.constant % candidate) + candidate) % candidate;
    high.constant = (expr.constant - remainder) / candidate;
    low.constant = remainder;
    if (low.minimum() >= 0 && low.maximum() < candidate) {
      unit = candidate;
      return true;
    }
  }
  return false;
}

} // namespace

std::optional<IndexExpr> IndexExpr::floorDiv(int64_t q) const {
  if (q == 1)
    return *this;
  // Multiples of q leave exactly; the rest must stay below q or be one digit after taking out a common unit.
  IndexExpr multiples, rest;
  for (const IndexTerm &term : terms) {
    IndexTerm part = term;
    bool divisible = term.coefficient % q == 0;
    part.coefficient = divisible ? term.coefficient / q : term.coefficient;
    (divisible ? multiples : rest).terms.push_back(part);
  }
  int64_t remainder = ((constant % q) + q) % q;
  multiples.constant = (constant - remainder) / q;
  rest.constant = remainder;
  multiples.canonicalize();
  if (rest.minimum() >= 0 && rest.maximum() < q)
    return multiples;
  IndexExpr high, low;
  int64_t unit = 1;
  if (!split(rest, q, high, low, unit))
    return std::nullopt;
  int64_t reduced = q / unit;
  if (unit > 1) {
    std::optional<IndexExpr> quotient = high.floorDiv(reduced);
    return quotient ? std::optional(multiples + *quotient) : std::nullopt;
  }
  if (high.terms.size() != 1 || high.constant != 0 || high.terms[0].coefficient != 1)
    return std::nullopt;
  std::optional<IndexExpr> quotient = divideDigit(high.terms[0], q);
  return quotient ? std::optional(multiples + *quotient) : std::nullopt;
}

std::optional<IndexExpr> IndexExpr::mod(int64_t q) const {
  if (q == 1)
    return IndexExpr();
  IndexExpr rest;
  for (const IndexTerm &term : terms)
    if (term.coefficient % q != 0)
      rest.terms.push_back(term);
  rest.constant = ((constant % q) + q) % q;
  if (rest.minimum() >= 0 && rest.maximum() < q)
    return rest;
  IndexExpr high, low;
  int64_t unit = 1;
  if (!split(rest, q, high, low, unit))
    return std::nullopt;
  if (unit > 1) {
    std::optional<IndexExpr> remainder = high.mod(q / unit);
    return remainder ? std::optional(*remainder * unit + low) : std::nullopt;
  }
  if (high.terms.size() != 1 || high.constant != 0 || high.terms[0].coefficient != 1)
    return std::nullopt;
  return digitMod(high.terms[0], q);
}

bool IndexExpr::dependsOn(unsigned axis) const {
  return llvm::any_of(terms, [&](const IndexTerm &term) { return term.axis == axis; });
}

bool IndexExpr::isAffineIn(unsigned axis, int64_t &stride) const {
  stride = 0;
  for (const IndexTerm &term : terms) {
    if (term.axis != axis)
      continue;
    if (!term.isPlain())
      return false;
    stride = term.coefficient;
  }
  return true;
}

IndexExpr IndexExpr::only(unsigned axis) const {
  IndexExpr part;
  llvm::copy_if(terms, std::back_inserter(part.terms), [&](const IndexTerm &term) { return term.axis == axis; });
  return part;
}

IndexExpr IndexExpr::without(unsigned axis) const {
  IndexExpr part(constant);
  llvm::copy_if(terms, std::back_inserter(part.terms), [&](const IndexTerm &term) { return term.axis != axis; });
  return part;
}

std::optional<IndexExpr> IndexExpr::substitute(unsigned axis, const IndexExpr &value) const {
  IndexExpr result = without(axis);
  for (const IndexTerm &term : terms) {
    if (term.axis != axis)
      continue;
    if (!term.isPlain())
      return std::nullopt;
    result = result + value * term.coefficient;
  }
  return result;
}

void IndexExpr::print(llvm::raw_ostream &os) const {
  static constexpr const char *names[] = {"outer", "row", "column"};
  bool first = true;
  for (const IndexTerm &term : terms) {
    if (!first)
      os << " + ";
    first = false;
    if (term.coefficient != 1)
      os << term.coefficient << '*';
    bool composed = !term.isPlain();
    if (composed)
      os << '(';
    if (term.axis < axis::firstDerived)
      os << names[term.axis];
    else
      os << 'd' << term.axis;
    if (term.divisor != 1)
      os << " div " << term.divisor;
    if (term.modulus != 0)
      os << " mod " << term.modulus;
    if (composed)
      os << ')';
  }
  if (first)
    os << constant;
  else if (constant != 0)
    os << " + " << constant;
}

std::optional<llvm::SmallVector<IndexExpr>> delinearize(const IndexExpr &linear, llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<IndexExpr> coordinates(shape.size());
  IndexExpr rest = linear;
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t size = std::max<int64_t>(shape[i], 1);
    std::optional<IndexExpr> digit = rest.mod(size), quotient = rest.floorDiv(size);
    if (!digit || !quotient)
      return std::nullopt;
    coordinates[i] = *digit;
    rest = *quotient;
  }
  return coordinates;
}

IndexExpr linearize(llvm::ArrayRef<IndexExpr> coordinates, llvm::ArrayRef<int64_t> shape) {
  IndexExpr linear;
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    linear = linear + coordinates[i] * stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return linear;
}

} // namespace tcc
