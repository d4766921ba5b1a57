"""Checks every quantized <name>.onnx of a directory, and compares what ONNX Runtime makes of <name>.<n>.safetensors: outputs with levels
("step" > 0) to "most_steps" of them, others to a hundredth of the largest (a value between two levels may go to either)."""
import collections
import pathlib
import sys

try:
    import numpy
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)


def check(path):
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert model.opset_import[0].version >= 17
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    kinds = collections.Counter(node.op_type for node in model.graph.node)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    if "four_bits" not in path.stem:
        assert kinds["DequantizeLinear"] > 0, path.stem
        check_products(path, model.graph, stored)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    for tensors in map(load_file, sorted(path.parent.glob(f"{path.stem}.*.safetensors"))):
        expected, step, most_steps = tensors.pop("logits"), float(tensors.pop("step")), float(tensors.pop("most_steps"))
        (logits,) = session.run(["logits"], tensors)
        assert logits.shape == expected.shape, (path.stem, logits.shape)
        difference = float(numpy.abs(logits - expected).max())
        most = step * (most_steps + 0.001) if step > 0 else 0.01 * float(numpy.abs(expected).max())
        assert numpy.ptp(expected, axis=-1).min() > 4 * step, (path.stem, "the outputs are alike")
        print(f"{path.stem} {logits.shape} {difference:.3g}, of at most {most:.3g}", file=sys.stderr)
        assert difference <= most, (path.stem, logits.shape, difference, most)


def check_products(path, graph, stored):
    """Weights in bytes reach their product through DequantizeLinear with a scale for each output."""
    by_output = {output: node for node in graph.node for output in node.output}
    levels = 0
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        weight = by_output.get(node.input[1])
        if weight is None or weight.op_type != "DequantizeLinear" or weight.input[0] not in stored:
            continue
        levels += 1
        assert stored[weight.input[0]].data_type == onnx.TensorProto.INT8, (path.stem, node.name)
        axis = next(a.i for a in weight.attribute if a.name == "axis")
        assert list(stored[weight.input[1]].dims) == [stored[weight.input[0]].dims[axis]], (path.stem, node.name)
    assert levels > 0 or "groups" in path.stem, path.stem


paths = sorted(pathlib.Path(sys.argv[-1]).glob("*.onnx"))
assert paths
for path in paths:
    check(path)
