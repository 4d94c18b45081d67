// A symmetric matrix times itself is a matrix times its own transpose, as X Xᵀ is, through casts too. A matrix that need
// not be symmetric stays: X Yᵀ, X Xᵀ with an addend, X X.
// RUN: %tcc %s -emit=shaped | FileCheck %s

// CHECK-LABEL: func.func @main
// CHECK: %[[S:.*]] = tcc.matmul %[[X:.*]], %[[X]] transposed :
// CHECK: %[[SS:.*]] = tcc.matmul %[[S]], %[[S]] transposed :
// CHECK: %[[H:.*]] = tcc.cast %[[S]]
// CHECK: tcc.matmul %[[H]], %[[H]] transposed :
// CHECK: %[[Z:.*]] = tcc.matmul %[[X]], %[[Y:.*]] transposed :
// CHECK: tcc.matmul %[[Z]], %[[Z]] :
// CHECK: tcc.matmul %[[Y]], %[[Y]] :
func.func @main(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>)
    -> (tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %s = tcc.matmul %x, %x transposed : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %ss = tcc.matmul %s, %s : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %h = tcc.cast %s : tensor<8x8xf32> -> tensor<8x8xbf16>
  %hh = tcc.matmul %h transposed, %h transposed : tensor<8x8xbf16>, tensor<8x8xbf16> -> tensor<8x8xbf16>
  %z = tcc.matmul %x, %y transposed : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %zz = tcc.matmul %z, %z : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %yy = tcc.matmul %y, %y : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  return %ss, %hh, %zz, %yy : tensor<8x8xf32>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>
}
