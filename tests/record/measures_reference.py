"""Writes measures_reference.json: what scikit-learn gives for random logits. measures_reference.py (needs scikit-learn, PyPI).

Each case has a long tail of labels, and logits that favour the truth by a margin; one class of the last case has no image.
"""
import json
import pathlib

import numpy
from sklearn import metrics
from sklearn.calibration import calibration_curve

BINS = 15
CASES = {  # images by class, margin of the truth, specificity
    "two classes": ([70, 30], 1.0, 0.9),
    "long tail": ([120, 60, 25, 9, 3], 1.5, 0.95),
    "overconfident": ([50, 40, 30, 20], 6.0, 0.8),
    "a class without images": ([40, 0, 12], 1.0, 0.9),
}


def expected_calibration_error(right, confidence):
    share_right, mean_confidence = calibration_curve(right, confidence, n_bins=BINS, strategy="uniform")
    # calibration_curve leaves out the sizes of its bins; these are its own edges.
    bins = numpy.searchsorted(numpy.linspace(0, 1, BINS + 1)[1:-1], confidence)
    sizes = numpy.bincount(bins, minlength=BINS)
    sizes = sizes[sizes > 0]
    return float(sizes @ numpy.abs(share_right - mean_confidence) / len(right))


def sensitivity(truth, scores, specificity):
    false, true, _ = metrics.roc_curve(truth, scores, drop_intermediate=False)
    return float(true[false <= 1 - specificity + 1e-9].max())


def case(counts, margin, specificity, random):
    labels = random.permutation(numpy.repeat(numpy.arange(len(counts)), counts))
    logits = random.normal(0, 1.5, (len(labels), len(counts)))
    logits[numpy.arange(len(labels)), labels] += margin
    logits = logits.astype(numpy.float32).astype(float)
    shifted = numpy.exp(logits - logits.max(1, keepdims=True))
    probabilities = shifted / shifted.sum(1, keepdims=True)
    answers = logits.argmax(1)
    present = [c for c, count in enumerate(counts) if count]
    auroc = {c: float(metrics.roc_auc_score(labels == c, probabilities[:, c])) for c in present}
    found = {c: sensitivity(labels == c, probabilities[:, c], specificity) for c in present}
    return {
        "labels": labels.tolist(), "logits": logits.ravel().tolist(), "classes": len(counts), "specificity": specificity,
        "measures": {
            "accuracy": float(metrics.accuracy_score(labels, answers)),
            "balanced_accuracy": float(metrics.balanced_accuracy_score(labels, answers)),
            "macro_f1": float(metrics.f1_score(labels, answers, average="macro")),
            "auroc": float(numpy.mean(list(auroc.values()))),
            "sensitivity": float(numpy.mean(list(found.values()))),
            "ece": expected_calibration_error(labels == answers, probabilities.max(1)),
        },
        "auroc": [auroc.get(c) for c in range(len(counts))],
        "sensitivity": [found.get(c) for c in range(len(counts))],
    }


def main():
    random = numpy.random.default_rng(1)
    cases = {name: case(*arguments, random) for name, arguments in CASES.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in cases.items())
    pathlib.Path(__file__).with_suffix(".json").write_text(f"{{\n{lines}\n}}\n")


if __name__ == "__main__":
    main()
