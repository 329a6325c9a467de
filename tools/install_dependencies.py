"""Install what pyproject.toml lists for developing, without building the package (maturin does that, incrementally).

    python tools/install_dependencies.py [EXTRA]

With the name of an extra, what that one lists and nothing else. Run with the virtual environment's Python. TensorFlow
Lite Micro's kernels are a second judge of a few operators; they have development releases for some platforms only, so
failing to get them is not an error.
"""

import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib

PIP = [sys.executable, "-m", "pip", "install", "--quiet"]


def main() -> int:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if sys.argv[1:]:
        return subprocess.run([*PIP, *project["optional-dependencies"][sys.argv[1]]]).returncode
    wanted = project["dependencies"] + project["optional-dependencies"]["dev"]
    status = subprocess.run([*PIP, *wanted]).returncode
    if status == 0 and subprocess.run([*PIP, "--pre", "--only-binary", ":all:", "tflite_micro"]).returncode != 0:
        print("tflite_micro is not available here; tests that need it will say so", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
