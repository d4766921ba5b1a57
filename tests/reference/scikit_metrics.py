#!/usr/bin/env python3
"""scikit-learn's metrics of made-up predictions, for tests/task/reference_metrics_test.cpp.

scikit_metrics.py FILE    writes the cases with their values; tests/golden/metrics.json was written with scikit-learn 1.9.1, scipy 1.17.1 and numpy 2.4.6
"""
import json
import sys

try:
    import numpy as np
    from scipy.special import expit, softmax
    from scipy.stats import pearsonr, spearmanr
    from sklearn import metrics
except ImportError as error:
    print(f"{sys.argv[0]}: {error}", file=sys.stderr)
    sys.exit(77)


def calibration_error(labels, probabilities, bins=15):
    """Guo et al. 2017, equation 3: no library's bins have the paper's bounds."""
    confidence, hits = probabilities.max(1), probabilities.argmax(1) == labels
    error = 0
    for m in range(bins):
        inside = (confidence > m / bins) & (confidence <= (m + 1) / bins)
        if inside.any():
            error += inside.sum() * abs(hits[inside].mean() - confidence[inside].mean())
    return error / len(labels)


def classification(rng, num_samples, num_classes, used_classes):
    """Logits in quarters, so that some scores of two classes tie. Classes from used_classes on have no sample."""
    labels = rng.integers(used_classes, size=num_samples)
    logits = np.round(4 * (rng.normal(size=(num_samples, num_classes)) + 1.2 * np.eye(num_classes)[labels])) / 4
    if num_classes > 2:
        logits += np.arange(num_classes) / 64  # which of a sample's tied outputs are the k largest isn't defined
    probabilities = softmax(logits, axis=1)
    predicted = logits.argmax(1)
    every = range(num_classes)
    expected = {
        "loss": metrics.log_loss(labels, probabilities, labels=every),
        "accuracy": metrics.accuracy_score(labels, predicted),
        "balanced_accuracy": metrics.balanced_accuracy_score(labels, predicted),
        "f1_macro": metrics.f1_score(labels, predicted, average="macro"),
        "f1_weighted": metrics.f1_score(labels, predicted, average="weighted"),
        "precision_macro": metrics.precision_score(labels, predicted, average="macro", zero_division=0),
        "recall_macro": metrics.recall_score(labels, predicted, average="macro", zero_division=0),
        "matthews": metrics.matthews_corrcoef(labels, predicted),
        "calibration_error": calibration_error(labels, probabilities),
    }
    if num_classes == 2:
        expected |= {
            "f1": metrics.f1_score(labels, predicted),
            "precision": metrics.precision_score(labels, predicted),
            "recall": metrics.recall_score(labels, predicted),
            "auroc": metrics.roc_auc_score(labels, logits[:, 1] - logits[:, 0]),
            "average_precision": metrics.average_precision_score(labels, logits[:, 1] - logits[:, 0]),
        }
    else:
        score = lambda measure: np.mean([measure(labels == c, probabilities[:, c]) for c in range(used_classes)])
        expected |= {
            "auroc": score(metrics.roc_auc_score),
            "average_precision": score(metrics.average_precision_score),
            **{f"top{k}_accuracy": metrics.top_k_accuracy_score(labels, logits, k=k, labels=every) for k in (2, 3)},
        }
    return {"num_classes": num_classes, "labels": labels.tolist(), "logits": logits.tolist(), "expected": expected}


def regression(rng, num_samples):
    targets = np.round(4 * rng.normal(3, 2, num_samples)) / 4
    predicted = np.round(4 * (targets + rng.normal(0.5, 1, num_samples))) / 4
    return {
        "targets": targets.tolist(),
        "predicted": predicted.tolist(),
        "expected": {
            "loss": metrics.mean_squared_error(targets, predicted),
            "mse": metrics.mean_squared_error(targets, predicted),
            "rmse": metrics.root_mean_squared_error(targets, predicted),
            "mae": metrics.mean_absolute_error(targets, predicted),
            "r2": metrics.r2_score(targets, predicted),
            "pearson": pearsonr(targets, predicted).statistic,
            "spearman": spearmanr(targets, predicted).statistic,
        },
    }


def multi_label(rng, num_samples, num_classes, threshold):
    """Logits in quarters, so that scores tie."""
    labels = (rng.random(size=(num_samples, num_classes)) < 0.3).astype(int)
    logits = np.round(4 * (rng.normal(size=labels.shape) - 1 + 2 * labels)) / 4
    probabilities = expit(logits)
    predicted = (probabilities >= threshold).astype(int)
    score = lambda measure: np.mean([measure(labels[:, c], logits[:, c]) for c in range(num_classes)])
    expected = {
        "loss": metrics.log_loss(labels.ravel(), probabilities.ravel()),
        "mean_average_precision": metrics.average_precision_score(labels, logits, average="macro"),
        "f1_micro": metrics.f1_score(labels, predicted, average="micro"),
        "f1_macro": metrics.f1_score(labels, predicted, average="macro"),
        "precision_micro": metrics.precision_score(labels, predicted, average="micro"),
        "recall_micro": metrics.recall_score(labels, predicted, average="micro"),
        "exact_match": metrics.accuracy_score(labels, predicted),
        "auroc": score(metrics.roc_auc_score),
    }
    return {"threshold": threshold, "labels": labels.tolist(), "logits": logits.tolist(), "expected": expected}


def segmentation(rng, num_classes, used_classes):
    """Pixels of two images; -1 has no class. Classes from used_classes on neither occur nor are predicted."""
    targets = rng.integers(used_classes, size=(2, 4, 5))
    logits = np.round(4 * (rng.normal(size=(2, 4, 5, num_classes)) + 1.2 * np.eye(num_classes)[targets])) / 4
    logits += np.arange(num_classes) / 64
    logits[..., used_classes:] = -8
    targets[rng.random(size=targets.shape) < 0.2] = -1
    known = targets >= 0
    labels, predicted = targets[known], logits.argmax(-1)[known]
    expected = {
        "loss": metrics.log_loss(labels, softmax(logits[known], axis=1), labels=range(num_classes)),
        "mean_iou": metrics.jaccard_score(labels, predicted, average="macro"),
        "pixel_accuracy": metrics.accuracy_score(labels, predicted),
        "mean_accuracy": metrics.balanced_accuracy_score(labels, predicted),
    }
    return {"num_classes": num_classes, "targets": targets.tolist(), "logits": logits.transpose(0, 3, 1, 2).tolist(), "expected": expected}


def main():
    rng = np.random.default_rng(24)
    cases = {
        "classification": [classification(rng, 60, 2, 2), classification(rng, 50, 5, 5), classification(rng, 30, 5, 3)],
        "regression": regression(rng, 40),
        "multi_label": [multi_label(rng, 40, 4, 0.5), multi_label(rng, 25, 6, 0.3)],
        "segmentation": [segmentation(rng, 3, 3), segmentation(rng, 5, 4)],
    }
    with open(sys.argv[1], "w") as file:
        json.dump(cases, file, default=float)
        file.write("\n")


main()
