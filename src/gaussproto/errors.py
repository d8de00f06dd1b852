"""What a user did wrong, in one sentence."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class InputError(ValueError):
    """A mistake in the input: the message says what was wrong, what was found and what to do.

    The command line prints it on one line and exits with code 2. Any other exception is a bug of ours.
    """


def did_you_mean(name: object, known: Iterable[object], otherwise: str) -> str:
    """A hint for an unknown name: the closest known one, or `otherwise`."""
    near = difflib.get_close_matches(str(name), map(str, known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


@contextmanager
def restored_on_error(thing: Any) -> Iterator[None]:
    """If the block fails, give an object the attributes back that it had before."""
    before = dict(vars(thing))
    try:
        yield
    except BaseException:
        vars(thing).clear()
        vars(thing).update(before)
        raise


def import_extra(package: str, extra: str) -> Any:
    """Import a package of one of gaussproto's extras, or say how to install it."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"this needs the package {package}: pip install 'gaussproto[{extra}]'") from None
