"""What all files of one network share: its names, the bodies of its CPU operators, and the constants that these read.

Owns `Module`, which `codegen.c_kernels` knows as `Operands`. Writes no file.
"""

from __future__ import annotations

from dataclasses import field

from ...errors import CodegenError
from ...ir import Graph, Operator, Tensor
from ...util.records import dataclass
from ..artifact import Artifact, CpuCall, FeedCall, TakeCall
from ..c_kernels import Source, written
from ..c_kernels.chosen import replaced
from ..layout import distinct_payloads, npu_calls, padded, verify
from . import state
from .names import module_identifier, tensor_identifiers
from .options import COptions


@dataclass(frozen=True, eq=False)
class Module:
    """A network on its way to C: bodies of CPU calls by call number, and the constants that the data file defines."""

    artifact: Artifact
    options: COptions
    name: str
    tensor_names: dict[int, str]
    cpu_bodies: dict[int, str] = field(default_factory=dict)
    cpu_statuses: dict[int, str] = field(default_factory=dict)
    kernel_files: dict[Source, None] = field(default_factory=dict)
    constants: dict[int, None] = field(default_factory=dict)

    @property
    def prefix(self) -> str:
        """What all names of the network begin with."""
        return f"tvmgen_{self.name}"

    @property
    def macro(self) -> str:
        """What all macros of the network begin with."""
        return self.prefix.upper()

    @property
    def has_npu(self) -> bool:
        """Whether the NPU is called at all."""
        return bool(npu_calls(self.artifact))

    @property
    def cpu_returns(self) -> str:
        """What functions of operators on the CPU return: a status where one of them can fail, as a library's can."""
        return "int32_t" if self.cpu_statuses else "void"

    @property
    def has_fast(self) -> bool:
        """Whether programs of the NPU use a memory of its own beside the arena."""
        return bool(self.artifact.fast_bytes)

    @property
    def has_state(self) -> bool:
        """Whether bytes of the arena live on from one run to the next."""
        return bool(self.artifact.graph.variables)

    @property
    def has_pools(self) -> bool:
        """Whether the caller brings the memory of each run."""
        return self.options.has_pools

    @property
    def inputs(self) -> tuple[int, ...]:
        """The tensors that the caller brings, each once."""
        return tuple(dict.fromkeys(self.artifact.graph.given))

    @property
    def external(self) -> tuple[int, ...]:
        """External inputs, by region from 3 on."""
        return self.artifact.external

    @property
    def feeds(self) -> tuple[FeedCall, ...]:
        """The arrivals of a streamed input's rows, in order; none where inputs are there as a whole."""
        return self.artifact.feeds

    @property
    def takes(self) -> tuple[TakeCall, ...]:
        """The departures of a streamed output's rows, in order; none where outputs are there as a whole."""
        return self.artifact.takes

    @property
    def is_streamed(self) -> bool:
        """Whether a run stops for rows to be handed over."""
        return bool(self.feeds or self.takes)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that the caller gets, each once."""
        return tuple(dict.fromkeys(self.artifact.graph.handed_out))

    @property
    def weights(self) -> bytes:
        """The NPU's constants, in whole steps of 16 bytes and never empty where there is an NPU."""
        return padded(self.artifact.constants) if self.has_npu else b""

    @property
    def weights_as(self) -> str:
        """How the weights come: "array", "incbin" or "pool"; "" where there are none."""
        return self.options.weights_of(len(self.weights)) if self.has_npu else ""

    def tensor(self, index: int) -> Tensor:
        """A tensor of the network."""
        return self.artifact.graph.tensors[index]

    def source(self, index: int) -> str:
        """`Operands.source`: a constant is noted, so that the data file defines it."""
        if self.tensor(index).is_constant:
            self.constants[index] = None
            return f"(const uint8_t*){self.constant(index)}"
        return self.target(index)

    def target(self, index: int) -> str:
        """`Operands.target`."""
        return f"arena + {self.artifact.offsets[index]}"

    def place(self, index: int, arena: str) -> str:
        """The C expression for where an input or output lies.

        `arena` is that for the arena; what is not there has NULL.
        """
        if index in self.artifact.elsewhere:
            return "NULL"
        if self.tensor(index).is_constant:
            return f"(void*)(uintptr_t){self.constant(index)}"
        return f"{arena} + {self.artifact.offsets[index]}"

    def constant(self, index: int) -> str:
        """The array of a constant tensor."""
        return state.constant_symbol(self.prefix, index)

    def initial(self, variable: int) -> str:
        """The array with what a variable holds before the first run."""
        return f"{self.prefix}_variable_{variable}"

    def payload(self, number: int) -> str:
        """The array of a program of the NPU, by its place among the different ones."""
        return f"{self.prefix}_payload_{number}"

    @property
    def weights_symbol(self) -> str:
        """The array of the weights."""
        return f"{self.prefix}_weights"

    def programs(self) -> dict[str, bytes]:
        """The NPU's programs by symbol, equal ones once."""
        return {self.payload(number): payload for number, payload in enumerate(distinct_payloads(self.artifact))}

    def cpu_constants(self) -> dict[str, bytes]:
        """What the CPU reads, by symbol: first values of variables, constants of its operators."""
        symbols = {self.initial(number): value for number, value in state.arrays(self.artifact).items()}
        for index in self.constants:
            data = self.tensor(index).data
            if data is not None:
                symbols[self.constant(index)] = data.tobytes()
        return symbols


def make(artifact: Artifact, options: COptions) -> Module:
    """The module of an artefact. Raises `CodegenError` and `UnsupportedOperatorError` for what cannot be C."""
    graph = verify(artifact).graph
    state.check(artifact)
    if options.shares_arena and graph.variables:
        raise CodegenError(
            f"'{artifact.name}' keeps state in its arena from one run to the next (variable "
            f"'{graph.variables[0].name}'): it cannot share the arena with other networks; compile it by itself"
        )
    if (options.has_graph and artifact.elsewhere) or (options.workspace_io and artifact.external):
        choice = "executor 'graph'" if options.has_graph else "workspace_io, by which inputs stay in the arena,"
        is_streamed = options.has_graph and artifact.handovers
        does = "has rows handed over while it runs" if is_streamed else "reads its inputs in a memory of their own"
        raise CodegenError(f"'{artifact.name}' {does}, which {choice} has no word for: leave one of the two out")
    outer = {index: graph.tensors[index].name for index in (*graph.given, *graph.handed_out)}
    name = options.module_name or module_identifier(artifact.name)
    module = Module(artifact, options, name, tensor_identifiers(outer))
    for number, call in enumerate(artifact.calls):
        if isinstance(call, CpuCall):
            operator = graph.operators[call.operator]
            _refuse_state(graph, operator)
            made = written(graph, operator, module, artifact.kernels)
            emitted = replaced(artifact.kernels, made, f"arena + {call.workspace_offset}")
            module.cpu_bodies[number] = emitted.text
            if emitted.status:
                module.cpu_statuses[number] = emitted.status
            module.kernel_files.update(dict.fromkeys(emitted.sources))
    for index in graph.outputs:
        if graph.tensors[index].is_constant:
            module.constants[index] = None
    return module


def _refuse_state(graph: Graph, operator: Operator) -> None:
    kept = next((t for t in operator.inputs if t is not None and graph.tensors[t].is_variable), None)
    if kept is not None:
        raise CodegenError(
            f"operator '{operator.name}' ({operator.kind}) keeps state in variable '{graph.tensors[kept].name}', "
            f"which the C sources neither set up nor keep from one run to the next; write a .tflite file"
        )
