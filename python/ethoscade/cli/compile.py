"""`ethoscade compile`, of one model or of several: their C and their archive are written together.

Owns its arguments, what is refused before anything is compiled, and what is printed and written.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codegen import bundle, micro_arena
from ..codegen.c.options import COptions, Networks
from ..errors import ConfigError, EthoscadeError
from ..frontend import read_tflite
from ..pipeline.compiled import Compiled
from ..report import summary
from ..util.files import MANIFEST_SUFFIX, write_together, write_whole
from . import arguments, budgets, console, pictures, tables, traces
from .common import (
    DIFFERENT,
    DONE,
    FAULTY,
    STDIN,
    compile_as_told,
    model_of,
    print_report,
    tell_of_board,
    told,
)
from .working import working

if TYPE_CHECKING:
    from ..judge.verification import Verification


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Adds what the command takes to its parser."""
    command.set_defaults(run=run)
    arguments.add_json(command)
    arguments.add_model(command, several=True)
    command.add_argument("-o", "--output", "--output-dir", metavar="DIR", default="out", help="folder (default: out)")
    arguments.add_target(command)
    arguments.add_budget(command)
    command.add_argument(
        "--emit",
        type=arguments.artefact_list,
        default=("tflite",),
        metavar="LIST",
        help=f"of {','.join(bundle.ARTEFACTS)}; default tflite",
    )
    arguments.add_c(command)
    command.add_argument(
        "--explain", action="store_true", help="say how the network is cut and what is alive at its peak"
    )
    traces.add_arguments(command)
    command.add_argument("--verify", action="store_true", help="compare with the reference interpreter afterwards")
    command.add_argument("--seeds", type=arguments.positive, default=3, help="random inputs to verify on (default: 3)")
    arguments.add_runs(command)
    tables.add_arguments(command)
    pictures.add_arguments(command)


def run(args: argparse.Namespace) -> int:
    """`ethoscade compile`."""
    if args.verify:
        from ..judge.verification import check_available

        check_available()
    tables.check(args)
    pictures.check(args)
    options = _c_options(args)
    traces.check(args)
    if len(args.models) > 1:
        return _compile_models(args, options)
    (args.model,) = args.models
    if "," in (args.sram or ""):
        write = functools.partial(written_out, args, options)
        return budgets.compile_all(args, write, is_c=is_c(args))
    return _compile_one(args, options)


def _c_options(args: argparse.Namespace) -> COptions:
    """What is chosen of the C. Raises `ConfigError` for choices that nothing of what is written would follow."""
    options = COptions(
        args.module_name, args.workspace, args.workspace_io, args.weights, args.share_workspace, args.executor
    )
    if options != COptions() and not {"c", "mlf", "tflite-c"} & set(args.emit):
        raise ConfigError(
            f"--module-name, --workspace, --share-workspace, --workspace-io, --weights and --executor are about C; "
            f"--emit {','.join(args.emit)} has none: add c, mlf or tflite-c"
        )
    if args.share_workspace and len(args.models) == 1:
        raise ConfigError("--share-workspace is for several models, and one was given")
    if args.module_name is not None and len(args.models) > 1:
        raise ConfigError("--module-name is for one model; of several the files' names are taken")
    if "," in (args.sram or "") and len(args.models) > 1:
        raise ConfigError(f"--sram {args.sram} are several budgets, which are for one model; several models were given")
    if args.explain and len(args.models) > 1:
        raise ConfigError("--explain is for one model, and several were given")
    return options


def is_c(args: argparse.Namespace) -> bool:
    """Whether C is written that has the network's arena."""
    return bool({"c", "mlf"} & set(args.emit))


def _compile_one(args: argparse.Namespace, options: COptions) -> int:
    """`ethoscade compile` with one model and one budget, or none."""
    compiled = compile_as_told(args, is_c=is_c(args))
    report, text, status = written_out(args, options, compiled, Path(args.output))
    report["tables"], report["pictures"] = tables.write(args, [compiled]), pictures.write(args, compiled)
    report["traces"] = traces.write(args, compiled)
    print_report(args, report, text + tables.listing(report["tables"] | report["pictures"] | report["traces"]))
    return status


def written_out(
    args: argparse.Namespace, options: COptions, compiled: Compiled, folder: Path
) -> tuple[dict[str, Any], str, int]:
    """Write a network's artefacts and verify it where that is asked for: its report as JSON and text, and exit status.

    Raises the first error if nothing can be written.
    """
    made = bundle.render(compiled.artifact, args.emit, options)
    if not made.files:
        raise next(iter(made.refused.values()))
    written, manifest = _write(compiled, folder, made)
    check = _verified(args, compiled)
    # Either is printed, never both.
    report = summary.compile_json(compiled, written, check, args.cpu) if args.json else {}
    text = "" if args.json else summary.compile_text(compiled, check, args.cpu)
    report["manifest"] = manifest
    if "tflite" in written:
        file = read_tflite(made.files[made.places["tflite"]])
        arena, warnings = micro_arena.of_file(file), compiled.micro_warnings
        report["tflm"] = summary.micro_json(arena, warnings)
        text += f"\n{summary.micro_text(arena, warnings)}"
    report["not_written"] = [{"artifact": kind, **summary.error_json(error)} for kind, error in made.refused.items()]
    if args.explain:
        explanation = compiled.explain()
        report["explanation"] = summary.explanation_json(explanation)
        text += f"\n\n{explanation}"
    for kind, error in made.refused.items():
        console.complain(f"{kind} was not written, but {' and '.join(written)}: {error}")
    different = check is not None and not check.ok
    return report, text + _listing(written, manifest), DIFFERENT if different else FAULTY if made.refused else DONE


def _compile_models(args: argparse.Namespace, options: COptions) -> int:
    """Compile all, write what can be written, tell what cannot; returns the exit status."""
    from ..pipeline.many import chosen, compile_many

    if args.models.count(STDIN) > 1:
        raise ConfigError(f"{STDIN} is named {args.models.count(STDIN)} times; there is one stdin to read a model from")
    with working(args) as progress:
        models = [model_of(name) for name in args.models]
        many = compile_many(models, **told(args, is_c=is_c(args)), progress=progress)
    files, places, refused = _render(chosen(many, options), args.emit)
    if not files:
        raise next(iter(refused.values()))
    folder = Path(args.output)
    write_together(folder, files, f"{bundle.ALL}{MANIFEST_SUFFIX}")
    written = {artefact: str(folder / name) for artefact, name in places.items()}
    checks = {name: _verified(args, one) for name, one in many.networks.items()}
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "networks": {
            name: summary.compile_json(one, {}, checks[name], cpu=args.cpu) for name, one in many.networks.items()
        },
        "workspace_bytes": many.workspace_bytes,
        "artifacts": written,
        "manifest": str(folder / f"{bundle.ALL}{MANIFEST_SUFFIX}"),
        "not_written": [{"artifact": what, **summary.error_json(error)} for what, error in refused.items()],
    }
    texts = [summary.compile_text(one, checks[name], cpu=args.cpu) for name, one in many.networks.items()]
    text = "\n\n".join(texts) + f"\n\none arena for all of them: {many.workspace_bytes:,} bytes\n"
    text += "\n".join(f"wrote {path}" for path in (*written.values(), report["manifest"]))
    report["tables"] = tables.write(args, list(many.networks.values()))
    text += tables.listing(report["tables"])
    print_report(args, report, text)
    for what, error in refused.items():
        console.complain(f"{what} was not written, but {' and '.join(written)}: {error}")
    for one in many.networks.values():
        tell_of_board(args, one)
    if any(check is not None and not check.ok for check in checks.values()):
        return DIFFERENT
    return FAULTY if refused else DONE


def _verified(args: argparse.Namespace, compiled: Compiled) -> Verification | None:
    """What comparing it with the reference came to, where that is asked for."""
    if not args.verify:
        return None
    with working(args) as progress:
        return compiled.verify(args.seeds, runs=args.runs, progress=progress)


def _write(compiled: Compiled, folder: Path, made: bundle.Bundle) -> tuple[dict[str, str], str | None]:
    """Write the artefacts' files together; returns the artefacts' paths, and that of the list of hashes.

    A single file is whole or not there: it needs no list, and None is returned for it.
    """
    manifest = f"{compiled.name}{MANIFEST_SUFFIX}"
    if len(made.files) > 1:
        write_together(folder, made.files, manifest)
    else:
        for name, data in made.files.items():
            write_whole(folder / name, data)
    listed = str(folder / manifest) if len(made.files) > 1 else None
    return {artefact: str(folder / name) for artefact, name in made.places.items()}, listed


def _listing(written: Mapping[str, str], manifest: str | None) -> str:
    lines = [f"\nwrote {'C sources into ' if kind == 'c' else ''}{path}" for kind, path in written.items()]
    return "".join(lines) + (f"\nwrote {manifest}, the hashes of these files" if manifest else "")


def _render(
    networks: Networks, artefacts: tuple[str, ...]
) -> tuple[dict[str, bytes], dict[str, str], dict[str, EthoscadeError]]:
    """All files by name, the artefacts' places in the folder, and the errors of those that cannot be written."""
    together = tuple(artefact for artefact in artefacts if artefact in bundle.TOGETHER)
    made = bundle.render_many(networks, together, bundle.ALL)
    files, places, refused = dict(made.files), dict(made.places), dict(made.refused)
    for artifact, options in networks:
        alone = tuple(artefact for artefact in artefacts if artefact not in together)
        own = bundle.render(artifact, alone, options)
        files |= own.files
        places |= {f"{artefact} of {options.module_name}": place for artefact, place in own.places.items()}
        refused |= {f"{artefact} of {options.module_name}": error for artefact, error in own.refused.items()}
    return files, places, refused
