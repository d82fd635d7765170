"""fedgrab.torch from the source tree, on any PyTorch there is: no compiled core is needed."""

import copy
import io
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

TREE = Path(__file__).resolve().parents[2]
TRACES = TREE / "tests" / "objective" / "sgb-reference.json"
GAINS = ("kp", "ki", "kd", "gamma", "delta", "zeta", "target")

if __name__ == "__main__":  # Debian's PyTorch belongs to Debian's Python
    sys.path.insert(0, str(TREE / "python"))
    try:
        import torch
        torch.Tensor  # without PyTorch, python/torch is an empty package of that name
    except (ModuleNotFoundError, AttributeError):
        if sys.executable == "/usr/bin/python3" or subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True).returncode:
            sys.exit("SKIP: there is no PyTorch here (Debian: python3-torch)")
        sys.exit(subprocess.run(["/usr/bin/python3", "-B", *sys.argv]).returncode)

import fedgrab.torch
from fedgrab.torch import BalancedSoftmax, BiasCalibration, LogitAdjustment, SGBLoss, prior_from_weights

torch.set_num_threads(1)  # the tensors are small
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def some_batch(batch=8, classes=5, seed=0, dtype=torch.float32):
    """Logits and long-tailed labels."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(batch, generator=generator) ** 3 * classes).long()
    return torch.randn(batch, classes, generator=generator).to(dtype), labels


def gradient_of(criterion, logits, labels, **gate):
    logits = logits.detach().clone().requires_grad_()
    loss = criterion(logits, labels, **gate)
    loss.backward()
    return loss.detach(), logits.grad


def assert_close(ours, theirs, relative, absolute=0.0):
    torch.testing.assert_close(ours.detach().cpu().double(), torch.as_tensor(theirs).cpu().double(), rtol=relative, atol=absolute)


class GoldenTraces(unittest.TestCase):
    """Of the published implementation, gate decisions included. It computes in float32, and the loop amplifies rounding."""

    def follow(self, fed, device, tolerance):
        cases = json.loads(TRACES.read_text())
        self.assertGreaterEqual(len(cases), 3)
        for case in cases:
            criterion = SGBLoss(case["classes"], form=case["objective"], clamp=0, conditional_integration=False,
                                **{name: case[name] for name in GAINS}).to(device)
            previous = None
            for number, step in enumerate(case["trace"]):
                with self.subTest(case["name"], step=number, fed=fed):
                    if fed and previous:
                        criterion.positive.copy_(torch.tensor(previous["cum_pos"]))
                        criterion.negative.copy_(torch.tensor(previous["cum_neg"]))
                    loss, gradient = gradient_of(criterion, torch.tensor(step["logits"], device=device),
                                                 torch.tensor(step["labels"], device=device), exempt=torch.tensor(step["exempt"]))
                    assert_close(loss, step["loss"], 1e-6)
                    assert_close(gradient, step["grad"], tolerance, 1e-6)
                    assert_close(gradient, step["grad"], 0, 1e-5)
                    for beta, expected in zip(criterion.beta, (step["beta_pos"], step["beta_neg"])):
                        assert_close(beta, expected, tolerance, 1e-6)
                    assert_close(criterion.positive, step["cum_pos"], 1e-5, 1e-6)
                    assert_close(criterion.negative, step["cum_neg"], 1e-5, 1e-6)
                previous = step

    def test_closed_loop(self):
        for device in DEVICES:
            self.follow(False, device, 5e-4)

    def test_from_recorded_collectors(self):
        for device in DEVICES:
            self.follow(True, device, 1e-5)


class Loss(unittest.TestCase):
    def test_is_the_base_loss_and_without_gains_its_gradient(self):
        for form in ("sigmoid", "softmax"):
            criterion = SGBLoss(5, form=form, kp=0, ki=0, kd=0)
            for seed in range(3):
                logits, labels = some_batch(seed=seed)
                base = logits.clone().requires_grad_()
                if form == "softmax":
                    expected = torch.nn.functional.cross_entropy(base, labels)
                else:
                    target = torch.nn.functional.one_hot(labels, 5).float()
                    expected = torch.nn.functional.binary_cross_entropy_with_logits(base, target, reduction="sum") / len(labels)
                expected.backward()
                loss, gradient = gradient_of(criterion, logits, labels)
                assert_close(loss, expected, 1e-6)
                assert_close(gradient, base.grad, 1e-6, 1e-7)

    def test_gradient_flows_below_the_logits_and_is_scaled_from_above(self):
        logits, labels = some_batch()
        _, expected = gradient_of(SGBLoss(5), logits, labels)
        features = torch.eye(8)
        layer = torch.nn.Linear(8, 5, bias=False)
        layer.weight.data.copy_(logits.t())
        (3 * SGBLoss(5)(layer(features), labels)).backward()
        assert_close(layer.weight.grad.t(), 3 * expected, 1e-6)

    def test_a_rare_class_is_pulled_up(self):
        criterion = SGBLoss(3, kp=1, ki=0.02)
        labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])
        for _ in range(500):
            gradient_of(criterion, torch.full((7, 3), -1.0), labels)
        positive, negative = criterion.beta
        self.assertTrue(positive[0] < positive[1] < positive[2])
        self.assertTrue(negative[0] > negative[1] > negative[2])
        self.assertLess(criterion.difference.abs().max(), 0.05)

    def test_validation_changes_nothing(self):
        logits, labels = some_batch()
        criterion = SGBLoss(5, prior=torch.full((5,), 0.5))
        gradient_of(criterion, logits, labels)
        before = copy.deepcopy(criterion.state_dict())
        expected = criterion(logits, labels)  # no gradient is asked for
        with torch.no_grad():
            assert_close(criterion(logits.clone().requires_grad_(), labels), expected, 0)
        assert_close(criterion.eval()(logits.clone().requires_grad_(), labels), expected, 0)
        self.assertEqual(before.keys(), criterion.state_dict().keys())
        for name, value in criterion.state_dict().items():
            self.assertTrue(torch.equal(before[name], value), name)

    def test_an_exempt_class_has_the_base_gradient_and_is_not_advanced(self):
        criterion, base = SGBLoss(5), SGBLoss(5, kp=0, ki=0, kd=0)
        gradient_of(criterion, *some_batch())
        kept = criterion.state_dict()["positive"].clone(), criterion.error_sum.clone()
        exempt = torch.tensor([True, False, False, True, False])
        logits, labels = some_batch(seed=1)
        gradient, plain = gradient_of(criterion, logits, labels, exempt=exempt)[1], gradient_of(base, logits, labels)[1]
        self.assertTrue(torch.equal(gradient[:, exempt], plain[:, exempt]))
        self.assertFalse(torch.isclose(gradient[:, ~exempt], plain[:, ~exempt]).all(0).any())
        self.assertTrue(torch.equal(kept[0][exempt], criterion.positive[exempt]))
        self.assertTrue(torch.equal(kept[1][exempt], criterion.error_sum[exempt]))
        self.assertTrue((kept[1] != criterion.error_sum)[~exempt].all())

    def test_mounts_on_the_listed_classes_alone(self):
        criterion, base = SGBLoss(5, mount_classes=[1, 4]), SGBLoss(5, kp=0, ki=0, kd=0)
        for seed in range(3):
            gradient, plain = (gradient_of(loss, *some_batch(seed=seed))[1] for loss in (criterion, base))
        same = [torch.equal(gradient[:, j], plain[:, j]) for j in range(5)]
        self.assertEqual([True, False, True, True, False], same)

    def test_the_gate_exempts_as_often_as_the_prior_says(self):
        prior = torch.tensor([0, 0.1, 0.5, 0.9, 1])
        criterion = SGBLoss(5, prior=prior, kp=0, ki=0, kd=0)
        frequency, steps = torch.zeros(5), 2000
        for _ in range(steps):
            before = criterion.negative.clone()
            gradient_of(criterion, torch.zeros(1, 5), torch.tensor([0]))
            frequency += ((criterion.negative == before) & (torch.arange(5) > 0)).float() / steps
        self.assertEqual((0, 1), (criterion.positive[0] == 0, round(frequency[4].item(), 4)))
        for j in (1, 2, 3):
            self.assertAlmostEqual(prior[j].item(), frequency[j].item(), delta=5 * (0.25 / steps) ** 0.5)

    def test_a_saved_criterion_continues_to_the_same_bits(self):
        ours = SGBLoss(5, prior=torch.full((5,), 0.5), seed=7)
        for seed in range(5):
            gradient_of(ours, *some_batch(seed=seed))
        file = io.BytesIO()
        torch.save(ours.state_dict(), file)
        file.seek(0)
        restored, copied = SGBLoss(5, seed=7), copy.deepcopy(ours)
        restored.load_state_dict(torch.load(file))
        for seed in range(5, 10):
            expected = gradient_of(ours, *some_batch(seed=seed))[1]
            for other in (restored, copied):
                self.assertTrue(torch.equal(expected, gradient_of(other, *some_batch(seed=seed))[1]))

    def test_does_not_touch_the_random_numbers_of_the_program(self):
        torch.manual_seed(5)
        expected = torch.rand(1)
        torch.manual_seed(5)
        gradient_of(SGBLoss(5, prior=torch.full((5,), 0.5)), *some_batch())
        self.assertEqual(expected, torch.rand(1))

    def test_keeps_its_precision_when_the_model_is_cast(self):
        model = torch.nn.ModuleList([torch.nn.Linear(2, 2), SGBLoss(5)])
        gradient_of(model[1], *some_batch())
        expected = model[1].positive.clone()
        for cast in (model.half, model.bfloat16, lambda: model.to(torch.float32)):
            cast()
            self.assertEqual((torch.float64, torch.int64), (model[1].positive.dtype, model[1].steps.dtype))
            self.assertTrue(torch.equal(expected, model[1].positive))

    def test_takes_half_precision_and_doubles(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            logits, labels = some_batch(dtype=dtype)
            criterion, reference = SGBLoss(5), SGBLoss(5)
            for _ in range(3):
                gradient = gradient_of(criterion, logits, labels)[1]
                expected = gradient_of(reference, logits.double(), labels)[1]
            self.assertEqual(dtype, gradient.dtype)
            assert_close(gradient, expected, {torch.float64: 0, torch.float16: 2e-3}.get(dtype, 1e-2), 1e-7)

    def test_a_step_that_overflowed_leaves_no_nan_behind(self):
        logits, labels = some_batch()
        criterion = SGBLoss(5)
        for bad in (float("nan"), float("inf")):
            spoilt = logits.clone()
            spoilt[0] = bad
            gradient_of(criterion, spoilt, labels)
        for name, buffer in criterion.named_buffers():
            self.assertTrue(buffer.isfinite().all(), name)
        self.assertTrue(gradient_of(criterion, logits, labels)[1].isfinite().all())

    @unittest.skipUnless(torch.cuda.is_available(), "there is no GPU")
    def test_follows_the_logits_to_a_gpu(self):
        prior = torch.full((5,), 0.5)
        here, there = SGBLoss(5, prior=prior), SGBLoss(5, prior=prior)
        for seed in range(10):
            logits, labels = some_batch(seed=seed)
            assert_close(gradient_of(there, logits.cuda(), labels.cuda())[1], gradient_of(here, logits, labels)[1], 1e-4, 1e-6)

    def test_complains(self):
        logits, labels = some_batch()
        for message, call in ((r"logits: expected shape \[batch, 5\], got \[5, 8\]", lambda: SGBLoss(5)(logits.t(), labels)),
                              (r"logits: expected shape \[batch, 5\], got \[0, 5\]", lambda: SGBLoss(5)(logits[:0], labels[:0])),
                              (r"labels: expected shape \[8\], got \[7\]", lambda: SGBLoss(5)(logits, labels[:7])),
                              (r"exempt: expected \[5\] of bool", lambda: gradient_of(SGBLoss(5), logits, labels, exempt=torch.ones(5))),
                              ("classes: expected 1 or more", lambda: SGBLoss(0)), ("form: expected sigmoid", lambda: SGBLoss(5, form="tanh")),
                              ("kp: expected 0 or more", lambda: SGBLoss(5, kp=-1)), ("gamma: expected more", lambda: SGBLoss(5, gamma=0)),
                              (r"prior: expected shape \[5\], got \[4\]", lambda: SGBLoss(5, prior=torch.ones(4))),
                              ("prior: not all within", lambda: SGBLoss(5, prior=torch.full((5,), 1.5))),
                              ("prior: not all within", lambda: SGBLoss(5, prior=torch.full((5,), float("nan"))))):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()
        criterion = SGBLoss(5)
        with self.assertRaises((IndexError, RuntimeError)):
            gradient_of(criterion, logits, labels + 5)
        self.assertEqual(0, criterion.steps)

    def test_has_the_parameters_and_defaults_of_the_core(self):
        table = (TREE / "docs" / "parameters.md").read_text()
        documented = dict(re.findall(r"\| `objective\.sgb\.(\w+)` \| `([^`]*)`", table))
        self.assertGreater(len(documented), 8)
        for name in GAINS + ("clamp",):
            self.assertEqual(float(documented[name]), getattr(SGBLoss(2), name), name)
        self.assertEqual(documented["form"].strip('"'), SGBLoss(2).form)
        self.assertEqual(documented["conditional_integration"], str(SGBLoss(2).conditional_integration).lower())


class ClassSizes(unittest.TestCase):
    COUNTS = torch.tensor([900, 90, 9, 1, 0])

    def test_balanced_softmax_is_cross_entropy_of_shifted_logits(self):
        logits, labels = some_batch()
        shares = self.COUNTS.clamp_min(1) / 1001
        for tau in (0.0, 1.0, 1.5):
            expected = torch.nn.functional.cross_entropy(logits + tau * shares.log(), labels)
            assert_close(BalancedSoftmax(self.COUNTS, tau)(logits, labels), expected, 1e-6)

    def test_logit_adjustment_undoes_the_class_shares(self):
        """A model that is right about p(y | x) under shares π answers for equal shares when τ is 1."""
        generator = torch.Generator().manual_seed(0)
        shares = torch.tensor([0.9, 0.09, 0.01])
        likelihood = torch.randn(4000, 3, generator=generator) * 2
        logits = likelihood + shares.log()
        labels = torch.multinomial(likelihood.softmax(1), 1, generator=generator).squeeze(1)
        assert_close(LogitAdjustment(shares)(logits), likelihood, 1e-5, 1e-5)
        fitted = LogitAdjustment(shares * 500).fit(logits, labels)
        self.assertAlmostEqual(1, fitted.tau.item(), delta=0.1)
        unneeded = LogitAdjustment(shares).fit(likelihood, labels)
        self.assertAlmostEqual(0, unneeded.tau.item(), delta=0.1)
        # the minimum of the class-balanced cross-entropy, as a grid finds it
        weight = 1 / torch.bincount(labels).double()

        def loss(tau):
            adjusted = LogitAdjustment(shares, tau)(logits).double()
            own = adjusted.log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
            return -(own * weight[labels]).sum().item()
        best = min((loss(tau / 100), tau / 100) for tau in range(0, 400))[1]
        self.assertAlmostEqual(best, fitted.tau.item(), delta=0.01)

    def test_logit_adjustment_is_a_layer(self):
        net = torch.nn.Sequential(torch.nn.Linear(3, 3), LogitAdjustment(torch.tensor([3.0, 1.0, 0.0]), tau=0.5))
        other = torch.nn.Sequential(torch.nn.Linear(3, 3), LogitAdjustment(torch.ones(3)))
        other.load_state_dict(net.state_dict())
        images = torch.randn(2, 3)
        self.assertTrue(torch.equal(net(images), other(images)))
        self.assertTrue(other(images).isfinite().all())

    def test_bias_calibration_finds_the_minimum(self):
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(600, 4, generator=generator) * 2 + torch.tensor([2.0, 0, -1, 0])
        labels = (torch.rand(600, generator=generator) ** 2 * 3).long()  # none of class 3
        labels[0] = 2
        for balance in (0.0, 1.0):
            bias = BiasCalibration(4, balance=balance).fit(logits, labels).bias.double().requires_grad_()
            weight = torch.bincount(labels, minlength=4).clamp_min(1)[labels].double() ** -balance
            own = (logits.double() + bias).log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
            (-(own * weight).sum() / weight.sum() + 0.1 / 4 / 2 * (bias ** 2).sum()).backward()
            assert_close(bias.grad[:3], torch.zeros(3), 0, 1e-6)
            self.assertEqual(0, bias[3])
            self.assertGreater(bias.abs().max(), 0.1)

    def test_bias_calibration_raises_the_rare_classes(self):
        generator = torch.Generator().manual_seed(1)
        centres = torch.eye(3) * 1.5
        draw = lambda counts: (lambda y: (centres[y] + torch.randn(len(y), 3, generator=generator), y))(  # noqa: E731
            torch.repeat_interleave(torch.arange(3), torch.tensor(counts)))
        biased = torch.tensor([3.0, 1.0, -2.0])  # what long-tailed training leaves in the logits
        points, labels = draw([200, 60, 20])
        fitted = BiasCalibration(3).fit(points * 1.5 + biased, labels)
        test, truth = draw([500, 500, 500])
        right = [((layer(test * 1.5 + biased)).argmax(1) == truth).float().mean().item() for layer in (torch.nn.Identity(), fitted)]
        self.assertGreater(right[1], right[0] + 0.15)

    def test_prior_from_weights(self):
        weight = torch.diag(torch.tensor([3.0, 4.0, 1.0])).requires_grad_()
        assert_close(prior_from_weights(weight, "share"), torch.tensor([3, 4, 1]) / 8, 1e-6)
        assert_close(prior_from_weights(weight), [0.7, 1, 0.1], 1e-6)
        assert_close(prior_from_weights(weight, "rank", span_min=0.25), [0.5, 1, 0.25], 1e-6)
        tied = torch.diag(torch.tensor([2.0, 3.0, 2.0]))
        assert_close(prior_from_weights(tied, "rank", span_min=0.01), [0.01 ** 0.75, 1, 0.01 ** 0.75], 1e-6)
        self.assertTrue(torch.equal(torch.ones(3), prior_from_weights(torch.eye(3))))
        assert_close(prior_from_weights(torch.zeros(4, 2), "share"), [0.25] * 4, 0)
        self.assertFalse(prior_from_weights(weight).requires_grad)
        SGBLoss(3, prior=prior_from_weights(weight))

    def test_complains(self):
        for message, call in (("scale: expected share", lambda: prior_from_weights(torch.eye(3), "max")),
                              ("span_min: expected", lambda: prior_from_weights(torch.eye(3), span_min=2)),
                              ("weight: expected shape", lambda: prior_from_weights(torch.ones(3))),
                              ("counts: expected", lambda: BalancedSoftmax([-1, 2])), ("counts: expected", lambda: BalancedSoftmax([[1, 2]])),
                              ("classes, ridge: expected", lambda: BiasCalibration(0)),
                              ("logits, labels: expected", lambda: BiasCalibration(3).fit(torch.ones(2, 4), torch.tensor([0, 1]))),
                              ("prior: expected", lambda: LogitAdjustment([0.0, 0.0])),
                              ("prior: expected", lambda: LogitAdjustment([float("nan"), 1]))):
            with self.subTest(message), self.assertRaisesRegex(ValueError, message):
                call()


class Package(unittest.TestCase):
    def test_the_example_helps_the_rare_classes(self):
        done = subprocess.run([sys.executable, "-B", TREE / "python" / "examples" / "long_tail.py"], capture_output=True, text=True,
                              check=True, env={"PYTHONPATH": str(TREE / "python"), "OMP_NUM_THREADS": "1"})
        rows = {line[:16].strip(): [float(word) for word in line[16:].split()] for line in done.stdout.splitlines()[1:5]}
        plain = rows.pop("cross-entropy")
        self.assertEqual({"SGBLoss", "BalancedSoftmax", "LogitAdjustment"}, rows.keys())
        for name, row in rows.items():
            self.assertGreater(row[4], plain[4] + 0.3, f"{name}, the class of 20 points")
            self.assertGreater(row[-1], plain[-1] + 0.05, f"{name}, all")

    def test_leaves_the_compiled_core_alone(self):
        self.assertFalse([name for name in sys.modules if name.startswith("fedgrab._")])
        self.assertNotIn("numpy", [name for name in fedgrab.torch.__dict__])
        self.assertIn("Balancer", dir(fedgrab))

    def test_says_what_is_missing_without_the_core(self):
        code = "import fedgrab.torch, fedgrab; fedgrab.run({})"
        done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(TREE / "python")})
        self.assertRegex(done.stderr.strip().splitlines()[-1], "^ImportError: fedgrab: this installation has no compiled core .*pip install")

    def test_the_examples_of_the_documents_run(self):
        """Every block of Python that imports fedgrab.torch, as it stands."""
        found = 0
        for page in (TREE / "README.md", TREE / "docs" / "python.md"):
            for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text()):
                if "fedgrab.torch" in block:
                    found += 1
                    with self.subTest(f"{page.name}, block {found}"):
                        exec(compile(block, page.name, "exec"), {})
        self.assertGreaterEqual(found, 1)


if __name__ == "__main__":
    unittest.main()
