// Gradients of two biases that are added one after the other are one value, which a rank sends twice: it lies in one of
// its places in what is sent, and is copied to the other.
// RUN: %tcc %s --ranks=4 -emit=planned | FileCheck %s
// RUN: %tcc %s --ranks=4 -emit=json | FileCheck %s --check-prefix=PLAN
// RUN: %tcc %s --ranks=4 --target=cuda -emit=json -o %t.json

// CHECK: %[[BOTH:.*]]:2 = tcc.kernel {{.*}}array<i64: 0, 0, [[PLACE:[0-9]+]]>]
// CHECK: %[[BIAS:.*]] = tcc.reshape %[[BOTH]]#1
// CHECK: tcc.all_to_all [1, 1, 1, 1] own 1 of %[[BIAS]], %[[BIAS]], %{{.*}}tcc.scratch = array<i64: [[PLACE]],

// Two kernels run: one gives the biases' gradient, one adds up the lanes. Zeros, where the loop begins, are not written.
// PLAN: "op": "collective"
// PLAN: "op": "loop"
// PLAN: "op": "kernel"
// PLAN: "op": "kernel"
// PLAN-NOT: "op": "kernel"
func.func @main(%x: tensor<4x8x16xf32>, %w: tensor<16x16xf32>, %b: tensor<16xf32>, %c: tensor<16xf32>)
    -> (tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %r:3 = tcc.lanes 4 slices (%s = %x : tensor<4x8x16xf32>)
      uses (%m = %w : tensor<16x16xf32>, %f = %b : tensor<16xf32>, %g = %c : tensor<16xf32>)
      -> (tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>) {
    %a = tcc.matmul %s, %m : tensor<8x16xf32>, tensor<16x16xf32> -> tensor<8x16xf32>
    %first = tcc.broadcast %f : tensor<16xf32> -> tensor<8x16xf32>
    %second = tcc.broadcast %g : tensor<16xf32> -> tensor<8x16xf32>
    %p = tcc.add %a, %first : tensor<8x16xf32>
    %q = tcc.add %p, %second : tensor<8x16xf32>
    %t = tcc.mul %q, %q : tensor<8x16xf32>
    %l = tcc.reduce_sum %t axes [0, 1] : tensor<8x16xf32> -> tensor<1x1xf32>
    %o = tcc.reshape %l : tensor<1x1xf32> -> tensor<f32>
    %d:3 = tcc.gradient %o wrt %m, %f, %g : tensor<f32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>
    tcc.yield %d#0, %d#1, %d#2 : tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>
  }
  return %r#0, %r#1, %r#2 : tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>
}
