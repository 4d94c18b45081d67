// The last `?` of a reshape follows from the element count, also where the operand begins with a `?`; sizes that make no
// shape are an error at the reshape alone.
// RUN: %tcc %s --shape=x:3x4 -emit=joint | FileCheck %s
// RUN: not %tcc %s --shape=x:3x5 -emit=joint 2>&1 | FileCheck %s --check-prefix=ODD

// CHECK: tcc.reshape %{{.*}} : tensor<3x4xf32> -> tensor<12xf32>
// CHECK: tcc.reshape %{{.*}} : tensor<3x4xf32> -> tensor<6x2xf32>
// CHECK: tcc.reshape %{{.*}} : tensor<3x4x1xf32> -> tensor<3x4xf32>
// ODD: reshape_sizes.mlir:[[#]]:8: error: `reshape` cannot make ?x2xf32 of the 15 elements of 3x5xf32 (reshape_c1)
// ODD-NOT: error
func.func @main(%x: tensor<?x?xf32> {tcc.name = "x"}) -> (tensor<?xf32>, tensor<?x2xf32>, tensor<?x?xf32>) {
  %a = tcc.reshape %x : tensor<?x?xf32> -> tensor<?xf32>
  %b = tcc.reshape %x : tensor<?x?xf32> -> tensor<?x2xf32>
  %c = tcc.reshape %x : tensor<?x?xf32> -> tensor<?x?x1xf32>
  %d = tcc.reshape %c : tensor<?x?x1xf32> -> tensor<?x?xf32>
  return %a, %b, %d : tensor<?xf32>, tensor<?x2xf32>, tensor<?x?xf32>
}
