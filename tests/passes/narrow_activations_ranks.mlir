// What ranks exchange is no activation: sums of gradients and rows of parameters go as they are, and what one process
// returns from a lane has the same bits on several ranks.
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations --ranks=2 -emit=shaped | FileCheck %s
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations --ranks=2 --zero=2 -emit=shaped | FileCheck %s
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations --ranks=2 --zero=3 -emit=shaped | FileCheck %s

// CHECK: tcc.matmul {{.*}} {dtype = f32} : {{.*}} -> tensor<32x32xf32>
// CHECK: tcc.all_to_all {{.*}}f32
// CHECK-NOT: bf16
// CHECK: return
func.func @main(%x: tensor<4x64x32xf32> {tcc.name = "x"}, %w: tensor<32x32xf32> {tcc.name = "w", tcc.state})
    -> (tensor<f32>, tensor<32x32xf32> {tcc.updates = "w"}) {
  %g:2 = tcc.lanes 4 slices (%s = %x : tensor<4x64x32xf32>) uses (%a = %w : tensor<32x32xf32>)
      -> (tensor<f32>, tensor<32x32xf32>) {
    %0 = tcc.matmul %s, %a : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %1 = tcc.tanh %0 : tensor<64x32xf32>
    %2 = tcc.matmul %1, %a : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
    %3 = tcc.mul %2, %2 : tensor<64x32xf32>
    %4 = tcc.reduce_sum %3 axes [0, 1] : tensor<64x32xf32> -> tensor<1x1xf32>
    %5 = tcc.reshape %4 : tensor<1x1xf32> -> tensor<f32>
    %d = tcc.gradient %5 wrt %a : tensor<f32>, tensor<32x32xf32>
    tcc.yield %5, %d : tensor<f32>, tensor<32x32xf32>
  }
  %u = tcc.sub %w, %g#1 : tensor<32x32xf32>
  return %g#0, %u : tensor<f32>, tensor<32x32xf32>
}
