"""For the tests and for the doctests of the package."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Nothing that a test makes lands in the user's cache. Processes that share the tests share one cache."""
    base = tmp_path_factory.getbasetemp()
    os.environ["GAUSSPROTO_CACHE"] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache")
    yield
    del os.environ["GAUSSPROTO_CACHE"]
