// More than eight lanes are loops of two turns, in whose body eight are written out; their sums are added to the carried
// one where the last of them is.
// RUN: %tcc %s -emit=joint | FileCheck %s

// CHECK: tcc.repeat 2 (%[[CARRIED:.*]] = %{{.*}} : tensor<3xf32>) slices
// CHECK-COUNT-11: tcc.repeat 1
// CHECK-NOT: tcc.repeat
// CHECK: %[[A:.*]] = tcc.add
// CHECK: %[[B:.*]] = tcc.add
// CHECK: %[[C:.*]] = tcc.add %{{.*}}, %[[B]]
// CHECK: %[[D:.*]] = tcc.add %{{.*}}, %[[C]]
// CHECK: tcc.add %[[CARRIED]], %[[D]]

func.func @main(%x: tensor<16x3xf32>, %k: tensor<3xf32>) -> tensor<3xf32> {
  %y = tcc.lanes 16 slices (%s = %x : tensor<16x3xf32>) uses (%f = %k : tensor<3xf32>) -> tensor<3xf32> {
    %m = tcc.mul %s, %f : tensor<3xf32>
    tcc.yield %m : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}
