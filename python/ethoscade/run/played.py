"""A command stream as the core's timing model plays it on a target, told in the core's own tuples.

Owns the one call of the model: which memory is behind which port, and which region lies in which memory. What the
tuples are `_core.pyi` says; `timing` makes types of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .. import _core
from ..errors import ConfigError
from ..targets.target import Memory, Target

if TYPE_CHECKING:
    from .._core import TimedEvent, TimedTotals, TimedTraffic

_REGIONS = 8
_CONSTANTS_REGION, _CACHE_REGION, _FIRST_INPUT_REGION = 0, 2, 3


def played(
    payload: bytes, target: Target, rules: Mapping[str, int] | None = None
) -> tuple[TimedTotals, list[tuple[str, TimedTraffic]], list[TimedEvent]]:
    """Totals, the memories by name with what goes through each, and the operations in time; of a driver payload.

    Region 0 lies in the target's constants, region 2 in its cache, those from 3 on in the memory of its inputs if it
    has one, the others in its arena. Raises `SimulationError` for a payload that is not one or was made for another
    accelerator, `ConfigError` for a rule that does not exist.
    """
    inputs = target.arena if target.inputs is None else target.inputs
    memories = list(dict.fromkeys((target.cache, target.arena, target.constants, inputs)))
    places = dict.fromkeys(range(_FIRST_INPUT_REGION, _REGIONS), inputs)
    places |= {_CONSTANTS_REGION: target.constants, _CACHE_REGION: target.cache}
    regions = [memories.index(places.get(region, target.arena)) for region in range(_REGIONS)]
    try:
        totals, ports, events = _core.time_payload(
            bytes(payload),
            target.accelerator.name,
            [_port(memory) for memory in memories],
            regions,
            regions[_CONSTANTS_REGION],
            list((rules or {}).items()),
        )
    except (ValueError, OverflowError) as error:
        raise ConfigError(str(error)) from error
    return totals, [(memory.name, port) for memory, port in zip(memories, ports, strict=True)], events


def _port(memory: Memory) -> tuple[str, int, int, int, int, int]:
    rate = memory.bytes_per_cycle
    return (memory.name, rate[0], rate[1], memory.read_latency, memory.write_latency, memory.burst_bytes)
