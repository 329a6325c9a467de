"""The link between host and board: frames, damage, repetition, single calls, and what is refused."""

from __future__ import annotations

import os
import select
import struct
import threading
import tty
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import ethoscade
import numpy as np
import pytest
from board_support import need, several_calls
from ethoscade.codegen.c.options import COptions
from ethoscade.errors import ConfigError, ProjectError
from ethoscade.judge.verification import random_inputs
from ethoscade.project import connection as links
from ethoscade.project import folder, frames
from ethoscade.project.connection import Connection
from ethoscade.project.frames import Command, Frame, Outcome
from ethoscade.project.streams import ByteStream
from ethoscade.project.template import Board, Project
from ethoscade.project.templates import TEMPLATES
from ethoscade.testing import ModelBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOST = TEMPLATES["host"]
MODEL = several_calls()
COMPILED = ethoscade.compile(MODEL)
STEPS = [random_inputs(COMPILED.source, seed) for seed in (0, 1)]
EXPECTED = [result.outputs for result in COMPILED.simulate_steps(STEPS)]
PAYLOADS = st.binary(max_size=600) | st.integers(240, 520).map(lambda size: b"\1" * size)


def with_state_and_rows() -> bytes:
    b = ModelBuilder("with_state_and_rows")
    x = b.conv2d(b.input((1, 12, 16, 16), name="input"), 8, 3, stride=2)
    variable = b.variable(x.shape, x.quantisation)
    total = b.add(x, variable, output=x.quantisation)
    b.assign(variable, total)
    b.output(b.conv2d(total, 4, 3, stride=2))
    return b.build()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    need(HOST)
    made = folder.make(HOST, tmp_path_factory.mktemp("host") / "project", COMPILED.artifact, COptions())
    folder.build(made, HOST)
    return made


@pytest.fixture
def board(project: Project) -> Iterator[Board]:
    started = HOST.start(project)
    yield started
    started.stream.close()


# --- frames -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), PAYLOADS), max_size=4), st.data())
def test_frames_come_out_as_they_went_in_whatever_the_pieces(
    sent: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    wanted = [Frame(sequence, command, 0, payload) for sequence, command, payload in sent]
    stream = b"".join(frames.encoded(frame) for frame in wanted)
    assert stream.count(b"\0") == 2 * len(wanted)
    reader, found = frames.Reader(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += reader.feed(stream[:size])
        stream = stream[size:]
    assert found == wanted and reader.damaged == 0


@given(PAYLOADS, st.integers(0, 10_000), st.integers(1, 255))
def test_a_changed_byte_is_noticed_and_the_next_frame_is_found(payload: bytes, at: int, change: int) -> None:
    stream = bytearray(frames.encoded(Frame(7, Command.WRITE, 0, payload)))
    stream[at % len(stream)] ^= change
    following = Frame(8, Command.READ, 0, b"next")
    found = frames.Reader().feed(bytes(stream) + frames.encoded(following))
    assert found[-1] == following
    # A frame is found as well where one of the zeros around it came through.
    is_spared = at % len(stream) in (0, len(stream) - 1)
    assert found[:-1] in ([None], [None, None], *([[Frame(7, Command.WRITE, 0, payload)]] if is_spared else []))


def test_a_stream_of_noise_is_not_kept() -> None:
    reader = frames.Reader()
    for _ in range(40):
        reader.feed(b"\1" * 10_000)
    assert len(reader._rest) < 200_000
    assert reader.feed(frames.encoded(Frame(1, 2, 0, b"")))[-1] == Frame(1, 2, 0, b"")


# --- what streams do to bytes -----------------------------------------------------------------------------------------


LOST, DOUBLED = 0, 256


class Careless:
    """A stream that loses, doubles or changes the bytes with certain numbers, on the way there and back."""

    def __init__(self, stream: ByteStream, there: dict[int, int], back: dict[int, int]) -> None:
        self.stream, self.damage, self.passed = stream, (there, back), [0, 0]

    def _spoilt(self, way: int, data: bytes) -> bytes:
        made = bytearray()
        for byte in data:
            what = self.damage[way].get(self.passed[way])
            self.passed[way] += 1
            made += bytes(
                [byte] if what is None else [byte] * 2 if what == DOUBLED else [byte ^ what] if what != LOST else []
            )
        return bytes(made)

    def send(self, data: bytes) -> None:
        self.stream.send(self._spoilt(0, data))

    def receive(self, seconds: float) -> bytes:
        return self._spoilt(1, self.stream.receive(seconds))

    def close(self) -> None:
        self.stream.close()


DAMAGE = st.dictionaries(st.integers(0, 3000), st.integers(LOST, DOUBLED), max_size=12)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(there=DAMAGE, back=DAMAGE)
def test_nothing_is_lost_silently(project: Project, there: dict[int, int], back: dict[int, int]) -> None:
    """Two runs with state: a request that were done twice, or not at all, would show in what the second makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(links, "_FIRST_WAIT_SECONDS", 0.02)
        stream = Careless(HOST.start(project).stream, there, back)
        with Connection(stream, project.description) as connection:
            for inputs, expected in zip(STEPS, EXPECTED, strict=True):
                same(connection.run(inputs), expected)
            assert len(connection.time()) == 3


def test_nothing_is_lost_silently_on_an_emulated_uart(tmp_path: Path) -> None:
    qemu = TEMPLATES["qemu-mps3-an547"]
    need(qemu, to_run=True)
    made = folder.make(qemu, tmp_path / "project", COMPILED.artifact, COptions())
    folder.build(made, qemu)
    there = {3: LOST, 200: DOUBLED, 700: 0x41, 1300: LOST, 1900: 0x80}
    back = {2: 0x10, 60: LOST, 130: DOUBLED, 400: LOST}
    with Connection(Careless(qemu.start(made).stream, there, back), made.description) as connection:
        for inputs, expected in zip(STEPS, EXPECTED, strict=True):
            same(connection.run(inputs), expected)
        assert connection.resent >= 5


def same(found: dict[str, np.ndarray], expected: object) -> None:
    assert isinstance(expected, dict) and found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


class Mute:
    """A stream that is silent after `left` frames, or is interrupted "ahead" of the next one or "behind" it."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream, self.left, self.interrupted = stream, 1 << 30, ""

    def send(self, data: bytes) -> None:
        self.left -= 1
        if self.left >= 0 or self.interrupted != "ahead":
            self.stream.send(data)
        if self.left < 0 and self.interrupted:
            raise KeyboardInterrupt

    def receive(self, seconds: float) -> bytes:
        data = self.stream.receive(min(seconds, 0.02))
        return b"" if self.left < 0 else data

    def close(self) -> None:
        self.stream.close()


@pytest.mark.parametrize("interrupted", ["", "ahead", "behind"])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_was_lost_begins_anew(
    streamed: bool, interrupted: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any frame, of inputs, of rows, of a run: no later run is on half of what was written."""
    need(HOST)
    monkeypatch.setattr(links, "_FIRST_WAIT_SECONDS", 0.02)
    model = with_state_and_rows() if streamed else MODEL
    compiled = ethoscade.compile(model, optimise="size", stream_input=6 if streamed else None)
    made = folder.make(HOST, tmp_path / "project", compiled.artifact, COptions())
    folder.build(made, HOST)
    steps = [random_inputs(compiled.source, seed) for seed in range(2)]
    expected = [result.outputs for result in compiled.simulate_steps(steps)]
    frames_of_a_run = 0
    while frames_of_a_run < 40:
        started = HOST.start(made)
        stream = Mute(started.stream)
        with Connection(stream, made.description, npu=started.npu, patience_seconds=0.1) as connection:
            same(connection.run(steps[0]), expected[0])
            stream.left, stream.interrupted = frames_of_a_run, interrupted
            try:
                connection.set_input(*next(iter(steps[1].items())))
                connection.run_call(0)
                connection.run()
            except (ProjectError, KeyboardInterrupt):
                stream.left = 1 << 30
                with pytest.raises(ProjectError, match="was not set since the last run"):
                    connection.run()
                connection.set_input(*next(iter(steps[0].items())))
                connection.reset()
                same(connection.run(), expected[0])
                same(connection.run(steps[1]), expected[1])
            else:
                break
        frames_of_a_run += 1
    assert 3 < frames_of_a_run < 40


# --- a board at work --------------------------------------------------------------------------------------------------


def test_single_calls_and_what_can_be_read_in_between(project: Project, board: Board) -> None:
    with Connection(board.stream, project.description) as connection:
        stored = next(t for t in project.description.tensors if t.first == 1)
        with pytest.raises(ProjectError, match="after call 0"):
            connection.read(stored.name)
        for name, value in STEPS[0].items():
            connection.set_input(name, value)
        connection.run_call(0)
        assert connection.done_calls == 1
        scale = next(t for t in COMPILED.artifact.graph.tensors if t.name == stored.name).quantisation
        assert scale is not None
        real = STEPS[0]["image"].astype(np.float64)
        wanted = np.clip(np.rint(real / np.float32(scale.scale)) + scale.zero_point, -128, 127)
        np.testing.assert_array_equal(connection.read(stored.name), wanted)
        with pytest.raises(ProjectError, match="a run stands after 1 of 3 calls"):
            connection.set_input("image", STEPS[0]["image"])
        with pytest.raises(ConfigError, match="call 0 is done already"):
            connection.run_call(0)
        with pytest.raises(ProjectError, match="BUSY"):
            connection.reset()
        connection.run_call(2)
        same(connection.run(), EXPECTED[0])
        same(connection.run(STEPS[1]), EXPECTED[1])
        connection.reset()
        same(connection.run(STEPS[0]), EXPECTED[0])
        times = connection.time()
        assert [(call.where, call.kind) for call in times] == [("cpu", "QUANTIZE"), ("npu", ""), ("cpu", "DEQUANTIZE")]
        assert all(call.ticks > 0 and call.seconds == call.ticks / 1e9 for call in times)


def test_inputs_are_wanted_before_every_run(project: Project, board: Board) -> None:
    """Their places are others' once a run has begun: a run on what lies there would be silently wrong."""
    with Connection(board.stream, project.description) as connection:
        with pytest.raises(ProjectError, match="input 'image' was not set since the last run"):
            connection.run()
        same(connection.run(STEPS[0]), EXPECTED[0])
        for again in (connection.run, lambda: connection.run_call(0)):
            with pytest.raises(ProjectError, match="input 'image' was not set since the last run"):
                again()
        same(connection.run(STEPS[1]), EXPECTED[1])


def test_wrong_names_shapes_and_numbers_are_told(project: Project, board: Board) -> None:
    with Connection(board.stream, project.description) as connection:
        with pytest.raises(ConfigError, match="no input 'picture'; its inputs are 'image'"):
            connection.set_input("picture", STEPS[0]["image"])
        with pytest.raises(
            ConfigError, match=r"must be float32 of shape \(1, 8, 8, 3\); given is int64 of shape \(3,\)"
        ):
            connection.set_input("image", [1, 2, 3])
        with pytest.raises(ConfigError, match="there is no call 3: 'model' has 3"):
            connection.run_call(3)
        with pytest.raises(ProjectError, match="has no tensor 'nothing'"):
            connection.read("nothing")


def test_a_board_at_a_serial_port(project: Project, board: Board) -> None:
    """The firmware's bytes by way of a pty, which is a serial port to whoever opens it."""
    master, slave = os.openpty()
    tty.setraw(slave)
    over = threading.Event()

    def there() -> None:
        while not over.is_set():
            if select.select([master], [], [], 0.01)[0]:
                board.stream.send(os.read(master, 4096))

    def back() -> None:
        while not over.is_set():
            data = board.stream.receive(0.01)
            while data:
                data = data[os.write(master, data) :]

    threads = [threading.Thread(target=way) for way in (there, back)]
    for thread in threads:
        thread.start()
    try:
        with ethoscade.connect(project.folder, port=os.ttyname(slave)) as connection:
            same(connection.run(STEPS[0]), EXPECTED[0])
            inside = next(t for t in project.description.tensors if t.operations is not None)
            with pytest.raises(ProjectError, match="an NPU program makes it"):
                connection.intermediate(inside.name, STEPS[0])
    finally:
        over.set()
        for thread in threads:
            thread.join()
        os.close(master)
        os.close(slave)


class Asking:
    """Requests by hand."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream, self.reader = stream, frames.Reader()

    def __call__(self, *requests: Frame) -> list[Frame]:
        self.stream.send(b"".join(frames.encoded(request) for request in requests))
        found: list[Frame] = []
        while len(found) < len(requests):
            data = self.stream.receive(60)
            assert data, "the board is silent"
            arrived = self.reader.feed(data)
            assert None not in arrived
            found += [frame for frame in arrived if frame is not None]
        return found


def request(sequence: int, command: int, *words: int) -> Frame:
    return Frame(sequence, command, 0, struct.pack(f"<{len(words)}I", *words))


def test_a_repeated_request_is_answered_and_not_done_again(board: Board) -> None:
    ask = Asking(board.stream)
    greeting = request(5, Command.HELLO)
    first, *others = ask(greeting, greeting, greeting)
    assert others == [first] * 2
    image = next(t for t in COMPILED.artifact.graph.given)
    fill = struct.pack("<I", COMPILED.artifact.offsets[image]) + STEPS[0]["image"].tobytes()
    kept = request(0, Command.READ, COMPILED.artifact.offsets[COMPILED.artifact.graph.variables[0].before], 64)
    run = request(7, Command.RUN, 0xFFFFFFFF)
    first, *others = ask(Frame(6, Command.WRITE, 0, fill), run, run, run)[1:]
    assert first.status == Outcome.DONE and others == [first] * 2
    # What the variable holds tells how often the network ran.
    (thrice_asked,) = ask(replace(kept, sequence=8))
    ask(request(9, Command.RESET), Frame(10, Command.WRITE, 0, fill), request(11, Command.RUN, 0xFFFFFFFF))
    (once,) = ask(replace(kept, sequence=12))
    ask(Frame(13, Command.WRITE, 0, fill), request(14, Command.RUN, 0xFFFFFFFF))
    (twice,) = ask(replace(kept, sequence=15))
    assert thrice_asked.payload == once.payload != twice.payload


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (request(9, Command.HELLO), Outcome.DONE),
        (request(7, Command.READ, 0, 4), Outcome.OUT_OF_ORDER),
        (request(5, Command.READ, 0, 4), Outcome.OUT_OF_ORDER),
        (request(6, 99), Outcome.UNKNOWN_COMMAND),
        (request(6, Command.READ, 0), Outcome.WRONG_ARGUMENT),
        (request(6, Command.READ, COMPILED.artifact.arena_bytes, 1), Outcome.WRONG_ARGUMENT),
        (request(6, Command.READ, 0xFFFFFFFF, 8), Outcome.WRONG_ARGUMENT),
        (request(6, Command.READ, 0, 1025), Outcome.WRONG_ARGUMENT),
        (request(6, Command.READ, COMPILED.artifact.arena_bytes, 0), Outcome.DONE),
        (request(6, Command.WRITE, COMPILED.artifact.arena_bytes, 1), Outcome.WRONG_ARGUMENT),
        (request(6, Command.WRITE), Outcome.WRONG_ARGUMENT),
        (request(6, Command.RUN, 3), Outcome.WRONG_ARGUMENT),
        (request(6, Command.RUN), Outcome.WRONG_ARGUMENT),
        (request(6, Command.TIMES, 0, 4), Outcome.WRONG_ARGUMENT),
        (request(6, Command.TIMES, 4, 0), Outcome.WRONG_ARGUMENT),
        (request(6, Command.TIMES, 3, 0), Outcome.DONE),
    ],
)
def test_what_the_board_refuses(board: Board, asked: Frame, status: Outcome) -> None:
    ask = Asking(board.stream)
    ask(request(5, Command.HELLO))
    (answer,) = ask(asked)
    assert (answer.sequence, answer.command, answer.status) == (asked.sequence, asked.command | frames.REPLY, status)


def test_nobody_is_served_before_a_greeting(board: Board) -> None:
    (answer,) = Asking(board.stream)(request(1, Command.READ, 0, 4))
    assert answer.status == Outcome.OUT_OF_ORDER


@pytest.mark.parametrize(
    "noise", [b"\0\3\1\0", b"\0" + b"\1" * 5000 + b"\0", frames.encoded(request(5, 1))[:-4] + b"\0"]
)
def test_the_board_says_that_a_frame_came_damaged(board: Board, noise: bytes) -> None:
    ask = Asking(board.stream)
    ask(request(5, Command.HELLO))
    board.stream.send(noise)
    (said,) = unasked(ask)
    assert (said.sequence, said.command) == (5, Command.DAMAGED | frames.REPLY)
    (answer,) = ask(request(6, Command.READ, 0, 4))
    assert answer.status == Outcome.DONE


def unasked(ask: Asking) -> list[Frame]:
    """What comes without being asked for."""
    found: Sequence[Frame | None] = ()
    while not found:
        found = ask.reader.feed(ask.stream.receive(60))
    return [frame for frame in found if frame is not None]


def test_boards_that_are_silent_gone_or_of_other_sources(project: Project, board: Board) -> None:
    class Silent:
        def send(self, data: bytes) -> None:
            pass

        def receive(self, seconds: float) -> bytes:
            return b""

        def close(self) -> None:
            pass

    with pytest.raises(ProjectError, match=r"does not answer HELLO within 0.01 seconds"):
        Connection(Silent(), project.description, patience_seconds=0.01)
    other = replace(project.description, build=project.description.build ^ 1)
    with pytest.raises(ProjectError, match="other sources than the project's"):
        Connection(board.stream, other)
    with pytest.raises(ProjectError, match="ended: usage: firmware SHARED_FILE"):
        Connection(started_without_arguments(project), project.description)


def started_without_arguments(project: Project) -> ByteStream:
    from ethoscade.project.streams import ProcessStream

    return ProcessStream([str(Path(project.folder) / "build" / "firmware")])
