// What fusion did and what it left, at the user's line: -Rpass with the ops and the traffic saved, -Rpass-missed with the
// reason and what it costs, the most first; patterns choose passes; -fsave-optimization-record writes them as YAML that
// LLVM's tools read. Without the flags nothing is said.
// RUN: %tcc %s -emit=fused -Rpass=kernel -Rpass-missed 2>&1 >/dev/null | FileCheck %s
// RUN: %tcc %s -emit=fused -Rpass=autodiff -Rpass-missed=plan -Rpass-analysis=cost 2>&1 >/dev/null | FileCheck %s --allow-empty --check-prefix=NONE
// RUN: %tcc %s -emit=fused 2>&1 >/dev/null | FileCheck %s --allow-empty --check-prefix=NONE
// RUN: %tcc %s -foptimization-record-file=%t.yaml >/dev/null
// RUN: FileCheck %s --check-prefix=YAML < %t.yaml
// RUN: llvm-remarkutil count --parser=yaml --remark-type=missed --group-by=total %t.yaml | FileCheck %s --check-prefix=TOTAL
// RUN: not %tcc %s "-Rpass=(" 2>&1 | FileCheck %s --check-prefix=WRONG

// CHECK: remarks.mlir:[[#GELU:]]:15: remark: fused 3 ops (gelu, total, bias) into h.0.gelu+total+bias: saves 36.9 kB a step [-Rpass=fuse-kernels]
// CHECK-NEXT:   %h.0.gelu = tcc.gelu %h.0.fc.linear : tensor<64x48xf32>
// CHECK-NEXT:               ^
// CHECK-NEXT: {{.*}}remarks.mlir:[[#GELU]]:15: remark: h.0.gelu+total+bias is apart from h.0.fc.linear, whose result it reads: expected an op that can join a kernel, and `matmul` runs by itself; costs 24.6 kB a step [-Rpass-missed=fuse-kernels]
// CHECK-NEXT:   %h.0.gelu
// CHECK-NEXT: ^
// CHECK-NEXT: {{.*}}remarks.mlir:[[#GELU+1]]:12: remark: total is apart from h.0.gelu+total+bias, whose result it reads: expected sums over the rows of tensors of one size; costs 6.1 kB a step [-Rpass-missed=fuse-kernels]
// NONE-NOT: remark
// WRONG: tcc: error: '(' of -Rpass= is no regular expression
// YAML: --- !Passed
// YAML-NEXT: Pass: fuse-kernels
// YAML-NEXT: Name: FuseKernels
// YAML-NEXT: DebugLoc: { File: {{.*}}remarks.mlir',
// YAML: Function: main
// YAML-NEXT: Args:
// YAML-NEXT: - String: 'fused 3 ops (gelu, total, bias) into h.0.gelu+total+bias'
// YAML: - Bytes: '36864'
// YAML: --- !Analysis
// YAML: h.0.fc.linear: matmul 64x48x32 nn: 0.20 MFLOP, 0.03 MB, at least {{.*}} ms, bound by
// TOTAL: Total,Count
// TOTAL: Total,5
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>) -> (tensor<64x48xf32>, tensor<1x48xf32>) {
  %h.0.fc.linear = tcc.linear %x, %w, %b : tensor<64x32xf32>, tensor<32x48xf32>, tensor<48xf32> -> tensor<64x48xf32>
  %h.0.gelu = tcc.gelu %h.0.fc.linear : tensor<64x48xf32>
  %total = tcc.reduce_sum %h.0.gelu axes [0] : tensor<64x48xf32> -> tensor<1x48xf32>
  return %h.0.gelu, %total : tensor<64x48xf32>, tensor<1x48xf32>
}
