"""The device that a network runs on: cpu, cuda or mps."""

import torch

from gaussproto.errors import InputError

DEVICES = ("cpu", "cuda", "mps", "xpu")


def check_device(name: str) -> None:
    """Raise InputError unless this machine has the device."""
    try:
        if torch.device(name).type not in DEVICES:
            raise RuntimeError
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError):
        found = ["cpu"] + ["cuda"] * torch.cuda.is_available() + ["mps"] * torch.backends.mps.is_available()
        raise InputError(f"device {name!r} is not available on this machine: choose {' or '.join(found)}") from None
