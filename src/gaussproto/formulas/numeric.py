"""Functions of NumPy and torch under one name, for formulas that take arrays and tensors."""

from typing import Any

import numpy as np

from gaussproto.formulas.embedded import is_tensor


def weighted_median(values: Any, weights: Any) -> Any:
    """Return the weighted median over the last axis."""
    order = values.argsort(-1)
    if is_tensor(values):
        total = weights.gather(-1, order).cumsum(-1)
        middle = (2 * total < total[..., -1:]).sum(-1, keepdim=True)
        return values.gather(-1, order.gather(-1, middle))[..., 0]
    total = np.take_along_axis(weights, order, -1).cumsum(-1)
    middle = (2 * total < total[..., -1:]).sum(-1, keepdims=True)
    return np.take_along_axis(values, np.take_along_axis(order, middle, -1), -1)[..., 0]


def constant(t: Any) -> Any:
    """Return a tensor without its gradient. An array is returned as it is."""
    return t.detach() if is_tensor(t) else t


def tiny(x: Any) -> float:
    return float(np.finfo(str(x.dtype).removeprefix("torch.")).tiny)


def as_like(values: np.ndarray, like: Any) -> Any:
    """Return a NumPy array as an array or tensor like another."""
    if not is_tensor(like):
        return values
    import torch

    return torch.as_tensor(values, device=like.device)


def where(condition: Any, yes: Any, no: Any) -> Any:
    if not is_tensor(no):
        return np.where(condition, yes, no)
    return no.where(~condition, yes)


def least(d: Any) -> Any:
    return d.amin(-1) if is_tensor(d) else d.min(-1)


def join(parts: Any) -> Any:
    if not is_tensor(parts[0]):
        return np.concatenate(parts, axis=-1)
    import torch

    return torch.cat(parts, dim=-1)


def logsumexp(t: Any) -> Any:
    if is_tensor(t):
        return t.logsumexp(-1)
    from scipy import special

    return special.logsumexp(t, axis=-1)


def logaddexp(a: Any, b: Any) -> Any:
    return a.logaddexp(b) if is_tensor(a) else np.logaddexp(a, b)


def log(t: Any) -> Any:
    return t.log() if is_tensor(t) else np.log(t)


def exp(t: Any) -> Any:
    return t.exp() if is_tensor(t) else np.exp(t)


def sigmoid(t: Any) -> Any:
    if is_tensor(t):
        return t.sigmoid()
    from scipy.special import expit

    return expit(t)
