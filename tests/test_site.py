"""The documentation as a site: complete, and nothing in it comes from elsewhere."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gaussproto

ROOT = Path(__file__).resolve().parents[1]
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)=[\"']?([^\"' >]+)")
PUBLIC = sorted(gaussproto.__all__)


def test_the_reference_has_every_public_name_once():
    page = (ROOT / "docs" / "api.md").read_text()
    assert sorted(re.findall(r"^::: gaussproto\.(\w+)$", page, re.MULTILINE)) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_an_example(name):
    """The examples are doctests: pytest runs them with the modules that they are in."""
    described = getattr(gaussproto, name)
    assert ">>> " in (inspect.getdoc(described) or "")
    assert described.__doc__  # its own text, not an inherited one


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built as `make docs` builds it, where a warning is an error."""
    pytest.importorskip("mkdocs", reason="needs the extra: pip install 'gaussproto[docs]'")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, env=environment, timeout=120, check=True)
    return folder


def test_every_page_is_built_and_loads_nothing_from_elsewhere(site):
    pages = sorted(site.rglob("*.html"))
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= {page.stem for page in pages}
    for page in pages:
        loaded = LOADED.findall(page.read_text())
        assert loaded
        assert [target for target in loaded if re.match(r"(https?:)?//", target)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"@import|url\([\"']?(https?:)?//", sheet.read_text())


def test_links_out_of_the_documentation_lead_into_the_site(site):
    reproduction = (site / "reproduction.html").read_text()
    for target in re.findall(r'(?:src|href)="([^"#]+)', reproduction):
        assert target.startswith("https://arxiv.org/") or (site / target).exists(), target
    assert "results/figures/figure-04.svg" in reproduction
