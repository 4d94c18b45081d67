// Overload: lambdas for the alternatives of a variant, as one argument of std::visit.
#pragma once

namespace tcc::runtime {

template <typename... Fn>
struct Overload : Fn... {
  using Fn::operator()...;
};
template <typename... Fn>
Overload(Fn...) -> Overload<Fn...>;

} // namespace tcc::runtime
