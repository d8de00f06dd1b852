"""The exception for a user's mistakes, and helpers that raise it."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unicodedata import category

DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # characters that turn the text around them


class InputError(ValueError):
    """A mistake in the input. The message says what was wrong, what was found and what to do.

    The command line prints the message on one line and exits with code 2. Any other exception is a bug in gaussproto.

    Examples:
        >>> import gaussproto as gp
        >>> try:
        ...     gp.preset("fast-smal-radius")
        ... except gp.InputError as error:
        ...     print(error)
        unknown preset, configuration file or run folder 'fast-smal-radius': did you mean 'fast-small-radius'?
    """

    def __init__(self, message: str) -> None:
        super().__init__(message.encode(errors="backslashreplace").decode())  # names of files may not be UTF-8


class ReportedElsewhere(InputError):  # noqa: N818 (it reads as a sentence)
    """An error of a training on several processes that another process tells the user."""


class ImageWarning(UserWarning):
    """Some images may get a wrong class: they are blank, or do not look like the examples.

    Examples:
        >>> import warnings
        >>> import gaussproto as gp
        >>> warnings.simplefilter("error", gp.ImageWarning)  # raise instead
        >>> warnings.simplefilter("default", gp.ImageWarning)
    """


IN_PYTHON = ": a blank image gets an arbitrary class, or none with `reject`"  # commands say what happens themselves


def did_you_mean(name: object, known: Iterable[object], otherwise: str) -> str:
    """Return a hint for an unknown name: the closest known one, or `otherwise`."""
    near = difflib.get_close_matches(str(name), map(str, known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


@contextmanager
def restored_on_error(thing: Any) -> Iterator[None]:
    """Restore the attributes of an object if the block raises."""
    before = dict(vars(thing))
    try:
        yield
    except BaseException:
        vars(thing).clear()
        vars(thing).update(before)
        raise


def import_extra(package: str, extra: str) -> Any:
    """Import an optional package, or raise InputError with the command that installs it."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"the package {package} is missing: run pip install 'gaussproto[{extra}]'") from None


def visible(text: str) -> str:
    """Replace control characters, which could change the terminal, and undecodable ones by escapes.

    >>> print(visible("a" + chr(27) + "[31mb"))
    a\\x1b[31mb
    """
    return "".join(c.encode("unicode_escape").decode() if _controls(c) else c for c in text)


def _controls(c: str) -> bool:
    """Return whether a character controls the terminal or the direction of text, or cannot be encoded."""
    return (c not in "\n\t" and category(c) in ("Cc", "Cs", "Zl", "Zp")) or c in DIRECTIONS


def shortened(value: object, most: int = 100) -> str:
    """Return the representation of a value, cut if it is long.

    >>> shortened("a" * 1000, most=10)
    "'aaaaaaaaa..."
    """
    text = repr(value[: 2 * most] if isinstance(value, str | bytes | list | tuple) else value)
    return text if len(text) <= most else f"{text[:most]}..."


def is_unicode(text: str) -> bool:
    """Return whether a text can be written as UTF-8. Python keeps other bytes of a file name as surrogates."""
    try:
        text.encode()
        return True
    except UnicodeEncodeError:
        return False
