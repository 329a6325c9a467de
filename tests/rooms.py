"""Who may import whom, as data: `unit/test_imports.py` holds the sources to it, `tools/room_diagram.py` draws it."""

from __future__ import annotations

# From the ground up: a unit may import what `BELOW` says and nothing else of the project. A unit is a room, which is a
# folder or a file at the root. A room that is named module by module is divided: each module is a unit, and the room's
# own name is its `__init__`.
EVERYWHERE = {"util.frozen", "util.progress", "util.records", "util.temporary"}
GROUND = {"errors", "_core"}
BELOW: dict[str, set[str]] = {
    "errors": set(),
    "util": set(),
    "util.frozen": set(),
    "util.progress": set(),
    "util.records": set(),
    "util.temporary": set(),
    "util.arguments": {"errors"},
    "util.files": {"errors"},
    "util.sizes": {"errors", "util.arguments"},
    "util.toml": {"errors", "util.arguments", "util.files", "util.sizes"},
    "targets": set(),
    "targets.configurations": {"errors", "util.arguments", "util.files"},
    "targets.boards": {"errors", "util.arguments", "util.toml", "targets.configurations"},
    "targets.target": {"errors", "util.arguments", "util.sizes", "targets.boards", "targets.configurations"},
    "targets.cpus": {"errors", "util.arguments"},
    "targets.devices": {"errors", "_core", "util.arguments", "targets.target"},
    "targets.device_files": {"errors", "util.arguments", "util.toml", "targets.target", "targets.devices"},
    "ir": {"ir.attributes", "ir.graph", "ir.tensor"},
    "ir.tensor": {"errors"},
    "ir.tosa": {"ir.tensor"},
    "ir.tosa_operators": {"ir.tensor", "ir.tosa"},
    "ir.attributes": {"ir.tensor", "ir.tosa"},
    "ir.graph": {"errors", "ir.attributes", "ir.tensor"},
    "ir.quantised": {"ir.tensor"},
    "ir.opcodes": set(),
    "ir.schema": set(),
    "ir.operators": {"ir.attributes", "ir.graph", "ir.schema", "ir.tensor"},
    "frontend": {
        "errors", "ir", "ir.quantised", "ir.opcodes", "ir.schema", "ir.operators", "ir.tosa", "ir.tosa_operators",
    },
    "rewrites": {"errors", "ir", "ir.quantised", "ir.operators"},
    "lowering": {"targets.target", "ir", "ir.quantised", "ir.schema", "ir.operators"},
    "scheduling": {
        "errors", "_core", "util.arguments", "targets.target", "targets.devices", "ir", "ir.operators", "lowering",
    },
    "memory.model": {"errors", "util.arguments"},
    "memory.csv": {"errors", "util.arguments", "util.files", "memory.model"},
    "memory": {"errors", "_core", "util.arguments", "scheduling", "memory.model", "memory.csv"},
    "judge": set(),
    "judge.judges": {"ir", "ir.operators", "judge.reference"},
    "judge.reference": {"errors", "ir", "ir.operators", "ir.tosa"},
    "judge.litert_models": set(),
    "judge.litert": {"errors", "ir", "judge.litert_models"},
    "judge.litert_child": set(),
    "judge.tosa_model": {"errors", "ir"},
    "judge.tosa_child": set(),
    "judge.noise": {"ir"},
    "judge.evaluation": {
        "errors", "ir", "ir.operators", "judge.judges", "judge.reference", "judge.litert", "judge.noise",
    },
    "judge.verification": {"errors", "ir", "judge.evaluation", "judge.litert", "judge.noise"},
    "testing": {"ir", "ir.quantised", "ir.operators", "judge.reference"},
    "codegen": {
        "errors", "_core", "util.arguments", "util.files", "targets.target", "ir", "ir.quantised", "ir.opcodes",
        "ir.schema", "ir.operators", "frontend", "lowering", "scheduling",
    },
    "page": {"errors", "util.files"},
    "run": set(),
    "run.inputs": {"errors", "util.arguments", "ir"},
    "run.cpu_operators": {"errors", "ir", "ir.operators", "judge.judges", "judge.reference", "judge.litert"},
    "run.simulator": {"errors", "_core", "util.arguments"},
    "run.played": {"errors", "_core", "targets.target"},
    "run.timing": {"errors", "_core", "util.arguments", "targets.target", "run.played"},
    "run.dataflow": {"_core"},
    "run.resources": {"errors", "ir", "ir.operators"},
    "run.compiled_file": {"errors", "ir", "ir.schema", "frontend", "codegen"},
    "run.inference": {"errors", "ir", "codegen", "run.cpu_operators", "run.resources", "run.simulator"},
    "run.execution": {
        "errors", "util.arguments", "ir", "frontend", "codegen", "run.inputs", "run.compiled_file", "run.cpu_operators",
        "run.inference", "run.resources",
    },
    "run.streaming": {"errors", "ir", "codegen", "run.execution", "run.inference", "run.inputs"},
    "run.pairing": {"errors", "ir", "judge.noise"},
    "run.host_c": {"errors", "_core", "ir", "codegen", "run.inputs"},
    "run.judgement": {
        "errors", "ir", "judge.evaluation", "judge.verification", "codegen", "run.cpu_operators", "run.execution",
        "run.host_c", "run.pairing",
    },
    "trace": {
        "errors", "_core", "util.files", "targets.target", "ir", "codegen", "run.timing", "run.dataflow",
        "run.compiled_file",
    },
    "analysis": set(),
    "analysis.macs": {"ir"},
    "analysis.explanation": {"errors", "ir", "lowering", "scheduling"},
    "analysis.table": {
        "_core", "targets.target", "lowering", "scheduling", "codegen", "run.played", "run.timing",
        "analysis.explanation",
    },
    "analysis.arrival": {"targets.target", "codegen", "run.played"},
    "analysis.cpu_time": {"errors", "targets.cpus", "targets.target", "ir", "analysis.table"},
    "analysis.addresses": {"targets.target", "lowering", "scheduling", "codegen", "analysis.explanation"},
    "analysis.facts": {
        "_core", "targets.target", "ir", "lowering", "scheduling", "codegen", "page", "analysis.cpu_time",
        "analysis.explanation", "analysis.table",
    },
    "analysis.advice": {
        "targets.target", "ir", "rewrites", "lowering", "codegen", "analysis.explanation", "analysis.table",
    },
    "pipeline": set(),
    "pipeline.renaming": {"ir", "ir.operators", "lowering"},
    "pipeline.partition": {"targets.target", "ir", "ir.operators", "rewrites", "lowering", "pipeline.renaming"},
    "pipeline.curve": {"errors", "util.arguments", "scheduling", "page"},
    "pipeline.borders": {"errors", "util.arguments", "ir", "lowering", "codegen"},
    "pipeline.interface": {"ir", "pipeline.borders"},
    "pipeline.encoding": {"targets.target", "lowering", "scheduling", "codegen"},
    "pipeline.network": {
        "targets.target", "ir", "rewrites", "lowering", "scheduling", "codegen", "pipeline.encoding",
        "pipeline.partition",
    },
    "pipeline.searches": {"lowering", "scheduling", "codegen", "pipeline.curve", "pipeline.network"},
    "pipeline.emission": {"errors", "lowering", "scheduling", "codegen", "pipeline.network"},
    "pipeline.recording": {
        "targets.target", "lowering", "scheduling", "codegen", "run.timing", "trace", "analysis.cpu_time",
        "analysis.table",
    },
    "pipeline.debugging": {"ir", "lowering", "scheduling", "codegen", "trace"},
    "pipeline.compiled": {
        "errors", "util.arguments", "util.files", "targets.target", "ir", "frontend", "rewrites", "lowering",
        "scheduling", "judge.verification", "codegen", "run.timing", "run.execution", "run.judgement",
        "pipeline.borders", "analysis.addresses", "analysis.explanation", "pipeline.interface", "analysis.table",
        "trace", "pipeline.recording", "pipeline.debugging", "page", "analysis.facts", "targets.cpus",
        "analysis.cpu_time", "analysis.arrival", "pipeline.curve", "run.streaming",
    },
    "pipeline.compiler": {
        "errors", "targets.target", "ir", "ir.operators", "frontend", "rewrites", "lowering", "scheduling", "codegen",
        "pipeline.borders", "analysis.macs", "pipeline.partition", "analysis.explanation", "pipeline.compiled",
        "analysis.table", "pipeline.curve", "pipeline.encoding", "pipeline.network", "pipeline.searches",
        "pipeline.emission",
    },
    "pipeline.check": {
        "util.arguments", "targets.target", "frontend", "scheduling", "codegen", "pipeline.borders",
        "analysis.explanation", "analysis.table", "analysis.advice", "pipeline.compiler",
    },
    "pipeline.planning": {
        "errors", "util.arguments", "targets.target", "targets.devices", "ir", "ir.operators", "frontend", "rewrites",
        "lowering", "scheduling", "pipeline.partition", "pipeline.compiled", "pipeline.compiler",
        "pipeline.curve", "pipeline.searches", "targets.device_files",
    },
    "pipeline.lines": {"errors", "codegen", "pipeline.compiled", "pipeline.curve"},
    "pipeline.prepared": {
        "errors", "util.arguments", "targets.target", "ir", "frontend", "scheduling", "codegen", "pipeline.borders",
        "pipeline.compiled", "pipeline.compiler", "pipeline.network", "pipeline.searches", "pipeline.lines", "page",
    },
    "pipeline.many": {
        "errors", "util.arguments", "util.files", "targets.target", "codegen", "pipeline.compiled", "pipeline.compiler",
        "pipeline.prepared",
    },
    "sliding": set(),
    "sliding.rows": {"errors", "ir", "ir.attributes", "ir.operators"},
    "sliding.file": {
        "errors", "util.arguments", "ir", "frontend", "rewrites", "judge.reference", "sliding.rows",
    },
    "project": {
        "errors", "_core", "util.arguments", "util.files", "ir", "lowering", "codegen", "judge.verification",
        "run.simulator",
    },
    "sweeps": {
        "errors", "_core", "util.arguments", "util.files", "targets.boards", "targets.target", "frontend", "scheduling",
        "codegen", "pipeline.borders", "pipeline.compiled", "pipeline.compiler", "pipeline.prepared", "page",
    },
    "report": {
        "errors", "targets.target", "ir", "ir.operators", "rewrites", "lowering", "memory.model", "memory",
        "judge.judges", "judge.verification", "codegen", "run.timing", "analysis.addresses", "analysis.explanation",
        "pipeline.interface", "analysis.table", "pipeline.compiled", "targets.configurations", "targets.boards", "page",
        "analysis.cpu_time", "pipeline.check",
    },
    "explorer": {"errors", "frontend", "trace"},
    "cli": {
        "errors", "util.arguments", "util.files", "targets.configurations", "targets.boards", "targets.target", "ir",
        "frontend", "rewrites", "lowering", "memory.model", "memory", "judge.verification", "codegen",
        "run.compiled_file", "run.execution", "run.judgement", "run.pairing", "pipeline.borders", "pipeline.compiled",
        "pipeline.compiler", "pipeline.many", "pipeline.prepared", "project", "report", "trace", "page", "targets.cpus",
        "pipeline.check", "targets.device_files", "pipeline.planning", "sweeps", "analysis.macs", "sliding.file",
    },
    "__main__": {"errors", "_core", "cli", "report"},
    "__init__": {
        "errors", "_core", "targets.cpus", "targets.devices", "targets.target", "run.execution", "run.simulator",
        "analysis.addresses", "pipeline.compiled", "pipeline.many", "pipeline.planning", "pipeline.prepared",
        "analysis.table", "project", "analysis.advice", "pipeline.check", "sweeps", "pipeline.curve", "sliding.file",
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
    "search": {"util", "stripe", "model", "cost", "schedule", "plans", "usmp"},
}  # fmt: skip
RUST_BELOW["python"] = set(RUST_BELOW)  # pyo3's glue is for all rooms, and nobody may use it


def room(name: str) -> str:
    """The room of a unit or a module."""
    return name.split(".")[0] or "__init__"
