// Rows of lanes and of the collectives, which on one rank give what the rank has itself. tests/passes/distribute_test
// has several ranks.
#include "tests/ops/op_table.h"

namespace tcc::test {
namespace {

constexpr bool notDifferentiable = false; // ranks exchange values after autodiff; gradients stand inside of lanes

OpCase caseOf(const std::string &name, const std::string &text, size_t arguments) {
  return {name, text, std::vector<Domain>(arguments), Specials::none, {}, notDifferentiable, {}};
}

std::string function(const std::string &arguments, const std::string &op, const std::string &result) {
  return "func.func @main(" + arguments + ") -> " + result + " {\n  %r = " + op + "\n  return %r : " + result + "\n}\n";
}

std::string malformed(const std::string &arguments, const std::string &op) {
  return "func.func @main(" + arguments + ") {\n  %r = " + op + "\n  return\n}\n";
}

OpRow lanesRow() {
  OpRow row{"tcc.lanes", {}, {}};
  for (int lanes : {1, 2, 3, 5, 8}) {
    const std::string n = std::to_string(lanes), scanned = "tensor<" + n + "x5xf32>";
    row.cases.push_back(
        caseOf("lanes/" + n,
               function("%s: " + scanned + ", %k: tensor<5xf32>",
                        "tcc.lanes " + n + " slices (%t = %s : " + scanned +
                            ") uses (%f = %k : tensor<5xf32>) -> tensor<5xf32> {\n" +
                            "    %m = tcc.mul %t, %f : tensor<5xf32>\n    tcc.yield %m : tensor<5xf32>\n  }",
                        "tensor<5xf32>"),
               2));
  }
  row.cases.push_back(
      caseOf("lanes/products",
             R"(func.func @main(%s: tensor<4x3x4xf32>, %w: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>) {
  %r:2 = tcc.lanes 4 slices (%x = %s : tensor<4x3x4xf32>) uses (%m = %w : tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<f32>) {
    %h = tcc.matmul %x, %m : tensor<3x4xf32>, tensor<4x2xf32> -> tensor<3x2xf32>
    %q = tcc.mul %h, %h : tensor<3x2xf32>
    %t = tcc.reduce_sum %q axes [0, 1] : tensor<3x2xf32> -> tensor<1x1xf32>
    %l = tcc.reshape %t : tensor<1x1xf32> -> tensor<f32>
    %g = tcc.exp %m : tensor<4x2xf32>
    tcc.yield %g, %l : tensor<4x2xf32>, tensor<f32>
  }
  return %r#0, %r#1 : tensor<4x2xf32>, tensor<f32>
})",
             2));
  row.errors = {
      {"lanes_c1", malformed("%k: tensor<3xf32>",
                             "tcc.lanes 0 uses (%x = %k : tensor<3xf32>) -> tensor<3xf32> {\n    tcc.yield %x : "
                             "tensor<3xf32>\n  }")},
      {"lanes_c1",
       malformed("%k: tensor<3xf32>", "tcc.lanes 4097 uses (%x = %k : tensor<3xf32>) -> tensor<3xf32> {\n    tcc.yield "
                                      "%x : tensor<3xf32>\n  }")},
      {"lanes_c2",
       malformed("%k: tensor<3xf32>", "tcc.lanes 2 slices (%x = %k : tensor<3xf32>) -> tensor<f32> {\n    tcc.yield %x "
                                      ": tensor<f32>\n  }")},
      {"lanes_c3", R"(func.func @main(%a: tensor<3xf32>) {
  %r = "tcc.lanes"(%a) <{count = 2 : i64, operandSegmentSizes = array<i32: 0, 1>}> ({
  ^bb0(%x: tensor<4xf32>):
    tcc.yield %x : tensor<4xf32>
  }) : (tensor<3xf32>) -> tensor<4xf32>
  return
})"},
      {"lanes_c4",
       malformed("%k: tensor<3xf32>", "tcc.lanes 2 uses (%x = %k : tensor<3xf32>) -> tensor<4xf32> {\n    tcc.yield %x "
                                      ": tensor<3xf32>\n  }")},
      {"lanes_c4",
       malformed("%k: tensor<3xi32>", "tcc.lanes 2 uses (%x = %k : tensor<3xi32>) -> tensor<3xi32> {\n    tcc.yield %x "
                                      ": tensor<3xi32>\n  }")}};
  return row;
}

OpRow shardRow() {
  OpRow row{"tcc.shard", {}, {}};
  for (std::string element : {"f32", "i32", "bf16"}) {
    const std::string type = "tensor<3x4x" + element + ">";
    row.cases.push_back(
        caseOf("shard/" + element, function("%x: " + type, "tcc.shard %x of 1 : " + type + " -> " + type, type), 1));
  }
  row.errors = {
      {"shard_c1", malformed("%x: tensor<8x3xf32>", "tcc.shard %x of 3 : tensor<8x3xf32> -> tensor<4x3xf32>")},
      {"shard_c1", malformed("%x: tensor<8x3xf32>", "tcc.shard %x of 4 : tensor<8x3xf32> -> tensor<2x4xf32>")},
      {"shard_c1", malformed("%x: tensor<2x3xf32>", "tcc.shard %x of 0 : tensor<2x3xf32> -> tensor<2x3xf32>")},
      {"shard_c1", malformed("%x: tensor<2x3xf32>", "tcc.shard %x of 4 : tensor<2x3xf32> -> tensor<0x3xf32>")}};
  return row;
}

OpRow allToAllRow() {
  OpRow row{"tcc.all_to_all", {}, {}};
  row.cases = {
      caseOf("all_to_all/one",
             function("%x: tensor<2x3xf32>, %y: tensor<f32>",
                      "tcc.all_to_all [1] own 1 of %x, %y : (tensor<2x3xf32>, tensor<f32>) -> tensor<1x80xf32>",
                      "tensor<1x80xf32>"),
             2),
      caseOf("all_to_all/exact",
             function("%x: tensor<16xf32>", "tcc.all_to_all [1] own 1 of %x : (tensor<16xf32>) -> tensor<1x16xf32>",
                      "tensor<1x16xf32>"),
             1),
      caseOf("all_to_all/pieces",
             function("%x: tensor<5xf32>, %y: tensor<5xf32>",
                      "tcc.all_to_all [2] own 2 of %x, %y : (tensor<5xf32>, tensor<5xf32>) -> tensor<2x5xf32>",
                      "tensor<2x5xf32>"),
             2)};
  const std::string two = "%x: tensor<5xf32>, %y: tensor<4xf32>";
  row.errors = {
      {"all_to_all_c1",
       malformed(two, "tcc.all_to_all [1, 1] own 2 of %x, %x : (tensor<5xf32>, tensor<5xf32>) -> tensor<2x5xf32>")},
      {"all_to_all_c1", malformed(two, "tcc.all_to_all [1, 0] own 1 of %x : (tensor<5xf32>) -> tensor<1x5xf32>")},
      {"all_to_all_c2",
       malformed(two, "tcc.all_to_all [2] own 2 of %x, %y : (tensor<5xf32>, tensor<4xf32>) -> tensor<2x5xf32>")},
      {"all_to_all_c2",
       malformed("%x: tensor<5xi32>", "tcc.all_to_all [1] own 1 of %x : (tensor<5xi32>) -> tensor<1x5xf32>")},
      {"all_to_all_c3", malformed(two, "tcc.all_to_all [1, 1] own 1 of %x : (tensor<5xf32>) -> tensor<2x2xf32>")},
      {"all_to_all_c3", malformed(two, "tcc.all_to_all [1, 1] own 1 of %x : (tensor<5xf32>) -> tensor<3x3xf32>")},
      {"all_to_all_c3",
       malformed(two, "tcc.all_to_all [1] own 1 of %x, %y : (tensor<5xf32>, tensor<4xf32>) -> tensor<1x67xf32>")},
      {"all_to_all_c4",
       malformed(two, "tcc.all_to_all [1] own 1 of %x {flight = 0 : i64} : (tensor<5xf32>) -> tensor<1x5xf32>")}};
  return row;
}

OpRow allGatherRow() {
  OpRow row{"tcc.all_gather", {}, {}};
  for (std::string type : {"tensor<7xf32>", "tensor<64xf32>", "tensor<5xi32>"})
    row.cases.push_back(caseOf("all_gather/" + type,
                               function("%x: " + type, "tcc.all_gather %x of 1 : " + type + " -> " + type, type), 1));
  row.errors = {
      {"all_gather_c1", malformed("%x: tensor<7xf32>", "tcc.all_gather %x of 2 : tensor<7xf32> -> tensor<7xf32>")},
      {"all_gather_c1", malformed("%x: tensor<7xf32>", "tcc.all_gather %x of 1 : tensor<7xf32> -> tensor<7xi32>")},
      {"all_gather_c2", malformed("%x: tensor<7xf32>", "tcc.all_gather %x of 1 {flight = 1048577 : i64} : "
                                                       "tensor<7xf32> -> tensor<7xf32>")}};
  return row;
}

OpRow allReduceRow() {
  OpRow row{"tcc.all_reduce", {}, {}};
  row.cases = {caseOf("all_reduce/one",
                      R"(func.func @main(%x: tensor<7xf32>, %y: tensor<2x3xf32>) -> (tensor<7xf32>, tensor<2x3xf32>) {
  %r:2 = tcc.all_reduce %x, %y of 1 : tensor<7xf32>, tensor<2x3xf32> -> tensor<7xf32>, tensor<2x3xf32>
  return %r#0, %r#1 : tensor<7xf32>, tensor<2x3xf32>
})",
                      2)};
  for (std::string type : {"tensor<64xf32>", "tensor<f32>"})
    row.cases.push_back(caseOf("all_reduce/" + type,
                               function("%x: " + type, "tcc.all_reduce %x of 1 : " + type + " -> " + type, type), 1));
  row.errors = {
      {"all_reduce_c1", malformed("%x: tensor<7xf32>", "tcc.all_reduce %x of 2 : tensor<7xf32> -> tensor<6xf32>")},
      {"all_reduce_c1", malformed("%x: tensor<7xi32>", "tcc.all_reduce %x of 2 : tensor<7xi32> -> tensor<7xi32>")},
      {"all_reduce_c2", malformed("%x: tensor<7xf32>", "tcc.all_reduce %x of 2 {flight = -1 : i64} : tensor<7xf32> -> "
                                                       "tensor<7xf32>")}};
  return row;
}

OpRow unpackRow() {
  OpRow row{"tcc.unpack", {}, {}};
  row.cases = {caseOf("unpack/two",
                      R"(func.func @main(%x: tensor<160xf32>) -> (tensor<5x13xf32>, tensor<f32>) {
  %r:2 = tcc.unpack %x : tensor<160xf32> -> tensor<5x13xf32>, tensor<f32>
  return %r#0, %r#1 : tensor<5x13xf32>, tensor<f32>
})",
                      1),
               caseOf("unpack/computed",
                      R"(func.func @main(%x: tensor<130xi32>) -> (tensor<64xi32>, tensor<2x33xi32>) {
  %y = tcc.add %x, %x : tensor<130xi32>
  %r:2 = tcc.unpack %y : tensor<130xi32> -> tensor<64xi32>, tensor<2x33xi32>
  %t = tcc.transpose %r#1 [1, 0] : tensor<2x33xi32> -> tensor<33x2xi32>
  %s = tcc.reshape %t : tensor<33x2xi32> -> tensor<2x33xi32>
  %d = tcc.sub %r#1, %s : tensor<2x33xi32>
  return %r#0, %d : tensor<64xi32>, tensor<2x33xi32>
})",
                      1)};
  for (std::string type : {"tensor<64xf32>", "tensor<7xbf16>"})
    row.cases.push_back(
        caseOf("unpack/" + type, function("%x: " + type, "tcc.unpack %x : " + type + " -> " + type, type), 1));
  row.errors = {{"unpack_c1", malformed("%x: tensor<8x8xf32>", "tcc.unpack %x : tensor<8x8xf32> -> tensor<8xf32>")},
                {"unpack_c1", malformed("%x: tensor<8xf32>", "tcc.unpack %x : tensor<8xf32> -> tensor<8xi32>")},
                {"unpack_c2", malformed("%x: tensor<8xf32>", "tcc.unpack %x : tensor<8xf32> -> tensor<9xf32>")},
                {"unpack_c2",
                 "func.func @main(%x: tensor<65xf32>) {\n  %y:2 = tcc.unpack %x : tensor<65xf32> -> tensor<1xf32>, "
                 "tensor<2xf32>\n  return\n}"}};
  return row;
}

OpRow waitRow() {
  OpRow row{"tcc.wait", {}, {}};
  for (std::string type : {"tensor<7xf32>", "tensor<64xi32>", "tensor<1xbf16>"})
    row.cases.push_back(caseOf("wait/" + type,
                               "func.func @main(%x: " + type + ") -> " + type +
                                   " {\n  %y = tcc.all_gather %x of 1 {flight = 3 : i64} : " + type + " -> " + type +
                                   "\n  tcc.wait %y : " + type + "\n  return %y : " + type + "\n}",
                               1));
  row.errors = {
      {"wait_c1", malformed("%x: tensor<7xf32>", "tcc.all_gather %x of 1 : tensor<7xf32> -> tensor<7xf32>\n  tcc.wait "
                                                 "%x : tensor<7xf32>")},
      {"wait_c1",
       "func.func @main(%x: tensor<7xf32>) {\n  %y = tcc.all_gather %x of 1 : tensor<7xf32> -> tensor<7xf32>\n  "
       "tcc.wait %y : tensor<7xf32>\n  return\n}"}};
  return row;
}

} // namespace

std::vector<OpRow> collectiveRows() {
  return {lanesRow(), shardRow(), allToAllRow(), allGatherRow(), allReduceRow(), unpackRow(), waitRow()};
}

} // namespace tcc::test
