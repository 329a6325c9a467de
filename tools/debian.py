"""Debian's packages, unpacked into a folder of the caller's: for tools that no package registry else has.

Nothing is installed and the system's package lists are left as they are, so that packages of another architecture can
be had as well. Owns how apt is asked; knows nothing of what the packages are for. Without apt there are none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

_CONFIGURATION = """\
Dir::State::lists "{folder}/lists";
Dir::State::status "/dev/null";
Dir::Cache::archives "{folder}/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Debug::NoLocking "1";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
"""


def said(command: Sequence[str], **more: str) -> str:
    """What a command prints; nothing where it fails or is not there."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **more})
    except OSError:
        return ""
    return done.stdout if done.returncode == 0 else ""


class Packages:
    """Debian's packages of one architecture, as apt's sources know them. `folder` keeps lists and archives."""

    def __init__(self, folder: Path, architecture: str) -> None:
        for part in ("lists/partial", "archives/partial"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        self.folder = folder
        configuration = folder / "apt.conf"
        configuration.write_text(_CONFIGURATION.format(folder=folder, architecture=architecture), encoding="utf-8")
        self._environment = {"APT_CONFIG": str(configuration)}
        self.is_there = bool(
            shutil.which("apt-get") and shutil.which("dpkg") and said(["apt-get", "--version"])
        ) and self._ran("apt-get", "update", "-qq")

    def versions(self, name: str) -> list[str]:
        """The versions of a package, the newest first."""
        lines = said(["apt-cache", "madison", name], **self._environment).splitlines() if self.is_there else []
        return [line.split("|")[1].strip() for line in lines if "Packages" in line]

    def unpacked(self, names: Sequence[str], root: Path, *, with_needs: bool = True) -> bool:
        """Put packages (NAME or NAME=VERSION) below `root`, with all that they need; whether that went well."""
        archives = self.folder / "archives"
        for old in archives.glob("*.deb"):
            old.unlink()
        if not self.is_there:
            return False
        if with_needs:
            fetched = self._ran("apt-get", "install", "-y", "-qq", "--download-only", "--no-install-recommends", *names)
        else:
            fetched = self._ran("apt-get", "download", "-qq", *names, cwd=archives)
        found = sorted(archives.glob("*.deb"))
        return fetched and bool(found) and all(self._ran("dpkg", "-x", str(path), str(root)) for path in found)

    def _ran(self, *command: str, cwd: Path | None = None) -> bool:
        environment = {**os.environ, **self._environment, "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(
            command, cwd=cwd, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True
        )
        return done.returncode == 0
