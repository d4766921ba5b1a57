#!/usr/bin/env bash
# Builds a TensorRT engine of an ONNX file that trainctl wrote, for a range of batches (and lengths of texts).
#
#   scripts/tensorrt.sh MODEL ENGINE [--batch MIN,BEST,MOST] [--length MIN,BEST,MOST] [--precision fp32|fp16] [-- MORE…]
#
# MODEL is a directory with model.onnx and model.json, as `trainctl export --format onnx` leaves it, or a file with model.json
# beside it. A quantized model has its precision in its graph: `trainctl quantize --activation-scheme symmetric` makes what TensorRT
# takes. What comes after -- goes to trtexec as it is. TRTEXEC names the program, where it isn't in PATH.
# Exit 2: wrong use, no trtexec, or a model that can't become an engine. Exit 1: trtexec failed.
set -euo pipefail

refuse() {
  echo "tensorrt.sh: $1" >&2
  exit 2
}

# A member of model.json; empty: it has none.
json() {
  python3 -c 'import json, sys; card = json.load(open(sys.argv[1])); print(card.get(sys.argv[2], ""))' "$card" "$1"
}

# sed prints the comment above.
usage() {
  sed -n '2,/^set -euo/{/^set/d;s/^# \{0,1\}//;p}' "$0"
}

batch=1,8,64
length=
precision=fp32
more=()
positional=()
while (($#)); do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --batch | --length | --precision)
      (($# > 1)) || refuse "$1 wants a value"
      declare "${1#--}=$2"
      shift
      ;;
    --) shift && more=("$@") && break ;;
    -*) refuse "unknown option $1; --help tells which there are" ;;
    *) positional+=("$1") ;;
  esac
  shift
done
((${#positional[@]} == 2)) || refuse "expected MODEL and ENGINE; --help tells more"
model=${positional[0]}
engine=${positional[1]}
[[ -d $model ]] && model=$model/model.onnx
[[ -f $model ]] || refuse "there is no file $model; 'trainctl export --format onnx' writes it"
card=$(dirname "$model")/model.json
[[ -f $card ]] || refuse "$card is missing, which says what the inputs are; export into a directory"
command -v python3 >/dev/null || refuse "python3 is needed to read $card"
[[ $precision == fp32 || $precision == fp16 ]] || refuse "--precision is fp32 or fp16, not $precision"
quantized=$(json quantization) || refuse "$card can't be read"
case $quantized in
  dynamic* | *affine*)
    refuse "TensorRT wants signed levels around 0, and this is: $quantized; quantize with --method static --activation-scheme symmetric" ;;
esac
trtexec=${TRTEXEC:-trtexec}
command -v "$trtexec" >/dev/null ||
  refuse "there is no trtexec here; TensorRT has it (https://developer.nvidia.com/tensorrt), and TRTEXEC may say where"

# One line for each of trtexec's shape options: "--minShapes=images:1x3x32x32", …
shapes=$(
  python3 - "$card" "$batch" "$length" <<'PYTHON'
import json
import sys

card, batch, length = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3]


def three(text, name):
    numbers = [int(part) for part in text.split(",") if part.isdecimal()]
    if len(numbers) != 3 or not 0 < numbers[0] <= numbers[1] <= numbers[2]:
        sys.exit(f"--{name} is {text!r}, expected three rising numbers as in 1,8,64")
    return numbers


inputs = card.get("inputs") or sys.exit("model.json names no inputs: it isn't of a graph")
longest = card.get("max_length") or 128
sizes = {"batch": three(batch, "batch"), "sequence": three(length or f"1,{max(1, longest // 2)},{longest}", "length")}
for place, option in enumerate(("minShapes", "optShapes", "maxShapes")):
    shapes = (i["name"] + ":" + "x".join(str(sizes[s][place] if s in sizes else s) for s in i["shape"]) for i in inputs)
    print(f"--{option}={','.join(shapes)}")
PYTHON
) || refuse "$card doesn't say what shapes the engine is for"

arguments=("--onnx=$model" "--saveEngine=$engine" --skipInference)
while IFS= read -r line; do arguments+=("$line"); done <<<"$shapes"
# Since TensorRT 10 a network may say itself what precision each tensor has; before, int8 has to be allowed.
help=$("$trtexec" --help 2>&1 || true)
if [[ -n $quantized && $help == *stronglyTyped* ]]; then
  arguments+=(--stronglyTyped)
elif [[ -n $quantized ]]; then
  arguments+=(--int8)
fi
[[ $precision == fp16 && ${arguments[*]} != *stronglyTyped* ]] && arguments+=(--fp16)

echo "$trtexec ${arguments[*]} ${more[*]:-}" >&2
"$trtexec" "${arguments[@]}" ${more[@]+"${more[@]}"} || {
  echo "tensorrt.sh: trtexec failed; of a quantized model, 'trainctl export' lists what TensorRT has against it" >&2
  exit 1
}
echo "$engine"
