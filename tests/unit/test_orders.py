"""Orders of operations: what each rule makes of small networks by hand, and which are searched."""

from __future__ import annotations

from itertools import pairwise

import ethoscade
import pytest
from end_to_end import network_of
from ethoscade.ir import Quantisation
from ethoscade.pipeline.compiler import Network
from ethoscade.pipeline.searches import Searches, explore
from ethoscade.scheduling.orders import ahead
from ethoscade.testing import ModelBuilder, random_network


def branches() -> bytes:
    """Two branches whose wide layers the file has before both narrow ones."""
    b = ModelBuilder("branches")
    x = b.input((1, 16), name="input")
    first, second = (b.fully_connected(x, n, name=name) for n, name in ((256, "wide"), (64, "less")))
    ways = ((first, "narrow1"), (second, "narrow2"))
    b.add(*(b.fully_connected(y, 16, name=name) for y, name in ways), name="sum")
    return b.build()


def names(network: Network) -> list[str]:
    return [operation.name for operation in network.npu.operations]


def test_a_chain_has_one_order() -> None:
    """Its softmax is lowered to operations that fork, which stay as they are."""
    b = ModelBuilder("chain")
    b.softmax(b.fully_connected(b.conv2d(b.input((1, 8, 8, 4), name="input"), 8, 3), 10))
    network = network_of(b.build())
    assert len(network.npu.operations) > 20
    assert network.orders == (network,)
    assert Searches(network, 0.1).ask(lambda search, tick: search.frontier(tick)).orders == ()


def test_each_rule_has_its_order() -> None:
    """By hand: the operands of the sum are asked for in turn, the wide branch first; the other one adds least."""
    file, *others = network_of(branches()).orders
    assert names(file) == ["wide", "less", "narrow1", "narrow2", "sum"]
    # The largest branch is the first operand, so two rules have one order.
    assert [names(one) for one in others] == [
        ["wide", "narrow1", "less", "narrow2", "sum"],
        ["less", "narrow2", "wide", "narrow1", "sum"],
    ]


def test_the_branch_that_needs_most_comes_first() -> None:
    """By hand, Sethi and Ullman's rule: 512 bytes are in use beside nothing of the other branch."""
    b = ModelBuilder("unequal")
    x = b.input((1, 16), name="input")
    small = b.fully_connected(b.fully_connected(x, 32, name="s1"), 32, name="s2")
    large = b.fully_connected(b.fully_connected(x, 512, name="l1"), 32, name="l2")
    b.add(small, large, name="sum")
    orders = [names(one) for one in network_of(b.build()).orders]
    assert orders == [["s1", "s2", "l1", "l2", "sum"], ["l1", "l2", "s1", "s2", "sum"]]


@pytest.mark.parametrize(
    ("is_output", "order"),
    [(False, ["p", "q", "b", "b2", "c", "e", "sum", "all"]), (True, ["p", "q", "c", "e", "sum", "b", "b2", "all"])],
)
def test_what_dies_is_taken_off_what_is_added(is_output: bool, order: list[str]) -> None:
    """By hand: when `q` is there, `b` adds 48 bytes and frees the 64 of `p`, if they do not stay; `c` adds 32."""
    b = ModelBuilder("freed")
    p = b.fully_connected(b.input((1, 16), name="input"), 64, name="p")
    q = b.fully_connected(p, 16, name="q")
    c, e = (b.fully_connected(q, 32, name=name) for name in ("c", "e"))
    summed = b.add(c, e, name="sum")
    freeing = b.fully_connected(b.fully_connected(p, 48, name="b"), 32, name="b2")
    b.output(b.add(summed, freeing, name="all"), *([p] if is_output else []))
    assert names(network_of(b.build()).orders[-1]) == order


def test_state_is_read_before_it_is_replaced() -> None:
    """The second operand reads the state, and to make the first one the next state is needed."""
    b, state = ModelBuilder("stateful"), Quantisation((2.0 / 256,), (0,))
    x, before = b.input((1, 16), name="input"), b.variable((1, 32), state, name="before")
    old = b.fully_connected(before, 16, name="old")
    after = b.fully_connected(x, 32, name="after", output=state)
    b.assign(before, after)
    other = b.fully_connected(b.fully_connected(x, 48, name="wide"), 16, name="other")
    b.output(b.add(b.add(b.fully_connected(after, 16, name="new"), old, name="sum"), other, name="all"))
    orders = [names(one) for one in network_of(b.build()).orders]
    assert len(orders) > 1
    assert all(order.index("old") < order.index("after") for order in orders), orders


def steps(count: int) -> bytes:
    """A sum over steps of which the file makes all wide layers first, as recurrent networks that are unrolled do."""
    b = ModelBuilder("steps")
    x = b.input((1, 16), name="input")
    wide = [b.fully_connected(x, 64, name=f"wide{step}") for step in range(count)]
    total = None
    for step, value in enumerate(wide):
        narrow = b.fully_connected(value, 16, name=f"narrow{step}")
        total = narrow if total is None else b.add(total, narrow, name=f"sum{step}")
    return b.build()


def test_a_floor_is_that_of_the_order_which_needs_least() -> None:
    """By hand: a step in the middle has the input, the sum so far, its wide and its narrow layer."""
    model = steps(20)
    compiled = ethoscade.compile(model, accelerator="ethos-u55-256", optimise="size")
    assert compiled.sram_bytes == 16 + 16 + 64 + 16
    assert compiled.curve.orders[0] > 0
    file = explore(network_of(model).problem, 0)
    assert file.floor_bytes > 4 * compiled.sram_bytes, "many products are alive at once"
    assert compiled.verify(seeds=2).ok
    # Every other wide layer runs when the step before it is summed up.
    explained = compiled.explain()
    assert explained.run_later == tuple(f"wide{step}" for step in range(1, 20))
    assert "run later than in the order of the file: operator 'wide1' and 18 more" in str(explained).splitlines()


def test_every_order_makes_what_is_needed_before_it_is_read() -> None:
    forks = 0
    for seed in range(60):
        file, *others = network_of(random_network(seed)).orders
        forks += bool(others)
        different: list[object] = []
        for network in (file, *others):
            assert network.problem.specs not in different, f"seed {seed}: one order twice"
            different.append(network.problem.specs)
        read = {tensor.graph_tensor for tensor in file.npu.tensors} - {
            operation.ofm.tensor.graph_tensor for operation in file.npu.operations
        }
        for network in others:
            made = {tensor for tensor in read if tensor is not None}
            made_temporaries: set[int] = set()
            for operation in network.npu.operations:
                for view in operation.inputs:
                    tensor = view.tensor
                    assert tensor.graph_tensor in made or tensor.id in made_temporaries, f"seed {seed}: {tensor.name}"
                made.add(operation.ofm.tensor.graph_tensor)
                made_temporaries.add(operation.ofm.tensor.id)
            runs = [where for where, _ in network.problem.parts]
            in_file = [where for where, _ in file.problem.parts]
            calls = [sum(a != b for a, b in pairwise(way)) for way in (runs, in_file)]
            assert calls[0] == calls[1], f"seed {seed}: more calls"
    assert forks >= 10


def test_orders_that_are_ahead_are_searched() -> None:
    file = [(100, 1000), (200, 500)]
    assert ahead([file]) == (0,)
    assert ahead([file, file]) == (0,)
    assert ahead([file, [(98, 1000), (200, 490)]]) == (0,), "by less than a sixteenth"
    assert ahead([file, [(80, 1000)]]) == (0, 1), "fewer bytes at the same cycles"
    assert ahead([file, [(150, 600)]]) == (0, 1), "a point between"
    assert ahead([file, [(300, 499)]]) == (0,), "faster by nothing at more bytes"
    assert ahead([file, [(90, 1000)], [(50, 1000)]]) == (0, 2), "the first is not ahead of the second"
    assert ahead([file, [(50, 1000)], [(200, 300)]]) in {(0, 1, 2), (0, 2, 1)}
    assert ahead([[], []]) == (0, 1), "exact searches have no coarse fronts"


@pytest.mark.parametrize("epsilon", [0, 1 / 64])
def test_a_frontier_is_nowhere_behind_that_of_the_file(epsilon: float) -> None:
    network = network_of(steps(6))
    curve, file = (
        Searches(network, epsilon).ask(lambda search, tick: search.frontier(tick)),
        explore(network.problem, 0, epsilon),
    )
    assert list(curve.points) == sorted(curve.points)
    assert [cycles for _, cycles in curve.points] == sorted({cycles for _, cycles in curve.points}, reverse=True)
    for size, cycles in file.points:
        fastest = curve.fastest_within(size)
        assert fastest is not None and fastest[1] <= cycles
