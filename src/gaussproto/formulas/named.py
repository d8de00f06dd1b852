"""Objects by name: one of the package's own, or `module:name` for one that a user has written."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from gaussproto.errors import InputError, did_you_mean

T = TypeVar("T")


def find(kind: type[T], own: Mapping[str, T], name: str) -> T:
    """The object of that name: from the table `own`, or imported if the name is `module:name`."""
    what = kind.__name__.lower()
    if not isinstance(name, str):
        raise InputError(f"a {what} is named by text (found {name!r})")
    if name in own:
        return own[name]
    if ":" not in name:
        hint = did_you_mean(name, own, f"choose one of {', '.join(own)}, or name your own as module:name")
        raise InputError(f"there is no {what} {name!r}: {hint}")
    imported = _import(name, what)
    try:
        made = imported() if isinstance(imported, type) and issubclass(imported, kind) else imported
    except TypeError as error:
        raise InputError(f"the {what} {name} cannot be made without arguments ({error})") from None
    if not isinstance(made, kind):
        raise InputError(f"{name} is not a {what}: write a subclass of gaussproto.{kind.__name__}")
    return made


def find_callable(name: str, what: str) -> Any:
    imported = _import(name, what)
    if not callable(imported):
        raise InputError(f"{name} is not a class or a function: an {what} of your own is made by calling it")
    return imported


def name_of(kind: type[T], own: Mapping[str, T], value: Any) -> str:
    """The name that finds an object again; a name is checked and returned as it is."""
    if isinstance(value, str):
        find(kind, own, value)
        return value
    if not isinstance(value, kind):
        raise InputError(f"a {kind.__name__.lower()} is a name or a gaussproto.{kind.__name__} (found {value!r})")
    for name, known in own.items():
        if known is value:
            return name
    path = import_path(type(value))
    if repr(vars(find(kind, own, path))) != repr(vars(value)):  # arrays among them have no one truth
        raise InputError(f"{path}() is not the given object: let it take no arguments, so that it can be saved")
    return path


def import_path(definition: Any) -> str:
    return f"{definition.__module__}:{definition.__qualname__}"


def check_saved(name: str) -> None:
    """Raise InputError if an object of the user's own could not be imported by another process."""
    if name.startswith("__main__:") or "<" in name:
        raise InputError(
            f"{name.partition(':')[2]} is defined in the running program or inside a function, where no other program "
            "finds it: define it at the top level of a module"
        )


@cache
def _import(path: str, what: str) -> Any:
    module, _, name = path.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":  # a file may name anything
        raise InputError(f"{path} is not a {what}: {module} is a part of Python")
    try:
        return getattr(import_module(module), name)
    except Exception as error:  # whatever a module of the user's raises
        message = f"cannot import the {what} {path} ({error}): install its module or put it on the path"
        raise InputError(message) from None
