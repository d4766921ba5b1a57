"""Prints what the real TensorBoard reads: `tensorboard_events.py DIRECTORY OUTPUT.json`.

OUTPUT has the file_version; under "curves" each tag's [step, value] pairs, where what JSON has no number for is a text; under "texts" each tag's last
text; under "histograms" each tag's last bins; under "images" each tag's last size; under "captions" what stands above it; and the "hparams" with the status at the end. Exit code 77: TensorBoard can't be imported.
"""

import json
import math
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import plugin_data_pb2
    from tensorboard.util import tensor_util
except ImportError as error:
    print(f"TensorBoard can't be imported: {error}", file=sys.stderr)
    sys.exit(77)


def number(value):
    return value if math.isfinite(value) else str(value)


def hparams(events):
    """Names and values of the run's hyperparameters, and the status at its end."""
    found = {"values": {}, "status": 0}
    for content in events.PluginTagToContent("hparams").values():
        data = plugin_data_pb2.HParamsPluginData.FromString(content)
        for name, value in data.session_start_info.hparams.items():
            found["values"][name] = getattr(value, value.WhichOneof("kind"))
        found["status"] = max(found["status"], data.session_end_info.status)
    return found


def main(directory, output):
    events = EventAccumulator(directory, size_guidance={"scalars": 0})
    events.Reload()
    tags = events.Tags()
    plugins = {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}
    tensors = {tag: events.Tensors(tag)[-1].tensor_proto for tag in tags["tensors"]}
    texts = {tag: tensor.string_val[0].decode() for tag, tensor in tensors.items() if plugins[tag] == "text"}
    histograms = {tag: tensor_util.make_ndarray(tensor).tolist() for tag, tensor in tensors.items() if plugins[tag] == "histograms"}
    images = {tag: [int(size) for size in tensor.string_val[:2]] for tag, tensor in tensors.items() if plugins[tag] == "images"}
    captions = {tag: events.SummaryMetadata(tag).display_name for tag in images}
    curves = {tag: [[item.step, number(item.value)] for item in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"file_version": events.file_version, "curves": curves, "texts": texts, "images": images,
                   "histograms": histograms, "captions": captions,
                   "hparams": hparams(events)}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
