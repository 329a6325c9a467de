"""Cycles of Vela's streams by an independent model with the rules of ours (docs/timing.md, "Evidence")."""

from __future__ import annotations

# Core and aim of the Vela that made the stream.
COLUMNS = (("regor", "Performance"), ("legacy", "Performance"), ("regor", "Size"), ("legacy", "Size"))
# By model, in the order of COLUMNS.
INDEPENDENT = {
    "kws_ref_int8": (56_928, 60_236, 96_599, 95_350),
    "ad01_int8": (202_668, 202_725, 202_668, 202_725),
    "resnet8_int8": (144_657, 142_606, 305_586, 310_116),
    "vww_96_int8": (159_020, 157_664, 194_262, 216_679),
    "person_detect": (295_383, 305_184, 359_883, 392_216),
    "mobilenet_v1_0.25_128_uint8": (595_403, 586_535, 649_437, 679_125),
    "mobilenet_v1_1.0_224_embed_uint8": (4_494_193, 4_478_851, 5_863_484, 5_917_304),
    "mobilenet_v2_1.0_224_ptq": (5_910_427, 5_974_610, 6_740_305, 7_012_429),
}
