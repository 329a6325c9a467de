"""Files are written whole, together and where links lead; whoever is killed leaves nothing that goes unnoticed."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ethoscade.errors import CodegenError, ConfigError, shorten
from ethoscade.util import files
from ethoscade.util.files import strangers, write_together, write_whole

OLD = {"net.tflite": b"old model", "net.h": b"old header", "src/net.c": b"old source"}
NEW = {"net.tflite": b"new model", "net.h": b"new header", "src/net.c": b"new source"}
SYSTEM_CALLS = ("open", "fsync", "chmod", "replace", "close", "scandir")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but the list of hashes, by name."""
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return {name: data for name, data in found.items() if name != "net.sha256"}


def in_a_child(work: Callable[[], object]) -> int:
    """The status of a forked child that did this work: -9 where it was killed, 1 where it raised."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step: int, folder: Path, written: dict[str, bytes]) -> int:
    """Write in a child that is killed before its system call number `step`; its status."""

    def work() -> None:
        left = [step]

        def counted(name: str) -> None:
            function = getattr(os, name)

            def call(*args: object, **kwargs: object) -> object:
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left[0] -= 1
                return function(*args, **kwargs)

            setattr(os, name, call)

        for name in SYSTEM_CALLS:
            counted(name)
        write_together(folder, written, "net.sha256")

    return in_a_child(work)


@pytest.mark.parametrize("before", [OLD, {}], ids=["replacing", "first"])
def test_a_killed_writer_leaves_the_old_the_new_or_what_is_told_to_be_mixed(
    tmp_path: Path, before: dict[str, bytes]
) -> None:
    seen = set()
    for step in range(200):
        folder = tmp_path / str(step)
        if before:
            write_together(folder, before, "net.sha256")
        status = killed_at(step, folder, NEW)
        left = {name: data for name, data in contents(folder).items() if not Path(name).name.startswith(".ethoscade-")}
        listed = folder / "net.sha256"
        differing = {name for name, differs in strangers(listed).items() if differs} if listed.exists() else set()
        if left == NEW:
            assert not differing or not before
            seen.add("new")
        elif left == before:
            # The list may be the new one already: then it says that no file is.
            assert differing in (set(), set(NEW))
            seen.add("old")
        else:
            assert differing == {name for name in NEW if left.get(name) != NEW[name]} and differing
            seen.add("mixed")
        # The next writer mends all of it, and nothing is left over.
        write_together(folder, NEW, "net.sha256")
        assert contents(folder) == NEW and not any(strangers(listed).values())
        if status == 0:
            break
        assert status == -signal.SIGKILL
    assert seen == {"old", "mixed", "new"} and step > 15


@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_an_interrupt_waits_until_all_files_are_in_place(
    tmp_path: Path, late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_together(tmp_path, OLD, "net.sha256")
    replace, calls = os.replace, []

    def interrupted(source: Path, target: Path) -> None:
        calls.append(target)
        if late or len(calls) != 2:
            replace(source, target)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together(tmp_path, NEW, "net.sha256")
    assert contents(tmp_path) == NEW and not any(strangers(tmp_path / "net.sha256").values())


def test_what_was_created_just_now_goes_with_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = os.open

    def interrupted(path: str | os.PathLike[str], flags: int, mode: int = 0o777) -> int:
        handle = create(path, flags, mode)
        if flags & os.O_CREAT:
            os.close(handle)
            raise KeyboardInterrupt
        return handle

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together(tmp_path, {"a": b"a"}, "all.sha256")
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_has_staged_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that stands still keeps others out; once it is killed, what it left is removed."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:

        def stand(*_: object) -> None:
            os.write(writer, b"x")
            signal.pause()

        monkeypatch.setattr(os, "replace", stand)
        write_whole(tmp_path / "a", b"one")
        os._exit(0)
    os.read(reader, 1)
    staged = [path.name for path in tmp_path.iterdir()]
    assert len(staged) == 1
    monkeypatch.setattr(files, "_LOCK_TRIES", 2)
    with pytest.raises(CodegenError, match="another process has been writing there"):
        write_whole(tmp_path / "b", b"two")
    assert [path.name for path in tmp_path.iterdir()] == staged
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    write_whole(tmp_path / "b", b"two")
    assert contents(tmp_path) == {"b": b"two"}


def test_left_overs_of_the_first_version_go_too_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".ethoscade-ab1_9zqx").mkdir()
    (tmp_path / ".ethoscade-ab1_9zqx" / "net.h").write_bytes(b"x")
    for name in (".ethoscade-", ".ethoscade-mine", ".ethoscaderc", "ethoscade-ab1_9zqx", ".ethoscade-ab1_9zqx.txt"):
        (tmp_path / name).write_bytes(b"kept")
    write_whole(tmp_path / "a", b"one")
    assert len(contents(tmp_path)) == 6 and not (tmp_path / ".ethoscade-ab1_9zqx").exists()


# Links.


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "net.tflite").write_bytes(b"old")
    (tmp_path / "out").symlink_to("real", target_is_directory=True)
    (tmp_path / "link.tflite").symlink_to("out/net.tflite")
    (tmp_path / "dangling").symlink_to("real/later")
    for name in ("link.tflite", "dangling"):
        assert write_whole(tmp_path / name, b"new") == tmp_path / name
        assert (tmp_path / name).is_symlink()
    assert contents(tmp_path / "real") == {"net.tflite": b"new", "later": b"new"}
    write_together(tmp_path / "out", {"net.tflite": b"newer", "net.h": b"h"}, "net.sha256")
    assert not any(strangers(tmp_path / "real" / "net.sha256").values())


def test_what_cannot_be_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to_folder").symlink_to("folder")
    (tmp_path / "file").write_bytes(b"here first")
    (tmp_path / "one").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (
        ("loop", "symbolic link"),
        ("folder", "is a folder"),
        ("to_folder", "is a folder"),
        ("pipe", "a device, a pipe or a socket"),
        ("file/below", "is not a folder"),
        ("x" * 300, "File name too long"),
        ("a\0b", "not a valid path"),
    ):
        with pytest.raises(CodegenError, match=said) as caught:
            write_whole(tmp_path / name, b"new")
        assert shorten(f"'{tmp_path / name}'").replace("\0", "\\x00") in str(caught.value)
        # One that cannot be written keeps the others from being.
        with pytest.raises(CodegenError, match=said):
            write_together(tmp_path, {"fine": b"fine", name: b"new"}, "net.sha256")
    with pytest.raises(CodegenError, match="device"):
        write_whole("/dev/null", b"new")
    with pytest.raises(CodegenError, match=r"one.*is the same file"):
        write_together(tmp_path, {"file": b"a", "one": b"b"}, "net.sha256")
    assert contents(tmp_path) == {"file": b"here first", "one": b"here first"}


def test_a_read_only_folder_and_file_are_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("nothing is read-only for root")
    write_whole(tmp_path / "file", b"old")
    os.chmod(tmp_path / "file", 0o444)
    with pytest.raises(CodegenError, match="read-only"):
        write_whole(tmp_path / "file", b"new")
    os.chmod(tmp_path, 0o555)
    with pytest.raises(CodegenError, match="Permission denied"):
        write_whole(tmp_path / "other", b"new")
    os.chmod(tmp_path, 0o755)


def test_pipes_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """What a shell gives for `<(command)` is a pipe; one that nobody writes to must not be waited for."""
    os.mkfifo(tmp_path / "pipe")
    assert files.read_whole(tmp_path / "pipe", 10) == b""
    for length in (10, 11):
        reader, writer = os.pipe()
        os.write(writer, b"0" * length)
        os.close(writer)
        if length == 10:
            assert files.read_whole(f"/dev/fd/{reader}", 10) == b"0" * 10
        else:
            with pytest.raises(ConfigError, match="more than 10 bytes"):
                files.read_whole(f"/dev/fd/{reader}", 10)
        os.close(reader)
    with pytest.raises(ConfigError, match="it is no file"):
        files.read_whole("/dev/zero", 10)


def test_one_file_has_one_purpose(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("a")
    a, b, link = (str(tmp_path / name) for name in ("a", "b", "link"))
    files.refuse_same({"model": a, "reference": a}, {"outputs": None, "trace": b})
    with pytest.raises(ConfigError, match="model and trace are the same file"):
        files.refuse_same({"model": a}, {"trace": link})
    with pytest.raises(ConfigError, match="outputs and trace are the same file"):
        files.refuse_same({"model": b}, {"outputs": a, "trace": link})


# Permissions, room on the disk.


def test_permissions_are_those_of_any_new_file_or_stay(tmp_path: Path) -> None:
    def write() -> None:
        os.umask(0o027)
        write_whole(tmp_path / "new", b"x")

    assert in_a_child(write) == 0
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    os.chmod(tmp_path / "new", 0o751)
    write_whole(tmp_path / "new", b"y")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o751


def test_a_disk_that_is_full_leaves_everything_as_it_was(tmp_path: Path) -> None:
    write_together(tmp_path, OLD, "net.sha256")
    listed = (tmp_path / "net.sha256").read_bytes()

    def write() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(CodegenError, match=r"cannot write '.*net\.h': File too large"):
            write_together(tmp_path, {"net.tflite": b"new", "net.h": bytes(5000)}, "net.sha256")

    assert in_a_child(write) == 0
    assert contents(tmp_path) == OLD and (tmp_path / "net.sha256").read_bytes() == listed


# The list of hashes.


def test_the_list_is_that_of_sha256sum(tmp_path: Path) -> None:
    odd = {"new\nline": b"1", "back\\slash": b"2", "ümläut \udcff": b"3", "-dash": b"4", "a b'c\"": b"5", "\r": b"6"}
    write_together(tmp_path, odd, "odd.sha256")
    assert strangers(tmp_path / "odd.sha256") == dict.fromkeys(odd, False)
    first = (tmp_path / "odd.sha256").read_bytes()
    write_together(tmp_path, dict(reversed(odd.items())), "odd.sha256")
    assert (tmp_path / "odd.sha256").read_bytes() == first
    (tmp_path / "-dash").write_bytes(b"another")
    (tmp_path / "new\nline").unlink()
    assert {name for name, differs in strangers(tmp_path / "odd.sha256").items() if differs} == {"-dash", "new\nline"}
    if shutil.which("sha256sum") is None:
        pytest.skip("there is no sha256sum to agree with")
    check = ["sha256sum", "-c", "--quiet", "odd.sha256"]
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1 and b"dash: FAILED" in done.stdout
    write_together(tmp_path, odd, "odd.sha256")
    assert subprocess.run(check, cwd=tmp_path, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("text", [b"nonsense", b"0" * 64 + b"  ../x", b"0" * 64 + b"  /etc/passwd", b"\xff\0"])
def test_what_is_no_list_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "net.sha256").write_bytes(text)
    with pytest.raises(ConfigError, match="no list of hashes"):
        strangers(tmp_path / "net.sha256")
    with pytest.raises(ConfigError, match="cannot read"):
        strangers(tmp_path / "missing.sha256")
