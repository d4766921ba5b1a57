"""Checks every quantized <name>.onnx of a directory, and compares what ONNX Runtime makes of <name>.<n>.safetensors: outputs with levels
("step" > 0) to "most_steps" of them, others to hundredths of the largest (a value between two levels may go to either).
What each layer in bytes was given there, and what it made of it, is left as <name>.layers.safetensors."""
import collections
import pathlib
import sys

try:
    import numpy
    import onnx
    import onnxruntime
    from safetensors.numpy import load_file, save_file
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
    session = opened(str(path))
    for tensors in map(load_file, sorted(path.parent.glob(f"{path.stem}.*.safetensors"))):
        expected, step, most_steps = tensors.pop("logits"), float(tensors.pop("step")), float(tensors.pop("most_steps"))
        (logits,) = session.run(["logits"], tensors)
        assert logits.shape == expected.shape, (path.stem, logits.shape)
        difference = float(numpy.abs(logits - expected).max())
        most = step * (most_steps + 0.001) if step > 0 else 0.01 * most_steps * float(numpy.abs(expected).max())
        assert numpy.ptp(expected, axis=-1).min() > 4 * step, (path.stem, "the outputs are alike")
        print(f"{path.stem} {logits.shape} {difference:.3g}, of at most {most:.3g}", file=sys.stderr)
        assert difference <= most, (path.stem, logits.shape, difference, most)
    write_layers(path, model, tensors)


def opened(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    # Without VNNI, ONNX Runtime adds pairs of eight-bit products in sixteen bits, which saturate; so its sums are exact on every CPU.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def write_layers(path, model, tensors):
    """Inputs and outputs of products whose weights are bytes, by the weight's name, and of scopes that are blocks, by theirs."""
    graph = model.graph
    made_by = {output: node for node in graph.node for output in node.output}
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    ends = {**product_ends(graph, made_by, stored), **block_ends(graph, stored)}
    wanted = sorted({name for pair in ends.values() for name in pair} - {value.name for value in graph.input})
    model.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in wanted if name != "logits")
    session = opened(onnx.shape_inference.infer_shapes(model).SerializeToString())
    found = dict(zip(wanted, session.run(wanted, tensors))) | tensors

    layers = {}
    for key, pair in ends.items():
        for end, name in zip(("input", "output"), pair):
            layers[f"{key}.{end}"] = numpy.ascontiguousarray(found[name])
            maker = made_by.get(name)
            if maker is not None and maker.op_type == "QuantizeLinear":
                layers[f"{key}.{end}_scale"] = stored[maker.input[1]]
                layers[f"{key}.{end}_zero_point"] = stored[maker.input[2]].astype(numpy.int64)
    save_file(layers, str(path.with_suffix(".layers.safetensors")))


def products_of_bytes(graph, stored):
    """Products, and the DequantizeLinear through which stored levels reach them."""
    made_by = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        weight = made_by.get(node.input[1]) if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if weight is not None and weight.op_type == "DequantizeLinear" and weight.input[0] in stored:
            yield node, weight


def product_ends(graph, made_by, stored):
    ends = {}
    for node, weight in products_of_bytes(graph, stored):
        given = made_by.get(node.input[0])
        if node.op_type == "Conv" or given is None or given.op_type != "DequantizeLinear":
            continue
        name = weight.input[0].removesuffix(".turned").removesuffix(".weight")
        output = node.output[0]
        while (reader := only_reader(graph, output)) is not None:
            if not (reader.op_type in ("QuantizeLinear", "DequantizeLinear") or reader.input[-1] == name + ".bias"):
                break
            output = reader.output[0]
        rounded = made_by[given.input[0]]
        ends["layer " + name] = (rounded.input[0] if rounded.op_type == "QuantizeLinear" else given.input[0], output)
    return ends


def only_reader(graph, name):
    readers = [node for node in graph.node if name in node.input]
    return readers[0] if len(readers) == 1 else None


def block_ends(graph, stored):
    scopes = collections.defaultdict(list)
    for node in graph.node:
        scopes[node.name.rpartition("/")[0]].append(node)
    ends = {}
    for scope, nodes in scopes.items():
        within = {output for node in nodes for output in node.output}
        inputs = {name for node in nodes for name in node.input if name and name not in within and name not in stored}
        outputs = within & {name for node in graph.node if node not in nodes for name in node.input}
        if scope and len(inputs) == 1 and len(outputs) == 1:
            ends["block " + scope] = (*inputs, *outputs)
    return ends


def check_products(path, graph, stored):
    """Weights in bytes reach their product through DequantizeLinear with a scale for each output."""
    levels = 0
    for node, weight in products_of_bytes(graph, stored):
        levels += 1
        assert stored[weight.input[0]].data_type == onnx.TensorProto.INT8, (path.stem, node.name)
        axis = next(a.i for a in weight.attribute if a.name == "axis")
        assert list(stored[weight.input[1]].dims) == [stored[weight.input[0]].dims[axis]], (path.stem, node.name)
    assert levels > 0 or "groups" in path.stem, path.stem


paths = sorted(pathlib.Path(sys.argv[-1]).glob("*.onnx"))
assert paths
for path in paths:
    check(path)
