// The rows of the op table. Functions are text in the form of .graph files, so each sample is also a parser test.
#include "tests/ops/op_table.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;

namespace tcc::test {
namespace {

using Strings = std::vector<std::string>;
using Cases = std::vector<OpCase>;
using Errors = std::vector<ErrorCase>;

const double nan = std::numeric_limits<double>::quiet_NaN();
const double infinity = std::numeric_limits<double>::infinity();

/// Values whose squares and cubes stay in range, and those that may overflow.
const std::vector<double> tame = {nan, infinity, -infinity, 0.0, -0.0, 3.0};
const std::vector<double> wild = {nan, infinity, -infinity, 0.0, -0.0, 1e30, -1e30, 1e-30};

/// Scalar, none, one, around the vector widths 8 and 16, tails, several dims, an empty one among them.
const Strings shapes = {"", "0", "1", "7", "8", "15", "16", "17", "33", "200", "3x5", "2x3x17", "4x0x3", "5x1x8"};
const Strings fewShapes = {"", "7", "16", "33", "3x17"};
const Strings floats = {"f32", "bf16", "f16"};

/// "tensor<7x17xf32>" for "7x17" and "f32".
std::string tensor(const std::string &shape, const std::string &element) {
  return "tensor<" + shape + (shape.empty() ? "" : "x") + element + ">";
}

/// Adds a case: arguments %a, %b, … of the types given; `body` computes %r (%r:n for several results).
OpCase &addCase(Cases &cases, const std::string &name, const Strings &arguments, const std::string &body,
                const Strings &results, Domain domain = {}) {
  std::string text = "func.func @main(";
  for (size_t i = 0; i < arguments.size(); ++i)
    text += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i)) + ": " + arguments[i];
  std::string types, values;
  for (size_t i = 0; i < results.size(); ++i) {
    types += (i ? ", " : "") + results[i];
    values += (i ? ", %r" : "%r") + (results.size() > 1 ? "#" + std::to_string(i) : "");
  }
  text += ") -> (" + types + ") {\n  " + body + "\n  return " + values + " : " + types + "\n}\n";
  return cases.emplace_back(
      OpCase{name, text, std::vector<Domain>(arguments.size(), domain), Specials::none, {}, true, {}});
}

void withSpecials(OpCase &opCase, Specials where, std::vector<double> values = wild) {
  opCase.specials = where;
  opCase.values = std::move(values);
}

/// The text of a function whose body must be refused; results are not returned.
ErrorCase error(const std::string &label, const Strings &arguments, const std::string &body) {
  Cases scratch;
  std::string text = addCase(scratch, label, arguments, body, {}).text;
  text.replace(text.find("  return"), text.size(), "  return\n}\n");
  return {label, text};
}

//===- elementwise ---------------------------------------------------------------------------------------------===//

/// An op of `arity` operands of the result's type: "name %a, %b : type".
OpRow elementwise(const std::string &name, int arity, Domain domain, const Strings &elements = floats,
                  const std::vector<double> &special = wild) {
  OpRow row{"tcc." + name, {}, {}};
  std::string operands = arity == 1 ? "%a" : arity == 2 ? "%a, %b" : "%a, %b, %c";
  auto addOne = [&](const std::string &shape, const std::string &element, const std::string &suffix,
                    Domain values) -> OpCase & {
    std::string type = tensor(shape, element);
    return addCase(row.cases, name + "/" + shape + "/" + element + suffix, Strings(arity, type),
                   "%r = tcc." + name + " " + operands + " : " + type, {type}, values);
  };
  for (const std::string &element : elements) {
    bool isFloat = llvm::is_contained(floats, element);
    // Integers come near the ends of their range, so that wrapping is seen; i64 as far as doubles are exact.
    Domain values = isFloat ? domain : element == "i32" ? Domain{-2147483648.0, 2147483647.0} : Domain{-1e7, 1e7};
    for (const std::string &shape : element == elements[0] ? shapes : fewShapes)
      addOne(shape, element, "", values);
    if (isFloat)
      withSpecials(addOne("81", element, "/special", domain), Specials::all, special);
  }
  return row;
}

/// An op whose value jumps between `cases` of its operands: its differentiable cases keep away from the jumps.
OpRow roundingDivision(const std::string &name) {
  OpRow row = elementwise(name, 2, {0.5, 3}, {"f32", "bf16", "f16", "i32", "i64"},
                          {nan, infinity, -infinity, 0.0, -0.0, 7.0, -7.0, 2.5, -2.5, 1e30, 1e-30});
  for (OpCase &opCase : row.cases)
    opCase.differentiable = false; // quotients near whole numbers
  for (std::string element : {"f32", "bf16", "i32", "i64"}) {
    const std::string type = tensor("200", element);
    addCase(row.cases, name + "/signs/" + element, {type, type}, "%r = tcc." + name + " %a, %b : " + type, {type},
            {-4, 5}) // integers: with 0 and -1 among the divisors
        .differentiable = false;
  }
  OpCase &large = addCase(row.cases, name + "/large/f32", {"tensor<200xf32>", "tensor<200xf32>"},
                          "%r = tcc." + name + " %a, %b : tensor<200xf32>", {"tensor<200xf32>"});
  large.domains = {{1e20, 1e30}, {1e-3, 1}};
  large.differentiable = false;
  OpCase &least = addCase(row.cases, name + "/least/i32", {"tensor<17xi32>", "tensor<17xi32>"},
                          "%r = tcc." + name + " %a, %b : tensor<17xi32>", {"tensor<17xi32>"});
  least.domains = {{-2147483648.0, -2147483648.0}, {-1, -1}};
  OpCase &smooth = addCase(row.cases, name + "/smooth/f32", {"tensor<17xf32>", "tensor<17xf32>"},
                           "%r = tcc." + name + " %a, %b : tensor<17xf32>", {"tensor<17xf32>"});
  smooth.domains = {{7.2, 7.8}, {2.7, 3.3}}; // 2.2 to 2.9
  return row;
}

OpRow powRow() {
  OpRow row = elementwise("pow", 2, {0.2, 3}, floats,
                          {nan, infinity, -infinity, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30,
                           1e-30, 16777216.0, 16777215.0, -8388607.5});
  for (const std::string &element : floats) { // all pairs of the special values
    const std::string type = tensor("361", element);
    withSpecials(addCase(row.cases, "pow/pairs/" + element, {type, type}, "%r = tcc.pow %a, %b : " + type, {type}),
                 Specials::all,
                 {nan, infinity, -infinity, 0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 1e30, -1e30, 1e-30,
                  16777216.0, 16777215.0, -8388607.5});
    for (double exponent : {0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -2.5})
      addCase(row.cases, "pow/exponent/" + std::to_string(exponent) + "/" + element, Strings(2, tensor("33", element)),
              "%r = tcc.pow %a, %b : " + tensor("33", element), {tensor("33", element)})
          .domains = {{0.2, 3}, {exponent, exponent}};
  }
  OpCase &negative = addCase(row.cases, "pow/negative/f32", {"tensor<200xf32>", "tensor<200xf32>"},
                             "%r = tcc.pow %a, %b : tensor<200xf32>", {"tensor<200xf32>"}, {-3, 3});
  negative.differentiable = false; // NaN
  return row;
}

OpRow clampRow() {
  OpRow row =
      elementwise("clamp", 3, {}, {"f32", "bf16", "f16", "i32", "i64"}, {nan, infinity, -infinity, 3.0, -3.0, 0.5});
  addCase(row.cases, "clamp/apart/f32", Strings(3, "tensor<33xf32>"), "%r = tcc.clamp %a, %b, %c : tensor<33xf32>",
          {"tensor<33xf32>"})
      .domains = {{-4, 4}, {-1.5, -0.5}, {0.5, 1.5}};
  return row;
}

OpRow itemRow() {
  OpRow row{"tcc.item", {}, {}};
  for (const char *element : {"f32", "bf16", "f16", "i32", "i64", "i1"})
    for (const std::string &shape : Strings{"", "1x1"}) {
      const std::string type = tensor(shape, element);
      addCase(row.cases, "item/" + shape + "/" + element, {type}, "%r = tcc.item %a : " + type, {type});
    }
  row.errors = {error("item_c1", {"tensor<2xf32>"}, "%r = tcc.item %a : tensor<2xf32>"),
                error("item_c1", {"tensor<?xf32>"}, "%r = tcc.item %a : tensor<?xf32>"),
                error("item_c2", {"tensor<f32>"},
                      "%r = tcc.repeat 2 (%x = %a : tensor<f32>) {\n    %y = tcc.item %x : tensor<f32>\n    tcc.yield "
                      "%y : tensor<f32>\n  }"),
                error("item_c2", {"tensor<f32>"},
                      "%r = tcc.custom \"f\" (%x = %a : tensor<f32>) -> tensor<f32> {\n    %y = tcc.item %x : "
                      "tensor<f32>\n    tcc.yield %y : tensor<f32>\n  }")};
  return row;
}

OpRow compareRow() {
  OpRow row{"tcc.compare", {}, {}};
  for (std::string predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
    for (std::string element : {"f32", "bf16", "i32", "i64", "i1"})
      for (const std::string &shape : predicate == "lt" ? shapes : Strings{"33"}) {
        auto add = [&](const std::string &suffix) -> OpCase & {
          std::string type = tensor(shape, element), flags = tensor(shape, "i1");
          return addCase(row.cases, "compare/" + predicate + "/" + shape + "/" + element + suffix, {type, type},
                         "%r = tcc.compare " + predicate + " %a, %b : " + type + " -> " + flags, {flags}, {-3, 3});
        };
        add("");
        if (shape == "33" && (element == "f32" || element == "bf16"))
          withSpecials(add("/special"), Specials::all);
      }
  return row;
}

OpRow isFiniteRow() {
  OpRow row{"tcc.is_finite", {}, {}};
  for (const std::string &element : floats)
    for (const std::string &shape : fewShapes) {
      std::string type = tensor(shape, element), flags = tensor(shape, "i1");
      withSpecials(addCase(row.cases, "is_finite/" + shape + "/" + element, {type},
                           "%r = tcc.is_finite %a : " + type + " -> " + flags, {flags}),
                   Specials::all);
    }
  return row;
}

OpRow selectRow() {
  OpRow row{"tcc.select", {}, {}};
  for (std::string element : {"f32", "bf16", "i32", "i64", "i1"})
    for (const std::string &shape : element == "f32" ? shapes : fewShapes) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        std::string type = tensor(shape, element), flags = tensor(shape, "i1");
        return addCase(row.cases, "select/" + shape + "/" + element + suffix, {flags, type, type},
                       "%r = tcc.select %a, %b, %c : " + flags + ", " + type, {type}, {-100, 100});
      };
      add("");
      if (element == "f32" && shape == "200")
        withSpecials(add("/special"), Specials::all);
    }
  return row;
}

OpRow castRow() {
  OpRow row{"tcc.cast", {}, {}};
  auto add = [&](const std::string &shape, const std::string &from, const std::string &to) -> OpCase & {
    std::string source = tensor(shape, from), target = tensor(shape, to);
    return addCase(row.cases, "cast/" + shape + "/" + from + "/" + to + "/" + std::to_string(row.cases.size()),
                   {source}, "%r = tcc.cast %a : " + source + " -> " + target, {target}, {-200, 200});
  };
  const Strings elements = {"f32", "bf16", "f16", "i1", "i32", "i64"};
  for (const std::string &from : elements)
    for (const std::string &to : elements)
      for (const std::string &shape : from == "f32" && to == "bf16" ? shapes : Strings{"", "17"})
        add(shape, from, to);
  for (const std::string &from : floats)
    for (const std::string &to : elements) {
      if (to != "i64")
        withSpecials(add("81", from, to), Specials::all);
      else // what the interpreter's doubles hold of i64
        withSpecials(add("49", from, to), Specials::all, {NAN, -INFINITY, -3e38, -2.5, -0.0, 0.5, 3e4});
    }
  return row;
}

/// Not differentiable by differences: it is a staircase.
OpRow castByBitsRow() {
  OpRow row{"tcc.cast_by_bits", {}, {}};
  auto add = [&](const std::string &shape, const std::string &name) -> OpCase & {
    const std::string x = tensor(shape, "f32"), bits = tensor(shape, "i32"), y = tensor(shape, "bf16");
    OpCase &added = addCase(row.cases, "cast_by_bits/" + name, {x, bits},
                            "%r = tcc.cast_by_bits %a, %b : " + x + ", " + bits + " -> " + y, {y}, {-200, 200});
    added.domains[1] = {-2147483648.0, 2147483647.0};
    added.differentiable = false;
    return added;
  };
  for (const std::string &shape : shapes)
    add(shape, shape);
  withSpecials(add("81", "special"), Specials::all,
               {NAN, INFINITY, -INFINITY, 3.4e38, -3.4e38, 0.0, -0.0, 1e-40, -3e-39, 1.1754944e-38, 255.5, -1.0078124});
  return row;
}

OpRow stochasticCastRow() {
  OpRow row{"tcc.stochastic_cast", {}, {}};
  for (const std::string seed : {"i32", "i64"})
    for (const std::string &shape : seed == "i32" ? shapes : Strings{"20x40"}) {
      const std::string x = tensor(shape, "f32"), y = tensor(shape, "bf16");
      OpCase &added =
          addCase(row.cases, "stochastic_cast/" + seed + "/" + shape, {x, "tensor<" + seed + ">"},
                  "%r = tcc.stochastic_cast %a, %b stream 5 : " + x + ", tensor<" + seed + "> -> " + y, {y});
      added.domains[1] = {-1e9, 1e9};
      added.differentiable = false; // a staircase
    }
  return row;
}

//===- sources -------------------------------------------------------------------------------------------------===//

OpRow constantRow() {
  OpRow row{"tcc.constant", {}, {}};
  auto add = [&](const std::string &literal, const std::string &type) {
    addCase(row.cases, "constant/" + literal + "/" + type, {}, "%r = tcc.constant dense<" + literal + "> : " + type,
            {type});
  };
  for (const std::string &element : floats)
    for (const std::string &shape : fewShapes)
      add("-1.5", tensor(shape, element));
  add("-0.0", "tensor<7xf32>");
  add("0x7FC00000", "tensor<7xf32>"); // NaN
  add("0xFF800000", "tensor<7xf32>"); // -infinity
  add("[1.0, -2.5, 3.0e+30]", "tensor<3xf32>");
  add("[[1, 2], [3, -4]]", "tensor<2x2xi32>");
  add("[true, false, true]", "tensor<3xi1>");
  add("1099511627776", "tensor<2xi64>");
  add("", "tensor<0xf32>");
  std::string many;
  for (int i = 0; i < 257; ++i)
    many += (i ? ", " : "") + std::to_string(i) + ".0";
  row.errors.push_back(error("constant_c1", {}, "%r = tcc.constant dense<[" + many + "]> : tensor<257xf32>"));
  return row;
}

OpRow iotaRow() {
  OpRow row{"tcc.iota", {}, {}};
  for (std::string element : {"i32", "f32", "i64", "bf16"})
    for (auto [shape, dim] : std::vector<std::pair<std::string, int>>{
             {"0", 0}, {"1", 0}, {"17", 0}, {"200", 0}, {"3x17", 0}, {"3x17", 1}, {"2x3x5", 1}, {"5x0x2", 0}}) {
      std::string type = tensor(shape, element), along = std::to_string(dim);
      addCase(row.cases, "iota/" + shape + "/" + along + "/" + element, {},
              "%r = tcc.iota dim " + along + " -> " + type, {type});
    }
  addCase(row.cases, "iota/like", {"tensor<3x7xf32>"},
          "%r = tcc.iota dim 1 like %a : tensor<3x7xf32> -> tensor<3x7xi32>", {"tensor<3x7xi32>"});
  row.errors = {error("iota_c1", {}, "%r = tcc.iota dim 1 -> tensor<3xi32>"),
                error("iota_c2", {}, "%r = tcc.iota dim 0 -> tensor<?xi32>")};
  return row;
}

OpRow randomBitsRow() {
  OpRow row{"tcc.random_bits", {}, {}};
  for (const std::string &shape : shapes)
    addCase(row.cases, "random_bits/" + shape, {"tensor<i32>"},
            "%r = tcc.random_bits %a stream 3 : tensor<i32> -> " + tensor(shape, "i32"), {tensor(shape, "i32")},
            {-1e9, 1e9});
  addCase(row.cases, "random_bits/i64", {"tensor<i64>"},
          "%r = tcc.random_bits %a stream 70000 : tensor<i64> -> tensor<7x9xi32>", {"tensor<7x9xi32>"}, {-1e15, 1e15});
  for (std::string shape : {"20", "20x20", "4x20x20", "4x3x20x20"})
    addCase(row.cases, "random_bits/first/" + shape, {"tensor<i32>", "tensor<i32>"},
            "%r = tcc.random_bits %a stream 3 first %b : tensor<i32> -> " + tensor(shape, "i32"),
            {tensor(shape, "i32")}, {0, 1e9});
  row.errors = {
      error("random_bits_c1", {"tensor<i32>"}, "%r = tcc.random_bits %a stream 0 : tensor<i32> -> tensor<?xi32>"),
      error("random_bits_c2", {"tensor<i32>"},
            "%r = tcc.random_bits %a stream 0 first %a : tensor<i32> -> tensor<i32>")};
  return row;
}

//===- views ---------------------------------------------------------------------------------------------------===//

/// Cases of a view of one operand: shape, what stands between operand and types, result shape.
struct ViewSample {
  std::string from, attributes, to;
};

OpRow viewRow(const std::string &name, const std::vector<ViewSample> &samples, Errors errors) {
  OpRow row{"tcc." + name, {}, std::move(errors)};
  for (const ViewSample &sample : samples)
    for (std::string element : {"f32", "bf16", "i32", "i64", "i1"}) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        std::string from = tensor(sample.from, element), to = tensor(sample.to, element);
        return addCase(
            row.cases, name + "/" + sample.from + "/" + sample.attributes + "/" + sample.to + "/" + element + suffix,
            {from}, "%r = tcc." + name + " %a " + sample.attributes + " : " + from + " -> " + to, {to}, {-100, 100});
      };
      add("");
      if (element == "f32")
        withSpecials(add("/special"), Specials::all);
    }
  return row;
}

OpRow broadcastRow() {
  return viewRow(
      "broadcast",
      {{"", "", "7"},
       {"", "", ""},
       {"17", "", "3x17"},
       {"3x1", "", "3x17"},
       {"1", "", "33"},
       {"1x5", "", "0x5"},
       {"1", "", "0"},
       {"5", "", "2x3x5"},
       {"2x1x5", "", "2x16x5"},
       {"1x3x1", "", "2x3x33"},
       {"3x1", "", "2x3x4"}},
      {error("broadcast_c1", {"tensor<2x3xf32>"}, "%r = tcc.broadcast %a : tensor<2x3xf32> -> tensor<3xf32>"),
       error("broadcast_c2", {"tensor<2xf32>"}, "%r = tcc.broadcast %a : tensor<2xf32> -> tensor<3xf32>"),
       error("broadcast_c3", {"tensor<1xf32>"}, "%r = tcc.broadcast %a : tensor<1xf32> -> tensor<?xf32>")});
}

OpRow reshapeRow() {
  return viewRow(
      "reshape",
      {{"6", "", "2x3"},
       {"2x3", "", "6"},
       {"", "", "1"},
       {"1x1", "", ""},
       {"0x5", "", "3x0"},
       {"4x6", "", "4x2x3"},
       {"2x3x17", "", "6x17"},
       {"2x3x4", "", "4x3x2"},
       {"33", "", "33x1"}},
      {error("reshape_c1", {"tensor<6xf32>"}, "%r = tcc.reshape %a : tensor<6xf32> -> tensor<5xf32>"),
       error("reshape_c1", {"tensor<6xf32>"}, "%r = tcc.reshape %a : tensor<6xf32> -> tensor<?x4xf32>"),
       error("reshape_c2", {"tensor<6x?xf32>"}, "%r = tcc.reshape %a : tensor<6x?xf32> -> tensor<?x?xf32>")});
}

OpRow transposeRow() {
  return viewRow(
      "transpose",
      {{"", "[]", ""},
       {"7", "[0]", "7"},
       {"3x17", "[1, 0]", "17x3"},
       {"16x16", "[1, 0]", "16x16"},
       {"2x3x5", "[2, 0, 1]", "5x2x3"},
       {"2x3x5", "[0, 2, 1]", "2x5x3"},
       {"2x7x3x5", "[0, 2, 1, 3]", "2x3x7x5"},
       {"0x4", "[1, 0]", "4x0"}},
      {error("transpose_c1", {"tensor<2x3xf32>"}, "%r = tcc.transpose %a [0, 0] : tensor<2x3xf32> -> tensor<2x2xf32>"),
       error("transpose_c1", {"tensor<2x3xf32>"}, "%r = tcc.transpose %a [0] : tensor<2x3xf32> -> tensor<2xf32>")});
}

OpRow sliceRow() {
  return viewRow(
      "slice",
      {{"", "[] to []", ""},
       {"7", "[2] to [5]", "3"},
       {"7", "[0] to [-1]", "7"},
       {"7", "[3] to [3]", "0"},
       {"3x17", "[0, 1] to [-1, 17]", "3x16"},
       {"33x5", "[16, 0] to [33, 5]", "17x5"},
       {"2x9x4", "[1, 2, 1] to [2, 9, 3]", "1x7x2"},
       {"7", "[1] to [7] by [2]", "3"},
       {"8", "[0] to [-1] by [3]", "3"},
       {"5", "[2] to [4] by [9]", "1"},
       {"3x17", "[0, 1] to [3, 17] by [2, 5]", "2x4"},
       {"2x9x16", "[0, 2, 1] to [2, 9, 15] by [1, 3, 2]", "2x3x7"}},
      {error("slice_c1", {"tensor<4x5xf32>"}, "%r = tcc.slice %a [0] to [2] : tensor<4x5xf32> -> tensor<2x5xf32>"),
       error("slice_c2", {"tensor<4xf32>"}, "%r = tcc.slice %a [2] to [5] : tensor<4xf32> -> tensor<3xf32>"),
       error("slice_c2", {"tensor<4xf32>"}, "%r = tcc.slice %a [-1] to [2] : tensor<4xf32> -> tensor<3xf32>"),
       error("slice_c3", {"tensor<4xf32>"}, "%r = tcc.slice %a [0] to [4] by [0] : tensor<4xf32> -> tensor<4xf32>"),
       error("slice_c3", {"tensor<?xf32>"}, "%r = tcc.slice %a [0] to [-1] by [2] : tensor<?xf32> -> tensor<?xf32>")});
}

OpRow padRow() {
  return viewRow(
      "pad",
      {{"", "[], []", ""},
       {"7", "[0], [9]", "16"},
       {"7", "[2], [0]", "9"},
       {"0", "[1], [2]", "3"},
       {"3x17", "[1, 0], [0, 3]", "4x20"},
       {"2x3x5", "[0, 1, 2], [1, 0, 3]", "3x4x10"},
       {"7", "[2], [3] value 1.0", "12"},
       {"", "[], [] value 1.0", ""},
       {"0", "[1], [2] value 1.0", "3"},
       {"3x17", "[1, 0], [0, 3] value 1.0", "4x20"}},
      {error("pad_c1", {"tensor<4xf32>"}, "%r = tcc.pad %a [-1], [0] : tensor<4xf32> -> tensor<3xf32>"),
       error("pad_c1", {"tensor<4xf32>"}, "%r = tcc.pad %a [1, 1], [0, 0] : tensor<4xf32> -> tensor<5xf32>"),
       error("pad_c2", {"tensor<4xi32>"}, "%r = tcc.pad %a [1], [0] value 0.5 : tensor<4xi32> -> tensor<5xi32>"),
       error("pad_c2", {"tensor<4xi32>"},
             "%r = tcc.pad %a [1], [0] value 0xFFF0000000000000 : tensor<4xi32> -> tensor<5xi32>"),
       error("pad_c2", {"tensor<4xi32>"},
             "%r = tcc.pad %a [1], [0] value 2147483648.0 : tensor<4xi32> -> tensor<5xi32>"),
       error("pad_c2", {"tensor<4xi1>"}, "%r = tcc.pad %a [1], [0] value 2.0 : tensor<4xi1> -> tensor<5xi1>")});
}

OpRow windowRow() {
  return viewRow("window",
                 {{"7", "dims [0] sizes [3]", "5x3"},
                  {"8", "dims [0] sizes [3] steps [2]", "3x3"},
                  {"8", "dims [0] sizes [2] steps [3]", "3x2"},
                  {"9", "dims [0] sizes [3] steps [2] dilations [2]", "3x3"},
                  {"3x17", "dims [1] sizes [4] steps [4]", "3x4x4"},
                  {"2x5x6", "dims [1, 2] sizes [3, 2] steps [1, 2]", "2x3x3x3x2"},
                  {"0x5", "dims [1] sizes [5]", "0x1x5"},
                  {"4", "dims [] sizes []", "4"}},
                 {error("window_c1", {"tensor<4xf32>"},
                        "%r = tcc.window %a dims [1] sizes [2] : tensor<4xf32> -> tensor<3x2xf32>"),
                  error("window_c1", {"tensor<4xf32>"},
                        "%r = tcc.window %a dims [0] sizes [0] : tensor<4xf32> -> tensor<4x0xf32>"),
                  error("window_c2", {"tensor<4xf32>"},
                        "%r = tcc.window %a dims [0] sizes [5] : tensor<4xf32> -> tensor<0x5xf32>"),
                  error("window_c2", {"tensor<?xf32>"},
                        "%r = tcc.window %a dims [0] sizes [2] : tensor<?xf32> -> tensor<?x2xf32>")});
}

OpRow foldRow() {
  OpRow row{"tcc.fold", {}, {}};
  for (const ViewSample &sample : std::vector<ViewSample>{{"5x3", "dims [0]", "7"},
                                                          {"3x3", "dims [0] steps [2]", "8"},
                                                          {"3x2", "dims [0] steps [3]", "8"},
                                                          {"3x3", "dims [0] steps [2] dilations [2]", "9"},
                                                          {"3x4x4", "dims [1] steps [4]", "3x17"},
                                                          {"2x3x3x3x2", "dims [1, 2] steps [1, 2]", "2x5x6"},
                                                          {"0x1x5", "dims [1]", "0x5"}})
    for (const std::string &element : floats) {
      const std::string from = tensor(sample.from, element), to = tensor(sample.to, element);
      addCase(row.cases, "fold/" + sample.from + "/" + sample.attributes + "/" + sample.to + "/" + element, {from},
              "%r = tcc.fold %a " + sample.attributes + " : " + from + " -> " + to, {to});
    }
  row.errors = {error("fold_c1", {"tensor<3x2xf32>"}, "%r = tcc.fold %a dims [1] : tensor<3x2xf32> -> tensor<4xf32>"),
                error("fold_c2", {"tensor<3x2xf32>"}, "%r = tcc.fold %a dims [0] : tensor<3x2xf32> -> tensor<5xf32>")};
  return row;
}

OpRow convolutionRow() {
  OpRow row{"tcc.convolution", {}, {}};
  struct Sample {
    std::string x, weight, attributes, to;
    bool hasBias;
  };
  for (const Sample &sample :
       std::vector<Sample>{{"2x3x7", "4x3x3", "", "2x4x5", true},
                           {"2x3x7", "4x3x3", "steps [2] padding [1]", "2x4x4", false},
                           {"1x2x9", "2x1x3", "dilations [2] groups 2", "1x2x5", true},
                           {"2x2x5x6", "3x2x3x2", "padding [1, 0]", "2x3x5x5", true},
                           {"1x3x8x8", "4x3x4x4", "steps [4, 4]", "1x4x2x2", true},
                           {"1x4x5x5", "6x2x3x3", "steps [2, 1] padding [1, 1] groups 2", "1x6x3x5", false},
                           {"1x2x3x4x5", "2x2x2x2x2", "", "1x2x2x3x4", false},
                           {"0x2x5", "3x2x2", "", "0x3x4", true}})
    for (const std::string &element : floats) {
      const std::string x = tensor(sample.x, element), weight = tensor(sample.weight, element),
                        bias = tensor(sample.weight.substr(0, 1), element), to = tensor(sample.to, element);
      Strings arguments = {x, weight};
      if (sample.hasBias)
        arguments.push_back(bias);
      addCase(row.cases, "convolution/" + sample.x + "/" + sample.weight + "/" + sample.attributes + "/" + element,
              arguments,
              "%r = tcc.convolution %a, %b " + std::string(sample.hasBias ? "bias %c " : "") + sample.attributes +
                  " : " + x + ", " + weight + (sample.hasBias ? " bias " + bias : "") + " -> " + to,
              {to}, {-1, 1});
    }
  auto refused = [&](const std::string &label, const std::string &x, const std::string &weight,
                     const std::string &attributes) {
    return error(label, {x, weight},
                 "%r = tcc.convolution %a, %b " + attributes + " : " + x + ", " + weight + " -> " + x);
  };
  const std::string x = "tensor<1x4x5xf32>";
  row.errors = {refused("convolution_c1", "tensor<1x4xf32>", "tensor<2x4xf32>", ""),
                refused("convolution_c1", x, "tensor<2x4x3xbf16>", ""),
                refused("convolution_c2", x, "tensor<2x3x3xf32>", ""),
                refused("convolution_c2", x, "tensor<3x2x3xf32>", "groups 2"),
                refused("convolution_c3", x, "tensor<2x4x3xf32>", "steps [0]"),
                refused("convolution_c3", x, "tensor<2x4x3xf32>", "padding [1, 1]"),
                refused("convolution_c4", x, "tensor<2x4x6xf32>", ""),
                error("convolution_c5", {x, "tensor<2x4x3xf32>", "tensor<3xf32>"},
                      "%r = tcc.convolution %a, %b bias %c : " + x + ", tensor<2x4x3xf32> bias tensor<3xf32> -> " + x)};
  return row;
}

OpRow concatRow() {
  OpRow row{"tcc.concat", {}, {}};
  struct Sample {
    Strings parts;
    int axis;
    std::string to;
  };
  for (const Sample &sample : std::vector<Sample>{{{"7"}, 0, "7"},
                                                  {{"7", "17"}, 0, "24"},
                                                  {{"0", "5"}, 0, "5"},
                                                  {{"3x4", "3x1", "3x12"}, 1, "3x17"},
                                                  {{"1x5", "2x5"}, 0, "3x5"},
                                                  {{"2x3x5", "2x4x5"}, 1, "2x7x5"}})
    for (std::string element : {"f32", "bf16", "i32"}) {
      Strings types;
      std::string operands, list, name;
      for (size_t i = 0; i < sample.parts.size(); ++i) {
        types.push_back(tensor(sample.parts[i], element));
        operands += (i ? ", %" : "%") + std::string(1, static_cast<char>('a' + i));
        list += (i ? ", " : "") + types.back();
        name += (i ? "+" : "") + sample.parts[i];
      }
      std::string to = tensor(sample.to, element), axis = std::to_string(sample.axis);
      addCase(row.cases, "concat/" + name + "/" + axis + "/" + element, types,
              "%r = tcc.concat " + operands + " axis " + axis + " : " + list + " -> " + to, {to}, {-100, 100});
    }
  row.errors = {error("concat_c1", {"tensor<2xf32>"}, "%r = tcc.concat %a axis 1 : tensor<2xf32> -> tensor<2xf32>"),
                error("concat_c2", {"tensor<2x3xf32>", "tensor<2x4xf32>"},
                      "%r = tcc.concat %a, %b axis 0 : tensor<2x3xf32>, tensor<2x4xf32> -> tensor<4x3xf32>")};
  return row;
}

//===- reductions ----------------------------------------------------------------------------------------------===//

OpRow reductionRow(const std::string &name, const Strings &elements) {
  OpRow row{"tcc." + name, {}, {}};
  bool ofNone = name != "reduce_sum" && name != "reduce_prod"; // reducing no element gives NaN or an infinity
  const std::vector<ViewSample> samples = {{"", "[]", ""},
                                           {"7", "[0]", "1"},
                                           {"1", "[0]", "1"},
                                           {"200", "[0]", "1"},
                                           {"0", "[0]", "1"},
                                           {"3x17", "[1]", "3x1"},
                                           {"3x17", "[0]", "1x17"},
                                           {"3x17", "[0, 1]", "1x1"},
                                           {"33x200", "[1]", "33x1"},
                                           {"200x33", "[0]", "1x33"},
                                           {"5x0", "[1]", "5x1"},
                                           {"5x0", "[0]", "1x0"},
                                           {"2x3x16", "[0]", "1x3x16"},
                                           {"2x3x16", "[1]", "2x1x16"},
                                           {"2x3x16", "[2]", "2x3x1"},
                                           {"2x3x16", "[0, 1]", "1x1x16"},
                                           {"2x3x16", "[0, 2]", "1x3x1"},
                                           {"2x3x16", "[0, 1, 2]", "1x1x1"},
                                           {"2x3x4x5", "[1, 3]", "2x1x4x1"}};
  for (const std::string &element : elements)
    for (const ViewSample &sample : samples) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        std::string from = tensor(sample.from, element), to = tensor(sample.to, element);
        OpCase &added =
            addCase(row.cases, name + "/" + sample.from + "/" + sample.attributes + "/" + element + suffix, {from},
                    "%r = tcc." + name + " %a axes " + sample.attributes + " : " + from + " -> " + to, {to}, {-1, 3});
        added.differentiable = !(ofNone && (sample.from == "0" || sample.from == "5x0"));
        return added;
      };
      add("");
      if (llvm::is_contained(floats, element) && StringRef(sample.from).contains("200"))
        withSpecials(add("/special"), Specials::some, tame);
    }
  if (name == "reduce_prod") // whose products of hundreds of elements are too large or small
    for (OpCase &opCase : row.cases)
      if (StringRef(opCase.name).contains("200") && opCase.specials == Specials::none)
        opCase.domains = {{0.95, 1.05}};
  row.errors = {
      error("reduce_c1", {"tensor<2x3xf32>"}, "%r = tcc." + name + " %a axes [2] : tensor<2x3xf32> -> tensor<2x3xf32>"),
      error("reduce_c1", {"tensor<2x3xf32>"},
            "%r = tcc." + name + " %a axes [1, 0] : tensor<2x3xf32> -> tensor<1x1xf32>"),
      error("reduce_c1", {"tensor<2x3xf32>"},
            "%r = tcc." + name + " %a axes [0, 0] : tensor<2x3xf32> -> tensor<1x3xf32>")};
  return row;
}

OpRow placeRow(const std::string &name) {
  OpRow row{"tcc." + name, {}, {}};
  struct Sample {
    std::string from, axis, to;
  };
  for (const Sample &sample : std::vector<Sample>{{"7", "0", "1"},
                                                  {"1", "0", "1"},
                                                  {"200", "0", "1"},
                                                  {"3x17", "1", "3x1"},
                                                  {"3x17", "0", "1x17"},
                                                  {"0x5", "1", "0x1"},
                                                  {"2x3x16", "1", "2x1x16"},
                                                  {"33x200", "1", "33x1"}})
    for (std::string element : {"f32", "bf16", "f16", "i32", "i64"}) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        const std::string from = tensor(sample.from, element), to = tensor(sample.to, "i32");
        return addCase(row.cases, name + "/" + sample.from + "/" + sample.axis + "/" + element + suffix, {from},
                       "%r = tcc." + name + " %a axis " + sample.axis + " : " + from + " -> " + to, {to}, {-5, 5});
      };
      add(""); // integers and 16-bit floats: with equal ones
      if (llvm::is_contained(floats, element))
        withSpecials(add("/special"), Specials::some, tame);
    }
  row.errors = {
      error(name + "_c1", {"tensor<3xf32>"}, "%r = tcc." + name + " %a axis 1 : tensor<3xf32> -> tensor<3xi32>"),
      error(name + "_c2", {"tensor<0xf32>"}, "%r = tcc." + name + " %a axis 0 : tensor<0xf32> -> tensor<1xi32>")};
  return row;
}

OpRow sortRow() {
  OpRow row{"tcc.sort", {}, {}};
  for (auto [shape, axis] : std::vector<std::pair<std::string, std::string>>{{"7", "0"},
                                                                             {"1", "0"},
                                                                             {"0", "0"},
                                                                             {"100", "0"},
                                                                             {"3x17", "1"},
                                                                             {"3x16", "0"},
                                                                             {"2x3x2", "1"},
                                                                             {"4x0", "0"}})
    for (std::string element : {"f32", "bf16", "f16", "i32", "i64"})
      for (std::string way : {"", " descending"}) {
        auto add = [&](const std::string &suffix) -> OpCase & {
          const std::string type = tensor(shape, element), places = tensor(shape, "i32");
          return addCase(row.cases, "sort/" + shape + "/" + axis + "/" + element + way + suffix, {type},
                         "%r:2 = tcc.sort %a axis " + axis + way + " : " + type + " -> " + type + ", " + places,
                         {type, places}, {-5, 5});
        };
        add(""); // integers and 16-bit floats: with equal ones
        if (llvm::is_contained(floats, element))
          withSpecials(add("/special"), Specials::some, tame);
      }
  row.errors = {
      error("sort_c1", {"tensor<3xf32>"}, "%r:2 = tcc.sort %a axis 1 : tensor<3xf32> -> tensor<3xf32>, tensor<3xi32>"),
      error("sort_c2", {"tensor<65537xf32>"},
            "%r:2 = tcc.sort %a axis 0 : tensor<65537xf32> -> tensor<65537xf32>, tensor<65537xi32>")};
  return row;
}

OpRow runningRow(const std::string &name) {
  OpRow row{"tcc." + name, {}, {}};
  for (auto [shape, axis] : std::vector<std::pair<std::string, std::string>>{{"7", "0"},
                                                                             {"1", "0"},
                                                                             {"0", "0"},
                                                                             {"100", "0"},
                                                                             {"3x17", "1"},
                                                                             {"3x17", "0"},
                                                                             {"2x3x16", "1"},
                                                                             {"4x0", "0"}})
    for (std::string element : {"f32", "bf16", "f16", "i32", "i64"}) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        const std::string type = tensor(shape, element);
        return addCase(row.cases, name + "/" + shape + "/" + axis + "/" + element + suffix, {type},
                       "%r = tcc." + name + " %a axis " + axis + " : " + type, {type}, {0.5, 1.5});
      };
      OpCase &added = add("");
      if (!llvm::is_contained(floats, element))
        added.domains = {{-40, 40}};
      else if (shape == "100")
        withSpecials(add("/special"), Specials::some, tame);
    }
  row.errors = {error(name + "_c1", {"tensor<3xf32>"}, "%r = tcc." + name + " %a axis 1 : tensor<3xf32>")};
  return row;
}

//===- indexing ------------------------------------------------------------------------------------------------===//

OpRow gatherRow() {
  OpRow row{"tcc.gather", {}, {}};
  struct Sample {
    std::string table, index, to;
    double rows;
  };
  for (const Sample &sample : std::vector<Sample>{{"5x4", "7", "7x4", 5},
                                                  {"33x17", "2x3", "2x3x17", 33},
                                                  {"9", "4", "4", 9},
                                                  {"5x4", "", "4", 5},
                                                  {"5x4", "0", "0x4", 5},
                                                  {"1x200", "3", "3x200", 1},
                                                  {"4x2x3", "5", "5x2x3", 4},
                                                  {"4x0", "5", "5x0", 4}})
    for (auto [element, index] : std::vector<std::pair<std::string, std::string>>{
             {"f32", "i32"}, {"f32", "i64"}, {"bf16", "i32"}, {"i32", "i32"}})
      for (bool outside : {false, true}) {
        std::string table = tensor(sample.table, element), at = tensor(sample.index, index),
                    to = tensor(sample.to, element);
        OpCase &added = addCase(
            row.cases,
            "gather/" + sample.table + "/" + sample.index + "/" + element + "/" + index + (outside ? "/outside" : ""),
            {table, at}, "%r = tcc.gather %a at %b : " + table + ", " + at + " -> " + to, {to}, {-100, 100});
        added.domains[1] = outside ? Domain{-2, sample.rows + 2} : Domain{0, sample.rows};
        added.differentiable = !outside; // NaN rows
      }
  row.errors = {error("gather_c1", {"tensor<f32>", "tensor<2xi32>"},
                      "%r = tcc.gather %a at %b : tensor<f32>, tensor<2xi32> -> tensor<2xf32>")};
  return row;
}

OpRow scatterAddRow() {
  OpRow row{"tcc.scatter_add", {}, {}};
  struct Sample {
    std::string base, index, rows;
    double count;
  };
  for (const Sample &sample : std::vector<Sample>{{"5x4", "7", "7x4", 5},
                                                  {"33x17", "2x3", "2x3x17", 33},
                                                  {"9", "4", "4", 9},
                                                  {"5x4", "", "4", 5},
                                                  {"5x4", "0", "0x4", 5},
                                                  {"3x16", "200", "200x16", 3},
                                                  {"4x2x3", "5", "5x2x3", 4}})
    for (auto [element, index] :
         std::vector<std::pair<std::string, std::string>>{{"f32", "i32"}, {"f32", "i64"}, {"bf16", "i32"}})
      for (bool outside : {false, true}) {
        std::string base = tensor(sample.base, element), at = tensor(sample.index, index),
                    rows = tensor(sample.rows, element);
        OpCase &added =
            addCase(row.cases,
                    "scatter_add/" + sample.base + "/" + sample.index + "/" + element + "/" + index +
                        (outside ? "/outside" : ""),
                    {base, at, rows}, "%r = tcc.scatter_add %a at %b, %c : " + base + ", " + at + ", " + rows, {base});
        added.domains[1] = outside ? Domain{-2, sample.count + 2} : Domain{0, sample.count};
      }
  row.errors = {error("scatter_add_c1", {"tensor<5x4xf32>", "tensor<7xi32>", "tensor<7x3xf32>"},
                      "%r = tcc.scatter_add %a at %b, %c : tensor<5x4xf32>, tensor<7xi32>, tensor<7x3xf32>"),
                error("scatter_add_c2", {"tensor<5x4xf32>", "tensor<7xi32>", "tensor<7x4xbf16>"},
                      "%r = tcc.scatter_add %a at %b, %c : tensor<5x4xf32>, tensor<7xi32>, tensor<7x4xbf16>")};
  return row;
}

//===- matmuls -------------------------------------------------------------------------------------------------===//

/// Matmuls with a bias, an addend and both; of a batch, of 16 bits into both types, with either type of bias.
void addEpilogues(OpRow &row) {
  struct Sample {
    std::string a, b, bias, to, element, biasElement, resultElement;
  };
  const std::vector<Sample> samples = {
      {"7x17", "17x33", "33", "7x33", "f32", "f32", "f32"},   {"7x17", "17x33", "33", "7x33", "bf16", "f32", "bf16"},
      {"7x17", "17x33", "33", "7x33", "bf16", "bf16", "f32"}, {"2x3x4", "4x5", "5", "2x3x5", "f32", "f32", "f32"},
      {"2x3x4", "2x4x5", "5", "2x3x5", "f32", "f32", "f32"},  {"3x0", "0x5", "5", "3x5", "f32", "f32", "f32"},
      {"4x3", "3x1", "1", "4x1", "f32", "f32", "f32"}};
  for (const Sample &sample : samples)
    for (int added = 1; added < 4; ++added) {
      const bool bias = added & 1, addend = added & 2;
      Strings arguments = {tensor(sample.a, sample.element), tensor(sample.b, sample.element)};
      std::string names = "%a, %b", types = arguments[0] + ", " + arguments[1];
      const std::string to = tensor(sample.to, sample.resultElement);
      auto take = [&](const std::string &word, const std::string &type) {
        names += " " + word + " %" + static_cast<char>('a' + arguments.size());
        types += " " + word + " " + type;
        arguments.push_back(type);
      };
      if (bias)
        take("bias", tensor(sample.bias, sample.biasElement));
      if (addend)
        take("addend", to);
      addCase(row.cases,
              "matmul/" + sample.a + "/" + sample.b + "/" + sample.element + "/" + sample.resultElement +
                  (bias ? "/bias " + sample.biasElement : "") + (addend ? "/addend" : ""),
              arguments,
              "%r = tcc.matmul " + names +
                  (sample.element == sample.resultElement ? "" : " {dtype = " + sample.resultElement + "}") + " : " +
                  types + " -> " + to,
              {to});
    }
}

OpRow matmulRow() {
  OpRow row{"tcc.matmul", {}, {}};
  struct Sample {
    std::string a, b;
    bool transposeA, transposeB;
    std::string to;
  };
  auto add = [&](const Sample &sample, const std::string &element, const std::string &resultElement,
                 const std::string &suffix) -> OpCase & {
    std::string a = tensor(sample.a, element), b = tensor(sample.b, element), to = tensor(sample.to, resultElement);
    std::string dtype = element == resultElement ? "" : " {dtype = " + resultElement + "}";
    return addCase(row.cases,
                   "matmul/" + sample.a + "/" + sample.b + (sample.transposeA ? "/ta" : "") +
                       (sample.transposeB ? "/tb" : "") + "/" + element + "/" + resultElement + suffix,
                   {a, b},
                   "%r = tcc.matmul %a" + std::string(sample.transposeA ? " transposed" : "") + ", %b" +
                       (sample.transposeB ? " transposed" : "") + dtype + " : " + a + ", " + b + " -> " + to,
                   {to});
  };
  const std::vector<Sample> samples = {
      {"1x1", "1x1", false, false, "1x1"},         {"7x17", "17x33", false, false, "7x33"},
      {"17x7", "17x33", true, false, "7x33"},      {"7x17", "33x17", false, true, "7x33"},
      {"17x7", "33x17", true, true, "7x33"},       {"16x16", "16x16", false, false, "16x16"},
      {"3x4", "4x2", false, false, "3x2"},         {"4x3", "2x4", true, true, "3x2"},
      {"33x200", "200x15", false, false, "33x15"}, {"2x3x4", "2x4x5", false, false, "2x3x5"},
      {"2x4x3", "2x4x5", true, false, "2x3x5"},    {"2x3x4", "2x5x4", false, true, "2x3x5"},
      {"2x4x3", "2x5x4", true, true, "2x3x5"},     {"2x3x7x5", "2x3x5x7", false, false, "2x3x7x7"},
      {"2x3x4", "4x5", false, false, "2x3x5"},     {"2x3x4", "5x4", false, true, "2x3x5"},
      {"0x4", "4x5", false, false, "0x5"},         {"3x0", "0x5", false, false, "3x5"},
      {"0x3x4", "4x5", false, false, "0x3x5"}};
  for (const Sample &sample : samples) {
    add(sample, "f32", "f32", "");
    add(sample, "bf16", "bf16", "");
    add(sample, "bf16", "f32", "");
  }
  add(samples[1], "f16", "f16", "");
  addEpilogues(row);
  withSpecials(add({"33x200", "200x15", false, false, "33x15"}, "f32", "f32", "/special"), Specials::some, tame);
  row.errors = {error("matmul_c1", {"tensor<2x3xf32>", "tensor<4x5xf32>"},
                      "%r = tcc.matmul %a, %b : tensor<2x3xf32>, tensor<4x5xf32> -> tensor<2x5xf32>"),
                error("matmul_c2", {"tensor<2x3x4xf32>", "tensor<3x4x5xf32>"},
                      "%r = tcc.matmul %a, %b : tensor<2x3x4xf32>, tensor<3x4x5xf32> -> tensor<2x3x5xf32>"),
                error("matmul_c3", {"tensor<2x4x3xf32>", "tensor<4x5xf32>"},
                      "%r = tcc.matmul %a transposed, %b : tensor<2x4x3xf32>, tensor<4x5xf32> -> tensor<2x3x5xf32>"),
                error("matmul_c4", {"tensor<2x3xf32>", "tensor<3x5xbf16>"},
                      "%r = tcc.matmul %a, %b : tensor<2x3xf32>, tensor<3x5xbf16> -> tensor<2x5xf32>"),
                error("matmul_c5", {"tensor<3xf32>", "tensor<3x5xf32>"},
                      "%r = tcc.matmul %a, %b : tensor<3xf32>, tensor<3x5xf32> -> tensor<5xf32>"),
                error("matmul_c6", {"tensor<2x3xf32>", "tensor<3x5xf32>", "tensor<2xf32>"},
                      "%r = tcc.matmul %a, %b bias %c : tensor<2x3xf32>, tensor<3x5xf32> bias tensor<2xf32> -> "
                      "tensor<2x5xf32>"),
                error("matmul_c6", {"tensor<2x3xf32>", "tensor<3x5xf32>", "tensor<5xf16>"},
                      "%r = tcc.matmul %a, %b bias %c : tensor<2x3xf32>, tensor<3x5xf32> bias tensor<5xf16> -> "
                      "tensor<2x5xf32>"),
                error("matmul_c7", {"tensor<2x3xf32>", "tensor<3x5xf32>", "tensor<5xf32>"},
                      "%r = tcc.matmul %a, %b addend %c : tensor<2x3xf32>, tensor<3x5xf32> addend tensor<5xf32> -> "
                      "tensor<2x5xf32>"),
                error("matmul_c7", {"tensor<2x3xf32>", "tensor<3x5xf32>", "tensor<2x5xbf16>"},
                      "%r = tcc.matmul %a, %b addend %c : tensor<2x3xf32>, tensor<3x5xf32> addend tensor<2x5xbf16> -> "
                      "tensor<2x5xf32>"),
                error("matmul_c8", {"tensor<2x3xf32>", "tensor<3x5xf32>"},
                      "%r = tcc.matmul %a, %b {dtype = bf16} : tensor<2x3xf32>, tensor<3x5xf32> -> tensor<2x5xbf16>"),
                error("matmul_c8", {"tensor<2x3xbf16>", "tensor<3x5xbf16>"},
                      "%r = tcc.matmul %a, %b {dtype = f16} : tensor<2x3xbf16>, tensor<3x5xbf16> -> tensor<2x5xf16>")};
  return row;
}

OpRow matmulGeluGradientRow() {
  OpRow row{"tcc.matmul_gelu_gradient", {}, {}};
  auto text = [](const std::string &a, const std::string &b, const std::string &x, bool transposed) {
    return "%r = tcc.matmul_gelu_gradient %a, %b" + std::string(transposed ? " transposed" : "") + " at %c : " + a +
           ", " + b + ", " + x + " -> " + x;
  };
  struct Sample {
    std::string a, b, to;
    bool transposed;
  };
  for (const Sample &sample : {Sample{"7x17", "17x33", "7x33", false}, Sample{"7x17", "33x17", "7x33", true},
                               Sample{"1x3", "3x1", "1x1", false}, Sample{"64x48", "96x48", "64x96", true},
                               Sample{"0x5", "5x3", "0x3", false}, Sample{"4x0", "0x3", "4x3", false}})
    for (const std::string &element : floats) {
      std::string a = tensor(sample.a, element), b = tensor(sample.b, element), x = tensor(sample.to, element);
      OpCase &added = addCase(
          row.cases, "matmul_gelu_gradient/" + sample.a + "/" + sample.b + (sample.transposed ? "/tb/" : "/") + element,
          {a, b, x}, text(a, b, x, sample.transposed), {x});
      added.domains[2] = {-4, 4};
    }
  const std::string a = "tensor<2x3xf32>", b = "tensor<3x4xf32>", x = "tensor<2x4xf32>";
  row.errors = {error("matmul_gelu_gradient_c1", {a, b, x}, text(a, b, x, true)),
                error("matmul_gelu_gradient_c1", {a, b, "tensor<2x4xbf16>"}, text(a, b, "tensor<2x4xbf16>", false)),
                error("matmul_gelu_gradient_c1", {a, b, a}, text(a, b, a, false))};
  return row;
}

//===- composites ----------------------------------------------------------------------------------------------===//

OpRow softmaxRow() {
  OpRow row{"tcc.softmax", {}, {}};
  for (const std::string &element : floats)
    for (std::string shape : {"", "1", "7", "200", "3x17", "16x33", "2x3x16", "4x0", "0x4"}) {
      auto add = [&](const std::string &suffix) -> OpCase & {
        std::string type = tensor(shape, element);
        return addCase(row.cases, "softmax/" + shape + "/" + element + suffix, {type}, "%r = tcc.softmax %a : " + type,
                       {type}, {-4, 4});
      };
      add("");
      if (shape == "16x33")
        withSpecials(add("/special"), Specials::some, tame);
    }
  return row;
}

OpRow normRow(const std::string &name, bool hasBias) {
  OpRow row{"tcc." + name, {}, {}};
  for (const std::string &element : floats)
    for (std::string shape : {"1", "7", "3x17", "16x33", "2x3x16", "5x200", "0x4"})
      for (bool loose : {false, true}) {
        std::string type = tensor(shape, element), vector = tensor(shape.substr(shape.rfind('x') + 1), "f32");
        Strings arguments = {type, vector};
        if (hasBias)
          arguments.push_back(vector);
        std::string body = "%r = tcc." + name + (hasBias ? " %a, %b, %c" : " %a, %b") +
                           (loose ? " {eps = 1.0e-2 : f64} : " : " : ") + type + ", " + vector +
                           (hasBias ? ", " + vector : "");
        std::string title = name + "/" + shape + "/" + element + (loose ? "/eps" : "");
        addCase(row.cases, title, arguments, body, {type});
        if (shape == "16x33")
          withSpecials(addCase(row.cases, title + "/special", arguments, body, {type}), Specials::some, tame);
      }
  std::string tail = hasBias ? ", tensor<3xf32>" : "";
  Strings arguments = {"tensor<2x3xf32>", "tensor<2xf32>"};
  if (hasBias)
    arguments.push_back("tensor<3xf32>");
  row.errors = {
      error(name + "_c1", arguments,
            "%r = tcc." + name + (hasBias ? " %a, %b, %c" : " %a, %b") + " : tensor<2x3xf32>, tensor<2xf32>" + tail)};
  const Strings fitting(hasBias ? 2 : 1, "tensor<3xf32>");
  Strings good = {"tensor<2x3xf32>"};
  good.insert(good.end(), fitting.begin(), fitting.end());
  for (const char *eps : {"-1.0e-5", "1.0e+60", "0x7FF8000000000000"}) // NaN
    row.errors.push_back(error(name + "_c2", good,
                               "%r = tcc." + name + (hasBias ? " %a, %b, %c" : " %a, %b") + " {eps = " + eps +
                                   " : f64} : tensor<2x3xf32>, tensor<3xf32>" + tail));
  return row;
}

OpRow linearRow() {
  OpRow row{"tcc.linear", {}, {}};
  struct Sample {
    std::string x, weight, bias, to;
  };
  for (const Sample &sample : std::vector<Sample>{{"7x17", "17x33", "33", "7x33"},
                                                  {"1x1", "1x1", "1", "1x1"},
                                                  {"2x3x4", "4x5", "5", "2x3x5"},
                                                  {"0x4", "4x5", "5", "0x5"},
                                                  {"16x64", "64x200", "200", "16x200"}})
    for (auto [element, weightElement] :
         std::vector<std::pair<std::string, std::string>>{{"f32", "f32"}, {"bf16", "bf16"}, {"bf16", "f32"}})
      for (bool hasBias : {false, true}) {
        std::string x = tensor(sample.x, element), weight = tensor(sample.weight, weightElement);
        std::string bias = tensor(sample.bias, weightElement), to = tensor(sample.to, element);
        Strings arguments = {x, weight};
        if (hasBias)
          arguments.push_back(bias);
        addCase(row.cases,
                "linear/" + sample.x + "/" + sample.weight + "/" + element + "/" + weightElement +
                    (hasBias ? "/bias" : ""),
                arguments,
                "%r = tcc.linear %a, %b" + std::string(hasBias ? ", %c : " : " : ") + x + ", " + weight +
                    (hasBias ? ", " + bias : "") + " -> " + to,
                {to});
      }
  row.errors = {
      error("linear_c1", {"tensor<2x3xf32>", "tensor<4x5xf32>"},
            "%r = tcc.linear %a, %b : tensor<2x3xf32>, tensor<4x5xf32> -> tensor<2x5xf32>"),
      error("linear_c2", {"tensor<2x4xf32>", "tensor<4x5xf32>", "tensor<4xf32>"},
            "%r = tcc.linear %a, %b, %c : tensor<2x4xf32>, tensor<4x5xf32>, tensor<4xf32> -> tensor<2x5xf32>")};
  return row;
}

OpRow crossEntropyRow() {
  OpRow row{"tcc.cross_entropy", {}, {}};
  struct Sample {
    std::string logits, targets;
    double classes;
  };
  for (const Sample &sample : std::vector<Sample>{{"7x17", "7", 17},
                                                  {"2x3x33", "2x3", 33},
                                                  {"5", "", 5},
                                                  {"16x200", "16", 200},
                                                  {"3x1", "3", 1},
                                                  {"0x4", "0", 4}})
    for (auto [element, index] :
         std::vector<std::pair<std::string, std::string>>{{"f32", "i32"}, {"f32", "i64"}, {"bf16", "i32"}})
      for (std::string kind : {"", "/ignoring", "/ignoring all", "/special"}) {
        std::string logits = tensor(sample.logits, element), targets = tensor(sample.targets, index);
        OpCase &added = addCase(
            row.cases, "cross_entropy/" + sample.logits + "/" + element + "/" + index + kind, {logits, targets},
            "%r = tcc.cross_entropy %a, %b : " + logits + ", " + targets + " -> tensor<f32>", {"tensor<f32>"}, {-4, 4});
        added.domains[1] = kind == "/ignoring"       ? Domain{-sample.classes, sample.classes}
                           : kind == "/ignoring all" ? Domain{-1, -1}
                                                     : Domain{0, sample.classes};
        // Where no row counts the mean is NaN.
        added.differentiable = kind.empty() || (kind == "/ignoring" && sample.targets != "" && sample.logits != "3x1");
        if (kind == "/special")
          withSpecials(added, Specials::some, tame);
      }
  row.errors = {error("cross_entropy_c1", {"tensor<2x3x5xf32>", "tensor<2xi32>"},
                      "%r = tcc.cross_entropy %a, %b : tensor<2x3x5xf32>, tensor<2xi32> -> tensor<f32>")};
  return row;
}

OpRow attentionRow() {
  OpRow row{"tcc.attention", {}, {}};
  struct Sample {
    std::string q, k;
    bool causal;
  };
  for (const Sample &sample : std::vector<Sample>{{"7x8", "7x8", true},
                                                  {"7x8", "7x8", false},
                                                  {"5x4", "9x4", false},
                                                  {"1x1", "1x1", true},
                                                  {"2x3x4", "2x3x4", true},
                                                  {"2x2x5x4", "2x2x5x4", true},
                                                  {"2x3x17x16", "2x3x17x16", true},
                                                  {"33x16", "33x16", true},
                                                  {"0x4x8", "0x4x8", true},
                                                  {"5x0", "5x0", false},
                                                  {"2x3x0", "2x3x0", true}})
    for (const std::string &element : floats) {
      std::string q = tensor(sample.q, element), k = tensor(sample.k, element);
      addCase(row.cases, "attention/" + sample.q + "/" + sample.k + (sample.causal ? "/causal/" : "/") + element,
              {q, k, k},
              "%r = tcc.attention %a, %b, %c " + std::string(sample.causal ? "causal " : "") + "scale 0.35 : " + q +
                  ", " + k + ", " + k,
              {q});
    }
  struct Masked {
    std::string q, k, mask;
    bool causal;
  };
  for (const Masked &sample : std::vector<Masked>{{"7x8", "9x8", "7x9", false},
                                                  {"2x2x5x4", "2x2x5x4", "2x1x1x5", true},
                                                  {"2x3x17x16", "2x3x33x16", "1x1x17x33", false},
                                                  {"1x2x70x8", "1x2x130x8", "1x2x70x130", false},
                                                  {"1x2x6x4", "1x2x1x4", "1x1x6x1", false}})
    for (const std::string &element : floats)
      for (std::string of : {"f32", "i1"}) {
        const std::string q = tensor(sample.q, element), k = tensor(sample.k, element), mask = tensor(sample.mask, of);
        addCase(row.cases, "attention/" + sample.q + "/" + sample.k + "/mask/" + sample.mask + "/" + of + "/" + element,
                {q, k, k, mask},
                "%r = tcc.attention %a, %b, %c mask %d " + std::string(sample.causal ? "causal " : "") +
                    "scale 0.35 : " + q + ", " + k + ", " + k + " mask " + mask,
                {q});
      }
  row.errors = {
      error("attention_c4", {"tensor<5x4xf32>", "tensor<4x5xi1>"},
            "%r = tcc.attention %a, %a, %a mask %b scale 0.5 : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32> mask "
            "tensor<4x5xi1>"),
      error("attention_c1", {"tensor<5x4xf32>", "tensor<5x3xf32>"},
            "%r = tcc.attention %a, %b, %b scale 0.5 : tensor<5x4xf32>, tensor<5x3xf32>, tensor<5x3xf32>"),
      error("attention_c2", {"tensor<5x4xf32>", "tensor<6x4xf32>"},
            "%r = tcc.attention %a, %b, %b causal scale 0.5 : tensor<5x4xf32>, tensor<6x4xf32>, tensor<6x4xf32>"),
      error("attention_c3", {"tensor<5x4xf32>"},
            "%r = tcc.attention %a, %a, %a scale 1.0e+60 : tensor<5x4xf32>, tensor<5x4xf32>, tensor<5x4xf32>")};
  return row;
}

struct FlashSample {
  std::string q, k, mask;   // shapes, and "diagonal D window W " or less
  std::string dropout = {}; // "rate R stream N ", its operands being seed and first
};

const std::vector<FlashSample> flashSamples = {{"1x7x2x4", "1x7x2x4", "diagonal 0 "},
                                               {"2x5x1x4", "2x9x1x4", ""},
                                               {"1x3x4x2", "1x3x2x2", "diagonal 0 "},
                                               {"1x4x2x3", "1x6x1x3", "diagonal 2 "},
                                               {"1x6x1x4", "1x4x1x4", "diagonal -2 "},
                                               {"1x9x1x4", "1x9x1x4", "diagonal 0 window 3 "},
                                               {"1x9x1x4", "1x9x1x4", "diagonal 2147483640 window 2147483645 "},
                                               {"1x9x1x4", "1x9x1x4", "diagonal 9223372036854775807 "},
                                               {"1x8x2x2", "1x3x2x2", "diagonal 0 window 2 "},
                                               {"2x17x3x16", "2x17x3x16", "diagonal 0 "},
                                               {"1x65x2x8", "1x65x1x8", "diagonal 0 "},
                                               {"0x4x2x8", "0x4x2x8", "diagonal 0 "},
                                               {"1x3x2x4", "1x0x2x4", ""},
                                               {"1x5x2x0", "1x5x2x0", "diagonal 0 "},
                                               {"2x3x2x0", "2x4x1x0", ""},
                                               {"2x17x2x4", "2x19x1x4", "", "rate 0.3 stream 5 "},
                                               {"2x18x2x4", "2x18x2x4", "diagonal 0 ", "rate 0.5 stream 70000 "}};

/// Appends the operands of a dropout, which come after the tensors: the types of seed and first, and how the text names
/// them.
void addDropout(const FlashSample &sample, Strings &types, std::string &attributes, std::string &operands) {
  if (sample.dropout.empty())
    return;
  auto name = [&] { return std::string("%") + static_cast<char>('a' + types.size()); };
  attributes = sample.dropout + "seed " + name() + " ";
  types.push_back("tensor<i32>");
  attributes += "first " + name() + " ";
  types.push_back("tensor<i32>");
  operands = ", tensor<i32>, tensor<i32>";
}

/// Rows without a visible key have the log-sum-exp -inf, whose gradient no difference can tell.
bool hasEmptyRows(const FlashSample &sample) {
  return sample.mask == "diagonal -2 " || sample.mask == "diagonal 0 window 2 " || sample.k == "1x0x2x4";
}

std::string lseOf(const FlashSample &sample) {
  SmallVector<StringRef> sizes;
  StringRef(sample.q).split(sizes, 'x');
  return tensor((sizes[0] + "x" + sizes[2] + "x" + sizes[1]).str(), "f32");
}

OpRow flashAttentionRow() {
  OpRow row{"tcc.flash_attention", {}, {}};
  auto text = [](const std::string &q, const std::string &k, const std::string &mask, const std::string &lse,
                 const std::string &dropout = "", const std::string &more = "") {
    return "%r:2 = tcc.flash_attention %a, %b, %c " + mask + "scale 0.35 " + dropout + ": (" + q + ", " + k + ", " + k +
           more + ") -> (" + q + ", " + lse + ")";
  };
  for (const FlashSample &sample : flashSamples)
    for (const std::string &element : floats) {
      std::string q = tensor(sample.q, element), k = tensor(sample.k, element), lse = lseOf(sample), dropout, more;
      Strings types = {q, k, k};
      addDropout(sample, types, dropout, more);
      OpCase &added = addCase(
          row.cases, "flash_attention/" + sample.q + "/" + sample.k + "/" + sample.mask + sample.dropout + element,
          types, text(q, k, sample.mask, lse, dropout, more), {q, lse});
      added.differentiable = !hasEmptyRows(sample);
      for (size_t i = 3; i < types.size(); ++i)
        added.domains[i] = {0, 1e9};
    }
  for (bool hides : {false, true}) // a bias of -inf hides
    for (auto [q, k, bias, lse] :
         std::vector<std::array<std::string, 4>>{{"1x7x2x4", "1x7x2x4", "1x2x7x7", "1x2x7"},
                                                 {"2x3x4x2", "2x5x2x2", "2x4x3x5", "2x4x3"},
                                                 {"1x70x2x8", "1x130x1x8", "1x2x70x130", "1x2x70"}})
      for (const std::string &element : floats) {
        const std::string query = tensor(q, element), key = tensor(k, element), added = tensor(bias, "f32"),
                          logs = tensor(lse, "f32");
        OpCase &made =
            addCase(row.cases, "flash_attention/" + q + "/" + k + "/bias" + (hides ? "/hides/" : "/") + element,
                    {query, key, key, added},
                    "%r:2 = tcc.flash_attention %a, %b, %c bias %d diagonal 60 scale 0.35 : (" + query + ", " + key +
                        ", " + key + ", " + added + ") -> (" + query + ", " + logs + ")",
                    {query, logs});
        made.differentiable = !hides;
        if (hides)
          made.domains[3] = {-infinity, -infinity};
      }
  const std::string q = "tensor<1x3x2x4xf32>", lse = "tensor<1x2x3xf32>", more = "tensor<1x3x3x4xf32>",
                    wide = "tensor<1x3x2x5xf32>";
  auto refused = [&](const std::string &label, const std::string &k, const std::string &mask) {
    row.errors.push_back(error(label, {q, k, k}, text(q, k, mask, lse)));
  };
  refused("flash_attention_c1", wide, "");
  refused("flash_attention_c2", more, "");
  refused("flash_attention_c3", q, "window 2 ");
  refused("flash_attention_c3", q, "diagonal 0 window 0 ");
  row.errors.push_back(error("flash_attention_c5", {q, q, q},
                             "%r:2 = tcc.flash_attention %a, %b, %c scale 1.0e+60 : (" + q + ", " + q + ", " + q +
                                 ") -> (" + q + ", " + lse + ")"));
  row.errors.push_back(error("flash_attention_c6", {q, q, q, "tensor<1x2x3x4xf32>"},
                             "%r:2 = tcc.flash_attention %a, %b, %c bias %d scale 0.5 : (" + q + ", " + q + ", " + q +
                                 ", tensor<1x2x3x4xf32>) -> (" + q + ", " + lse + ")"));
  auto refusedDropout = [&](const std::string &dropout, const std::string &types) {
    row.errors.push_back(error("flash_attention_c4", {q, q, q, "tensor<i32>"}, text(q, q, "", lse, dropout, types)));
  };
  refusedDropout("rate 0.5 stream 3 ", "");
  refusedDropout("rate 0.5 seed %d ", ", tensor<i32>");
  refusedDropout("stream 3 seed %d ", ", tensor<i32>");
  refusedDropout("first %d ", ", tensor<i32>");
  refusedDropout("rate 1.0 stream 3 seed %d ", ", tensor<i32>");
  return row;
}

/// Operands out and lse are arguments like the others, so that the op stands first: P is no softmax then, but what the
/// formulas say of it.
OpRow flashAttentionBackwardRow() {
  OpRow row{"tcc.flash_attention_backward", {}, {}};
  for (const FlashSample &sample : flashSamples)
    for (const std::string &element : floats) {
      std::string q = tensor(sample.q, element), k = tensor(sample.k, element), lse = lseOf(sample), dropout, more;
      Strings types = {q, k, k, q, lse, q};
      addDropout(sample, types, dropout, more);
      OpCase &added = addCase(
          row.cases,
          "flash_attention_backward/" + sample.q + "/" + sample.k + "/" + sample.mask + sample.dropout + element, types,
          "%r:3 = tcc.flash_attention_backward %a, %b, %c, %d, %e, %f " + sample.mask + "scale 0.35 " + dropout +
              ": (" + q + ", " + k + ", " + k + ", " + q + ", " + lse + ", " + q + more + ") -> (" + q + ", " + k +
              ", " + k + ")",
          {q, k, k});
      added.domains[4] = {1, 3};
      for (size_t i = 6; i < types.size(); ++i)
        added.domains[i] = {0, 1e9};
    }
  for (auto [q, k, bias, lse] :
       std::vector<std::array<std::string, 4>>{{"1x7x2x4", "1x7x2x4", "1x2x7x7", "1x2x7"},
                                               {"2x3x4x2", "2x5x2x2", "2x4x3x5", "2x4x3"},
                                               {"1x70x2x8", "1x130x1x8", "1x2x70x130", "1x2x70"}})
    for (const std::string &element : floats) {
      const std::string query = tensor(q, element), key = tensor(k, element), added = tensor(bias, "f32"),
                        logs = tensor(lse, "f32");
      OpCase &made =
          addCase(row.cases, "flash_attention_backward/" + q + "/" + k + "/bias/" + element,
                  {query, key, key, query, logs, query, added},
                  "%r:3 = tcc.flash_attention_backward %a, %b, %c, %d, %e, %f bias %g diagonal 60 scale 0.35 : (" +
                      query + ", " + key + ", " + key + ", " + query + ", " + logs + ", " + query + ", " + added +
                      ") -> (" + query + ", " + key + ", " + key + ")",
                  {query, key, key});
      made.domains[4] = {3, 5};
      made.domains[6] = {-0.5, 0.5};
      if (element == "f32") // scores' rounding is a relative error of P, and 130 terms are added: the formulas in f32,
        made.tolerance.floorUlps = 16; // op by op, are off by up to 16 ulps, by 4.6 in the middle of 60 draws
    }
  const std::string q = "tensor<1x3x2x4xf32>", lse = "tensor<1x3x2xf32>"; // [B, T, H], not [B, H, T]
  row.errors = {error("flash_attention_backward_c1", {q, q, q, q, lse, q},
                      "%r:3 = tcc.flash_attention_backward %a, %b, %c, %d, %e, %f scale 0.5 : (" + q + ", " + q + ", " +
                          q + ", " + q + ", " + lse + ", " + q + ") -> (" + q + ", " + q + ", " + q + ")")};
  return row;
}

/// The same sums as flash_attention_backward's, where keys and queries have as many rows.
OpRow packedGradientRow() {
  OpRow row{"tcc.flash_attention_packed_gradient", {}, {}};
  auto text = [](const std::string &q, const std::string &k, const std::string &mask, const std::string &lse,
                 const std::string &dropout, const std::string &more, const std::string &packed) {
    return "%r = tcc.flash_attention_packed_gradient %a, %b, %c, %d, %e, %f " + mask + "scale 0.35 " + dropout + ": (" +
           q + ", " + k + ", " + k + ", " + q + ", " + lse + ", " + q + more + ") -> " + packed;
  };
  auto sizesOf = [](const std::string &shape) {
    SmallVector<StringRef> parts;
    StringRef(shape).split(parts, 'x');
    SmallVector<int64_t> sizes;
    for (StringRef part : parts)
      sizes.push_back(std::stoll(part.str()));
    return sizes;
  };
  for (const FlashSample &sample : flashSamples) {
    SmallVector<int64_t> q = sizesOf(sample.q), k = sizesOf(sample.k);
    if (q[1] != k[1])
      continue;
    std::string packed = std::to_string(q[0]) + "x" + std::to_string(q[1]) + "x" + std::to_string(q[2] + 2 * k[2]) +
                         "x" + std::to_string(q[3]);
    for (const std::string &element : floats) {
      std::string query = tensor(sample.q, element), key = tensor(sample.k, element), lse = lseOf(sample), dropout,
                  more;
      Strings types = {query, key, key, query, lse, query};
      addDropout(sample, types, dropout, more);
      OpCase &added = addCase(
          row.cases,
          "flash_attention_packed_gradient/" + sample.q + "/" + sample.k + "/" + sample.mask + sample.dropout + element,
          types, text(query, key, sample.mask, lse, dropout, more, tensor(packed, element)), {tensor(packed, element)});
      added.domains[4] = {1, 3};
      for (size_t i = 6; i < types.size(); ++i)
        added.domains[i] = {0, 1e9};
    }
  }
  const std::string q = "tensor<1x3x2x4xf32>", k = "tensor<1x5x2x4xf32>", lse = "tensor<1x2x3xf32>",
                    wrong = "tensor<1x3x2xf32>", packed = "tensor<1x3x6x4xf32>"; // [B, T, H], not [B, H, T]
  row.errors = {
      error("flash_attention_packed_gradient_c1", {q, q, q, q, wrong, q}, text(q, q, "", wrong, "", "", packed)),
      error("flash_attention_packed_gradient_c2", {q, k, k, q, lse, q}, text(q, k, "", lse, "", "", packed))};
  return row;
}

OpRow dropoutRow() {
  OpRow row{"tcc.dropout", {}, {}};
  for (std::string rate : {"0.0", "0.1", "0.5", "0.9"})
    for (const std::string &element : floats)
      for (const std::string &shape : rate == "0.1" ? shapes : Strings{"3x17"}) {
        std::string type = tensor(shape, element);
        OpCase &added =
            addCase(row.cases, "dropout/" + rate + "/" + shape + "/" + element, {type, "tensor<i32>"},
                    "%r = tcc.dropout %a, %b rate " + rate + " stream 5 : " + type + ", tensor<i32>", {type});
        added.domains[1] = {0, 1e9};
      }
  OpCase &part = addCase(row.cases, "dropout/first", {"tensor<3x17x5xf32>", "tensor<i32>", "tensor<i32>"},
                         "%r = tcc.dropout %a, %b rate 0.5 stream 5 first %c : tensor<3x17x5xf32>, tensor<i32>",
                         {"tensor<3x17x5xf32>"});
  part.domains[1] = part.domains[2] = {0, 1e9};
  row.errors = {error("dropout_c1", {"tensor<5xf32>", "tensor<i32>"},
                      "%r = tcc.dropout %a, %b rate 1.0 stream 0 : tensor<5xf32>, tensor<i32>"),
                error("dropout_c2", {"tensor<f32>", "tensor<i32>"},
                      "%r = tcc.dropout %a, %b rate 0.5 stream 0 first %b : tensor<f32>, tensor<i32>")};
  return row;
}

OpRow adamwRow() {
  OpRow row{"tcc.adamw", {}, {}};
  for (auto [element, gradientElement] :
       std::vector<std::pair<std::string, std::string>>{{"f32", "f32"}, {"bf16", "bf16"}, {"bf16", "f32"}})
    for (const std::string &shape : element == "f32" ? shapes : fewShapes)
      for (std::string kind : {"/apply", "/keep", "/no decay", "/special"}) {
        std::string p = tensor(shape, element), g = tensor(shape, gradientElement), m = tensor(shape, "f32");
        std::string decay = kind == "/no decay" ? "0.0" : "0.1", scalar = "tensor<f32>";
        OpCase &added = addCase(
            row.cases, "adamw/" + shape + "/" + element + "/" + gradientElement + kind,
            {p, g, m, m, scalar, scalar, scalar, "tensor<i1>"},
            "%r:3 = tcc.adamw %a, %b, %c, %d lr %e step %f scale %g apply %h {beta1 = 0.9 : f64, beta2 = 0.95 : f64, "
            "eps = 1.0e-8 : f64, weight_decay = " +
                decay + " : f64} : " + p + ", " + g + ", " + m,
            {p, m, m});
        double apply = kind == "/keep" || kind == "/special" ? 0 : 1;
        added.domains = {{-2, 2}, {-1, 1}, {-1, 1}, {0.01, 1}, {0.001, 0.01}, {1, 10}, {0.5, 1}, {apply, apply}};
        if (kind == "/special") // not applied: every value stays, whatever it is
          withSpecials(added, Specials::all, tame);
      }
  auto refused = [&](const std::string &label, const std::string &attributes) {
    row.errors.push_back(error(label, {"tensor<3xf32>", "tensor<f32>", "tensor<i1>"},
                               "%r:3 = tcc.adamw %a, %a, %a, %a lr %b step %b scale %b apply %c {" + attributes +
                                   "} : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>"));
  };
  refused("adamw_c1", "beta1 = 1.0 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64");
  refused("adamw_c1", "beta1 = 0.9 : f64, beta2 = -0.1 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64");
  refused("adamw_c2", "beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = -1.0e-8 : f64, weight_decay = 0.1 : f64");
  refused("adamw_c3", "beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 1.0e+60 : f64");
  return row;
}

OpRow customRow() {
  OpRow row{"tcc.custom", {}, {}};
  for (const std::string &element : floats)
    for (const std::string &shape : element == "f32" ? shapes : fewShapes) {
      const std::string t = tensor(shape, element);
      addCase(row.cases, "custom/gradient/" + shape + "/" + element, {t},
              "%r = tcc.custom \"cap\" (%x = %a : " + t + ") -> " + t + " {\n    %y = tcc.tanh %x : " + t +
                  "\n    tcc.yield %y : " + t + "\n  } gradient (%x: " + t + ", %y: " + t + ", %d: " + t +
                  ") {\n    %q = tcc.mul %y, %y : " + t + "\n    %p = tcc.mul %d, %q : " + t +
                  "\n    %g = tcc.sub %d, %p : " + t + "\n    tcc.yield %g : " + t + "\n  }",
              {t});
      addCase(row.cases, "custom/two results/" + shape + "/" + element, {t, "tensor<3xi32>"},
              "%r:2 = tcc.custom \"both\" (%x = %a : " + t + ", %i = %b : tensor<3xi32>) -> (tensor<3xi32>, " + t +
                  ") {\n    %j = tcc.add %i, %i : tensor<3xi32>\n    %y = tcc.neg %x : " + t +
                  "\n    tcc.yield %j, %y : tensor<3xi32>, " + t + "\n  } gradient (%x: " + t +
                  ", %i: tensor<3xi32>, %j: tensor<3xi32>, %y: " + t + ", %d: " + t +
                  ") {\n    %g = tcc.neg %d : " + t + "\n    tcc.yield %g : " + t + "\n  }",
              {"tensor<3xi32>", t});
    }
  const std::string t = "tensor<3xf32>", body = " {\n    tcc.yield %x : tensor<3xf32>\n  }";
  const std::string op = "%r = tcc.custom \"f\" (%x = %a : " + t + ") -> " + t;
  row.errors = {error("custom_c1", {t},
                      "%r = \"tcc.custom\"(%a) <{called = \"f\"}> ({\n  ^bb0(%x: tensor<4xf32>):\n    tcc.yield %x : "
                      "tensor<4xf32>\n  }, {}) : (tensor<3xf32>) -> tensor<4xf32>"),
                error("custom_c2", {t}, "%r = tcc.custom \"f\" (%x = %a : " + t + ") -> tensor<4xf32>" + body),
                error("custom_c3", {t}, op + body + " gradient (%x: " + t + ") {\n    tcc.yield %x : " + t + "\n  }"),
                error("custom_c4", {t}, "%r = tcc.custom \"f\" (%a : " + t + ") -> " + t),
                error("custom_c5", {t}, op + " attributes {library = \"f.so\"}" + body),
                error("custom_c6", {t}, "%r = tcc.custom \"2f\" (%x = %a : " + t + ") -> " + t + body),
                error("custom_c7", {t}, op + " attributes {block = array<i64: 64, 32>}" + body)};
  return row;
}

std::vector<OpRow> makeTable() {
  const std::vector<double> whole = {nan, infinity, -infinity, 0.0,     -0.0,      0.5,        -0.5, 1.5,
                                     2.5, -2.5,     0.4999999, -0.9999, 8388607.5, -8388608.0, 1e30};
  const Strings numbers = {"f32", "bf16", "f16", "i32", "i64"};
  return {elementwise("neg", 1, {}, numbers),
          elementwise("abs", 1, {}, numbers),
          elementwise("exp", 1, {-5, 5}),
          elementwise("log", 1, {0.1, 10}),
          elementwise("sqrt", 1, {0.01, 10}),
          elementwise("rsqrt", 1, {0.01, 10}),
          elementwise("tanh", 1, {-4, 4}),
          elementwise("sin", 1, {-10, 10}, floats),
          elementwise("cos", 1, {-10, 10}, floats),
          elementwise("erf", 1, {-3, 3}),
          elementwise("expm1", 1, {-5, 5}),
          elementwise("log1p", 1, {-0.9, 10}),
          elementwise("floor", 1, {-5, 5}, floats, whole),
          elementwise("ceil", 1, {-5, 5}, floats, whole),
          elementwise("round", 1, {-5, 5}, floats, whole),
          elementwise("trunc", 1, {-5, 5}, floats, whole),
          elementwise("sign", 1, {}, numbers),
          elementwise("not", 1, {}, {"i1", "i32", "i64"}),
          elementwise("add", 2, {}, numbers),
          elementwise("sub", 2, {}, numbers),
          elementwise("mul", 2, {}, numbers),
          elementwise("div", 2, {0.5, 3}),
          elementwise("maximum", 2, {}, numbers),
          elementwise("minimum", 2, {}, numbers),
          powRow(),
          roundingDivision("fmod"),
          roundingDivision("remainder"),
          roundingDivision("floor_divide"),
          elementwise("and", 2, {}, {"i1", "i32", "i64"}),
          elementwise("or", 2, {}, {"i1", "i32", "i64"}),
          elementwise("xor", 2, {}, {"i1", "i32", "i64"}),
          clampRow(),
          compareRow(),
          isFiniteRow(),
          selectRow(),
          castRow(),
          castByBitsRow(),
          elementwise("detach", 1, {}, {"f32", "bf16", "f16", "i32", "i64", "i1"}),
          itemRow(),
          constantRow(),
          iotaRow(),
          randomBitsRow(),
          broadcastRow(),
          reshapeRow(),
          transposeRow(),
          sliceRow(),
          padRow(),
          windowRow(),
          concatRow(),
          reductionRow("reduce_sum", numbers),
          reductionRow("reduce_max", numbers),
          reductionRow("reduce_prod", numbers),
          gatherRow(),
          scatterAddRow(),
          matmulRow(),
          matmulGeluGradientRow(),
          elementwise("gelu", 1, {-4, 4}),
          elementwise("gelu_gradient", 2, {-4, 4}),
          elementwise("sigmoid", 1, {-4, 4}),
          elementwise("sigmoid_gradient", 2, {-4, 4}),
          elementwise("silu", 1, {-4, 4}),
          elementwise("silu_gradient", 2, {-4, 4}),
          elementwise("softplus", 1, {-4, 4}),
          elementwise("relu", 1, {-2, 2}),
          softmaxRow(),
          reductionRow("reduce_mean", floats),
          reductionRow("reduce_min", numbers),
          placeRow("argmax"),
          placeRow("argmin"),
          runningRow("cumsum"),
          sortRow(),
          runningRow("cumprod"),
          normRow("layer_norm", true),
          normRow("rms_norm", false),
          linearRow(),
          crossEntropyRow(),
          flashAttentionRow(),
          flashAttentionBackwardRow(),
          packedGradientRow(),
          foldRow(),
          convolutionRow(),
          attentionRow(),
          dropoutRow(),
          stochasticCastRow(),
          adamwRow(),
          customRow()};
}

} // namespace

ArrayRef<OpRow> opTable() {
  static const std::vector<OpRow> table = [] {
    std::vector<OpRow> rows = makeTable();
    llvm::append_range(rows, controlRows());
    llvm::append_range(rows, collectiveRows());
    return rows;
  }();
  return table;
}

ArrayRef<ErrorCase> structuralErrors() {
  static const std::vector<ErrorCase> errors = {
      error("gradient_c1", {"tensor<3xf32>"}, "%r = tcc.gradient %a wrt %a : tensor<3xf32>, tensor<3xf32>"),
      error("gradient_c2", {"tensor<f32>", "tensor<3xi32>"},
            "%r = tcc.gradient %a wrt %b : tensor<f32>, tensor<3xi32>"),
      error("print_c1", {},
            "builtin.module {\n    %x = tcc.constant dense<1.0> : tensor<f32>\n    tcc.print \"x\", %x : "
            "tensor<f32>\n  }"),
      error("print_c2", {"tensor<3xf32>"}, "tcc.print \"\", %a : tensor<3xf32>"),
      error("kernel_c1", {"tensor<3xf32>"},
            "%r = \"tcc.kernel\"(%a) ({\n  ^bb0(%x: tensor<4xf32>):\n    tcc.yield %x : tensor<4xf32>\n  }) : "
            "(tensor<3xf32>) -> tensor<4xf32>"),
      error("kernel_c2", {"tensor<3xf32>"},
            "%r = tcc.kernel (%x = %a : tensor<3xf32>) -> tensor<4xf32> {\n    tcc.yield %x : tensor<3xf32>\n  }"),
      error("kernel_c3", {"tensor<3x3xf32>"},
            "%r = tcc.kernel (%x = %a : tensor<3x3xf32>) -> tensor<3x3xf32> {\n    %y = tcc.matmul %x, %x : "
            "tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>\n    tcc.yield %y : tensor<3x3xf32>\n  }")};
  return errors;
}

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registerDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

OwningOpRef<ModuleOp> parseText(MLIRContext &context, StringRef text, std::string &messages) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
    return success();
  });
  return parseSourceString<ModuleOp>(text, &context);
}

func::FuncOp mainOf(ModuleOp module) {
  return module.lookupSymbol<func::FuncOp>("main");
}

std::vector<RefTensor> makeInputs(func::FuncOp function, const OpCase &opCase, uint64_t seed) {
  std::vector<RefTensor> inputs;
  size_t special = 0; // the number of float arguments seen
  for (auto [number, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensorType = cast<RankedTensorType>(type);
    auto [low, high] = opCase.domains[number];
    RefTensor input =
        low == high ? splatTensor(tensorType, low) : randomTensor(tensorType, seed + 1000 * number, low, high);
    if (isa<FloatType>(tensorType.getElementType()) && opCase.specials != Specials::none) {
      size_t count = opCase.values.size();
      for (size_t i = 0; i < input.data.size(); ++i) {
        if (opCase.specials == Specials::all)
          input.data[i] = opCase.values[(special % 2 ? i / count : i) % count];
        else if (i % 97 == 5 + special)
          input.data[i] = opCase.values[(i / 97) % count];
      }
      roundToElement(input);
      ++special;
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

} // namespace tcc::test
