"""What a release is made of: one version, licences of what is compiled in, a complete sdist, workflows that can run."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ethoscade
import pytest
from test_imports import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import build_library
import release_check
import third_party
from oldest import tomllib

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_version_is_written_once() -> None:
    """Cargo.toml's, which the core carries: pyproject.toml has none, the pages and lists that name it have the same."""
    version = release_check.version()
    assert version == ethoscade.__version__
    assert "version" not in PROJECT and "version" in PROJECT["dynamic"]
    for path in ("Cargo.lock", "fuzz/Cargo.lock"):
        locked = re.search(r'name = "ethoscade-core"\nversion = "([^"]+)"', (ROOT / path).read_text(encoding="utf-8"))
        assert locked and locked[1] == version, f"{path}: `cargo update --offline -p ethoscade-core` there"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (.*)$", changes, re.MULTILINE)[:2] == ["Unreleased", f"{version} (unreleased)"]


def test_releases_of_the_changelog_are_in_order() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## (\d+)\.(\d+)\.(\d+)\b", changes, re.MULTILINE)
    numbers = [tuple(map(int, parts)) for parts in released]
    assert numbers and numbers == sorted(set(numbers), reverse=True)


def test_metadata_names_files_and_pythons_that_are_there() -> None:
    assert PROJECT["license"] == tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["package"]["license"]
    assert sorted(PROJECT["license-files"]) == sorted(release_check.LICENCES)
    assert all((ROOT / name).is_file() for name in PROJECT["license-files"])
    promised = [word.rpartition(" ")[2] for word in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", word)]
    assert promised[0] == PROJECT["requires-python"].removeprefix(">=")
    assert set(promised) <= set(release_check.VERSIONS)
    tried = re.findall(r"python: \[(.*)\]", (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert re.findall(r'"([\d.]+)"', *tried) == promised


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> release_check.Check:
    folder = tmp_path_factory.mktemp("release")
    (folder / "dist").mkdir()
    return release_check.Check(folder, "none")


needs_cargo = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed")


@needs_cargo
def test_licences_of_what_is_compiled_in_are_listed(check: release_check.Check) -> None:
    """Run tools/third_party.py where this fails."""
    assert release_check.words(check).endswith("crates linked")


@needs_cargo
def test_the_sdist_has_every_file_of_the_tree(check: release_check.Check, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("maturin")
    assert re.match(r"\d+ files", release_check.sdist(check, Path(sys.executable)))
    if not (ROOT / ".git").exists():
        return
    said = release_check.said
    monkeypatch.setattr(release_check, "said", lambda command: said(command) + "rust/src/new.rs\n")
    with pytest.raises(release_check.Failed, match=r"differ in \['rust/src/new\.rs'\]"):
        release_check.sdist(check, Path(sys.executable))


def package(name: str, *, licence: str | None, folder: Path, kind: str = "lib") -> dict[str, Any]:
    manifest = str(folder / name / "Cargo.toml")
    told = {"name": name, "id": name, "version": "1.0.0", "license": licence, "repository": f"https://{name}"}
    return {**told, "targets": [{"kind": [kind]}], "manifest_path": manifest}


def needs(name: str, kind: str | None = None) -> dict[str, Any]:
    return {"pkg": name, "dep_kinds": [{"kind": kind}]}


def resolved(tmp_path: Path, licence: str | None) -> dict[str, Any]:
    """A crate that links `deep` by way of `near`, and needs two others to be built."""
    packages = [
        package("root", licence="MIT", folder=tmp_path),
        package("near", licence="MIT/Apache-2.0", folder=tmp_path),
        package("deep", licence=licence, folder=tmp_path),
        package("macros", licence="MIT", folder=tmp_path, kind="proc-macro"),
        package("builder", licence="MIT", folder=tmp_path),
    ]
    nodes = [
        {"id": "root", "deps": [needs("near"), needs("macros"), needs("builder", "build")]},
        {"id": "near", "deps": [needs("deep")]},
        *({"id": name, "deps": []} for name in ("deep", "macros", "builder")),
    ]
    return {"packages": packages, "resolve": {"root": "root", "nodes": nodes}}


def test_a_crate_is_listed_if_its_code_is_linked(tmp_path: Path) -> None:
    found = resolved(tmp_path, "(MIT OR Apache-2.0) AND Unicode-3.0")
    assert [one["name"] for one in third_party.linked(found)] == ["deep", "near"]
    (tmp_path / "deep").mkdir()
    with pytest.raises(SystemExit, match=r"deep 1\.0\.0 comes without a licence"):
        third_party.page(found)
    (tmp_path / "deep" / "LICENSE-UNICODE").write_text("Permission is granted.\n", encoding="utf-8")
    page = third_party.page(found)
    assert "| [near](https://near) | 1.0.0 | MIT/Apache-2.0 | Apache-2.0 |" in page
    assert page.endswith("\n## deep: LICENSE-UNICODE\n\n```text\nPermission is granted.\n```\n")


def test_the_table_tells_what_was_left_out_and_what_failed(check: release_check.Check) -> None:
    def fails() -> str:
        raise release_check.Failed("no such wheel")

    quiet = release_check.Check(check.folder, "none")
    quiet.run("a", lambda: "fine")
    quiet.run("b", lambda: str(release_check.wheel_of(quiet, release_check.TARGETS[0])))
    quiet.run("c", fails)
    lines = [[cell.strip() for cell in line.split("|")[1:4]] for line in quiet.table().splitlines()[2:]]
    told = [["a", "ok", "fine"], ["b", "left out", "there is no wheel to try"], ["c", "FAILED", "no such wheel"]]
    assert lines == told


def test_files_of_several_interpreters_are_compared(check: release_check.Check) -> None:
    rows = [("on Python 3.10", "ok", "bit-exact, its file aa", 1.0), ("on aarch64", "ok", "into aa", 1.0)]
    alike = release_check.Check(check.folder, "none", rows=rows)
    assert release_check.same_bytes(alike) == "aa"
    alike.rows.append(("on Python 3.11", "ok", "its file ab", 1.0))
    with pytest.raises(release_check.Failed, match="2 different files: aa, ab"):
        release_check.same_bytes(alike)


def test_windows_has_no_library_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_library.main(tmp_path, "x86_64-pc-windows-msvc") == 0
    assert not list(tmp_path.iterdir())
    assert "not made for Windows" in capsys.readouterr().err


def commands(workflow: Path) -> Iterator[str]:
    """What a workflow runs."""
    for line in workflow.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"\s*(?:- )?run: (.*)$", line):
            yield found[1]


def test_workflows_fit_the_schema() -> None:
    pytest.importorskip("check_jsonschema")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*command, *WORKFLOWS], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_workflows_run_what_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    extras = set(PROJECT["optional-dependencies"])
    ran = [command for workflow in WORKFLOWS for command in commands(workflow)]
    assert len(ran) > 15
    for command in ran:
        assert all((ROOT / path).is_file() for path in re.findall(r"\b(?:tools|examples)/\w+\.py", command)), command
        assert set(re.findall(r"\bmake ([a-z-]+)", command)) <= targets, command
        assert set(re.findall(r"\[(\w+)\]\"", command)) <= extras, command
        assert set(re.findall(r"install_dependencies\.py (\w+)", command)) <= extras, command
    built = re.findall(r"target: ([\w-]+)", (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    assert set(release_check.TARGETS) <= set(built)
