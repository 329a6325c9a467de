"""SVDF with integers: filters of the input, remembered for some runs, and sums of them over time.

Owns the shapes and the types of its inputs. Weights with several scales, and states that kernels take for others, have
no words in `ir`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir import Attrs, DType, SvdfAttrs, SvdfInputs, Tensor
from ..ir.quantised import svdf_scales
from .site import NotUnderstood, Site


def svdf(site: Site) -> SvdfAttrs:
    """SVDF of int8, with a state and weights in time that are both of int8 or both of int16."""
    site.count(5)
    ifm, weights, times, state = (
        site.input(place, role)
        for place, role in (
            (0, "input"),
            (SvdfInputs.of_input, "weights"),
            (SvdfInputs.in_time, "weights in time"),
            (SvdfInputs.state, "state"),
        )
    )
    bias, rank = site.optional(SvdfInputs.bias), int(site.options().Rank())
    for tensor, role in ((ifm, "input"), (weights, "weights"), (times, "weights in time"), (state, "state")):
        if len(tensor.shape) != 2:
            raise NotUnderstood(f"an SVDF with {role} '{tensor.name}' of shape {list(tensor.shape)}")
    _check_types(site, bias, (ifm, weights, times, state))
    _check_shapes(site, rank, bias)
    site.check_factors(*svdf_scales(ifm, weights, times, state, site.output))
    return SvdfAttrs(rank)


def _check_types(site: Site, bias: Tensor | None, tensors: tuple[Tensor, Tensor, Tensor, Tensor]) -> None:
    """Raises `NotUnderstood` for other types or quantisations than the integer kernels have."""
    ifm, weights, times, state = tensors
    if state.dtype not in (DType.INT8, DType.INT16):
        raise NotUnderstood(f"an SVDF with a state of {state.dtype.value}")
    wanted = [(ifm, DType.INT8), (weights, DType.INT8), (times, state.dtype), (site.output, DType.INT8)]
    if bias is not None:
        wanted.append((bias, DType.INT32))
    for tensor, dtype in wanted:
        if tensor.dtype is not dtype:
            raise NotUnderstood(
                f"an SVDF with a state of {state.dtype.value} and '{tensor.name}' of {tensor.dtype.value}"
            )
    for tensor in (*tensors, site.output):
        if tensor.quantisation is None or len(tensor.quantisation.scales) != 1:
            raise NotUnderstood(f"an SVDF with '{tensor.name}' of no single scale")
    for tensor in (weights, times, *((state,) if state.dtype is DType.INT16 else ())):
        if tensor.quantisation is not None and tensor.quantisation.zero_point:
            raise NotUnderstood(f"an SVDF with '{tensor.name}' of zero point {tensor.quantisation.zero_point}")


def _check_shapes(site: Site, rank: int, bias: Tensor | None) -> None:
    batch, features = site.input(0, "input").shape
    filters, memory = site.input(SvdfInputs.in_time, "weights in time").shape
    if rank < 1 or filters % rank:
        raise site.fail(f"has {filters} filters of rank {rank}; units have {rank} filters each", value=rank)
    units = filters // rank
    wanted: dict[int, tuple[int, ...]] = {
        SvdfInputs.of_input: (filters, features),
        SvdfInputs.state: (batch, filters * memory),
    }
    if bias is not None:
        wanted[SvdfInputs.bias] = (units,)
    why = f"{filters} filters of {features} features, remembered for {memory} runs, for a batch of {batch}"
    site.expect_operands(wanted, why)
    site.expect_shape((batch, units))


SVDF_READERS: Mapping[str, Callable[[Site], Attrs]] = {"SVDF": svdf}
