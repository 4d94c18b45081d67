// A residual stream around two products, its gradient, and a weight's gradient: what is stored for later products has 16
// bits, the row statistics, what the caller gets and the weights' gradients f32.
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations -emit=shaped | FileCheck %s
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations -emit=fused | FileCheck %s --check-prefix=FUSED
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations -O0 -emit=shaped | FileCheck %s
// RUN: %tcc %s --dtype=bf16 -fnarrow-activations -fverify-each -o /dev/null
// RUN: %tcc %s --dtype=f16 -fnarrow-activations -fverify-each -o /dev/null
// RUN: %tcc %s -fnarrow-activations -emit=shaped | FileCheck %s --check-prefix=WIDE

// The first product's result: two sums and a later product read it.
// CHECK: tcc.matmul {{.*}} : tensor<64x32xbf16>, tensor<32x32xbf16> -> tensor<64x32xbf16>
// The weight's gradient goes to the caller.
// CHECK: tcc.matmul {{.*}} {dtype = f32} : {{.*}} -> tensor<32x32xf32>

// No kernel stores a whole f32 activation; means and deviations it does.
// FUSED-NOT: -> tensor<64x32xf32> {
// FUSED: tcc.kernel {{.*}} -> {{.*}}tensor<64x1xf32>
// FUSED-NOT: -> tensor<64x32xf32> {
// WIDE-NOT: bf16
func.func @main(%x: tensor<64x32xf32> {tcc.name = "x"}, %w: tensor<32x32xf32> {tcc.name = "w"},
                %g: tensor<32xf32> {tcc.name = "g"}, %b: tensor<32xf32> {tcc.name = "b"})
    -> (tensor<f32>, tensor<32x32xf32>) {
  %0 = tcc.layer_norm %x, %g, %b {eps = 1.0e-5} : tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>
  %1 = tcc.matmul %0, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %2 = tcc.add %1, %x : tensor<64x32xf32>
  %3 = tcc.layer_norm %2, %g, %b {eps = 1.0e-5} : tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>
  %4 = tcc.matmul %3, %w : tensor<64x32xf32>, tensor<32x32xf32> -> tensor<64x32xf32>
  %5 = tcc.add %4, %2 : tensor<64x32xf32>
  %6 = tcc.mul %5, %5 : tensor<64x32xf32>
  %7 = tcc.reduce_sum %6 axes [0, 1] : tensor<64x32xf32> -> tensor<1x1xf32>
  %8 = tcc.reshape %7 : tensor<1x1xf32> -> tensor<f32>
  %d = tcc.gradient %8 wrt %w : tensor<f32>, tensor<32x32xf32>
  return %8, %d : tensor<f32>, tensor<32x32xf32>
}
