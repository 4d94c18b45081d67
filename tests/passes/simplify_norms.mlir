// The gradient of a norm: the sum of the deviations from a row's mean is no pass over the row but 0 times the mean (NaN
// where that is not finite), and a square's gradient is one term with its 2 on the row's factor. Differences to anything
// else are summed up.
// RUN: %tcc %s -emit=shaped -fdump-ir=simplify 2>&1 | FileCheck %s
// RUN: %tcc %s -emit=shaped -fno-simplify | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -fverify-each -o /dev/null

// CHECK-LABEL: IR Dump After simplify
// CHECK: %[[SUM:.*]] = tcc.reduce_sum %x axes [1] : tensor<4x8xf32>
// CHECK: %[[MEAN:.*]] = tcc.div %[[SUM]], %{{.*}} : tensor<4x1xf32>
// CHECK: %[[ZERO:.*]] = tcc.mul %[[MEAN]], %{{.*}} : tensor<4x1xf32>
// CHECK-NOT: tcc.reduce_sum %deviation
// CHECK: %[[OTHER:.*]] = tcc.reduce_sum %other axes [1]
// CHECK: %[[SEVENTH:.*]] = tcc.reduce_sum %seventh axes [1]
// CHECK: return %[[ZERO]], %[[OTHER]], %[[SEVENTH]], %{{.*}}
// OFF: tcc.reduce_sum %deviation axes [1]
func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %r: tensor<4x1xf32>)
    -> (tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x8xf32>) {
  %n = tcc.constant dense<8.0> : tensor<4x1xf32>
  %7 = tcc.constant dense<7.0> : tensor<4x1xf32>
  %total = tcc.reduce_sum %x axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %mean = tcc.div %total, %n : tensor<4x1xf32>
  %means = tcc.broadcast %mean : tensor<4x1xf32> -> tensor<4x8xf32>
  %deviation = tcc.sub %x, %means : tensor<4x8xf32>
  %none = tcc.reduce_sum %deviation axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %other = tcc.sub %y, %means : tensor<4x8xf32>
  %some = tcc.reduce_sum %other axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %mean7 = tcc.div %total, %7 : tensor<4x1xf32>
  %means7 = tcc.broadcast %mean7 : tensor<4x1xf32> -> tensor<4x8xf32>
  %seventh = tcc.sub %x, %means7 : tensor<4x8xf32>
  %more = tcc.reduce_sum %seventh axes [1] : tensor<4x8xf32> -> tensor<4x1xf32>
  %two = tcc.constant dense<2.0> : tensor<4x8xf32>
  %rows = tcc.broadcast %r : tensor<4x1xf32> -> tensor<4x8xf32>
  %scaled = tcc.mul %rows, %two : tensor<4x8xf32>
  %z = tcc.mul %scaled, %x : tensor<4x8xf32>
  return %none, %some, %more, %z : tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x1xf32>, tensor<4x8xf32>
}
