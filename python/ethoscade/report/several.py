"""`ethoscade compile`, and what it does with several models: their C and their archive are written together.

Owns what is refused before anything is compiled, and what is printed and written of several. One is `commands`'.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..codegen import bundle
from ..codegen.c.options import COptions, Networks
from ..errors import ConfigError, EthoscadeError
from ..util.files import MANIFEST_SUFFIX, write_together
from . import commands, console, summary


def compile_command(args: argparse.Namespace) -> int:
    """`ethoscade compile`."""
    if args.verify:
        from ..judge.verification import check_available

        check_available()
    options = _c_options(args)
    if len(args.models) > 1:
        return _compile_models(args, options)
    (args.model,) = args.models
    return commands.compile_model(args, options)


def _c_options(args: argparse.Namespace) -> COptions:
    """What is chosen of the C. Raises `ConfigError` for choices that nothing of what is written would follow."""
    options = COptions(args.module_name, args.workspace, args.workspace_io, args.weights, args.share_workspace)
    if options != COptions() and not {"c", "mlf", "tflite-c"} & set(args.emit):
        raise ConfigError(
            f"--module-name, --workspace, --share-workspace, --workspace-io and --weights are about C; "
            f"--emit {','.join(args.emit)} has none: add c, mlf or tflite-c"
        )
    if args.share_workspace and len(args.models) == 1:
        raise ConfigError("--share-workspace is for several models, and one was given")
    if args.module_name is not None and len(args.models) > 1:
        raise ConfigError("--module-name is for one model; of several the files' names are taken")
    if args.explain and len(args.models) > 1:
        raise ConfigError("--explain is for one model, and several were given")
    return options


def _compile_models(args: argparse.Namespace, options: COptions) -> int:
    """Compile all, write what can be written, tell what cannot; returns the exit status."""
    from ..pipeline.many import chosen, compile_many

    many = compile_many(args.models, **commands.told(args))
    files, places, refused = _render(chosen(many, options), args.emit)
    if not files:
        raise next(iter(refused.values()))
    folder = Path(args.output)
    write_together(folder, files, f"{bundle.ALL}{MANIFEST_SUFFIX}")
    written = {artefact: str(folder / name) for artefact, name in places.items()}
    checks = {
        name: one.verify(args.seeds, runs=args.runs) if args.verify else None for name, one in many.networks.items()
    }
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "networks": {name: summary.compile_json(one, {}, checks[name]) for name, one in many.networks.items()},
        "workspace_bytes": many.workspace_bytes,
        "artifacts": written,
        "manifest": str(folder / f"{bundle.ALL}{MANIFEST_SUFFIX}"),
        "not_written": [{"artifact": what, **summary.error_json(error)} for what, error in refused.items()],
    }
    texts = [summary.compile_text(one, checks[name]) for name, one in many.networks.items()]
    text = "\n\n".join(texts) + f"\n\none arena for all of them: {many.workspace_bytes:,} bytes\n"
    text += "\n".join(f"wrote {path}" for path in (*written.values(), report["manifest"]))
    commands.print_report(args, report, text)
    for what, error in refused.items():
        console.complain(f"{what} was not written, but {' and '.join(written)}: {error}")
    for one in many.networks.values():
        commands.tell_of_lines(one, args.emit)
    if any(check is not None and not check.ok for check in checks.values()):
        return commands.DIFFERENT
    return commands.FAULTY if refused else commands.DONE


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
