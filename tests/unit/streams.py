"""Command streams by hand, for tests of the simulator: register names, operations, payloads."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

# Code and whether the command has two words; only what these tests need.
REGISTERS = {
    "IFM_PAD_TOP": (256, False),
    "IFM_PAD_LEFT": (257, False),
    "IFM_PAD_RIGHT": (258, False),
    "IFM_PAD_BOTTOM": (259, False),
    "IFM_PRECISION": (261, False),
    "IFM_UPSCALE": (263, False),
    "IFM_ZERO_POINT": (265, False),
    "IFM_WIDTH0_M1": (266, False),
    "IFM_HEIGHT0_M1": (267, False),
    "IFM_IB_END": (269, False),
    "IFM_REGION": (271, False),
    "OFM_WIDTH_M1": (273, False),
    "OFM_HEIGHT_M1": (274, False),
    "OFM_DEPTH_M1": (275, False),
    "OFM_PRECISION": (276, False),
    "OFM_BLK_WIDTH_M1": (277, False),
    "OFM_BLK_HEIGHT_M1": (278, False),
    "OFM_BLK_DEPTH_M1": (279, False),
    "OFM_ZERO_POINT": (280, False),
    "OFM_WIDTH0_M1": (282, False),
    "OFM_HEIGHT0_M1": (283, False),
    "OFM_REGION": (287, False),
    "KERNEL_WIDTH_M1": (288, False),
    "KERNEL_HEIGHT_M1": (289, False),
    "KERNEL_STRIDE": (290, False),
    "ACC_FORMAT": (292, False),
    "ACTIVATION": (293, False),
    "ACTIVATION_MIN": (294, False),
    "ACTIVATION_MAX": (295, False),
    "AB_START": (301, False),
    "BLOCKDEP": (303, False),
    "DMA0_SRC_REGION": (304, False),
    "DMA0_DST_REGION": (305, False),
    "IFM_BASE0": (0, True),
    "IFM_STRIDE_X": (4, True),
    "IFM_STRIDE_Y": (5, True),
    "OFM_BASE0": (16, True),
    "OFM_STRIDE_X": (20, True),
    "OFM_STRIDE_Y": (21, True),
    "OFM_SCALE": (36, True),
    "DMA0_SRC": (48, True),
    "DMA0_DST": (49, True),
    "DMA0_LEN": (50, True),
}
OPERATIONS = {"OP_STOP": 0, "OP_POOL": 5, "OP_DMA_START": 16}
U55_256 = 0x00003008


@dataclass
class Stream:
    """Commands so far; every method returns the stream itself."""

    words: list[int] = field(default_factory=list)

    def set(self, register: str, value: int) -> Stream:
        """Sets a register."""
        code, wide = REGISTERS[register]
        self.words += [code | 0x4000, value] if wide else [code | (value & 0xFFFF) << 16]
        return self

    def operation(self, name: str, parameter: int = 0) -> Stream:
        """Starts something."""
        self.words.append(OPERATIONS[name] | parameter << 16)
        return self

    def dma(self, source: tuple[int, int], destination: tuple[int, int], length: int) -> Stream:
        """A transfer between (region, offset) pairs."""
        self.set("DMA0_SRC_REGION", source[0]).set("DMA0_DST_REGION", destination[0])
        self.set("DMA0_SRC", source[1]).set("DMA0_DST", destination[1]).set("DMA0_LEN", length)
        return self.operation("OP_DMA_START")

    def max_pool(self, width: int) -> Stream:
        """A 1x1 maximum pool of one int8 row at offset 0 of region 1, to offset 32."""
        zeros = "IFM_PAD_TOP IFM_PAD_LEFT IFM_PAD_RIGHT IFM_PAD_BOTTOM IFM_UPSCALE IFM_ZERO_POINT IFM_HEIGHT0_M1 "
        zeros += "OFM_HEIGHT_M1 OFM_DEPTH_M1 OFM_ZERO_POINT OFM_HEIGHT0_M1 KERNEL_WIDTH_M1 KERNEL_HEIGHT_M1 "
        zeros += "KERNEL_STRIDE ACC_FORMAT ACTIVATION BLOCKDEP IFM_BASE0"
        for register in zeros.split():
            self.set(register, 0)
        sizes = {"OFM_WIDTH_M1": width - 1, "IFM_WIDTH0_M1": width - 1, "OFM_WIDTH0_M1": width - 1}
        strides = {"IFM_STRIDE_X": 1, "IFM_STRIDE_Y": width, "OFM_STRIDE_X": 1, "OFM_STRIDE_Y": width}
        shram = {"IFM_IB_END": 16, "AB_START": 16, "OFM_BLK_WIDTH_M1": 15, "OFM_BLK_HEIGHT_M1": 1}
        shram |= {"OFM_BLK_DEPTH_M1": 7}
        others = {"IFM_REGION": 1, "OFM_REGION": 1, "IFM_PRECISION": 1, "OFM_PRECISION": 1, "OFM_BASE0": 32}
        others |= {"ACTIVATION_MIN": -128, "ACTIVATION_MAX": 127}
        for register, value in (sizes | strides | shram | others).items():
            self.set(register, value)
        return self.operation("OP_POOL")

    def int16_average(self, width: int, function: int, limits: tuple[int, int]) -> Stream:
        """A 1x1 average pool of `width` int16 at offset 0 of region 1 to offset 64: times 6, function, clamp."""
        self.max_pool(width)
        self.words.pop()
        for register, value in {"IFM_PRECISION": 0x5, "OFM_PRECISION": 0x103, "OFM_BASE0": 64}.items():
            self.set(register, value)
        for side in ("IFM", "OFM"):
            self.set(f"{side}_STRIDE_X", 2).set(f"{side}_STRIDE_Y", 2 * width)
        self.set("OFM_SCALE", 6).set("ACTIVATION", function)
        self.set("ACTIVATION_MIN", limits[0]).set("ACTIVATION_MAX", limits[1])
        return self.operation("OP_POOL", 1)

    def payload(self, config: int = U55_256) -> bytes:
        """The driver payload, OP_STOP added."""
        words = [*self.words, 0xFFFF0000]
        head = [0x31504F43, 0x00100001, config, 0x10060000, 5, 5, 5, 2 | len(words) << 16]
        return struct.pack(f"<{len(head) + len(words)}I", *head, *words)


def copy_payload(config: int = U55_256) -> bytes:
    """Copies 16 bytes from offset 0 of region 0 to offset 16 of region 1."""
    return Stream().dma(source=(0, 0), destination=(1, 16), length=16).payload(config)
