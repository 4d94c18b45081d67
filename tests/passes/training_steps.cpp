// The training steps as text: one small step for each part of a GPT (layer norm, MLP, attention, cross entropy, rotary
// positions) and one for a whole GPT with AdamW. Each returns a loss and gradients or updated states.
#include "tests/passes/training_steps.h"
#include <stdexcept>

namespace tcc::test {
namespace {

constexpr const char *layerNorm = R"(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>, %t: tensor<2x4x8xf32>)
    -> (tensor<f32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %y = tcc.layer_norm %x, %w, %b : tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %p = tcc.mul %y, %t : tensor<2x4x8xf32>
  %s = tcc.reduce_sum %p axes [0, 1, 2] : tensor<2x4x8xf32> -> tensor<1x1x1xf32>
  %loss = tcc.reshape %s : tensor<1x1x1xf32> -> tensor<f32>
  %dx, %dw, %db = tcc.gradient %loss wrt %x, %w, %b : tensor<f32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
  return %loss, %dx, %dw, %db : tensor<f32>, tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
})";

constexpr const char *mlp = R"(
func.func @main(%x: tensor<2x4x8xf32>, %w1: tensor<8x16xf32>, %b1: tensor<16xf32>, %w2: tensor<16x8xf32>,
    %b2: tensor<8xf32>)
    -> (tensor<f32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<2x4x8xf32>) {
  %h = tcc.linear %x, %w1, %b1 : tensor<2x4x8xf32>, tensor<8x16xf32>, tensor<16xf32> -> tensor<2x4x16xf32>
  %g = tcc.gelu %h : tensor<2x4x16xf32>
  %y0 = tcc.linear %g, %w2, %b2 : tensor<2x4x16xf32>, tensor<16x8xf32>, tensor<8xf32> -> tensor<2x4x8xf32>
  %y = tcc.add %x, %y0 : tensor<2x4x8xf32>
  %q = tcc.mul %y, %y : tensor<2x4x8xf32>
  %m = tcc.reduce_mean %q axes [0, 1, 2] : tensor<2x4x8xf32> -> tensor<1x1x1xf32>
  %loss = tcc.reshape %m : tensor<1x1x1xf32> -> tensor<f32>
  %dw1, %db1, %dw2, %db2, %dx = tcc.gradient %loss wrt %w1, %b1, %w2, %b2, %x
    : tensor<f32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<2x4x8xf32>
  return %loss, %dw1, %db1, %dw2, %db2, %dx
    : tensor<f32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16x8xf32>, tensor<8xf32>, tensor<2x4x8xf32>
})";

constexpr const char *attention = R"(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<8x24xf32>, %b: tensor<24xf32>, %t: tensor<2x4x8xf32>)
    -> (tensor<f32>, tensor<2x4x8xf32>, tensor<8x24xf32>, tensor<24xf32>) {
  %p = tcc.linear %x, %w, %b : tensor<2x4x8xf32>, tensor<8x24xf32>, tensor<24xf32> -> tensor<2x4x24xf32>
  %q0 = tcc.slice %p [0, 0, 0] to [-1, -1, 8] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
  %k0 = tcc.slice %p [0, 0, 8] to [-1, -1, 16] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
  %v0 = tcc.slice %p [0, 0, 16] to [-1, -1, 24] : tensor<2x4x24xf32> -> tensor<2x4x8xf32>
  %q1 = tcc.reshape %q0 : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %k1 = tcc.reshape %k0 : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %v1 = tcc.reshape %v0 : tensor<2x4x8xf32> -> tensor<2x4x2x4xf32>
  %q = tcc.transpose %q1 [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %k = tcc.transpose %k1 [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %v = tcc.transpose %v1 [0, 2, 1, 3] : tensor<2x4x2x4xf32> -> tensor<2x2x4x4xf32>
  %a = tcc.attention %q, %k, %v causal scale 0.5 : tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>, tensor<2x2x4x4xf32>
  %a1 = tcc.transpose %a [0, 2, 1, 3] : tensor<2x2x4x4xf32> -> tensor<2x4x2x4xf32>
  %y = tcc.reshape %a1 : tensor<2x4x2x4xf32> -> tensor<2x4x8xf32>
  %m = tcc.mul %y, %t : tensor<2x4x8xf32>
  %s = tcc.reduce_sum %m axes [0, 1, 2] : tensor<2x4x8xf32> -> tensor<1x1x1xf32>
  %loss = tcc.reshape %s : tensor<1x1x1xf32> -> tensor<f32>
  %dx, %dw, %db = tcc.gradient %loss wrt %x, %w, %b : tensor<f32>, tensor<2x4x8xf32>, tensor<8x24xf32>, tensor<24xf32>
  return %loss, %dx, %dw, %db : tensor<f32>, tensor<2x4x8xf32>, tensor<8x24xf32>, tensor<24xf32>
})";

constexpr const char *crossEntropy = R"(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<10x8xf32>, %targets: tensor<2x4xi32>)
    -> (tensor<f32>, tensor<2x4x8xf32>, tensor<10x8xf32>) {
  %logits = tcc.matmul %x, %w transposed : tensor<2x4x8xf32>, tensor<10x8xf32> -> tensor<2x4x10xf32>
  %loss = tcc.cross_entropy %logits, %targets : tensor<2x4x10xf32>, tensor<2x4xi32> -> tensor<f32>
  %dx, %dw = tcc.gradient %loss wrt %x, %w : tensor<f32>, tensor<2x4x8xf32>, tensor<10x8xf32>
  return %loss, %dx, %dw : tensor<f32>, tensor<2x4x8xf32>, tensor<10x8xf32>
})";

// Rotary positions: the two halves of a row are rotated by an angle that depends on the position and on the pair of
// elements, then joined again.
constexpr const char *rotary = R"(
func.func @main(%x: tensor<2x4x8xf32>, %w: tensor<2x4x8xf32>) -> (tensor<f32>, tensor<2x4x8xf32>) {
  %position = tcc.iota dim 0 -> tensor<4x4xf32>
  %pair = tcc.iota dim 1 -> tensor<4x4xf32>
  %rate = tcc.constant dense<-0.5> : tensor<4x4xf32>
  %exponent = tcc.mul %pair, %rate : tensor<4x4xf32>
  %frequency = tcc.exp %exponent : tensor<4x4xf32>
  %angle = tcc.mul %position, %frequency : tensor<4x4xf32>
  %cos0 = tcc.cos %angle : tensor<4x4xf32>
  %sin0 = tcc.sin %angle : tensor<4x4xf32>
  %cos = tcc.broadcast %cos0 : tensor<4x4xf32> -> tensor<2x4x4xf32>
  %sin = tcc.broadcast %sin0 : tensor<4x4xf32> -> tensor<2x4x4xf32>
  %a = tcc.slice %x [0, 0, 0] to [-1, -1, 4] : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %b = tcc.slice %x [0, 0, 4] to [-1, -1, 8] : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
  %ac = tcc.mul %a, %cos : tensor<2x4x4xf32>
  %bs = tcc.mul %b, %sin : tensor<2x4x4xf32>
  %as = tcc.mul %a, %sin : tensor<2x4x4xf32>
  %bc = tcc.mul %b, %cos : tensor<2x4x4xf32>
  %left = tcc.sub %ac, %bs : tensor<2x4x4xf32>
  %right = tcc.add %as, %bc : tensor<2x4x4xf32>
  %y = tcc.concat %left, %right axis 2 : tensor<2x4x4xf32>, tensor<2x4x4xf32> -> tensor<2x4x8xf32>
  %m = tcc.mul %y, %w : tensor<2x4x8xf32>
  %s = tcc.reduce_sum %m axes [0, 1, 2] : tensor<2x4x8xf32> -> tensor<1x1x1xf32>
  %loss = tcc.reshape %s : tensor<1x1x1xf32> -> tensor<f32>
  %dx = tcc.gradient %loss wrt %x : tensor<f32>, tensor<2x4x8xf32>
  return %loss, %dx : tensor<f32>, tensor<2x4x8xf32>
})";

constexpr const char *gpt = R"(
func.func @main(%tokens: tensor<2x4xi32> {tcc.name = "tokens"}, %targets: tensor<2x4xi32> {tcc.name = "targets"},
    %lr: tensor<f32> {tcc.name = "lr"}, %step: tensor<f32> {tcc.name = "step"},
    %wte: tensor<16x8xf32> {tcc.name = "wte", tcc.state}, %wte_m: tensor<16x8xf32> {tcc.name = "wte.m", tcc.state},
    %wte_v: tensor<16x8xf32> {tcc.name = "wte.v", tcc.state},
    %wpe: tensor<4x8xf32> {tcc.name = "wpe", tcc.state}, %wpe_m: tensor<4x8xf32> {tcc.name = "wpe.m", tcc.state},
    %wpe_v: tensor<4x8xf32> {tcc.name = "wpe.v", tcc.state},
    %g: tensor<8xf32> {tcc.name = "ln.weight", tcc.state}, %bias: tensor<8xf32> {tcc.name = "ln.bias", tcc.state})
    -> (tensor<f32>, tensor<f32>, tensor<16x8xf32> {tcc.updates = "wte"}, tensor<16x8xf32> {tcc.updates = "wte.m"},
        tensor<16x8xf32> {tcc.updates = "wte.v"}, tensor<4x8xf32> {tcc.updates = "wpe"},
        tensor<4x8xf32> {tcc.updates = "wpe.m"}, tensor<4x8xf32> {tcc.updates = "wpe.v"},
        tensor<8xf32> {tcc.updates = "ln.weight"}, tensor<8xf32> {tcc.updates = "ln.bias"}) {
  %e = tcc.gather %wte at %tokens : tensor<16x8xf32>, tensor<2x4xi32> -> tensor<2x4x8xf32>
  %p = tcc.broadcast %wpe : tensor<4x8xf32> -> tensor<2x4x8xf32>
  %x = tcc.add %e, %p : tensor<2x4x8xf32>
  %h0 = tcc.layer_norm %x, %g, %bias : tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %h1 = tcc.gelu %h0 : tensor<2x4x8xf32>
  %h = tcc.add %h1, %x : tensor<2x4x8xf32>
  %logits = tcc.matmul %h, %wte transposed : tensor<2x4x8xf32>, tensor<16x8xf32> -> tensor<2x4x16xf32>
  %loss = tcc.cross_entropy %logits, %targets : tensor<2x4x16xf32>, tensor<2x4xi32> -> tensor<f32>
  %dwte, %dwpe, %dg, %db = tcc.gradient %loss wrt %wte, %wpe, %g, %bias
    : tensor<f32>, tensor<16x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  %s0 = tcc.mul %dwte, %dwte : tensor<16x8xf32>
  %s1 = tcc.mul %dwpe, %dwpe : tensor<4x8xf32>
  %n0 = tcc.reduce_sum %s0 axes [0, 1] : tensor<16x8xf32> -> tensor<1x1xf32>
  %n1 = tcc.reduce_sum %s1 axes [0, 1] : tensor<4x8xf32> -> tensor<1x1xf32>
  %n2 = tcc.add %n0, %n1 : tensor<1x1xf32>
  %n3 = tcc.sqrt %n2 : tensor<1x1xf32>
  %norm = tcc.reshape %n3 : tensor<1x1xf32> -> tensor<f32>
  %one = tcc.constant dense<1.0> : tensor<f32>
  %ratio = tcc.div %one, %norm : tensor<f32>
  %scale = tcc.minimum %one, %ratio : tensor<f32>
  %apply = tcc.is_finite %norm : tensor<f32> -> tensor<i1>
  %wte2, %wte_m2, %wte_v2 = tcc.adamw %wte, %dwte, %wte_m, %wte_v lr %lr step %step scale %scale apply %apply
    {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}
    : tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>
  %wpe2, %wpe_m2, %wpe_v2 = tcc.adamw %wpe, %dwpe, %wpe_m, %wpe_v lr %lr step %step scale %scale apply %apply
    {beta1 = 0.9 : f64, beta2 = 0.95 : f64, eps = 1.0e-8 : f64, weight_decay = 0.1 : f64}
    : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  %rate = tcc.broadcast %lr : tensor<f32> -> tensor<8xf32>
  %dg1 = tcc.mul %dg, %rate : tensor<8xf32>
  %g2 = tcc.sub %g, %dg1 : tensor<8xf32>
  %db1 = tcc.mul %db, %rate : tensor<8xf32>
  %bias2 = tcc.sub %bias, %db1 : tensor<8xf32>
  return %loss, %norm, %wte2, %wte_m2, %wte_v2, %wpe2, %wpe_m2, %wpe_v2, %g2, %bias2
    : tensor<f32>, tensor<f32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<16x8xf32>, tensor<4x8xf32>,
      tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
})";

} // namespace

const std::vector<TrainingStep> &trainingSteps() {
  static const std::vector<TrainingStep> steps = {{"layer_norm", layerNorm}, {"mlp", mlp},
                                                  {"attention", attention},  {"cross_entropy", crossEntropy},
                                                  {"rotary", rotary},        {"gpt", gpt}};
  return steps;
}

const TrainingStep &trainingStep(const std::string &name) {
  for (const TrainingStep &step : trainingSteps())
    if (step.name == name)
      return step;
  throw std::out_of_range("no training step is called " + name);
}

} // namespace tcc::test
