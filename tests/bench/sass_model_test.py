#!/usr/bin/env python3
"""Tests of sass_walk.py and sass_model.py: a listing by hand, products by hand, and a step that NVRTC compiles.

    sass_model_test.py TCC GRAPH

The last part is skipped where nvdisasm or NVRTC is missing.
"""
import os
import subprocess
import sys
import tempfile
import unittest

import sass_model
import sass_walk

# for (r = warp of the thread; r < 64; r += 8) { load, multiply }; then a division with its cold path.
LISTING = """
.text.k:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/                   ULDC.64 UR4, c[0x0][0x210] ;
        /*0020*/                   SHF.R.U32.HI R0, RZ, 0x5, R0 ;
        /*0030*/                   HFMA2.MMA R6, -RZ, RZ, 0, 0.0001220703125 ;
.L_x_1:
        /*0040*/                   IMAD.WIDE R2, R0, 0x4, R8 ;
        /*0050*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0060*/                   IADD3 R0, R0.reuse, 0x8, RZ ;
        /*0070*/                   FMUL R5, R4, 0.5 ;
        /*0080*/                   ISETP.GE.AND P0, PT, R0, 0x40, PT ;
        /*0090*/              @!P0 BRA `(.L_x_1) ;
        /*00a0*/                   FCHK P1, R5, R4 ;
        /*00b0*/              @!P1 BRA `(.L_x_2) ;
        /*00c0*/                   CALL.REL.NOINC `(.L_x_3) ;
.L_x_2:
        /*00d0*/                   ISETP.NE.AND P2, PT, R6, 0x800, PT ;
        /*00e0*/               @P2 EXIT ;
        /*00f0*/                   MUFU.RCP R5, R4 ;
        /*0100*/                   EXIT ;
.L_x_3:
        /*0110*/                   RET.REL.NODEC R2 `(k) ;
"""


def walk(thread, listing=LISTING, parameters=bytes(16)):
    kernel = sass_walk.parse(listing)["k"]
    return sass_walk.Walk(kernel, thread, (0, 0), [256, 1, 1, 4, 1, 1], parameters, {}, 0x210, 10000).run()


class Walks(unittest.TestCase):
    def test_rounds_of_a_loop(self):
        for thread in (0, 37, 255):
            counts = walk(thread).counts
            self.assertEqual(counts["FMUL"], 8)  # 64 rows by 8 warps
            self.assertEqual(counts["LDG.E"], 8)
            self.assertEqual((counts["MUFU.RCP"], counts["CALL.REL.NOINC"]), (1, 0))

    def test_waits_for_memory_follow_each_other(self):
        self.assertEqual((walk(0).waits, walk(0).nearWaits), (8, 0))
        again = LISTING.replace("IMAD.WIDE R2, R0, 0x4, R8", "IMAD.WIDE R2, RZ, 0x4, RZ")
        self.assertEqual((walk(0, again).waits, walk(0, again).nearWaits), (1, 7))
        self.assertEqual(walk(0).unresolved, set())

    def test_a_loop_over_the_unknown_is_reported(self):
        listing = LISTING.replace("ISETP.GE.AND P0, PT, R0, 0x40, PT", "FSETP.GE.AND P0, PT, R5, 1, PT")
        seen = walk(0, listing)
        self.assertEqual(seen.counts["FMUL"], 1)
        self.assertNotEqual(seen.unresolved, set())

    def test_a_parameter_bounds_a_loop(self):
        listing = LISTING.replace("PT, R0, 0x40, PT", "PT, R0, c[0x0][0x218], PT")
        parameters = bytes(8) + (24).to_bytes(4, "little") + bytes(4)
        self.assertEqual(walk(0, listing, parameters).counts["FMUL"], 3)

    def test_tables_of_three_words(self):
        self.assertEqual(sass_walk.bits(0b1100, 0xC0, [0b1010, None]), 0b1000)
        self.assertIsNone(sass_walk.bits(0b1100, 0x96, [0b1010, None]))


class Products(unittest.TestCase):
    product = {"m": 768, "n": 3072, "k": 32768, "batch": [1, 1]}

    def test_split_sums_fill_the_last_wave(self):
        seconds = [sass_model.productSeconds(self.product, sass_model.H100, size << 20) for size in (0, 32, 256)]
        self.assertGreater(seconds[0], seconds[1])
        self.assertGreaterEqual(seconds[1], seconds[2])
        self.assertGreater(seconds[2], 2 * 768 * 3072 * 32768 / sass_model.PRODUCTS)

    def test_a_whole_wave_takes_what_its_flops_take(self):
        product = {"m": 128 * 132, "n": 256, "k": 1024, "batch": [1, 1]}
        self.assertAlmostEqual(sass_model.productSeconds(product, sass_model.H100, 0) * sass_model.PRODUCTS,
                               2 * 128 * 132 * 256 * 1024, delta=1)


class Steps(unittest.TestCase):
    def test_a_compiled_step(self):
        program = sass_model.disassembler(None)
        if not program:
            self.skipTest("nvdisasm is not found")
        with tempfile.TemporaryDirectory() as folder:
            compiled = [TCC, GRAPH, "--target=cuda", "-march=sm_90a"]
            made = subprocess.run([*compiled, "-emit=cubin"], cwd=folder, capture_output=True, text=True, check=False)
            if "libnvrtc" in made.stderr or "NVRTC" in made.stderr:
                self.skipTest(made.stderr.strip())
            self.assertEqual(made.returncode, 0, made.stderr)
            subprocess.run([*compiled, "-emit=json", "-o", "plan.json"], cwd=folder, check=True)
            plan, kernels, figures = sass_model.Plan(os.path.join(folder, "plan.json")), {}, {}
            for cubin in made.stdout.split():
                kernels |= sass_walk.parse(sass_model.listingOf(os.path.join(folder, cubin), program))
                figures |= sass_model.figuresOf(os.path.join(folder, cubin))
        rows = sass_model.modelled(plan, kernels, figures, sass_model.H100, 10000)
        self.assertEqual(len(rows), len(plan.plan["instructions"]))
        for row in rows:
            self.assertGreater(row["seconds"], 0, row)
            if row["kind"] == "kernel":
                self.assertGreater(row["instructions"], 0)
                self.assertGreaterEqual(row["registers"], 8)


if __name__ == "__main__":
    TCC, GRAPH = (os.path.abspath(path) for path in sys.argv[1:3])
    unittest.main(argv=sys.argv[:1], verbosity=2)
