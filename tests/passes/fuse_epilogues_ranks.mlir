// A sum of two products that a rank sends to others has the bits of the sum that one process keeps: the later product
// adds the earlier one wherever the sum goes, also where it is cut into parts of which each rank gets one.
// RUN: %tcc %s -emit=shaped | FileCheck %s
// RUN: %tcc %s --ranks=2 -emit=shaped | FileCheck %s
// RUN: %tcc %s --ranks=2:1 --zero=2 -emit=shaped | FileCheck %s --check-prefixes=CHECK,PARTS
// RUN: %tcc %s --ranks=2:1 --zero=2 -emit=shaped -fbucket=1 | FileCheck %s

// CHECK: %first = tcc.matmul
// CHECK: %second = tcc.matmul {{.*}} addend %first :
// PARTS: tcc.concat {{.*}}axis 1
// PARTS: tcc.all_to_all
func.func @main(%x: tensor<2x64x32xf32>, %y: tensor<2x64x48xf32>) -> (tensor<32x48xf32>, tensor<48xf32>) {
  %0:2 = tcc.lanes 2 slices (%rows = %x : tensor<2x64x32xf32>, %others = %y : tensor<2x64x48xf32>)
      -> (tensor<32x48xf32>, tensor<48xf32>) {
    %a = tcc.slice %rows [0, 0] to [32, 32] : tensor<64x32xf32> -> tensor<32x32xf32>
    %b = tcc.slice %rows [32, 0] to [64, 32] : tensor<64x32xf32> -> tensor<32x32xf32>
    %c = tcc.slice %others [0, 0] to [32, 48] : tensor<64x48xf32> -> tensor<32x48xf32>
    %d = tcc.slice %others [32, 0] to [64, 48] : tensor<64x48xf32> -> tensor<32x48xf32>
    %first = tcc.matmul %a transposed, %c : tensor<32x32xf32>, tensor<32x48xf32> -> tensor<32x48xf32>
    %second = tcc.matmul %b transposed, %d : tensor<32x32xf32>, tensor<32x48xf32> -> tensor<32x48xf32>
    %sum = tcc.add %first, %second : tensor<32x48xf32>
    %total = tcc.reduce_sum %others axes [0] : tensor<64x48xf32> -> tensor<1x48xf32>
    %columns = tcc.reshape %total : tensor<1x48xf32> -> tensor<48xf32>
    tcc.yield %sum, %columns : tensor<32x48xf32>, tensor<48xf32>
  }
  return %0#0, %0#1 : tensor<32x48xf32>, tensor<48xf32>
}
