"""Who may import whom, as data: `unit/test_imports.py` holds the sources to it, `tools/room_diagram.py` draws it."""

from __future__ import annotations

# From the ground up: a unit may import what `BELOW` says and nothing else of the project. A unit is a room, which is a
# folder or a file at the root. A room that is named module by module is divided: each module is a unit, and the room's
# own name is its `__init__`. On the right a divided room's name stands for any of its units.
EVERYWHERE = {"util.frozen"}
GROUND = {"errors", "_core"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "util": set(),
    "util.frozen": set(),
    "util.arguments": {"errors"},
    "util.files": {"errors"},
    "target": {"errors", "util.arguments", "util.files"},
    "devices": {"errors", "_core", "util.arguments", "target"},
    "ir": {"errors"},
    "quantised": {"ir"},
    "opcodes": set(),
    "schema": set(),
    "operators": {"ir", "schema"},
    "frontend": {"errors", "ir", "quantised", "opcodes", "schema", "operators"},
    "rewrites": {"errors", "ir", "quantised", "operators"},
    "lowering": {"target", "ir", "quantised", "schema", "operators"},
    "scheduling": {"errors", "_core", "util.arguments", "target", "devices", "ir", "operators", "lowering"},
    "memory.model": {"errors", "util.arguments"},
    "memory.csv": {"errors", "util.arguments", "util.files", "memory.model"},
    "memory": {"errors", "_core", "util.arguments", "scheduling", "memory.model", "memory.csv"},
    "judge": set(),
    "judge.judges": {"ir", "operators", "judge.reference"},
    "judge.reference": {"errors", "ir", "operators"},
    "judge.litert_models": set(),
    "judge.litert": {"errors", "ir", "judge.litert_models"},
    "judge.litert_child": set(),
    "judge.noise": {"ir"},
    "judge.verification": {
        "errors", "ir", "operators", "judge.judges", "judge.reference", "judge.litert", "judge.noise",
    },
    "testing": {"ir", "quantised", "operators", "judge.reference"},
    "codegen": {
        "errors", "_core", "util.arguments", "util.files", "target", "ir", "quantised", "opcodes", "schema",
        "operators", "frontend", "lowering", "scheduling",
    },
    "run": set(),
    "run.inputs": {"errors", "util.arguments", "ir"},
    "run.cpu_operators": {"errors", "ir", "operators", "judge.judges", "judge.reference", "judge.litert"},
    "run.simulator": {"errors", "_core", "util.arguments"},
    "run.timing": {"errors", "_core", "util.arguments", "target"},
    "run.execution": {
        "errors", "util.arguments", "ir", "frontend", "codegen", "run.inputs", "run.cpu_operators", "run.simulator",
    },
    "run.host_c": {"errors", "_core", "ir", "codegen", "run.inputs"},
    "run.judgement": {
        "errors", "ir", "judge.verification", "codegen", "run.cpu_operators", "run.execution", "run.host_c",
    },
    "pipeline": set(),
    "pipeline.renaming": {"ir", "operators", "lowering"},
    "pipeline.partition": {"target", "ir", "operators", "rewrites", "lowering", "pipeline.renaming"},
    "pipeline.macs": {"ir"},
    "pipeline.explanation": {"errors", "ir", "lowering", "scheduling"},
    "pipeline.borders": {"errors", "util.arguments", "ir", "lowering", "scheduling", "memory", "codegen"},
    "pipeline.state": {"ir", "scheduling", "memory", "codegen"},
    "pipeline.compiled": {
        "errors", "util.arguments", "util.files", "target", "ir", "frontend", "rewrites", "lowering", "scheduling",
        "judge.verification", "codegen", "run.timing", "run.execution", "run.judgement", "pipeline.borders",
        "pipeline.explanation",
    },
    "pipeline.compiler": {
        "errors", "target", "ir", "frontend", "rewrites", "lowering", "scheduling", "codegen",
        "pipeline.borders", "pipeline.macs", "pipeline.partition", "pipeline.explanation", "pipeline.compiled",
        "pipeline.state",
    },
    "pipeline.planning": {
        "errors", "util.arguments", "target", "devices", "ir", "operators", "frontend", "rewrites", "lowering",
        "scheduling", "pipeline.borders", "pipeline.partition", "pipeline.explanation", "pipeline.compiled",
        "pipeline.compiler",
    },
    "pipeline.prepared": {
        "errors", "util.arguments", "target", "ir", "frontend", "scheduling", "codegen", "pipeline.borders",
        "pipeline.compiled", "pipeline.compiler",
    },
    "pipeline.many": {
        "errors", "util.arguments", "util.files", "codegen", "pipeline.compiled", "pipeline.compiler",
        "pipeline.prepared",
    },
    "project": {
        "errors", "_core", "util.arguments", "util.files", "ir", "lowering", "codegen", "judge.verification",
        "run.simulator",
    },
    "report": {
        "errors", "util.arguments", "util.files", "target", "ir", "operators", "frontend", "rewrites", "lowering",
        "memory.model", "memory",
        "judge.verification", "codegen", "run.timing", "run.execution", "run.judgement", "pipeline.borders",
        "pipeline.explanation", "pipeline.compiled", "pipeline.compiler", "pipeline.many", "pipeline.prepared",
        "project",
    },
    "__main__": {"errors", "_core", "util.arguments", "target", "codegen", "report"},
    "__init__": {
        "errors", "_core", "devices", "run.execution", "run.simulator", "pipeline.compiled", "pipeline.many",
        "pipeline.planning", "pipeline.prepared", "project",
    },
}  # fmt: skip

# Rust: a room may use what stands on its right.

RUST_BELOW: dict[str, set[str]] = {
    "util": set(),
    "stripe": set(),
    "propagator": {"stripe"},
    "npu": {"util"},
    "usmp": {"util"},
    "weights": {"util"},
    "model": {"stripe", "propagator", "npu"},
    "checker": {"util", "stripe", "model"},
    "cost": {"util", "stripe", "model", "npu"},
    "schedule": {"util", "stripe", "model", "cost"},
    "plans": {"util", "stripe", "propagator", "model", "cost", "schedule"},
    "proposals": {"util", "stripe", "model", "cost", "schedule", "plans", "usmp"},
}  # fmt: skip
RUST_BELOW["python"] = set(RUST_BELOW)  # pyo3's glue is for all rooms, and nobody may use it


def room(name: str) -> str:
    """The room of a unit or a module."""
    return name.split(".")[0] or "__init__"
