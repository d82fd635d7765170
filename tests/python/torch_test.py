"""fedgrab.torch beside the compiled core, where there is a PyTorch on the LibTorch of the module: Debian's is."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fedgrab

MISSING = "SKIP: there is no PyTorch on the LibTorch of the module here (Debian: python3-torch)"


class BesideTheCore(unittest.TestCase):
    """The criterion and the C++ balancer, each in a closed loop of its own on the same batches."""

    def follow(self, steps, classes=10, gated=True, **parameters):
        import torch
        balancer = fedgrab.Balancer(classes, **parameters)
        mounted = parameters.pop("mount_classes", None)
        parameters.pop("mount", None)
        criterion = fedgrab.torch.SGBLoss(classes, mount_classes=mounted, **parameters)
        generator = torch.Generator().manual_seed(1)
        for step in range(steps):
            logits = torch.randn(8, classes, generator=generator).requires_grad_()
            labels = (torch.rand(8, generator=generator) ** 3 * classes).long()
            exempt = torch.rand(classes, generator=generator) < 0.3 if gated else None
            loss = criterion(logits, labels, exempt=exempt)
            loss.backward()
            expected = balancer.step(logits.detach().numpy(), labels.numpy(), exempt=None if exempt is None else exempt.numpy())
            for ours, theirs in ((loss, expected[0]), (logits.grad, expected[1]), (criterion.positive, balancer.positive),
                                 (criterion.negative, balancer.negative), (criterion.output, balancer.output),
                                 *zip(criterion.beta, balancer.beta)):
                torch.testing.assert_close(ours.detach().double(), torch.as_tensor(theirs).double(), rtol=1e-5, atol=1e-5,
                                           msg=lambda text: f"step {step}, {parameters}: {text}")

    def test_follows_the_balancer(self):
        for form in ("sigmoid", "softmax"):
            for conditional in (True, False):
                self.follow(300, form=form, conditional_integration=conditional)
            self.follow(300, gated=False, form=form)

    def test_with_other_parameters(self):
        self.follow(200, kp=3, ki=0.1, kd=1, gamma=3, delta=2, zeta=0.3, target=0.5, clamp=2)
        self.follow(200, delta=0, clamp=0, kp=1)
        self.follow(200, gated=False, mount="list", mount_classes=[2, 9])
        self.follow(50, classes=1000)

    def test_prior_is_that_of_the_core(self):
        import numpy as np
        import torch
        weight = torch.randn(20, 8)
        for scale in ("share", "span", "rank"):
            np.testing.assert_allclose(fedgrab.torch.prior_from_weights(weight, scale, span_min=0.05).numpy(),
                                       fedgrab.prior(weight.numpy(), scale, span_min=0.05), rtol=1e-5)


if __name__ == "__main__":
    if "fedgrab.torch" in sys.argv:
        import fedgrab.torch
        sys.argv.remove("fedgrab.torch")
        unittest.main()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "fedgrab").symlink_to(Path(fedgrab.__file__).parent)  # the module alone: PyTorch brings its own numpy
        environment = os.environ | {"PYTHONPATH": folder}
        for python in (sys.executable, "/usr/bin/python3"):
            together = subprocess.run([python, "-B", "-c", "import torch, fedgrab; fedgrab.Balancer(1)"], env=environment, capture_output=True)
            if together.returncode == 0:
                sys.exit(subprocess.run([python, "-B", *sys.argv, "fedgrab.torch"], env=environment).returncode)
    print(MISSING, file=sys.stderr)
