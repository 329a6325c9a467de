"""The commands about projects: `new`, `build`, `flash` and `run`. Owns their effects, exit status and words."""

from __future__ import annotations

import argparse
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ..codegen import provenance
from ..codegen.c.options import COptions
from ..errors import ConfigError
from ..frontend import read_tflite
from ..judge.verification import check_available
from ..lowering.feature_maps import Layout
from ..pipeline.borders import applied
from ..project import folder as projects
from ..project.description import MODEL
from ..project.sections import Section, sections_of
from ..project.template import Project, Template
from ..project.trial import Trial, trial
from ..report import summary
from ..util.temporary import make_folder
from . import arguments
from .common import DIFFERENT, DONE, compile_as_told, print_report
from .working import working

_SCHEMA = {"schema_version": summary.SCHEMA_VERSION}


def add_new(command: argparse.ArgumentParser) -> None:
    """Adds what `new` takes to its parser."""
    command.set_defaults(run=new)
    arguments.add_json(command)
    command.add_argument(
        "--template", required=True, metavar="NAME", help="host, qemu-mps3-an547, cmsis, zephyr, or a file of your own"
    )
    command.add_argument("folder", metavar="DIR", help="where the project goes: a new or an empty folder")
    arguments.add_model(command)
    arguments.add_for_project(command)


def add_build(command: argparse.ArgumentParser) -> None:
    """Adds what `build` takes to its parser."""
    command.set_defaults(run=build)
    arguments.add_json(command)
    command.add_argument("folder", metavar="DIR", help="a project")


def add_flash(command: argparse.ArgumentParser) -> None:
    """Adds what `flash` takes to its parser."""
    command.set_defaults(run=flash)
    arguments.add_json(command)
    command.add_argument("folder", metavar="DIR", help="a project")


def add_run(command: argparse.ArgumentParser) -> None:
    """Adds what `run` takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    command.add_argument("place", metavar="DIR|MODEL", help="a project, or with --target a quantised .tflite file")
    command.add_argument(
        "--target", metavar="NAME", help="host, qemu, or another template: what to make of MODEL for this one run"
    )
    command.add_argument("--seeds", type=arguments.positive, default=3, help="random inputs (default: 3)")
    arguments.add_runs(command)
    arguments.add_for_project(command)
    command.set_defaults(untold={name: command.get_default(name) for name in arguments.OF_COMPILING})


def new(args: argparse.Namespace) -> int:
    """`ethoscade new`."""
    project, template = _made(args, Path(args.folder))
    told = project.description
    # What other tools are told is relative to nothing.
    told_folder = args.folder if template.build_tools else str(project.folder.resolve())
    text = (
        f"made '{args.folder}' for {told.network}: {template.summary}\n"
        f"README.md there tells what is what; {template.building.replace('{folder}', told_folder)}"
    )
    print_report(args, {**_SCHEMA, "project": args.folder, "template": template.name, "module": told.module}, text)
    return DONE


def build(args: argparse.Namespace) -> int:
    """`ethoscade build`."""
    elf = projects.build(*projects.opened(Path(args.folder)))
    sections = sections_of(elf)
    report = {**_SCHEMA, "elf": str(elf), "sections": [asdict(section) for section in sections]}
    print_report(args, report, "\n".join([f"built {elf}", *_section_lines(sections)]))
    return DONE


def flash(args: argparse.Namespace) -> int:
    """`ethoscade flash`."""
    project, template = projects.opened(Path(args.folder))
    projects.flash(project, template)
    print_report(args, {**_SCHEMA, "flashed": args.folder}, f"flashed '{args.folder}'")
    return DONE


def run(args: argparse.Namespace) -> int:
    """`ethoscade run`, of a project's folder or, with --target, of a model."""
    check_available()
    if args.target is None:
        _check_project_alone(args)
        project, template = projects.opened(Path(args.place))
        return _tried(args, project, template)
    if Path(args.place).is_dir():
        raise ConfigError(f"'{args.place}' is a folder; --target is for a model, and a project has its template")
    projects.template_named(args.target).check_tools(to_run=True)
    with make_folder("ethoscade-run-") as scratch:
        args.model, args.template = args.place, args.target
        return _tried(args, *_made(args, Path(scratch) / "project"))


def _check_project_alone(args: argparse.Namespace) -> None:
    """Raises `ConfigError` for what is no project, or for options of `compile` beside one."""
    if Path(args.place).is_file():
        raise ConfigError(f"'{args.place}' is a file: say by --target what to run it on, host or qemu")
    for name, default in args.untold.items():
        if getattr(args, name) != default:
            raise ConfigError(
                f"--{name.replace('_', '-')} would say how to compile, and project '{args.place}' is compiled already; "
                f"make another with `ethoscade new`"
            )


def _made(args: argparse.Namespace, folder: Path) -> tuple[Project, Template]:
    template = projects.template_named(args.template)
    if args.input_memory is not None:
        raise ConfigError(
            f"--input-memory is {args.input_memory}, and a project's inputs lie in its arena, where the link writes "
            f"them: write C by `ethoscade compile --emit c`, or leave it out"
        )
    projects.check_free(folder)
    compiled = compile_as_told(args, is_c=True)
    options = replace(COptions(), module_name=args.module_name, weights=args.weights)
    own = Path(args.template) if args.template.endswith(".py") else None
    bricks = {
        tensor.graph_tensor: tensor.shape
        for tensor in compiled.npu.tensors
        if tensor.layout is Layout.NHCWB16 and tensor.graph_tensor is not None
    }
    made = projects.make(template, folder, compiled.artifact, options, io=args.io, bricks=bricks, own_template=own)
    return made, template


def _tried(args: argparse.Namespace, project: Project, template: Template) -> int:
    source = applied(read_tflite(project.folder / MODEL), project.description.io)[0]
    with working(args) as progress:
        found = trial(project, template, source, args.seeds, args.runs, progress=progress)
    report: dict[str, Any] = {
        **_SCHEMA,
        "model": project.description.network,
        "template": template.name,
        "verification": summary.verification_json(found.check),
        "sections": [asdict(section) for section in found.sections],
        "calls": [asdict(call) for call in found.times],
        "instructions_per_tick": template.instructions_per_tick,
        "resent_requests": found.resent,
    }
    print_report(args, report, _text(project, template, found))
    return DONE if found.check.ok else DIFFERENT


def _text(project: Project, template: Template, found: Trial) -> str:
    network, check = project.description.network, found.check
    lines = [
        (
            f"'{network}' on '{template.name}': {check.mismatches:,} of {check.elements:,} output elements differ "
            f"from the reference ({check.judge}), on {check.seeds} seeds, runs in a row: {check.runs}"
        ),
        *([f"{check.hazards:,} hazards reported by the simulator", *check.findings] if check.hazards else []),
        *_section_lines(found.sections),
    ]
    on_cpu = [call for call in found.times if call.where == "cpu"]
    programs = sum(call.where == "npu" for call in found.times)
    unit = "ticks" if template.instructions_per_tick is None else "instructions"
    factor = template.instructions_per_tick or 1
    if on_cpu:
        width = max(len(call.kind) for call in on_cpu)
        (names,) = provenance.short([[call.name for call in on_cpu]])
        total = round(sum(call.ticks for call in on_cpu) * factor)
        lines.append(f"operators on the CPU, {total:,} {unit} in the last run:")
        lines += [
            f"  {round(call.ticks * factor):>13,}  {call.kind:<{width}}  {name}"
            for call, name in zip(on_cpu, names, strict=True)
        ]
    if programs:
        lines.append(f"{programs} NPU program{'s' if programs > 1 else ''}, executed by the simulator and not timed")
    return "\n".join(lines)


def _section_lines(sections: tuple[Section, ...]) -> list[str]:
    width = max((len(section.name) for section in sections), default=0)
    return [
        f"  {section.size_bytes:>11,}  {section.name:<{width}}  {section.kind:<9}  at {section.address:#x}"
        for section in sections
    ]
