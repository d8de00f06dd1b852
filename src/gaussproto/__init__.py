"""Few-shot image classification with Gaussian prototypical networks."""

import lazy_loader

# `__init__.pyi` lists the public names. Each is imported at its first use, so that `import gaussproto` is fast.
_import, _, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from gaussproto.provenance import version

        return version()
    return _import(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
