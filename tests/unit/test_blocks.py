"""The OFM blocks that the planner chooses are blocks that Vela's own check accepts for that operation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ethoscade import testing
from ethoscade.codegen import vela
from ethoscade.codegen.command_stream import build_operations
from ethoscade.codegen.operations import Kernel
from ethoscade.codegen.weights import lay_out
from ethoscade.errors import CodegenError
from ethoscade.frontend import read_tflite
from ethoscade.lowering.npu import tables_of
from ethoscade.pipeline import compiler
from ethoscade.pipeline.searches import explore
from ethoscade.scheduling import schedule as scheduling
from ethoscade.scheduling.program import CallOperator, LoadTable
from ethoscade.targets.target import ACCELERATORS, load_target


@pytest.mark.parametrize("accelerator", ACCELERATORS)
@pytest.mark.parametrize("seed", range(3))
def test_blocks_fit_shram_by_velas_rules(accelerator: str, seed: int) -> None:
    source = read_tflite(testing.random_network(seed))
    network = compiler.prepare(source, load_target(accelerator))
    curve = explore(network.problem, 0)
    seen = set()
    refused = 0
    for proposal in (curve.proposals[0], curve.proposals[-1]):
        arranged = scheduling.arrange(network.problem, proposal)
        steps = [step for step in arranged.program.steps if not isinstance(step, CallOperator)]
        used = {(step.stage, step.portion) for step in steps if not isinstance(step, LoadTable)}
        constants = lay_out(network.encoded, used, tables_of(network.npu.operations))
        for kernel in build_operations(network.npu.operations, steps, dict(enumerate(arranged.offsets)), constants):
            if not isinstance(kernel, Kernel):
                continue
            shape = (kernel.kind, kernel.window, kernel.block, kernel.output.shape)
            if shape not in seen:
                seen.add(shape)
                # Vela works out the shared buffer's layout for the block and refuses one that does not fit.
                assert vela.payload([kernel], [0], ACCELERATORS[accelerator])
                refused += _is_refused(replace(kernel, block=(32, 64, 128)), accelerator)
    assert seen
    assert refused == len(seen)


def _is_refused(kernel: Kernel, accelerator: str) -> bool:
    try:
        vela.payload([kernel], [0], ACCELERATORS[accelerator])
    except CodegenError:
        return True
    return False
