// A traced function, as a user's program has it.
#include <tcc/tcc.h>

int main() {
  tcc::Parameter w("w", {4, 4});
  tcc::Function f = tcc::compile("f", [&](tcc::Tensor x) { return tcc::gelu(tcc::linear(x, w)); });
  return f(tcc::Array({2, 4})).size() == 1 ? 0 : 1;
}
