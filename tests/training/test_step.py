"""A step on a device that is slow to answer."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from gaussproto.config import NetworkConfig, TrainingConfig
from gaussproto.model.network import GaussianPrototypicalNetwork
from gaussproto.training.step import make_optimizer, step


class Operations(TorchDispatchMode):
    """Counts what torch is asked for."""

    def __init__(self):
        super().__init__()
        self.count = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count[func.overloadpacket._qualified_op_name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("covariance", ["none", "radius", "diagonal", "full"])
@pytest.mark.parametrize("images", [30, 60])  # the plain blocks, and those of a CPU
def test_a_step_asks_for_no_number_back(covariance, images, monkeypatch):
    """Reading one number from a GPU waits for all that it has to do."""
    monkeypatch.setattr("gaussproto.model.network._check_range", lambda images, training: None)  # as on a GPU
    network = GaussianPrototypicalNetwork(NetworkConfig(covariance=covariance, embedding_dim=4, filters=(4, 4, 4)))
    optimizer = make_optimizer(network, TrainingConfig())
    batch = torch.rand(images, 1, 28, 28)
    with Operations() as asked:
        result = step(network, optimizer, [(0, batch, [1, 2])], 10)
    assert result.shape == (1, 4)
    assert asked.count["aten::convolution"] + asked.count["aten::bmm"] > 0
    assert asked.count["aten::_local_scalar_dense"] == 0
