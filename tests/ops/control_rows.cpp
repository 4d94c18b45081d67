// Rows of cond and repeat: bodies with elementwise ops, matmuls, reductions, row-wise ops, gradients and other bodies.
#include "tests/ops/op_table.h"

namespace tcc::test {
namespace {

/// A case whose predicate is %p; `flag` is what it is.
OpCase condCase(const std::string &name, bool flag, const std::string &arguments, size_t count, const std::string &op,
                const std::string &results) {
  const std::string text = "func.func @main(%p: tensor<i1>" + arguments + ") -> (" + results + ") {\n  %r" + op +
                           "\n  return " + (op.starts_with(":2") ? "%r#0, %r#1" : "%r") + " : " + results + "\n}\n";
  std::vector<Domain> domains(count + 1);
  domains[0] = {flag ? 1.0 : 0.0, flag ? 1.0 : 0.0};
  return {"cond/" + name + (flag ? "/true" : "/false"), text, domains, Specials::none, {}, true, {}};
}

OpRow condRow() {
  OpRow row{"tcc.cond", {}, {}};
  for (bool flag : {true, false}) {
    auto add = [&](const std::string &name, const std::string &arguments, size_t count, const std::string &op,
                   const std::string &results) -> OpCase & {
      return row.cases.emplace_back(condCase(name, flag, arguments, count, op, results));
    };
    for (std::string element : {"f32", "bf16", "f16"}) {
      const std::string type = "tensor<3x5x" + element + ">";
      add("elementwise/" + element, ", %a: " + type + ", %b: " + type, 2,
          " = tcc.cond %p (%x = %a : " + type + ", %y = %b : " + type + ") -> " + type +
              " {\n    %s = tcc.mul %x, %y : " + type + "\n    %t = tcc.tanh %s : " + type +
              "\n    tcc.yield %t : " + type + "\n  } else {\n    tcc.yield %x : " + type + "\n  }",
          type);
    }
    add("products", ", %a: tensor<4x6xf32>, %b: tensor<6x3xf32>", 2,
        R"(:2 = tcc.cond %p (%x = %a : tensor<4x6xf32>, %w = %b : tensor<6x3xf32>) -> (tensor<4x3xf32>, tensor<4x1xf32>) {
    %h = tcc.matmul %x, %w : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>
    %y = tcc.softmax %h : tensor<4x3xf32>
    %s = tcc.reduce_sum %h axes [1] : tensor<4x3xf32> -> tensor<4x1xf32>
    tcc.yield %y, %s : tensor<4x3xf32>, tensor<4x1xf32>
  } else {
    %x2 = tcc.mul %x, %x : tensor<4x6xf32>
    %h = tcc.matmul %x2, %w : tensor<4x6xf32>, tensor<6x3xf32> -> tensor<4x3xf32>
    %z = tcc.constant dense<0.5> : tensor<4x1xf32>
    tcc.yield %h, %z : tensor<4x3xf32>, tensor<4x1xf32>
  })",
        "tensor<4x3xf32>, tensor<4x1xf32>");
    // What the other body would make of its operand is NaN: it may not come near the result or a gradient.
    add("guarded", ", %a: tensor<7xf32>", 1,
        flag ? R"( = tcc.cond %p (%x = %a : tensor<7xf32>) -> tensor<7xf32> {
    %e = tcc.exp %x : tensor<7xf32>
    tcc.yield %e : tensor<7xf32>
  } else {
    %n = tcc.constant dense<-1.0> : tensor<7xf32>
    %q = tcc.sqrt %n : tensor<7xf32>
    %e = tcc.mul %q, %x : tensor<7xf32>
    tcc.yield %e : tensor<7xf32>
  })"
             : R"( = tcc.cond %p (%x = %a : tensor<7xf32>) -> tensor<7xf32> {
    %n = tcc.constant dense<-1.0> : tensor<7xf32>
    %q = tcc.log %n : tensor<7xf32>
    %e = tcc.mul %q, %x : tensor<7xf32>
    tcc.yield %e : tensor<7xf32>
  } else {
    %e = tcc.sin %x : tensor<7xf32>
    tcc.yield %e : tensor<7xf32>
  })",
        "tensor<7xf32>");
    add("nested", ", %a: tensor<9xf32>, %q: tensor<i1>", 2,
        R"( = tcc.cond %p (%x = %a : tensor<9xf32>, %u = %q : tensor<i1>) -> tensor<9xf32> {
    %m = tcc.repeat 3 (%c = %x : tensor<9xf32>) uses (%k = %x : tensor<9xf32>) {
      %d = tcc.mul %c, %k : tensor<9xf32>
      tcc.yield %d : tensor<9xf32>
    }
    tcc.yield %m : tensor<9xf32>
  } else {
    %n = tcc.cond %u (%v = %x : tensor<9xf32>) -> tensor<9xf32> {
      %d = tcc.sin %v : tensor<9xf32>
      tcc.yield %d : tensor<9xf32>
    } else {
      %d = tcc.cos %v : tensor<9xf32>
      tcc.yield %d : tensor<9xf32>
    }
    tcc.yield %n : tensor<9xf32>
  })",
        "tensor<9xf32>");
    add("integers", ", %a: tensor<6xi32>", 1, R"( = tcc.cond %p (%x = %a : tensor<6xi32>) -> tensor<6xi32> {
    %d = tcc.add %x, %x : tensor<6xi32>
    tcc.yield %d : tensor<6xi32>
  } else {
    tcc.yield %x : tensor<6xi32>
  })",
        "tensor<6xi32>");
  }
  row.errors = {{"cond_c1", R"(func.func @main(%p: tensor<i1>, %a: tensor<3xf32>) {
  %r = "tcc.cond"(%p, %a) ({
  ^bb0(%x: tensor<4xf32>):
    tcc.yield %x : tensor<4xf32>
  }, {
  ^bb0(%x: tensor<3xf32>):
    tcc.yield %x : tensor<3xf32>
  }) : (tensor<i1>, tensor<3xf32>) -> tensor<4xf32>
  return
})"},
                {"cond_c2", R"(func.func @main(%p: tensor<i1>, %a: tensor<3xf32>, %b: tensor<4xf32>) {
  %r = tcc.cond %p (%x = %a : tensor<3xf32>, %y = %b : tensor<4xf32>) -> tensor<3xf32> {
    tcc.yield %x : tensor<3xf32>
  } else {
    tcc.yield %y : tensor<4xf32>
  }
  return
})"}};
  return row;
}

OpRow repeatRow() {
  OpRow row{"tcc.repeat", {}, {}};
  auto add = [&](const std::string &name, const std::string &text, size_t arguments, Domain domain = {}) -> OpCase & {
    return row.cases.emplace_back(
        OpCase{"repeat/" + name, text, std::vector<Domain>(arguments, domain), Specials::none, {}, true, {}});
  };
  for (int turns : {1, 2, 7})
    for (std::string element : {"f32", "bf16"}) {
      const std::string type = "tensor<5x" + element + ">", n = std::to_string(turns),
                        scanned = "tensor<" + n + "x5x" + element + ">";
      add("scan/" + n + "/" + element,
          "func.func @main(%a: " + type + ", %s: " + scanned + ", %k: " + type + ") -> " + type +
              " {\n  %r = tcc.repeat " + n + " (%c = %a : " + type + ") slices (%t = %s : " + scanned +
              ") uses (%f = %k : " + type + ") {\n    %m = tcc.mul %c, %f : " + type + "\n    %e = tcc.add %m, %t : " +
              type + "\n    tcc.yield %e : " + type + "\n  }\n  return %r : " + type + "\n}\n",
          3, {-0.9, 0.9});
    }
  // Carried values change places, so that neither may be written over the other.
  add("exchange", R"(func.func @main(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %r:2 = tcc.repeat 5 (%x = %a : tensor<6xf32>, %y = %b : tensor<6xf32>) {
    %h = tcc.tanh %x : tensor<6xf32>
    tcc.yield %y, %h : tensor<6xf32>, tensor<6xf32>
  }
  return %r#0, %r#1 : tensor<6xf32>, tensor<6xf32>
})",
      2);
  add("products",
      R"(func.func @main(%a: tensor<4x4xf32>, %w: tensor<4x4xf32>, %z: tensor<4x1xf32>) -> (tensor<4x4xf32>, tensor<4x1xf32>) {
  %r:2 = tcc.repeat 3 (%x = %a : tensor<4x4xf32>, %s = %z : tensor<4x1xf32>) uses (%m = %w : tensor<4x4xf32>) {
    %h = tcc.matmul %x, %m : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
    %y = tcc.softmax %h : tensor<4x4xf32>
    %q = tcc.reduce_sum %h axes [1] : tensor<4x4xf32> -> tensor<4x1xf32>
    %t = tcc.add %s, %q : tensor<4x1xf32>
    tcc.yield %y, %t : tensor<4x4xf32>, tensor<4x1xf32>
  }
  return %r#0, %r#1 : tensor<4x4xf32>, tensor<4x1xf32>
})",
      3);
  add("unchanged", R"(func.func @main(%a: tensor<6xf32>, %b: tensor<6xf32>) -> (tensor<6xf32>, tensor<6xf32>) {
  %r:2 = tcc.repeat 4 (%x = %a : tensor<6xf32>, %y = %b : tensor<6xf32>) {
    %h = tcc.add %x, %y : tensor<6xf32>
    tcc.yield %x, %h : tensor<6xf32>, tensor<6xf32>
  }
  return %r#0, %r#1 : tensor<6xf32>, tensor<6xf32>
})",
      2);
  row.errors = {{"repeat_c1", R"(func.func @main(%a: tensor<3xf32>) {
  %r = tcc.repeat 0 (%x = %a : tensor<3xf32>) {
    tcc.yield %x : tensor<3xf32>
  }
  return
})"},
                {"repeat_c1", R"(func.func @main(%a: tensor<3xf32>) {
  %r = tcc.repeat 2147483649 (%x = %a : tensor<3xf32>) {
    tcc.yield %x : tensor<3xf32>
  }
  return
})"},
                {"repeat_c2", R"(func.func @main(%a: tensor<3xf32>, %s: tensor<4x3xf32>) {
  %r = tcc.repeat 5 (%x = %a : tensor<3xf32>) slices (%t = %s : tensor<4x3xf32>) {
    tcc.yield %t : tensor<3xf32>
  }
  return
})"},
                {"repeat_c3", R"(func.func @main(%a: tensor<3xf32>) {
  %r = "tcc.repeat"(%a) <{count = 2 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> ({
  ^bb0(%x: tensor<4xf32>):
    tcc.yield %x : tensor<4xf32>
  }) : (tensor<3xf32>) -> tensor<3xf32>
  return
})"},
                {"repeat_c4", R"(func.func @main(%a: tensor<3xf32>, %b: tensor<4xf32>) {
  %r = tcc.repeat 2 (%x = %a : tensor<3xf32>) uses (%y = %b : tensor<4xf32>) {
    tcc.yield %y : tensor<4xf32>
  }
  return
})"}};
  return row;
}

} // namespace

std::vector<OpRow> controlRows() {
  return {condRow(), repeatRow()};
}

} // namespace tcc::test
