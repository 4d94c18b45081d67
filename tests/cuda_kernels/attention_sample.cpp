#include "tests/cuda_kernels/attention_sample.h"
#include <vector>

namespace tcc::test {
namespace {

std::string type(const std::vector<int64_t> &sizes, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string list(const std::vector<int64_t> &numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

/// %to: `count` heads of %from [B, rows, all, d], from head `first` on.
std::string heads(const std::string &to, const std::string &from, const AttentionSample &s, int64_t rows, int64_t all,
                  int64_t first, int64_t count) {
  return "  %" + to + " = tcc.slice %" + from + " " + list({0, 0, first, 0}) + " to " +
         list({s.batch, rows, first + count, s.width}) + " : " + type({s.batch, rows, all, s.width}, s.element) +
         " -> " + type({s.batch, rows, count, s.width}, s.element) + "\n";
}

/// %to: the f32 rows %from as heads of the element type.
std::string rounded(const std::string &to, const std::string &from, const AttentionSample &s, int64_t rows,
                    int64_t count) {
  std::string flat = type({s.batch, rows, count * s.width}, "f32");
  std::string narrow = type({s.batch, rows, count * s.width}, s.element);
  return "  %" + to + "_flat = tcc.cast %" + from + " : " + flat + " -> " + narrow + "\n  %" + to + " = tcc.reshape %" +
         to + "_flat : " + narrow + " -> " + type({s.batch, rows, count, s.width}, s.element) + "\n";
}

/// A dropout as the function's arguments, in the op's text, and among its operands' types.
struct DropoutText {
  std::string arguments, text, types;
  explicit DropoutText(const AttentionSample &s) {
    if (!s.seed)
      return;
    const std::string type = std::string("tensor<") + s.seed + ">";
    arguments = ", %seed: " + type + (s.hasFirst ? ", %first: tensor<i32>" : "");
    text = std::string("rate 0.3 stream 5 seed %seed ") + (s.hasFirst ? "first %first " : "");
    types = ", " + type + (s.hasFirst ? ", tensor<i32>" : "");
  }
};

/// A bias as the function's argument, the lines that make %bias of it, in the op's text, and among its operands' types.
struct BiasText {
  std::string arguments, lines, text, types;
  explicit BiasText(const AttentionSample &s) {
    if (s.bias.empty())
      return;
    const std::string given = type(s.bias, "f32"), all = type({s.batch, s.heads, s.queries, s.keys}, "f32");
    arguments = ", %m: " + given;
    lines = "  %low = tcc.constant dense<-1.0> : " + given + "\n  %none = tcc.constant dense<0xFF800000> : " + given +
            "\n  %hides = tcc.compare lt %m, %low : " + given + " -> " + type(s.bias, "i1") +
            "\n  %some = tcc.select %hides, %none, %m : " + type(s.bias, "i1") + ", " + given +
            "\n  %bias = tcc.broadcast %some : " + given + " -> " + all + "\n";
    text = "bias %bias ";
    types = ", " + all;
  }
};

} // namespace

std::string attentionGraph(const AttentionSample &s) {
  bool isPacked = s.queries == s.keys;
  const DropoutText dropout(s);
  const BiasText bias(s);
  std::string q = type({s.batch, s.queries, s.heads, s.width}, s.element);
  std::string k = type({s.batch, s.keys, s.keyHeads, s.width}, s.element);
  std::string lse = type({s.batch, s.heads, s.queries}, "f32");
  std::string out = type({s.batch, s.queries, s.heads, s.width}, "f32");
  std::string x = type({s.batch, s.queries, isPacked ? s.packed() : s.heads * s.width}, "f32");
  std::string y = type({s.batch, s.keys, 2 * s.keyHeads * s.width}, "f32");
  std::string text = "func.func @main(%x: " + x + ", %y: " + y + ", %w: " + out + bias.arguments + dropout.arguments +
                     ") -> (" + out + ", " + lse + ", " + x + ", " + y + ") {\n";
  int64_t all = isPacked ? s.heads + 2 * s.keyHeads : 2 * s.keyHeads, first = isPacked ? s.heads : 0;
  std::string source = isPacked ? "xh" : "yh";
  text += rounded("xh", "x", s, s.queries, isPacked ? all : s.heads);
  if (isPacked)
    text += heads("q", "xh", s, s.queries, all, 0, s.heads);
  else
    text += rounded("yh", "y", s, s.keys, all);
  text += heads("k", source, s, s.keys, all, first, s.keyHeads);
  text += heads("v", source, s, s.keys, all, first + s.keyHeads, s.keyHeads);
  text += bias.lines;
  text += "  %o:2 = tcc.flash_attention " + std::string(isPacked ? "%q" : "%xh") + ", %k, %v " + bias.text + s.mask +
          "scale 0.125 " + dropout.text + ": (" + q + ", " + k + ", " + k + bias.types + dropout.types + ") -> (" + q +
          ", " + lse + ")\n";
  text += "  %wide = tcc.cast %o#0 : " + q + " -> " + out + "\n  %weighted = tcc.mul %wide, %w : " + out + "\n";
  text += "  %sum = tcc.reduce_sum %weighted axes [0, 1, 2, 3] : " + out + " -> tensor<1x1x1x1xf32>\n";
  text += "  %loss = tcc.reshape %sum : tensor<1x1x1x1xf32> -> tensor<f32>\n";
  text += "  %d:2 = tcc.gradient %loss wrt %x, %y : tensor<f32>, " + x + ", " + y + "\n";
  return text + "  func.return %wide, %o#1, %d#0, %d#1 : " + out + ", " + lse + ", " + x + ", " + y + "\n}\n";
}

} // namespace tcc::test
