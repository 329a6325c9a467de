"""Examples of each command, which its help ends with.

Owns the lines; a test parses every one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_OF: Mapping[str, Sequence[tuple[str, str]]] = {
    "compile": (
        ("compile net.tflite --sram 300KiB -o out", "within 300 KiB of SRAM, as a .tflite for TensorFlow Lite Micro"),
        (
            "compile net.tflite --board himax-we2 --emit tflite,c --verify",
            "for a board, also as C, compared",
        ),
        ("compile net.tflite --optimise size --explain", "the least SRAM, and what it is needed for"),
        ("compile wake.tflite words.tflite --emit c --share-workspace", "two networks in one arena"),
        ("compile - --json < net.tflite", "from a pipe, the report as JSON"),
    ),
    "frontier": (
        ("frontier net.tflite", "what each amount of SRAM buys"),
        ("frontier net.tflite --board alif-ensemble-hp --plot frontier.png", "for a board, as a picture"),
    ),
    "sweep": (
        ("sweep models/ --output rows.csv --page sweep.html", "every accelerator, and a page of what is needed"),
        (
            "sweep a.tflite b.tflite --targets 'ethos-u55-*' himax-we2 --budgets 256KiB fastest --jobs 8",
            "accelerators and a board, two budgets",
        ),
        ("sweep models/ --output rows.parquet --dask tcp://10.0.0.1:8786", "on other machines"),
    ),
    "check": (
        ("check net.tflite", "what runs where, why, and what of the network could be changed"),
        ("check net.tflite --operators --json", "every operator, as JSON"),
    ),
    "verify": (
        ("verify net.tflite --sram 100KiB --seeds 10", "compile, and compare every output on ten random inputs"),
        ("verify net.tflite --artifact out/net_vela.tflite", "a compiled file, ours or Vela's, with its source"),
    ),
    "simulate": (
        ("simulate out/net_ethosu.tflite --inputs in.npz --outputs out.npz", "inputs and outputs by name"),
        ("simulate out/net_vela.tflite --reference net.tflite --timing", "compared with the model; what it costs"),
    ),
    "slide": (("slide wakeword.tflite --rows 2 -o wakeword_2.tflite", "two new rows in each run, exactly"),),
    "explore": (("explore out/net_ethosu.tflite -o graphs", "files that Model Explorer opens"),),
    "new": (("new --template qemu-mps3-an547 board net.tflite --sram 64KiB", "a project for QEMU's Cortex-M55"),),
    "build": (("build board", "the firmware, and what takes memory in it"),),
    "flash": (("flash board", "onto the board"),),
    "run": (
        ("run board", "a project, every output compared with the reference"),
        ("run --target qemu net.tflite", "a model on an emulated board, and nothing is left behind"),
    ),
    "plan": (
        ("plan net.tflite --device cortex-m55", "one of the devices that come along"),
        ("plan net.tflite --device my_device.toml --json", "one of your own (docs/devices.md)"),
    ),
    "plan-memory": (
        ("plan-memory buffers.csv --output placed.csv", "offsets for buffers with lifetimes"),
        ("plan-memory buffers.csv --pool sram=256000 --pool dram --plot plan.png", "in two memories, as a picture"),
    ),
    "list-configs": (
        ("list-configs", "boards, accelerators, and what ethos-u-vela's vela.ini has"),
        ("list-configs --config vendor.ini --json", "what another file has"),
    ),
    "supported-ops": (
        ("supported-ops", "what runs on the NPU, and within which limits"),
        ("supported-ops --markdown", "as docs/support.md has it"),
    ),
    "completion": (
        ("completion bash > ~/.local/share/bash-completion/completions/ethoscade", "for bash"),
        ("completion zsh > ~/.zfunc/_ethoscade", "for zsh, where ~/.zfunc is in $fpath before compinit"),
        ("completion fish > ~/.config/fish/completions/ethoscade.fish", "for fish"),
    ),
}


def epilog(name: str) -> str | None:
    """What a command's help ends with."""
    if name not in _OF:
        return None
    return "examples:\n" + "\n".join(f"  ethoscade {line}\n      {what}" for line, what in _OF[name])
