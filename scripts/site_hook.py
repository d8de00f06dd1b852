"""Let the pages in docs/ link to files outside it, as they do when they are read as plain Markdown.

Pages and pictures elsewhere in the repository become a part of the site, at their own path. Links to source files and
folders become plain text.
"""

import re
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["CONTRIBUTING.md", "CHANGELOG.md", "results/README.md", "src/gaussproto/pretrained/*.md"]
PICTURES = "results/**/*.svg"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s:]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for pattern in (*PAGES, PICTURES):
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File(name, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    of_site = page.file.src_uri
    inside = (Path(config["docs_dir"]) / of_site).exists()
    here = dirname(f"docs/{of_site}" if inside else of_site)  # the page's folder in the repository

    def link(match: re.Match[str]) -> str:
        picture, text, target, anchor = match.groups()
        in_repository = normpath(join(here, target))
        in_site = in_repository.removeprefix("docs/")
        if in_site == "README.md":
            in_site = "index.md"
        if files.get_file_from_path(in_site):
            return f"{picture}[{text}]({relpath(in_site, dirname(of_site) or '.')}{anchor or ''})"
        return text if (ROOT / in_repository).exists() else match[0]

    return LINK.sub(link, markdown)
