"""Projects of networks that call CMSIS-NN: built with its sources and run, here and on an emulated Cortex-M55.

The library itself is in the folder that the environment variable CMSIS_NN names. Without one its tests say so, and
a stand-in of its interface is built in its place.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from board_support import need
from command_line_support import Capture, run
from ethoscade.project.templates import TEMPLATES
from ethoscade.testing import keyword_spotting
from test_cmsis_nn import CORES, EXPECTED, STANDIN, network
from test_projects import refused

FULL = {"host": "host", "qemu": "qemu-mps3-an547"}
ALONE = ("--accelerator", "none")


def library() -> Path:
    """The folder of CMSIS-NN itself."""
    told = os.environ.get("CMSIS_NN")
    if not told or not (Path(told) / "Source").is_dir():
        pytest.skip("the environment variable CMSIS_NN names no folder of CMSIS-NN (github.com/ARM-software/CMSIS-NN)")
    return Path(told)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(network())
    return path


def made(template: str, model: Path, capfd: Capture, *options: str) -> Path:
    target = model.parent / template
    words = ["new", "--template", template, str(target), str(model), *ALONE, *options]
    status, _, err = run(words, capfd)
    assert (status, err) == (0, "")
    return target


@pytest.mark.parametrize("target", FULL)
def test_a_project_builds_what_it_calls(target: str, model: Path, capfd: Capture) -> None:
    need(TEMPLATES[FULL[target]], to_run=True)
    words = ["run", "--target", target, str(model), *ALONE, "--seeds", "2", "--json"]
    status, out, err = run([*words, "--kernels", "cmsis-nn:c", "--cmsis-nn", str(STANDIN)], capfd)
    report = json.loads(out)
    assert (status, err) == (0, "")
    assert report["verification"]["mismatches"] == 0 and report["verification"]["elements"] == 12


@pytest.mark.parametrize("dtype", EXPECTED)
@pytest.mark.parametrize(("target", "core"), [("host", "c"), ("qemu", "mve")])
def test_the_library_itself_is_the_reference(
    target: str, core: str, dtype: object, tmp_path: Path, capfd: Capture
) -> None:
    folder = library()
    need(TEMPLATES[FULL[target]], to_run=True)
    path = tmp_path / "net.tflite"
    path.write_bytes(network(dtype))  # type: ignore[arg-type]
    words = ["run", "--target", target, str(path), *ALONE, "--seeds", "2", "--json"]
    status, out, err = run([*words, "--kernels", f"cmsis-nn:{core}", "--cmsis-nn", str(folder)], capfd)
    assert (status, err) == (0, "") and json.loads(out)["verification"]["mismatches"] == 0


def test_the_library_itself_is_faster(tmp_path: Path, capfd: Capture) -> None:
    """Of a keyword spotter the library's vector functions take a tenth of the portable ones' instructions, or less."""
    folder = library()
    need(TEMPLATES["qemu-mps3-an547"], to_run=True)
    path = tmp_path / "net.tflite"
    path.write_bytes(keyword_spotting())
    ticks = []
    for options in ([], ["--kernels", "cmsis-nn:mve", "--cmsis-nn", str(folder)]):
        status, out, err = run(
            ["run", "--target", "qemu", str(path), *ALONE, "--seeds", "1", "--json", *options], capfd
        )
        report = json.loads(out)
        assert (status, err, report["verification"]["mismatches"]) == (0, "", 0)
        weighted = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
        ticks.append(sum(call["ticks"] for call in report["calls"] if call["kind"] in weighted))
    assert 0 < 10 * ticks[1] <= ticks[0], ticks


def declared(folder: Path) -> dict[str, list[str]]:
    """The functions of the library's header: their parameters, without names."""
    text = (folder / "Include" / "arm_nnfunctions.h").read_text()
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL)
    found = re.findall(r"\b(\w+)\s+(arm_\w+)\s*\(([^(){};]*)\)\s*;", text)
    return {
        name: [result, *(re.sub(r"\s+", "", re.sub(r"\w+$", "", one.strip())) for one in parameters.split(","))]
        for result, name, parameters in found
    }


def test_the_stand_in_has_the_interface_of_the_library() -> None:
    theirs, ours = declared(library()), declared(STANDIN)
    assert len(ours) == 14 and {name: theirs[name] for name in ours} == ours


@pytest.mark.parametrize("core", CORES)
def test_every_function_that_a_source_calls_is_there(core: str, model: Path, capfd: Capture) -> None:
    """Of the library itself: whatever a listed source names is defined in a listed one, or nowhere."""
    folder = library()
    target = made("host", model, capfd, "--kernels", f"cmsis-nn:{core}", "--cmsis-nn", str(folder))
    listed = re.findall(r'"\$\{CMSIS_NN\}/(Source/\S+\.c)"', (target / "CMakeLists.txt").read_text())
    told = json.loads((target / "ethoscade-project.json").read_text())
    assert listed == told["cmsis_nn_sources"] and told["cmsis_nn"] == str(folder.resolve())
    names = {path.stem for path in (folder / "Source").rglob("*.c")}
    called = {name for one in listed for name in re.findall(r"\barm_\w+(?=\()", (folder / one).read_text())}
    assert called & names <= {Path(one).stem for one in listed}
    assert len(listed) < len(names) / 4 and not [one for one in listed if re.search(r"_(s4|f16|f32)\b", one)]


def test_a_folder_without_sources_is_said(model: Path, tmp_path: Path, capfd: Capture) -> None:
    """The header is enough for `compile`, not for what is to be built."""
    (tmp_path / "Include").mkdir()
    header = STANDIN / "Include" / "arm_nnfunctions.h"
    (tmp_path / "Include" / header.name).write_bytes(header.read_bytes())
    options = [*ALONE, "--kernels", "cmsis-nn", "--cmsis-nn", str(tmp_path)]
    said = refused(["new", "--template", "host", str(tmp_path / "board"), str(model), *options], capfd)
    assert f"'{tmp_path}' has no source that defines arm_convolve_wrapper_s8" in said
    assert not (tmp_path / "board").exists()


def test_a_layer_asks_for_the_library(model: Path, capfd: Capture) -> None:
    """By the pack's name and the component's, as ARM.CMSIS-NN.pdsc of the library has them."""
    yaml = pytest.importorskip("yaml")
    target = made("cmsis", model, capfd, "--kernels", "cmsis-nn", "--cmsis-nn", str(STANDIN))
    (layer,) = yaml.safe_load((target / "network.clayer.yml").read_text()).values()
    assert layer["packs"] == [{"pack": "ARM::CMSIS-NN"}]
    assert layer["components"] == [{"component": "ARM::CMSIS:NN Lib"}]


def test_a_module_asks_for_the_library(model: Path, capfd: Capture) -> None:
    """By the options that Zephyr's modules/cmsis-nn/Kconfig has."""
    target = made("zephyr", model, capfd, "--kernels", "cmsis-nn", "--cmsis-nn", str(STANDIN))
    config = (target / "zephyr" / "Kconfig").read_text()
    assert "\tdepends on CMSIS_NN\n" in config and "ETHOS_U" not in config
    assert re.findall(r"select (\w+)", config) == [
        *("CMSIS_NN_CONVOLUTION", "CMSIS_NN_FULLYCONNECTED", "CMSIS_NN_NNSUPPORT")
    ]


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_networks_that_do_not_call_it_do_not_ask_for_it(template: str, model: Path, capfd: Capture) -> None:
    target = made(template, model, capfd)
    texts = [
        path.read_text() for path in target.rglob("*") if path.suffix in (".txt", ".yml") or path.name == "Kconfig"
    ]
    assert texts and not [text for text in texts if "CMSIS_NN" in text or "CMSIS-NN" in text]
