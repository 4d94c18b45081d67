// What becomes possible when equal computations have become one: an op folds that reads the same value twice; a rule
// finds the same value by two ways, some ops further up (the sum of deviations from the mean is 0 times the mean); a
// scatter_add that was read twice is read once, and takes the other gradient as its base. Each of the three needs one
// kind of op that a later round looks at (opsToTryAgain): a reader of what was shared, a sum, an addition to scatter_add.
// RUN: %tcc %s -emit=shaped -fdump-ir=simplify 2>&1 | FileCheck %s

// CHECK-LABEL: IR Dump After simplify
// CHECK: func.func @main(%[[A:.*]]: tensor<4x8xf32>, %[[I:.*]]: tensor<4xi32>, %[[G:.*]]: tensor<6x8xf32>)
// CHECK-DAG: %[[NONE:.*]] = tcc.constant dense<0.000000e+00> : tensor<4x1xf32>
// CHECK-DAG: %[[X:.*]] = tcc.exp %[[A]]
// CHECK: tcc.reduce_sum %[[X]] axes [1]
// CHECK-NOT: tcc.reduce_sum
// CHECK: %[[MEAN:.*]] = tcc.div
// CHECK-NOT: tcc.reduce_sum
// CHECK: %[[SUM:.*]] = tcc.mul %[[MEAN]], %[[NONE]]
// CHECK-NOT: tcc.maximum
// CHECK-NOT: tcc.add
// CHECK: %[[D:.*]] = tcc.scatter_add %[[G]] at %[[I]], %[[A]]
// CHECK-NOT: tcc.add
// CHECK: return %[[SUM]], %[[X]], %[[D]], %[[D]]
func.func @main(%a: tensor<4x8xf32>, %i: tensor<4xi32>, %g: tensor<6x8xf32>)
    -> (tensor<4x1xf32>, tensor<4x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>) {
  %x = tcc.exp %a : tensor<4x8xf32>
  %total = tcc.reduce_sum %x axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %count = tcc.constant dense<8.0> : tensor<4x1xf32>
  %mean = tcc.div %total, %count : tensor<4x1xf32>
  %means = tcc.broadcast %mean : tensor<4x1xf32> -> tensor<4x8xf32>
  %same = tcc.exp %a : tensor<4x8xf32>
  %deviations = tcc.sub %same, %means : tensor<4x8xf32>
  %sum = tcc.reduce_sum %deviations axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %largest = tcc.maximum %x, %same : tensor<4x8xf32>
  %zero = tcc.constant dense<0.0> : tensor<6x8xf32>
  %s = tcc.scatter_add %zero at %i, %a : tensor<6x8xf32>, tensor<4xi32>, tensor<4x8xf32>
  %d = tcc.add %s, %g : tensor<6x8xf32>
  %again = tcc.add %s, %g : tensor<6x8xf32>
  return %sum, %largest, %d, %again : tensor<4x1xf32>, tensor<4x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>
}
