"""Runs an ONNX file by ONNX Runtime, in a process of its own so that the CPU that it sees can be an emulated one.

  onnx_scores.py MODEL INPUTS.npz OUTPUT.npy
"""
import sys

import numpy
import onnxruntime


def main(model, inputs, output):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # docs/export.md: without this ONNX Runtime's sums of products of bytes saturate on CPUs without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], dict(numpy.load(inputs)))
    powers = numpy.exp(logits - logits.max(axis=1, keepdims=True))
    numpy.save(output, powers / powers.sum(axis=1, keepdims=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
