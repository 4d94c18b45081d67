// Device prelude: ldmatrix and mma.sync of a whole warp (sm_80 and later). Needs core.cuh.
// With g = lane / 4 and t = lane % 4, m16n8k16 fragments are:
//   A a[i]: row g + 8 * (i & 1), columns 2t and 2t + 1, + 8 * (i >> 1)
//   B b0, b1: rows 2t and 2t + 1, + 8 for b1, column g
//   D d[i]: row g + 8 * (i >> 1), column 2t + (i & 1)
#pragma once

// Loads four 8×8 matrices of 16-bit elements: `row` of lane 8m + r is the 16-byte row r of matrix m; afterwards lane
// 4g + t holds in r_m the elements (g, 2t) and (g, 2t + 1) of matrix m.
DEVICE void ldmatrix_x4(u32 &r0, u32 &r1, u32 &r2, u32 &r3, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(shared_address(row))
               : "memory");
}
// The same, each matrix transposed: lane 4g + t holds in r_m the elements (2t, g) and (2t + 1, g).
DEVICE void ldmatrix_x4_trans(u32 &r0, u32 &r1, u32 &r2, u32 &r3, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(shared_address(row))
               : "memory");
}
// Two matrices: lanes 0 to 15 give the rows, the other lanes' `row` is ignored.
DEVICE void ldmatrix_x2(u32 &r0, u32 &r1, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(r0), "=r"(r1)
               : "r"(shared_address(row))
               : "memory");
}
DEVICE void ldmatrix_x2_trans(u32 &r0, u32 &r1, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(r0), "=r"(r1)
               : "r"(shared_address(row))
               : "memory");
}

// d += A · B, A 16×16 row-major, B 16×8, d 16×8 in float.
DEVICE void mma_m16n8k16_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
DEVICE void mma_m16n8k16_f16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
               "{%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
