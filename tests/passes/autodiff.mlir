// tcc.gradient becomes the reverse sweep: shares are added per value, a value without influence has gradient 0.
// RUN: %tcc %s -emit=joint -fdump-ir=autodiff 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After autodiff
// CHECK: func.func @main(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %{{.*}}: tensor<2xf32>)
// CHECK: tcc.mul %[[A]], %[[B]]
// CHECK: %[[ONE:.*]] = tcc.constant dense<1.000000e+00>
// CHECK-DAG: %[[DB:.*]] = tcc.mul %{{.*}}, %[[A]] : tensor<4xf32>
// CHECK-DAG: %[[DA:.*]] = tcc.mul %{{.*}}, %[[B]] : tensor<4xf32>
// CHECK-DAG: %[[ZERO:.*]] = tcc.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-NOT: tcc.gradient
// CHECK: return %[[DA]], %[[DB]], %[[ZERO]]
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %unused: tensor<2xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>) {
  %y = tcc.mul %a, %b : tensor<4xf32>
  %s = tcc.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<1xf32>
  %loss = tcc.reshape %s : tensor<1xf32> -> tensor<f32>
  %da, %db, %du = tcc.gradient %loss wrt %a, %b, %unused : tensor<f32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
  return %da, %db, %du : tensor<4xf32>, tensor<4xf32>, tensor<2xf32>
}
