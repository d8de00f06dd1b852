"""What the documentation shows can be typed."""

import re
import shlex
from contextlib import suppress
from pathlib import Path

import pytest
import typer

from gaussproto.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "results/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
COMMANDS = [
    (page.name, line)
    for page in PAGES
    for line in re.findall(r"(?:^ {4}|`)gaussproto (\w[^`#\n]*)", page.read_text(), re.MULTILINE)
]


def test_commands_were_found():
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_documented_commands_parse(page, line):
    name, *arguments = shlex.split(line.rstrip(" ;"))
    command = typer.main.get_command(app).commands[name]
    with suppress(typer.Exit):  # of --help
        command.make_context(name, arguments)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("https:"):
            assert (page.parent / target).exists(), target


def test_the_loop_of_ones_own():
    text = (ROOT / "docs" / "training.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (loop,) = [block for block in blocks if "sample_episode" in block]
    namespace = {}
    exec(loop, namespace)
    namespace["loss"].backward()
    assert namespace["d"].shape == (80, 20)
    assert namespace["loss"].isfinite()
