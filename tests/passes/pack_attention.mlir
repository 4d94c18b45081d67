// One product makes queries, keys and values, so that its gradient needs theirs side by side: on a target whose kernels
// write them so, no kernel joins them.
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=shaped | FileCheck %s
// RUN: %tcc %s --target=cuda --dtype=bf16 -fno-pack-attention -emit=shaped | FileCheck %s --check-prefix=KEPT
// RUN: %tcc %s --dtype=bf16 -emit=shaped | FileCheck %s --check-prefix=OTHER
// RUN: %tcc %s --target=cuda --dtype=bf16 -emit=planned -fverify-each -o /dev/null
// RUN: %tcc %s --target=cuda --dtype=bf16 -Rpass=pack-attention -emit=planned -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: %[[PACKED:.*]] = tcc.flash_attention_packed_gradient {{.*}} -> tensor<2x8x8x32xbf16>
// CHECK-NOT: tcc.pad
// CHECK: %[[FLAT:.*]] = tcc.reshape %[[PACKED]] : tensor<2x8x8x32xbf16> -> tensor<2x8x256xbf16>
// CHECK-NOT: tcc.pad
// KEPT-NOT: packed_gradient
// KEPT: tcc.flash_attention_backward
// KEPT: tcc.pad
// OTHER-NOT: packed_gradient
// REMARK: remark: the gradients of q, k and v are written into one tensor
func.func @main(%x: tensor<2x8x64xf32> {tcc.name = "x"}, %w: tensor<64x256xf32> {tcc.name = "w"})
    -> (tensor<f32>, tensor<64x256xf32>) {
  %0 = tcc.matmul %x, %w : tensor<2x8x64xf32>, tensor<64x256xf32> -> tensor<2x8x256xf32>
  %1 = tcc.slice %0 [0, 0, 0] to [2, 8, 128] : tensor<2x8x256xf32> -> tensor<2x8x128xf32>
  %2 = tcc.slice %0 [0, 0, 128] to [2, 8, 192] : tensor<2x8x256xf32> -> tensor<2x8x64xf32>
  %3 = tcc.slice %0 [0, 0, 192] to [2, 8, 256] : tensor<2x8x256xf32> -> tensor<2x8x64xf32>
  %q = tcc.reshape %1 : tensor<2x8x128xf32> -> tensor<2x8x4x32xf32>
  %k = tcc.reshape %2 : tensor<2x8x64xf32> -> tensor<2x8x2x32xf32>
  %v = tcc.reshape %3 : tensor<2x8x64xf32> -> tensor<2x8x2x32xf32>
  %y:2 = tcc.flash_attention %q, %k, %v diagonal 0 scale 0.25 : (tensor<2x8x4x32xf32>, tensor<2x8x2x32xf32>, tensor<2x8x2x32xf32>) -> (tensor<2x8x4x32xf32>, tensor<2x4x8xf32>)
  %4 = tcc.mul %y#0, %y#0 : tensor<2x8x4x32xf32>
  %5 = tcc.reduce_sum %4 axes [0, 1, 2, 3] : tensor<2x8x4x32xf32> -> tensor<1x1x1x1xf32>
  %6 = tcc.reshape %5 : tensor<1x1x1x1xf32> -> tensor<f32>
  %7 = tcc.gradient %6 wrt %w : tensor<f32>, tensor<64x256xf32>
  return %6, %7 : tensor<f32>, tensor<64x256xf32>
}
