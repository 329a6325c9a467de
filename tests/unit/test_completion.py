"""What shells complete of command lines, asked of bash itself; and examples of helps, which must be command lines."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from ethoscade import __main__ as command_line
from ethoscade.__main__ import main
from ethoscade.cli.completion import completables
from ethoscade.targets.boards import known_boards
from ethoscade.targets.device_files import READY_DEVICES

COMMANDS = command_line._COMMANDS


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


class Bash:
    """A shell that knows the script; what it offers for a command line's last word."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / ".script").write_text(text, encoding="utf-8")

    def offers(self, *words: str) -> set[str]:
        asked = f"""
            set -u
            . ./.script
            COMP_WORDS=(ethoscade {" ".join(map(shlex.quote, words))}); COMP_CWORD={len(words)}
            _ethoscade
            if (( ${{#COMPREPLY[@]}} )); then printf '%s\\n' "${{COMPREPLY[@]}}"; fi
            complete -p ethoscade >&2
        """
        done = subprocess.run(
            ["bash", "--norc", "-c", asked], cwd=self.folder, capture_output=True, text=True, check=True
        )
        assert done.stderr.split() == ["complete", "-o", "filenames", "-F", "_ethoscade", "ethoscade"]
        found = done.stdout.splitlines()
        assert len(found) == len(set(found))
        return set(found)


@pytest.fixture
def bash(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bash:
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    for name in ("net.tflite", "two words.tflite", "my_board.toml"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder").mkdir()
    return Bash(tmp_path, script("bash", capsys))


def test_bash_completes_commands(bash: Bash) -> None:
    assert bash.offers("") == {*COMMANDS, "--help", "--version"}
    assert bash.offers("pl") == {"plan", "plan-memory"}
    assert bash.offers("--vers") == {"--version"}


def test_bash_completes_options_of_their_command(bash: Bash) -> None:
    for name, parser in command_line._parsers().items():
        wanted = {option for action in parser._actions for option in action.option_strings if option.startswith("--")}
        assert bash.offers(name, "--") == wanted, name
    assert bash.offers("compile", "net.tflite", "--sram", "3KiB", "--opt") == {"--optimise"}
    assert "--device" in bash.offers("plan", "--") - bash.offers("compile", "--")


def test_bash_completes_what_options_take(bash: Bash) -> None:
    assert bash.offers("compile", "--io", "") == {"float", "int8"}
    assert bash.offers("compile", "net.tflite", "--accelerator", "ethos-u65") == {"ethos-u65-256"}
    assert bash.offers("verify", "--board", "") >= {*known_boards(), "my_board.toml"}
    assert bash.offers("verify", "--board", "my") == {"my_board.toml"}
    assert bash.offers("plan", "--device", "c") == {name for name in READY_DEVICES if name.startswith("c")}
    assert bash.offers("frontier", "--memory-mode", "Sh") == {"Shared_Sram"}
    assert bash.offers("completion", "") == {"bash", "zsh", "fish"}
    # A number, a name, a size: nobody knows which.
    assert bash.offers("compile", "--sram", "") == bash.offers("compile", "--seeds", "") == set()


def test_bash_completes_files_and_folders(bash: Bash) -> None:
    assert bash.offers("compile", "n") == {"net.tflite"}
    assert bash.offers("compile", "net.tflite", "two") == {"two words.tflite"}
    assert bash.offers("compile", "net.tflite", "-o", "") == {"folder"}
    assert bash.offers("build", "") == {"folder"}
    assert bash.offers("simulate", "--inputs", "net") == {"net.tflite"}


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_scripts_have_every_command_and_option_and_parse(
    shell: str, check: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = script(shell, capsys)
    for name, parser in command_line._parsers().items():
        assert re.search(rf"\b{name}\b", text)
        for one in completables(parser):
            for option in one.names:
                assert re.search(rf"(-l|-s) {option.lstrip('-')}\b" if shell == "fish" else re.escape(option), text)
            assert all(value in text for value in one.values)
    path = tmp_path / "script"
    path.write_text(text, encoding="utf-8")
    if shutil.which(shell) is not None:
        assert subprocess.run([shell, check, str(path)], capture_output=True, text=True).stderr == ""
    # Whatever shell there is: quotes come in pairs.
    assert all(line.replace("'\\''", "").count("'") % 2 == 0 for line in text.splitlines() if "IFS" not in line)


def test_other_shells_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["completion", "csh"])
    assert "choose from" in capsys.readouterr().err


# Helps.


@pytest.mark.parametrize("name", COMMANDS)
def test_every_help_ends_with_examples_that_parse(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    _, head, text = capsys.readouterr().out.partition("\nexamples:\n")
    lines = re.findall(r"^  ethoscade (.*)$", text, re.MULTILINE)
    assert ended.value.code == 0 and head and lines
    for line in lines:
        words = shlex.split(line)
        told = [word for at, word in enumerate(words) if not {word, words[at - 1]} & {">", "<"}]
        args = command_line._parser().parse_args(told)
        assert args.command == name == told[0] and callable(args.run)


def test_an_example_with_a_wrong_option_would_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command_line._parser().parse_args(["compile", "net.tflite", "--srm", "3"])
    capsys.readouterr()


def test_parsers_for_completion_are_those_of_the_commands() -> None:
    assert list(command_line._parsers()) == list(COMMANDS)
    assert all(isinstance(parser, argparse.ArgumentParser) for parser in command_line._parsers().values())
