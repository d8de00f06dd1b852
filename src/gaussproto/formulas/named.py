"""Find objects by name: a built-in name, or `module:name` for an object of the user."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from gaussproto.errors import InputError, did_you_mean

T = TypeVar("T")


def find(kind: type[T], own: Mapping[str, T], name: str) -> T:
    """Return the object with this name from the table `own`, or import it if the name is `module:name`."""
    what = kind.__name__.lower()
    if not isinstance(name, str):
        raise InputError(f"a {what} must be a name (found {name!r}): pass one of {', '.join(own)} or module:name")
    if name in own:
        return own[name]
    if ":" not in name:
        hint = did_you_mean(name, own, f"choose one of {', '.join(own)}, or module:name for your own")
        raise InputError(f"unknown {what} {name!r}: {hint}")
    imported = _import(name, what)
    try:
        made = imported() if isinstance(imported, type) and issubclass(imported, kind) else imported
    except TypeError as error:
        message = f"cannot create the {what} {name} without arguments ({error}): give its arguments default values"
        raise InputError(message) from None
    if not isinstance(made, kind):
        raise InputError(f"{name} is not a {what}: pass the name of a subclass of gaussproto.{kind.__name__}")
    return made


def find_callable(name: str, what: str) -> Any:
    if name.startswith(("gaussproto.cli:", "gaussproto.cli.")):  # a file from others could name it
        raise InputError(f"{name} is the command line, not a {what}: use your own module")
    imported = _import(name, what)
    if not callable(imported):
        raise InputError(f"the {what} {name} cannot be called: pass the name of a class or a function")
    return imported


def name_of(kind: type[T], own: Mapping[str, T], value: Any) -> str:
    """Return the name that `find` resolves to this object. A valid name is returned as it is."""
    if isinstance(value, str):
        find(kind, own, value)
        return value
    if not isinstance(value, kind):
        wanted = f"a name or a gaussproto.{kind.__name__} object"
        raise InputError(f"a {kind.__name__.lower()} must be {wanted} (found {value!r})")
    for name, known in own.items():
        if known is value:
            return name
    path = import_path(type(value))
    if repr(vars(find(kind, own, path))) != repr(vars(value)):  # not ==, which is ambiguous for arrays
        what = kind.__name__.lower()
        raise InputError(
            f"cannot save the {what}, because {path}() without arguments creates a different one: use a class that "
            "needs no arguments"
        )
    return path


def import_path(definition: Any) -> str:
    return f"{definition.__module__}:{definition.__qualname__}"


def check_saved(name: str) -> None:
    """Raise InputError if another process could not import the object with this name."""
    if name.startswith("__main__:") or "<" in name:
        raise InputError(
            f"{name.partition(':')[2]} is defined in the running program or inside a function, so no other program can "
            "import it: define it at the top level of a module"
        )


@cache
def _import(path: str, what: str) -> Any:
    module, _, name = path.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":  # files are not trusted
        raise InputError(f"{path} is not a {what} ({module} belongs to Python's standard library): use your own module")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # a user's module can raise anything
        message = f"cannot import the {what} {path} ({error}): install its module or add its folder to PYTHONPATH"
        raise InputError(message) from None
