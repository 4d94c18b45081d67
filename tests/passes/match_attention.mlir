// Attention written by hand becomes one op, and its gradient is the op of that; a target without kernels writes both out.
// RUN: %tcc %s -emit=joint -fmatch-attention | FileCheck %s
// RUN: %tcc %s -emit=joint -fno-match-attention | FileCheck %s --check-prefix=OFF
// RUN: %tcc %s -emit=planned -fverify-each | FileCheck %s --check-prefix=KEPT
// RUN: %tcc %s -emit=planned -fmatch-attention --target=cuda | FileCheck %s --check-prefix=EXPANDED

// CHECK-LABEL: func.func @main
// CHECK: %[[Q:.*]] = tcc.transpose %{{.*}} [0, 2, 1, 3] : tensor<2x3x5x8xf32> -> tensor<2x5x3x8xf32>
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = tcc.flash_attention %[[Q]], %{{.*}}, %{{.*}} diagonal 0 scale 1.250000e-01 : (tensor<2x5x3x8xf32>
// CHECK-NOT: tcc.exp
// CHECK: tcc.flash_attention_backward %[[Q]], %{{.*}}, %{{.*}}, %[[OUT]], %[[LSE]]
// CHECK: return

// OFF-NOT: tcc.flash_attention
// KEPT: tcc.flash_attention_backward
// EXPANDED-NOT: tcc.flash_attention
func.func @main(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>, %v: tensor<2x3x5x8xf32>) -> (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) {
  %scores = tcc.matmul %q, %k transposed : tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x5x5xf32>
  %eighth = tcc.constant dense<0.125> : tensor<2x3x5x5xf32>
  %scaled = tcc.mul %scores, %eighth : tensor<2x3x5x5xf32>
  %query = tcc.iota dim 0 -> tensor<5x5xi32>
  %key = tcc.iota dim 1 -> tensor<5x5xi32>
  %seen = tcc.compare ge %query, %key : tensor<5x5xi32> -> tensor<5x5xi1>
  %mask = tcc.broadcast %seen : tensor<5x5xi1> -> tensor<2x3x5x5xi1>
  %far = tcc.constant dense<0xFF800000> : tensor<2x3x5x5xf32>
  %masked = tcc.select %mask, %scaled, %far : tensor<2x3x5x5xi1>, tensor<2x3x5x5xf32>
  %p = tcc.softmax %masked : tensor<2x3x5x5xf32>
  %out = tcc.matmul %p, %v : tensor<2x3x5x5xf32>, tensor<2x3x5x8xf32> -> tensor<2x3x5x8xf32>
  %square = tcc.mul %out, %out : tensor<2x3x5x8xf32>
  %sum = tcc.reduce_sum %square axes [0, 1, 2, 3] : tensor<2x3x5x8xf32> -> tensor<1x1x1x1xf32>
  %loss = tcc.reshape %sum : tensor<1x1x1x1xf32> -> tensor<f32>
  %gq = tcc.gradient %loss wrt %q : tensor<f32>, tensor<2x3x5x8xf32>
  return %out, %gq : tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>
}
