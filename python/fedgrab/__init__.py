"""Fed-GraB: federated long-tailed learning with self-adjusting gradient balancers (NeurIPS 2023).

    balancer = fedgrab.Balancer(classes)                                       # once
    loss, gradient = balancer.step(logits.detach().numpy(), labels.numpy())    # instead of a criterion
    logits.backward(torch.from_numpy(gradient))                                # instead of loss.backward()

`Balancer` and `prior` (SGB and DPA) go into any training loop; `run` trains a whole simulated federation; `Client` and `Server` are
those of a real one; `load_data` and `partition` return their data. Arrays are numpy's and are not copied where that can be helped.
"""

from ._libtorch_guard import stay_alone

stay_alone()  # before the compiled part is loaded: a second LibTorch in the process could crash it

from ._core import Error, UsageError  # noqa: E402
from .balancer import Balancer, prior  # noqa: E402
from .client import Client, Evaluator, Trained  # noqa: E402
from .data import Data, Split, load_data, partition  # noqa: E402
from .experiment import Run, run  # noqa: E402
from .privacy import privacy_spent  # noqa: E402
from .server import Server  # noqa: E402

__version__ = "0.1.0"
__all__ = ["Balancer", "Client", "Data", "Error", "Evaluator", "Run", "Server", "Split", "Trained", "UsageError", "load_data", "partition",
           "prior", "privacy_spent", "run"]
