"""Writes torchvision_reference.json: what torchvision's ResNets answer, for the C++ networks to be compared with.

    python torchvision_reference.py        (needs torch and torchvision; prints how far float32 is from float64)

No weights are stored. Every parameter, buffer and pixel is value(name, flat index), which both languages compute alike,
in unsigned 64-bit arithmetic and then in double:

    h = 0xCBF29CE484222325                              FNV-1a of the tensor's name
    for each byte b of name: h = (h ^ b) * 0x100000001B3
    x = h + index * 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9            the finaliser of SplitMix64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    x = x ^ (x >> 31)
    u = (x >> 40) * 2^-24                               uniform on [0, 1), exact

    weights of rank 4:        (2u - 1) * sqrt(3) * sqrt(2 / fan_in),  fan_in = elements / shape[0]
    weights of rank 2:        a tenth of that, or the step is so long that the answers after it mean little
    *.running_mean:           0.1 (2u - 1)
    *.running_var:            1 + 0.5 u
    other weights (rank 1):   1 + 0.1 (2u - 1)
    biases:                   0.1 (2u - 1)
    pixels (name "input"):    (2u - 1) * sqrt(3)
    label of sample i:        i mod classes

each rounded to float32. The answers are computed in float64 from these and stored with nine digits. A comparison in
float32 must be lenient after the step: where rounding carries an activation across the kink of a ReLU, a gradient jumps.

The step is SGD on the mean softmax cross-entropy: learning rate 0.05, momentum 0.9, weight decay 0.0005 on everything.
`norm` (L2), `sum` and `values` are of a tensor after the step, the values at flat indices floor(k (n - 1) / 3),
k = 0..3; `moved` is the L2 norm of what the step changed. `pixels` are the first of the input, to check the formula.
"""

import json
import math
import pathlib

import numpy as np
import torch
import torchvision

BATCH = 4
SAMPLES = 2  # of the batch, whose logits are stored
CASES = [  # network, classes, side of the image, small stem
    ("resnet18", 10, 32, True),
    ("resnet34", 100, 32, True),
    ("resnet50", 1000, 64, False),
]
LOGITS = 128  # stored per sample; more classes are cut to 32 and summarised by their norm


def uniform(name, count):
    h = 0xCBF29CE484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    x = np.uint64(h) + np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(40)).astype(np.float64) * 2.0**-24


def filled(name, shape):
    count = math.prod(shape)
    u = uniform(name, count)
    centred = 2.0 * u - 1.0
    if name == "input":
        value = centred * math.sqrt(3.0)
    elif len(shape) > 1:
        value = centred * math.sqrt(3.0) * math.sqrt(2.0 / (count // shape[0])) * (0.1 if len(shape) == 2 else 1.0)
    elif name.endswith("running_var"):
        value = 1.0 + 0.5 * u
    elif name.endswith("weight"):
        value = 1.0 + 0.1 * centred
    else:
        value = 0.1 * centred
    return torch.from_numpy(value.astype(np.float32).reshape(shape))


def build(network, classes, small_stem, dtype):
    model = getattr(torchvision.models, network)(weights=None, num_classes=classes)
    if small_stem:
        model.conv1 = torch.nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
        model.maxpool = torch.nn.Identity()
    with torch.no_grad():
        for name, tensor in floats(model).items():
            tensor.copy_(filled(name, tuple(tensor.shape)))
    return model.to(dtype)


def floats(model):
    return {name: t for name, t in model.state_dict().items() if not name.endswith("num_batches_tracked")}


def logits_of(model, images):
    model.eval()
    with torch.no_grad():
        return model(images[:SAMPLES]).double()


def run(network, classes, side, small_stem, dtype):
    model = build(network, classes, small_stem, dtype)
    images = filled("input", (BATCH, 3, side, side)).to(dtype)
    labels = torch.arange(BATCH) % classes
    before = {name: t.clone().double() for name, t in floats(model).items()}
    answer = {"parameters": sum(p.numel() for p in model.parameters()), "eval": logits_of(model, images)}

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    model.train()
    loss = torch.nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    answer["loss"] = loss.item()
    answer["eval_after"] = logits_of(model, images)
    answer["tensors"] = {}
    for name, tensor in floats(model).items():
        after = tensor.double()
        flat = after.flatten()
        answer["tensors"][name] = {
            "shape": list(tensor.shape),
            "norm": flat.norm().item(),
            "sum": flat.sum().item(),
            "moved": (after - before[name]).norm().item(),
            "values": [flat[k * (flat.numel() - 1) // 3].item() for k in range(4)],
        }
    return answer


def rounded(value):
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return [rounded(v) for v in value] if isinstance(value, list) else value


def logits_json(logits):
    kept = logits.shape[1] if logits.shape[1] <= LOGITS else 32
    return [{"norm": rounded(row.norm().item()), "first": rounded(row[:kept].tolist())} for row in logits]


def report(title, answer, single):
    def logit_gap(key):
        gap = (answer[key] - single[key]).abs().max().item()
        largest = answer[key].abs().max().item()
        return f"{gap:.2e} (the largest is {largest:.3g}, relative {gap / largest:.1e})"

    print(f"{title}: float32 against float64")
    print(f"  logits before     {logit_gap('eval')}")
    print(f"  loss              {abs(answer['loss'] - single['loss']):.2e} of {answer['loss']:.6g}")
    print(f"  logits after      {logit_gap('eval_after')}")
    pairs = [(name, a, single["tensors"][name]) for name, a in answer["tensors"].items()]
    worst = {
        "norm, relative": [(abs(a["norm"] - b["norm"]) / a["norm"], n) for n, a, b in pairs],
        "moved, relative": [(abs(a["moved"] - b["moved"]) / a["moved"], n) for n, a, b in pairs],
        "sum / norm": [(abs(a["sum"] - b["sum"]) / a["norm"], n) for n, a, b in pairs],
        "values, absolute": [(max(abs(x - y) for x, y in zip(a["values"], b["values"])), n) for n, a, b in pairs],
    }
    for what, gaps in worst.items():
        print(f"  {what:18}{max(gaps)[0]:.2e} at {max(gaps)[1]}")


def main():
    torch.set_num_threads(1)
    models = []
    for network, classes, side, small_stem in CASES:
        answer = run(network, classes, side, small_stem, torch.float64)
        report(network, answer, run(network, classes, side, small_stem, torch.float32))
        lines = [
            json.dumps({"name": name, **{k: rounded(v) for k, v in t.items()}}, separators=(",", ":"))
            for name, t in answer["tensors"].items()
        ]
        head = {
            "network": network,
            "classes": classes,
            "side": side,
            "small_stem": small_stem,
            "batch": BATCH,
            "pixels": rounded(filled("input", (4,)).double().tolist()),
            "parameters": answer["parameters"],
            "loss": rounded(answer["loss"]),
            "eval": logits_json(answer["eval"]),
            "eval_after": logits_json(answer["eval_after"]),
        }
        models.append(json.dumps(head, separators=(",", ":"))[:-1] + ',"tensors":[\n' + ",\n".join(lines) + "\n]}")
    text = "[\n" + ",\n".join(models) + "\n]\n"
    json.loads(text)
    pathlib.Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
