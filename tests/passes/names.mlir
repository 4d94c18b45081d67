// Names of values come out as kernels' labels: the result's first, then what else is in the kernel, in few words; a
// composite keeps one name; gradients end in ".grad", those of arguments are named after them. A number that the printer
// puts after an op's own name is no part of it.
// RUN: %tcc %s -emit=fused | FileCheck %s
// RUN: %tcc %s -emit=json | FileCheck %s --check-prefix=PLAN
// RUN: %tcc %s -emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: %tcc %s -emit=asm | FileCheck %s --check-prefix=ASM
// RUN: %tcc %s -emit=cuda | FileCheck %s --check-prefix=CUDA
// RUN: %tcc %s -emit=captured | %tcc -x graph - -emit=fused | FileCheck %s

// CHECK: func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>, %v: tensor<48x16xf32>)
// CHECK: %h.0.fc.linear = tcc.matmul %x, %w
// CHECK: tcc.kernel attributes {label = "h.0.gelu+bias"}
// CHECK: %h.0.out = tcc.matmul
// CHECK: tcc.kernel attributes {label = "square.grad"}
// CHECK: %h.0.out.grad = tcc.matmul
// CHECK: tcc.kernel attributes {label = "h.0.gelu.grad+b.grad+fc.bias"}
// CHECK: %w.grad = tcc.matmul
// CHECK: tcc.kernel attributes {label = "b.grad"}

// PLAN: "description": "h.0.gelu+bias"
// PLAN: "label": "h.0.fc.linear: matmul 64x48x32 nn"
// PLAN: "label": "w.grad: matmul 32x48x64 tn"
// LLVM: ; h.0.gelu+bias: 1 x
// ASM: # h.0.gelu+bias: 1 x
// CUDA: // k{{[0-9]+}}_add_gelu: h.0.gelu+bias
func.func @main(%x: tensor<64x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>, %v: tensor<48x16xf32>)
    -> (tensor<32x48xf32>, tensor<48xf32>) {
  %h.0.fc.linear = tcc.linear %x, %w, %b : tensor<64x32xf32>, tensor<32x48xf32>, tensor<48xf32> -> tensor<64x48xf32>
  %h.0.gelu_7 = tcc.gelu %h.0.fc.linear : tensor<64x48xf32>
  %h.0.out = tcc.matmul %h.0.gelu_7, %v : tensor<64x48xf32>, tensor<48x16xf32> -> tensor<64x16xf32>
  %square = tcc.mul %h.0.out, %h.0.out : tensor<64x16xf32>
  %loss = tcc.reduce_sum %square axes [0, 1] : tensor<64x16xf32> -> tensor<1x1xf32>
  %0 = tcc.reshape %loss : tensor<1x1xf32> -> tensor<f32>
  %1:2 = tcc.gradient %0 wrt %w, %b : tensor<f32>, tensor<32x48xf32>, tensor<48xf32>
  return %1#0, %1#1 : tensor<32x48xf32>, tensor<48xf32>
}
