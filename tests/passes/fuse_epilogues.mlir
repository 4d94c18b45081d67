// What becomes part of a product, and what is left alone with a reason at its line: by the CPU's model and by a GPU's.
// RUN: %tcc %s -emit=shaped | FileCheck %s --implicit-check-not="addend %r"
// RUN: %tcc %s -emit=shaped --target=cuda | FileCheck %s --check-prefix=GPU
// RUN: %tcc %s -emit=shaped -fno-fuse-epilogues | FileCheck %s --check-prefix=PLAIN
// RUN: %tcc %s -emit=shaped -O0 | FileCheck %s --check-prefix=PLAIN
// RUN: %tcc %s -emit=shaped -Rpass=epilogues -Rpass-missed=epilogues 2>&1 >/dev/null | FileCheck %s --check-prefix=SAID
// RUN: %tcc %s -fverify-each -o /dev/null
// RUN: %tcc %s -fverify-each --target=cuda -march=sm_90a -o /dev/null

// A bias whose sum the caller gets; the broadcast's other form too, and either side of the addition.
// CHECK: %biased = tcc.matmul %x, %w bias %b : tensor<64x32xf32>, tensor<32x48xf32> bias tensor<48xf32> -> tensor<64x48xf32>
// In front of an activation nothing is stored, so nothing is saved.
// CHECK: %inner = tcc.matmul %x, %w2 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
// What the target adds in place must not be read again.
// CHECK: %residual = tcc.matmul %x, %w3 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
// Of products that are added up each one takes the sum before it, through reshapes.
// CHECK: %first = tcc.matmul %x, %w4 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
// CHECK: %second = tcc.matmul %x, %w5 addend %first : tensor<64x32xf32>, tensor<32x48xf32> addend tensor<64x48xf32> -> tensor<64x48xf32>
// CHECK: %third = tcc.matmul %x, %w6 bias %b addend %second :
// A product that something else reads stays one.
// CHECK: %shared = tcc.matmul %x, %w7 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
// What a program writes so is a product and additions, as any other: this one adds an argument.
// CHECK: %written = tcc.matmul %x, %w8 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
// CHECK-NOT: tcc.matmul

// GPU: %biased = tcc.matmul %x, %w bias %b
// GPU: %residual = tcc.matmul %x, %w3 bias %b addend %r : tensor<64x32xf32>, tensor<32x48xf32> bias tensor<48xf32> addend tensor<64x48xf32> -> tensor<64x48xf32>
// GPU: %written = tcc.matmul %x, %w8 bias %b addend %r

// PLAIN-NOT: tcc.matmul {{.*}}(bias|addend)

// SAID-DAG: fuse_epilogues.mlir:[[#LINE:]]:13: remark: biased adds a row on its way out: saves 24.6 kB a step [-Rpass=fuse-epilogues]
// SAID-DAG: remark: inner does not add a row: expected a sum that is stored; it stays in the kernel that reads it [-Rpass-missed=fuse-epilogues]
// SAID-DAG: remark: residual does not add a row and a tensor: expected an addend that nothing reads afterwards: the target adds in place, and a copy costs what is saved [-Rpass-missed=fuse-epilogues]
// SAID-DAG: remark: second adds a tensor on its way out
// SAID-DAG: remark: third adds a row and a tensor on its way out
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %w2: tensor<32x48xf32>, %w3: tensor<32x48xf32>,
                %w4: tensor<32x48xf32>, %w5: tensor<32x48xf32>, %w6: tensor<32x48xf32>, %w7: tensor<32x48xf32>,
                %w8: tensor<32x48xf32>, %b: tensor<48xf32>, %r: tensor<64x48xf32>)
    -> (tensor<64x48xf32>, tensor<64x48xf32>, tensor<64x48xf32>, tensor<4x16x48xf32>, tensor<64x48xf32>,
        tensor<64x48xf32>) {
  %row = tcc.broadcast %b : tensor<48xf32> -> tensor<64x48xf32>
  %biased = tcc.matmul %x, %w : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %0 = tcc.add %row, %biased : tensor<64x48xf32>
  %inner = tcc.matmul %x, %w2 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %1 = tcc.add %inner, %row : tensor<64x48xf32>
  %2 = tcc.gelu %1 : tensor<64x48xf32>
  %residual = tcc.matmul %x, %w3 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %3 = tcc.add %residual, %row : tensor<64x48xf32>
  %4 = tcc.add %r, %3 : tensor<64x48xf32>
  %first = tcc.matmul %x, %w4 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %second = tcc.matmul %x, %w5 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %third = tcc.matmul %x, %w6 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %5 = tcc.add %second, %first : tensor<64x48xf32>
  %6 = tcc.reshape %5 : tensor<64x48xf32> -> tensor<4x16x48xf32>
  %7 = tcc.reshape %third : tensor<64x48xf32> -> tensor<4x16x48xf32>
  %8 = tcc.add %6, %7 : tensor<4x16x48xf32>
  %9 = tcc.reshape %b : tensor<48xf32> -> tensor<1x48xf32>
  %10 = tcc.broadcast %9 : tensor<1x48xf32> -> tensor<4x16x48xf32>
  %11 = tcc.add %8, %10 : tensor<4x16x48xf32>
  %shared = tcc.matmul %x, %w7 : tensor<64x32xf32>, tensor<32x48xf32> -> tensor<64x48xf32>
  %12 = tcc.add %shared, %row : tensor<64x48xf32>
  %13 = tcc.mul %12, %shared : tensor<64x48xf32>
  %written = tcc.matmul %x, %w8 bias %b addend %r : tensor<64x32xf32>, tensor<32x48xf32> bias tensor<48xf32> addend tensor<64x48xf32> -> tensor<64x48xf32>
  return %0, %2, %4, %11, %13, %written : tensor<64x48xf32>, tensor<64x48xf32>, tensor<64x48xf32>,
      tensor<4x16x48xf32>, tensor<64x48xf32>, tensor<64x48xf32>
}
