"""The pages hold together: links lead somewhere, examples are Python, every page is listed."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
IDS = [str(page.relative_to(ROOT)) for page in PAGES]


def text_of(page: Path) -> str:
    """The page without what is commented out."""
    return re.sub(r"<!--.*?-->", "", page.read_text("utf-8"), flags=re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """The anchors that headings get where Markdown is shown."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    broken = []
    prose = re.sub(r"```.*?```|`[^`]*`", "", text_of(page), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        file = page.parent / target if target else page
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_examples_are_python(page: Path) -> None:
    for example in re.findall(r"```python\n(.*?)```", text_of(page), re.DOTALL):
        ast.parse(example)


@pytest.mark.parametrize("folder", [ROOT / "docs", ROOT / "docs/adr"], ids=["docs", "adr"])
def test_every_page_is_listed_in_its_index(folder: Path) -> None:
    index = text_of(folder / "README.md")
    missing = [p.name for p in sorted(folder.glob("*.md")) if f"({p.name})" not in index]
    assert [name for name in missing if name != "README.md"] == []


def test_a_broken_link_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One two\n[a](#one-two) [b](page.md#three) [c](gone.md)\n", "utf-8")
    assert broken_links(page) == ["page.md#three", "gone.md"]
