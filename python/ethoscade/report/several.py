"""`ethoscade compile` with several models: each compiled by itself, their C and their archive written together.

Owns what is printed and written then. One model is `commands`' business.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..codegen import bundle
from ..codegen.c.options import COptions
from ..errors import ConfigError, EthoscadeError
from ..pipeline.many import BUNDLE, CompiledMany, chosen, compile_many
from ..util.files import MANIFEST_SUFFIX, write_together
from . import commands, console, summary


def compile_models(args: argparse.Namespace, options: COptions) -> int:
    """Compile all, write what can be written, tell what cannot; returns the exit status."""
    if args.explain:
        raise ConfigError("--explain is for one model, and several were given")
    many = compile_many(args.models, **commands.told(args))
    files, places, refused = _render(many, args.emit, options)
    if not files:
        raise next(iter(refused.values()))
    folder = Path(args.output)
    write_together(folder, files, f"{BUNDLE}{MANIFEST_SUFFIX}")
    written = {artefact: str(folder / name) for artefact, name in places.items()}
    checks = {
        name: one.verify(args.seeds, runs=args.runs) if args.verify else None for name, one in many.networks.items()
    }
    report: dict[str, Any] = {
        "schema_version": summary.SCHEMA_VERSION,
        "networks": {name: summary.compile_json(one, {}, checks[name]) for name, one in many.networks.items()},
        "workspace_bytes": many.workspace_bytes,
        "artifacts": written,
        "manifest": str(folder / f"{BUNDLE}{MANIFEST_SUFFIX}"),
        "not_written": [{"artifact": what, **summary.error_json(error)} for what, error in refused.items()],
    }
    texts = [summary.compile_text(one, checks[name]) for name, one in many.networks.items()]
    text = "\n\n".join(texts) + f"\n\none arena for all of them: {many.workspace_bytes:,} bytes\n"
    text += "\n".join(f"wrote {path}" for path in (*written.values(), report["manifest"]))
    commands.print_report(args, report, text)
    for what, error in refused.items():
        console.complain(f"{what} was not written, but {' and '.join(written)}: {error}")
    if any(check is not None and not check.ok for check in checks.values()):
        return commands.DIFFERENT
    return commands.FAULTY if refused else commands.DONE


def _render(
    many: CompiledMany, artefacts: tuple[str, ...], options: COptions
) -> tuple[dict[str, bytes], dict[str, str], dict[str, EthoscadeError]]:
    """All files by name, the artefacts' places in the folder, and the errors of those that cannot be written."""
    together = tuple(artefact for artefact in artefacts if artefact in bundle.TOGETHER)
    made = bundle.render_many(chosen(many, options), together, BUNDLE)
    files, places, refused = dict(made.files), dict(made.places), dict(made.refused)
    for name, one in many.networks.items():
        alone = tuple(artefact for artefact in artefacts if artefact not in together)
        own = bundle.render(one.artifact, alone, replace(options, module_name=name))
        files |= own.files
        places |= {f"{artefact} of {name}": place for artefact, place in own.places.items()}
        refused |= {f"{artefact} of {name}": error for artefact, error in own.refused.items()}
    return files, places, refused
