// A composite becomes its definition in primitives; 16-bit data is computed in f32 and rounded once.
// RUN: %tcc %s -emit=joint -fdump-ir=decompose 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After decompose
// CHECK: %[[X:.*]] = tcc.cast %{{.*}} : tensor<3x8xbf16> -> tensor<3x8xf32>
// CHECK: %[[MAX:.*]] = tcc.reduce_max %{{.*}} axes [1] : tensor<3x8xf32> -> tensor<3x1xf32>
// CHECK: %[[TOP:.*]] = tcc.broadcast %[[MAX]]
// CHECK: %[[SHIFTED:.*]] = tcc.sub %[[X]], %[[TOP]]
// CHECK: %[[EXP:.*]] = tcc.exp %[[SHIFTED]]
// CHECK: %[[SUM:.*]] = tcc.reduce_sum %[[EXP]] axes [1]
// CHECK: %[[ALL:.*]] = tcc.broadcast %[[SUM]]
// CHECK: %[[Y:.*]] = tcc.div %[[EXP]], %[[ALL]]
// CHECK: tcc.cast %[[Y]] : tensor<3x8xf32> -> tensor<3x8xbf16>
// CHECK-NOT: tcc.softmax
// CHECK: return
func.func @main(%x: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  %y = tcc.softmax %x : tensor<3x8xbf16>
  return %y : tensor<3x8xbf16>
}
