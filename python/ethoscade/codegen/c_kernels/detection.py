"""TFLite_Detection_PostProcess of float32: the custom operator behind single-shot detectors, one class for each box.

Its options are a flexbuffer, which no other operator has. Kernels leave what they do not fill of their outputs as it
was; ours makes it 0.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flatbuffers import flexbuffers

from ...ir import DType, Graph, Operator, schema
from .kernel import Call, CKernel, Operands, array, arrays, call, float_literal, refuse

KIND = "TFLite_Detection_PostProcess"
_BYTES_PER_BOX = 17
_NUMBERS = ("y_scale", "x_scale", "h_scale", "w_scale", "nms_score_threshold", "nms_iou_threshold")


def _write(graph: Graph, operator: Operator, operands: Operands) -> Call:
    if len(operator.inputs) != 3 or None in operator.inputs or len(operator.outputs) != 4:
        refuse(operator, f"it has {len(operator.inputs)} inputs and {len(operator.outputs)} outputs, not 3 and 4")
    boxes, scores, anchors = (graph.read(operator, place) for place in range(3))
    made = [graph.tensors[t] for t in operator.outputs]
    other = next((t for t in (boxes, scores, anchors, *made) if t.dtype is not DType.FLOAT32), None)
    if other is not None:
        refuse(operator, f"its C kernel takes float32; '{other.name}' is {other.dtype.value}")
    told = options(graph, operator)
    classes, most = told["num_classes"], told["max_detections"]
    if told.get("use_regular_nms"):
        refuse(operator, "its C kernel compares boxes of all classes; use_regular_nms is set")
    if told["max_classes_per_detection"] != 1:
        refuse(operator, f"its C kernel tells 1 class of a box, not {told['max_classes_per_detection']}")
    if len(boxes.shape) != 3 or len(scores.shape) != 3 or boxes.shape[0] != 1 or boxes.shape[2] < 4:
        refuse(
            operator, f"its boxes are {boxes.shape} and its scores {scores.shape}; kernels take (1, boxes, 4 or more)"
        )
    count, ahead = boxes.shape[1], scores.shape[2] - classes
    sizes = [tensor.size_bytes // 4 for tensor in made]
    if scores.shape[:2] != (1, count) or anchors.shape != (count, 4) or ahead not in (0, 1) or classes < 1:
        refuse(
            operator, f"{classes} classes of {count} boxes do not fit scores {scores.shape}, anchors {anchors.shape}"
        )
    if most < 1 or sizes != [4 * most, most, most, 1]:
        refuse(operator, f"max_detections is {most}, its outputs have {sizes} elements")
    shape = arrays({"shape": (count, boxes.shape[2], scores.shape[2], ahead, most)})
    stage = array("stage", [float_literal(float(told[name])) for name in _NUMBERS], "float")
    read = ", ".join(operands.source(operator.input(place)) for place in range(3))
    written = ", ".join(operands.target(t) for t in operator.outputs)
    text = f"{shape}{stage}detection_float32({read}, {written}, shape, stage, WORKSPACE);"
    return replace(call("detection.c", "detection_float32", text), workspace_bytes=_BYTES_PER_BOX * count)


def options(graph: Graph, operator: Operator) -> Mapping[str, Any]:
    """The options by name: whole numbers and reals that are all there. Raises `CodegenError` where they are not."""
    if operator.source_index is None or not graph.source:
        refuse(operator, "its options are in the file that it came from, which is not at hand")
    try:
        table = schema.Model.GetRootAs(graph.source, 0).Subgraphs(0).Operators(operator.source_index)
        found = flexbuffers.Loads(table.CustomOptionsAsNumpy().tobytes())
        whole = {name: int(found[name]) for name in ("num_classes", "max_detections", "max_classes_per_detection")}
        return {**found, **whole, **{name: float(found[name]) for name in _NUMBERS}}
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError, struct.error) as error:
        refuse(operator, f"its options cannot be read ({type(error).__name__})")


DETECTION = CKernel((KIND,), _write, ((DType.FLOAT32, DType.FLOAT32),))
