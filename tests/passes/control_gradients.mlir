// Gradients with respect to literals that bodies read, to results of other gradients, and inside of bodies.
// RUN: %tcc %s --run | FileCheck %s
// RUN: %tcc %s --run -O0 | FileCheck %s
// RUN: %tcc %s --run -fverify-each | FileCheck %s
// RUN: %tcc %s --run=reference | FileCheck %s

// CHECK: through_loop: f32[] 27
// CHECK: through_cond: f32[] 6
// CHECK: of_gradient: f32[] 4
// CHECK: inside: f32[] -0.989992
func.func @main() -> (tensor<f32> {tcc.name = "through_loop"}, tensor<f32> {tcc.name = "through_cond"},
                      tensor<f32> {tcc.name = "of_gradient"}, tensor<f32> {tcc.name = "inside"}) {
  // x³: both ways into the loop count.
  %x = tcc.constant dense<3.0> : tensor<f32>
  %y = tcc.repeat 2 (%a = %x : tensor<f32>) uses (%b = %x : tensor<f32>) {
    %s = tcc.mul %a, %b : tensor<f32>
    tcc.yield %s : tensor<f32>
  }
  %through_loop = tcc.gradient %y wrt %x : tensor<f32>, tensor<f32>

  %p = tcc.constant dense<true> : tensor<i1>
  %z = tcc.cond %p (%a = %x : tensor<f32>) -> tensor<f32> {
    %s = tcc.mul %a, %a : tensor<f32>
    tcc.yield %s : tensor<f32>
  } else {
    tcc.yield %a : tensor<f32>
  }
  %through_cond = tcc.gradient %z wrt %x : tensor<f32>, tensor<f32>

  // de/dq = 1 is what de/du is made of, but no result is computed from another one.
  %u = tcc.constant dense<2.0> : tensor<f32>
  %four = tcc.constant dense<4.0> : tensor<f32>
  %q = tcc.sin %u : tensor<f32>
  %e = tcc.add %q, %u : tensor<f32>
  %d:2 = tcc.gradient %e wrt %q, %u : tensor<f32>, tensor<f32>, tensor<f32>
  %m = tcc.mul %d#0, %four : tensor<f32>
  %l = tcc.add %m, %d#1 : tensor<f32>
  %of_gradient = tcc.gradient %l wrt %d#0 : tensor<f32>, tensor<f32>

  %inside = tcc.repeat 1 (%a = %x : tensor<f32>) {
    %s = tcc.sin %a : tensor<f32>
    %c = tcc.gradient %s wrt %a : tensor<f32>, tensor<f32>
    tcc.yield %c : tensor<f32>
  }
  return %through_loop, %through_cond, %of_gradient, %inside : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
