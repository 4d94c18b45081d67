// A custom op that is its body alone is written out before gradients are taken: they stay those of the body's arguments
// and of each result by itself.
// RUN: %tcc %s --run | FileCheck %s
// RUN: %tcc %s --run -O0 | FileCheck %s
// RUN: %tcc %s --run=reference | FileCheck %s

// CHECK: inside: f32[] 0.14112
// CHECK: same: f32[] 3
// CHECK: second: f32[] 1
// CHECK: first: f32[] 3
// CHECK: other: f32[] 3
func.func @main() -> (tensor<f32> {tcc.name = "inside"}, tensor<f32> {tcc.name = "same"}, tensor<f32> {tcc.name = "second"},
                      tensor<f32> {tcc.name = "first"}, tensor<f32> {tcc.name = "other"}) {
  %x = tcc.constant dense<3.0> : tensor<f32>
  %s = tcc.sin %x : tensor<f32>

  // w is computed from u outside of the body: the gradient inside is w, sin(3).
  %inside = tcc.custom "slope" (%u = %x : tensor<f32>, %w = %s : tensor<f32>) -> tensor<f32> {
    %m = tcc.mul %u, %w : tensor<f32>
    %d = tcc.gradient %m wrt %u : tensor<f32>, tensor<f32>
    tcc.yield %d : tensor<f32>
  }
  %same = tcc.custom "slope" (%u = %x : tensor<f32>, %w = %x : tensor<f32>) -> tensor<f32> {
    %m = tcc.mul %u, %w : tensor<f32>
    %d = tcc.gradient %m wrt %u : tensor<f32>, tensor<f32>
    tcc.yield %d : tensor<f32>
  }

  // One value is both results: the second is read once, with factor 1.
  %y:2 = tcc.custom "pair" (%u = %x : tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %e = tcc.exp %u : tensor<f32>
    tcc.yield %e, %e : tensor<f32>, tensor<f32>
  }
  %m = tcc.mul %y#0, %x : tensor<f32>
  %l = tcc.add %m, %y#1 : tensor<f32>
  %second = tcc.gradient %l wrt %y#1 : tensor<f32>, tensor<f32>
  %other = tcc.gradient %l wrt %y#0 : tensor<f32>, tensor<f32>

  // The body computes its second result from the first one; outside neither is computed from the other.
  %z:2 = tcc.custom "chain" (%u = %x : tensor<f32>) -> (tensor<f32>, tensor<f32>) {
    %e = tcc.sin %u : tensor<f32>
    %f = tcc.mul %e, %e : tensor<f32>
    tcc.yield %e, %f : tensor<f32>, tensor<f32>
  }
  %n = tcc.mul %z#0, %x : tensor<f32>
  %k = tcc.add %n, %z#1 : tensor<f32>
  %first = tcc.gradient %k wrt %z#0 : tensor<f32>, tensor<f32>
  return %inside, %same, %second, %first, %other : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
