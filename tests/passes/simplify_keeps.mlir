// What simplify leaves alone: a difference under a sum, whose halves might cancel, and sums in 16 bits, which would
// overflow or lose their small terms.
// RUN: %tcc %s -emit=shaped -fdump-ir=simplify 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After simplify
// CHECK-DAG: %[[D:.*]] = tcc.sub %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK-DAG: tcc.reduce_sum %[[D]] axes [1] : tensor<4x8xf32>
// CHECK-DAG: %[[P:.*]] = tcc.mul %{{.*}}, %{{.*}} : tensor<4x8xf16>
// CHECK-DAG: tcc.reduce_sum %[[P]] axes [1] : tensor<4x8xf16>
// CHECK-DAG: %[[S:.*]] = tcc.scatter_add %{{.*}} at %{{.*}}, %{{.*}} : tensor<4x8xbf16>
// CHECK-DAG: tcc.add %[[S]], %{{.*}} : tensor<4x8xbf16>
func.func @main(%x: tensor<4x8xf32>, %c: tensor<4x1xf32>, %h: tensor<4x8xf16>, %r: tensor<4x1xf16>,
                %i: tensor<9xi32>, %rows: tensor<9x8xbf16>, %g: tensor<4x8xbf16>)
    -> (tensor<4x1xf32>, tensor<4x1xf16>, tensor<4x8xbf16>) {
  %cb = tcc.broadcast %c : tensor<4x1xf32> -> tensor<4x8xf32>
  %d = tcc.sub %x, %cb : tensor<4x8xf32>
  %residual = tcc.reduce_sum %d axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %rb = tcc.broadcast %r : tensor<4x1xf16> -> tensor<4x8xf16>
  %p = tcc.mul %h, %rb : tensor<4x8xf16>
  %narrow = tcc.reduce_sum %p axes [1] : tensor<4x8xf16> -> tensor<4x1xf16>
  %zero = tcc.constant dense<0.0> : tensor<4x8xbf16>
  %s = tcc.scatter_add %zero at %i, %rows : tensor<4x8xbf16>, tensor<9xi32>, tensor<9x8xbf16>
  %sum = tcc.add %s, %g : tensor<4x8xbf16>
  return %residual, %narrow, %sum : tensor<4x1xf32>, tensor<4x1xf16>, tensor<4x8xbf16>
}
