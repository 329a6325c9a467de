"""What Model Explorer registers: an adapter that draws a compiled file, and a provider of numbers for its nodes.

Owns the translation to Model Explorer's types; graphs and numbers are `trace.graph`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model_explorer import Adapter, AdapterMetadata, ModelExplorerGraphs, graph_builder, node_data_builder
from model_explorer.node_data_provider import (
    GetConfigEditorsResult,
    NodeDataProvider,
    NodeDataProviderFilter,
    NodeDataProviderMetadata,
    NodeDataProviderResult,
)

from ..errors import EthoscadeError
from ..frontend import read_tflite
from ..trace.files import record_file, target_of, time_file
from ..trace.graph import graph, overlays
from ..trace.record import Record

ADAPTER = "ethoscade"


class EthosUAdapter(Adapter):  # type: ignore[misc]
    """Draws the commands of a .tflite with `ethos-u` operators, of any compiler."""

    metadata = AdapterMetadata(
        id=ADAPTER,
        name="Ethos-U commands (ethoscade)",
        description="NPU calls, cascades, operators, stripes and commands of a compiled .tflite",
        source_repo="",
        fileExts=["tflite"],
    )

    def convert(self, model_path: str, settings: Mapping[str, Any]) -> ModelExplorerGraphs:
        """The graph of a compiled file; there are no settings. Raises `EthoscadeError` for one that is not compiled."""
        return {"graphs": [_typed(graph(_record(model_path)))]}


class EthosUNumbers(NodeDataProvider):  # type: ignore[misc]
    """Cycles, bytes moved and live bytes of each command of such a graph."""

    metadata = NodeDataProviderMetadata(
        id="ethoscade_numbers",
        name="Cycles, bytes and live SRAM",
        description="What each command of the NPU costs by ethoscade's timing model, and the SRAM in use at it",
        source_repo="",
        icon="speed",
        filter=NodeDataProviderFilter(modelFileExts=["tflite"], adapterIds=[ADAPTER]),
    )

    def get_config_editors(self, provider_id: str) -> GetConfigEditorsResult:
        """There is nothing to choose."""
        return GetConfigEditorsResult(configEditors=[])

    def run(
        self, provider_id: str, model_path: str, graph_id: str, config_values: Mapping[str, Any], graph: Any
    ) -> NodeDataProviderResult:
        """The numbers of a compiled file, or why there are none."""
        try:
            found = overlays(_record(model_path))
        except EthoscadeError as error:
            return NodeDataProviderResult(error=str(error))
        return NodeDataProviderResult(
            result=[
                node_data_builder.GraphNodeData(
                    name=name,
                    results={
                        node: node_data_builder.NodeDataResult(**result) for node, result in data["results"].items()
                    },
                    gradient=[node_data_builder.GradientItem(**item) for item in data["gradient"]],
                    hideAggregatedStats=data.get("hideAggregatedStats"),
                    hideInChildrenStatsTable=data.get("hideInChildrenStatsTable", False),
                )
                for name, data in found.items()
            ]
        )


def _record(path: str) -> Record:
    """A file on record, timed on the system that it was made for as far as it says so."""
    file = read_tflite(path)
    return record_file(file, time_file(file), target_of(file))


def _typed(drawn: Mapping[str, Any]) -> graph_builder.Graph:
    """The graph in Model Explorer's classes."""
    from dacite import from_dict

    return from_dict(graph_builder.Graph, dict(drawn))
