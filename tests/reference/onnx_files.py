"""Checks every <name>.onnx of a directory with full shape inference, and compares what ONNX Runtime makes of <name>.<n>.safetensors."""
import pathlib
import sys

try:
    import numpy
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def check(path):
    onnx.checker.check_model(str(path), full_check=True)
    model = onnx.load(path)
    assert model.opset_import[0].version >= 17
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    known = {value.name for value in [*inferred.graph.value_info, *inferred.graph.output]}
    produced = {name for node in inferred.graph.node for name in node.output if name}
    assert produced <= known, (path.stem, sorted(produced - known)[:5])
    for value in [*model.graph.input, *model.graph.output]:
        assert value.type.tensor_type.shape.dim[0].dim_param == "batch", (path.stem, value.name)
    session = session_of(path)
    for tensors in map(load_file, sorted(path.parent.glob(f"{path.stem}.*.safetensors"))):
        expected = tensors.pop("logits")
        (logits,) = session.run(["logits"], tensors)
        assert logits.shape == expected.shape, (path.stem, logits.shape)
        difference = numpy.abs(logits - expected).max() / numpy.abs(expected).max()
        assert difference < 1e-5, (path.stem, logits.shape, difference)


paths = sorted(pathlib.Path(sys.argv[-1]).glob("*.onnx"))
assert paths
for path in paths:
    check(path)
