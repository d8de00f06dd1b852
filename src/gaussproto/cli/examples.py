"""The examples of a classifier as tables and as JSON, for `enroll` and `gallery list`."""

from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

from gaussproto.cli import console

MOST = 1000  # rows of a table; more take long to lay out, and nobody reads them


class Listed(NamedTuple):
    """The classes of a classifier, and the label, file and weight of each of its examples."""

    classes: list[Hashable]  # (C,)
    labels: list[Hashable]  # (N,)
    names: list[str]  # (N,)
    weights: list[float]  # (N,) the share of each example in its prototype

    def as_json(self) -> list[dict[str, Any]]:
        examples = zip(self.labels, self.names, self.weights, strict=True)
        return [{"label": label, "image": name, "weight": weight} for label, name, weight in examples]

    def classes_as_json(self) -> list[dict[str, Any]]:
        counts, lightest = Counter(self.labels), self.lightest()
        rows = [(c, counts[c], self.names[lightest[c]], self.weights[lightest[c]]) for c in self.classes]
        return [{"label": c, "examples": n, "lightest": name, "weight": weight} for c, n, name, weight in rows]

    def lightest(self) -> dict[Hashable, int]:
        """Return the index of the example with the lowest weight in each class, the first of several."""
        lightest: dict[Hashable, int] = {}
        for i, label in enumerate(self.labels):
            if self.weights[i] < self.weights[lightest.setdefault(label, i)]:
                lightest[label] = i
        return lightest

    def relative_weights(self) -> list[str]:
        """Return the weight of each example as a text, relative to the mean in its class."""
        counts = Counter(self.labels)
        return [f"{weight * counts[label]:.2f}" for label, weight in zip(self.labels, self.weights, strict=True)]

    def print_classes(self) -> None:
        counts, weights, lightest = Counter(self.labels), self.relative_weights(), self.lightest()
        shown = self.classes[:MOST]
        rows = [[str(c), str(counts[c]), self.names[lightest[c]], weights[lightest[c]]] for c in shown]
        console.print_table("", ["class", "examples", "lightest example", "weight"], rows, right=3)
        _say_rest(len(self.classes), "classes")
        console.say("weight: how much the lightest example counts in the prototype of its class (1 is average)")

    def print_examples(self) -> None:
        """Print every example, class by class."""
        place, weights = {label: c for c, label in enumerate(self.classes)}, self.relative_weights()
        order = sorted(range(len(self.labels)), key=lambda i: place[self.labels[i]])
        rows = [[str(self.labels[i]), self.names[i], weights[i]] for i in order[:MOST]]
        console.print_table("", ["class", "example", "weight"], rows, right=2)
        _say_rest(len(order), "examples")
        console.say("weight: how much the example counts in the prototype of its class (1 is average)")


def _say_rest(count: int, what: str) -> None:
    if count > MOST:
        console.say(f"these are the first {MOST:,} of {count:,} {what}: pass --json for all")
