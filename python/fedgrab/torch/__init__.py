"""Long-tailed losses in pure PyTorch, 1.13 or newer, on any device: no compiled code.

    criterion = fedgrab.torch.SGBLoss(classes)     # once, instead of torch.nn.CrossEntropyLoss()
    loss = criterion(net(images), labels)          # the loop stays as it is
    loss.backward()

`SGBLoss` is the self-adjusting gradient balancer of Fed-GraB, `BalancedSoftmax` the loss with known class counts; `LogitAdjustment` and
`BiasCalibration` correct a trained model, and `prior_from_weights` estimates class sizes from a classifier.
"""

from .balanced_softmax import BalancedSoftmax
from .bias_calibration import BiasCalibration
from .logit_adjustment import LogitAdjustment
from .prior import prior_from_weights
from .sgb import SGBLoss

__all__ = ["BalancedSoftmax", "BiasCalibration", "LogitAdjustment", "SGBLoss", "prior_from_weights"]
