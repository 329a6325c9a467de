"""Runs a model on a reference interpreter in a process that may abort.

Arguments: model, inputs.npz, outputs.npz, engine, and for TFLM the tensors that are wanted instead of outputs. The
inputs may be several sets, one after the other; so are the outputs then.
"""

from __future__ import annotations

import sys

import numpy as np


def without_stray_dimensions(model: bytes) -> bytes:
    """A quantised dimension must exist; in some old files it does not, and LiteRT refuses them."""
    import tflite

    data = bytearray(model)
    root = tflite.Model.GetRootAs(data, 0)
    for s in range(root.SubgraphsLength()):
        graph = root.Subgraphs(s)
        for i in range(graph.TensorsLength()):
            tensor = graph.Tensors(i)
            quantization = tensor.Quantization()
            if quantization is None or quantization.QuantizedDimension() < max(1, tensor.ShapeLength()):
                continue
            # Field 6 of the table: its offset from the vtable, patched in place.
            position = quantization._tab.Pos + quantization._tab.Offset(4 + 2 * 6)
            data[position : position + 4] = bytes(4)
    return bytes(data)


def sets(inputs: list[np.ndarray], count: int) -> list[list[np.ndarray]]:
    """The inputs in sets of `count`."""
    return [inputs[at : at + count] for at in range(0, len(inputs), count)]


def litert(model: bytes, inputs: list[np.ndarray]) -> list[np.ndarray]:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    interpreter = Interpreter(
        model_content=without_stray_dimensions(model), experimental_op_resolver_type=OpResolverType.BUILTIN_REF
    )
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    found = []
    for given in sets(inputs, len(details)):
        interpreter.reset_all_variables()
        for detail, value in zip(details, given, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        found += [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]
    return found


def counts(model: bytes) -> tuple[int, int]:
    """Inputs and outputs. Asking TFLM for an output that does not exist raises inside the interpreter."""
    import tflite

    graph = tflite.Model.GetRootAs(model, 0).Subgraphs(0)
    return graph.InputsLength(), graph.OutputsLength()


def tflm(model: bytes, inputs: list[np.ndarray], tensors: tuple[int, ...] = ()) -> list[np.ndarray]:
    """The network's outputs for each set of inputs, or the values of `tensors` inside it."""
    from tflite_micro.python.tflite_micro import runtime

    keep = runtime.InterpreterConfig.kPreserveAllTensors if tensors else runtime.InterpreterConfig.kAllocationRecording
    interpreter = runtime.Interpreter.from_bytes(model, arena_size=16 << 20, intrepreter_config=keep)
    ins, outs = counts(model)
    found = []
    for given in sets(inputs, ins):
        interpreter.reset()
        for index, value in enumerate(given):
            interpreter.set_input(value, index)
        interpreter.invoke()
        if tensors:
            found += [np.array(interpreter.GetTensor(index, 0)["tensor_data"]) for index in tensors]
        else:
            found += [np.array(interpreter.get_output(index)) for index in range(outs)]
    return found


def main() -> None:
    model_path, inputs_path, outputs_path, engine, *tensors = sys.argv[1:]
    with open(model_path, "rb") as file:
        model = file.read()
    archive = np.load(inputs_path)
    inputs = [archive[f"arr_{i}"] for i in range(len(archive.files))]
    found = tflm(model, inputs, tuple(int(t) for t in tensors)) if engine == "tflm" else litert(model, inputs)
    np.savez(outputs_path, *found)


if __name__ == "__main__":
    main()
