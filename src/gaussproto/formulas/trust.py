"""Trust: how much each support should count in its prototype, judged by the other supports.

A precision belongs to one image, so it tells a bad image from a good one. It cannot tell that an image is in the wrong
class. These rules can, because they compare the supports with each other:

- `mean` trusts every support. This is the paper's rule.
- `median` moves the prototype to the geometric median of the supports, which few outliers cannot move far.
- `agreement` estimates the probability that the label of a support is right. It compares the support with the others of
  its class and with the other classes.
- `sharing` estimates the probability that the support belongs to each class, so that a wrong one counts in the class
  that it looks like.

With one or two supports there is no majority, so every rule gives the mean.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np

from gaussproto.errors import InputError
from gaussproto.formulas.agreement import LEAST, MAJORITY, Surroundings, agreement, agreement_of_one
from gaussproto.formulas.distance import find_distance
from gaussproto.formulas.embedded import is_tensor, ones_like
from gaussproto.formulas.numeric import constant, tiny, where
from gaussproto.formulas.prototype import Supports, times, trusted
from gaussproto.formulas.sharing import shares

PrototypeRule = Literal["mean", "median", "agreement", "sharing"]
PrototypeParameter = Literal["auto"] | PrototypeRule  # of a classifier

MEDIAN_STEPS, STILL = 200, 1e-6  # at most; it stops when a step is this share of a typical distance


def support_trust(
    rule: PrototypeRule,
    x: Any,
    s: Any = None,
    labels: Any = None,
    way: int | None = None,
    *,
    distance: str = "euclidean",
    in_distance: bool = False,
) -> Any:
    """Return how much to trust each support, from 0 to 1. Pass the result to `class_prototypes`.

    Args:
        rule: `mean` trusts all. `median` and `agreement` trust supports less that are unlike the others of their class,
            and `agreement` also those that look like another class. `sharing` lets them count in that class.
        x: embeddings of the supports, (..., C, K, D). Pass (N, D) and `labels` if the classes differ in size. Tensors
            and NumPy arrays both work.
        s: precisions, the shape of x with a last axis of 1 (radius) or D (diagonal), or with two, (D, D) (full).
        labels: the class of each support, (N,), from 0 to way - 1.
        way: the number of classes, by default the highest label + 1. Used only with `labels`.
        distance: the name of the distance by which `agreement` and `sharing` compare supports with classes.
        in_distance: whether the precision of a class is the metric around its prototype. `sharing` ignores it.

    Returns:
        The trust, (..., C, K) or (N,). It is 1 in classes of one or two supports. `sharing` returns it for every class,
            (..., C, K, C) or (N, C).

    Examples:
        The third support of the first class looks like the second class.

        >>> import gaussproto as gp
        >>> import numpy as np
        >>> x = np.array([[[0.0, 0.1], [0.1, 0.0], [5.0, 5.1]], [[5.0, 5.0], [5.1, 5.0], [5.1, 5.1]]])
        >>> trust = gp.support_trust("agreement", x)
        >>> trust.round(2)
        array([[1., 1., 0.],
               [1., 1., 1.]])
        >>> gp.class_prototypes(x, trust=trust)[0].round(1)
        array([[0.1, 0.1],
               [5.1, 5. ]])
    """
    if rule not in get_args(PrototypeRule):
        raise InputError(f"unknown prototype rule {rule!r}: choose one of {', '.join(get_args(PrototypeRule))}")
    supports = Supports(x, labels, way)
    every = ones_like(x[..., 0])
    few = supports.spread(supports.shots)[..., 0] + 0 * every < MAJORITY
    if rule == "sharing":
        return shares(supports, s, _not_far(supports), few, find_distance(distance), LEAST)
    if rule == "mean" or bool(few.all()):
        return every
    if rule == "median":
        trust = _median(supports, s)
    elif supports.way == 1:
        return every  # no other class to look like
    else:
        trust = agreement(supports, s, few, distance, in_distance)
    return where(few, every, trust)


def trust_of_one(
    rule: PrototypeRule, x: np.ndarray, s: np.ndarray | None, around: Callable[[], Surroundings], distance: str,
    in_distance: bool,
) -> np.ndarray:  # fmt: skip
    """Return the trust in the supports (N, D) of one class that joins many others, which stay as they are.

    It is what `support_trust` of all classes gives, up to what the new class changes for the others. With `sharing`, it
    is that of `agreement`, because the others stay as they are.
    """
    if rule == "median":
        return np.asarray(support_trust(rule, x, s, np.zeros(len(x), dtype=int), 1))
    return agreement_of_one(x, s, around(), distance, in_distance)


def _median(supports: Supports, s: Any) -> Any:
    """Weiszfeld's iteration for the point with the smallest sum of distances, each in the metric of its support.

    A mean with the weights sᵢ / rᵢ, where rᵢ is the distance from support i, minimises Σᵢ rᵢ when it no longer moves.
    """
    x = supports.x
    s = ones_like(x[..., :1]) if s is None else s
    trust, earlier = ones_like(x[..., 0]), None
    for _ in range(MEDIAN_STEPS):
        p, _ = supports.mean(trusted(s, trust, x))
        if earlier is not None and _is_still(p, earlier, x):
            break
        earlier = p
        away = x - supports.spread(p)
        squared = (away * times(s, away)).sum(-1)  # (..., C, K) or (N,)
        floor = 1e-12 * _per_class(supports, squared) + tiny(x)  # a support at the median itself
        trust = (squared + floor) ** -0.5
        trust = trust / _largest(supports, trust)
    return trust


def _not_far(supports: Supports) -> Any:
    """Return 1 for each support, but less for one that is more than twice as far from the median as usual."""
    trust = constant(_median(supports, None))
    return (2 * trust / _per_class(supports, trust)).clip(None, 1)


def _is_still(p: Any, earlier: Any, x: Any) -> bool:
    scale = constant(x - x.reshape(-1, x.shape[-1])[0]) ** 2
    moved = constant(p - earlier) ** 2
    return bool(moved.max() <= STILL**2 * scale.mean())


def _per_class(supports: Supports, values: Any) -> Any:
    """Return the mean over each class, for each of its supports."""
    total = supports.total(values[..., None]) / supports.shots
    return supports.spread(total)[..., 0]


def _largest(supports: Supports, values: Any) -> Any:
    """Return the largest value of each class, for each of its supports."""
    if supports.labels is None:
        return values.amax(-1)[..., None] if is_tensor(values) else values.max(-1)[..., None]
    if is_tensor(values):
        largest = values.new_zeros(supports.way).scatter_reduce(0, supports.labels, values, "amax")
    else:
        largest = np.zeros(supports.way, dtype=values.dtype)
        np.maximum.at(largest, supports.labels, values)
    return largest[supports.labels]
