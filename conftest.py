"""For the tests and for the doctests of the package."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory):
    """Nothing that a test makes lands in the user's cache."""
    os.environ["GAUSSPROTO_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    del os.environ["GAUSSPROTO_CACHE"]
