"""Answers requests for a model that trainctl exported. model.json, beside this file, says what the model is."""
import io
import json
import os

import torch


def image_of(body, model):
    import numpy
    from PIL import Image

    channels, height, width = model["inputs"][0]["shape"][1:]
    image = Image.open(io.BytesIO(body))
    if image.mode.startswith("I"):  # 16 bits, of which Pillow would clip all above 255
        image = Image.fromarray((numpy.asarray(image).astype("uint16") >> 8).astype("uint8"))
    image = image.convert("L" if channels == 1 else "RGB")
    for transform in model.get("transforms", []):
        if transform["kind"] == "resize":
            image = image.resize(resized(transform, image.size), Image.Resampling.BILINEAR)
        elif transform["kind"] == "center_crop":
            rows, columns = transform["size"], transform.get("width") or transform["size"]
            left, top = round((image.width - columns) / 2), round((image.height - rows) / 2)
            image = image.crop((left, top, left + columns, top + rows))
    if image.size != (width, height):
        raise ValueError(f"the image is {image.width}x{image.height}; the model takes {width}x{height}")
    pixels = torch.from_numpy(numpy.array(image, dtype="float32").reshape(height, width, channels)).permute(2, 0, 1) / 255
    normalize = model.get("normalize")
    if normalize:
        pixels = (pixels - torch.tensor(normalize["mean"])[:, None, None]) / torch.tensor(normalize["std"])[:, None, None]
    return pixels


def resized(transform, size):
    """torchvision's size of a resized image: columns, rows."""
    if transform.get("width"):
        return transform["width"], transform["size"]
    columns, rows = size
    shorter, longer = min(size), max(size)
    new_shorter, new_longer = transform["size"], int(transform["size"] * longer / shorter)
    if transform.get("max_size") and new_longer > transform["max_size"]:
        new_shorter, new_longer = int(transform["max_size"] * new_shorter / new_longer), transform["max_size"]
    return (new_shorter, new_longer) if columns <= rows else (new_longer, new_shorter)


class Texts:
    """Ids of texts, as in training."""

    def __init__(self, directory, model):
        self.longest = model.get("max_length")
        self.special_tokens = model.get("special_tokens", True)
        path = os.path.join(directory, "tokenizer.json")
        self.tokenizer = None
        if os.path.exists(path):
            from tokenizers import Tokenizer

            self.tokenizer = Tokenizer.from_file(path)
            self.tokenizer.no_padding()
            if self.longest:
                self.tokenizer.enable_truncation(self.longest)
            else:
                self.tokenizer.no_truncation()
        elif not model.get("bytes_are_tokens"):
            raise ValueError("the archive has no tokenizer.json")

    def __call__(self, text, pair=None):
        if self.tokenizer is None:
            ids = list((text if pair is None else text + pair).encode())[: self.longest]
            return ids, [0] * len(ids)
        encoding = self.tokenizer.encode(text, pair, add_special_tokens=self.special_tokens)
        return encoding.ids, encoding.type_ids


def as_pair(text):
    """JSON of that kind, or any other text."""
    try:
        parsed = json.loads(text) if text.lstrip().startswith("{") else None
    except ValueError:
        parsed = None
    return parsed if isinstance(parsed, dict) and "text" in parsed else {"text": text}


class Handler:
    def __init__(self):
        self.initialized = False

    def initialize(self, context):
        directory = context.system_properties.get("model_dir")
        gpu = context.system_properties.get("gpu_id")
        self.device = torch.device(f"cuda:{gpu}" if torch.cuda.is_available() and gpu is not None else "cpu")
        with open(os.path.join(directory, "model.json")) as file:
            self.model = json.load(file)
        self.names = [entry["name"] for entry in self.model["inputs"]]
        self.texts = Texts(directory, self.model) if "input_ids" in self.names else None
        self.module = torch.jit.load(os.path.join(directory, context.manifest["model"]["serializedFile"]), map_location=self.device).eval()
        self.initialized = True

    def handle(self, requests, context):
        """One answer for each request; what can't be used is told in its answer."""
        if not requests:
            return []
        answers, usable, places = [None] * len(requests), [], []
        for place, request in enumerate(requests):
            try:
                usable.append(self.input_of(request))
                places.append(place)
            except Exception as error:
                answers[place] = {"error": str(error)}
        if usable:
            for place, answer in zip(places, self.answers(usable)):
                answers[place] = answer
        return answers

    def input_of(self, request):
        body = request.get("data") if request.get("data") is not None else request.get("body")
        if self.texts is not None:
            if isinstance(body, (bytes, bytearray)):
                body = body.decode("utf-8", errors="replace")
            if isinstance(body, str):
                body = as_pair(body)
            if not isinstance(body, dict) or not isinstance(body.get("text"), str):
                raise ValueError('expected a text, or {"text": ..., "text_pair": ...}')
            ids, types = self.texts(body["text"], body.get("text_pair"))
            if not ids:
                raise ValueError("the text has no tokens")
            return ids, types
        if self.names == ["features"]:
            if isinstance(body, (bytes, bytearray, str)):
                body = json.loads(body)
            row = torch.tensor(body["features"] if isinstance(body, dict) else body, dtype=torch.float32)
            if list(row.shape) != self.model["inputs"][0]["shape"][1:]:
                raise ValueError(f"a row has {self.model['inputs'][0]['shape'][1]} numbers, already scaled")
            return row
        return image_of(bytes(body), self.model)

    def batch_of(self, inputs):
        if self.texts is None:
            return [torch.stack(inputs)]
        longest = max(len(ids) for ids, _ in inputs)
        pad = self.model.get("pad", 0)
        tensors = {
            "input_ids": [ids + [pad] * (longest - len(ids)) for ids, _ in inputs],
            "attention_mask": [[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in inputs],
            "token_type_ids": [types + [0] * (longest - len(types)) for _, types in inputs],
        }
        return [torch.tensor(tensors[name], dtype=torch.long) for name in self.names]

    def answers(self, inputs):
        with torch.no_grad():
            outputs = self.module(*[tensor.to(self.device) for tensor in self.batch_of(inputs)]).cpu()
        return [self.answer(output, given) for output, given in zip(outputs, inputs)]

    def answer(self, output, given):
        if self.model["task"] == "regression":
            return {"value": output[0].item()}
        if self.model["task"] == "multi_label_classification":
            scores, indices = output.sigmoid().sort(descending=True)
            ranked = [(self.label(index), score) for index, score in zip(indices.tolist(), scores.tolist())]
            labels = [label for label, score in ranked if score >= self.model["threshold"]]
            return {"labels": labels, "scores": dict(ranked[:5])}
        if output.dim() == 3:
            return {"mask": output.argmax(0).tolist()}
        if output.dim() == 2:
            output = output[: len(given[0])]
            if self.model["task"] == "causal_lm":
                output = output[-1]
            else:
                return {"labels": [self.label(index) for index in output.argmax(1).tolist()]}
        scores, indices = output.softmax(0).topk(min(5, len(output)))
        ranked = {self.label(index): score for index, score in zip(indices.tolist(), scores.tolist())}
        label, score = next(iter(ranked.items()))
        return {"label": label, "score": score, "scores": ranked}

    def label(self, index):
        classes = self.model.get("classes", [])
        return classes[index] if index < len(classes) else str(index)


_handler = Handler()


def handle(data, context):
    if not _handler.initialized:
        _handler.initialize(context)
    return None if data is None else _handler.handle(data, context)
