// `?` sizes are given by --shape and follow through every op; `like` operands have no use any more.
// RUN: %tcc %s --shape=x:3x4 -emit=joint -fdump-ir=specialize-shapes 2>&1 | FileCheck %s
// RUN: not %tcc %s -emit=joint 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not %tcc %s --shape=x:3x5 -emit=joint 2>&1 | FileCheck %s --check-prefix=FIXED

// MISSING: argument 0 'x' is {{.*}}?x4xf32{{.*}}; give its sizes, for example --shape=x:16x256
// FIXED: --shape gives 3x5xf32 for 'x', which is ?x4xf32; only '?' sizes may be given

// CHECK-LABEL: IR Dump After specialize-shapes
// CHECK: func.func @main(%[[X:.*]]: tensor<3x4xf32> {tcc.name = "x"}, %[[W:.*]]: tensor<4xf32>) -> tensor<3x1xf32>
// CHECK: tcc.broadcast %[[W]] : tensor<4xf32> -> tensor<3x4xf32>
// CHECK: tcc.mul {{.*}} : tensor<3x4xf32>
// CHECK: tcc.reduce_sum {{.*}} axes [1] : tensor<3x4xf32> -> tensor<3x1xf32>
// CHECK-NOT: ?
// CHECK: return
func.func @main(%x: tensor<?x4xf32> {tcc.name = "x"}, %w: tensor<4xf32>) -> tensor<?x1xf32> {
  %b = tcc.broadcast %w like %x : tensor<?x4xf32> : tensor<4xf32> -> tensor<?x4xf32>
  %y = tcc.mul %x, %b : tensor<?x4xf32>
  %r = tcc.reduce_sum %y axes [1] : tensor<?x4xf32> -> tensor<?x1xf32>
  return %r : tensor<?x1xf32>
}
