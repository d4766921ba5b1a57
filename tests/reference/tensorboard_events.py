"""Prints the scalar curves that the real TensorBoard reads: `tensorboard_events.py DIRECTORY OUTPUT.json`.

OUTPUT has the file_version, and under "curves" each tag's [step, value] pairs; what JSON has no number for is a text. Exit code 77: TensorBoard can't be imported.
"""

import json
import math
import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as error:
    print(f"TensorBoard can't be imported: {error}", file=sys.stderr)
    sys.exit(77)


def number(value):
    return value if math.isfinite(value) else str(value)


def main(directory, output):
    events = EventAccumulator(directory, size_guidance={"scalars": 0})
    events.Reload()
    curves = {tag: [[item.step, number(item.value)] for item in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    with open(output, "w", encoding="utf-8") as file:
        json.dump({"file_version": events.file_version, "curves": curves}, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
